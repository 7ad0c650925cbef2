"""full.py: the disk under sc-streams is full to its last page.

Goal    appends get 503 and what was acknowledged stays; a stream can be deleted or trimmed all the same, again and again, and then
        appending works again, though the disk itself has no more room than before.
Method  a small tmpfs in a mount namespace of our own (full_test.sh), filled by appends of every size, and beside them by a file of
        somebody else that leaves not a byte.
"""

import os
import subprocess
import threading

from world import BIN, Place, Server, check  # first: it finds the others
from lab import Lab, fill, small_disk, until
from web import Gone

lab = Lab()
SIZES = (100000, 9000, 1500, 60)  # what fills the disk, down to the last page


class World:
    """A server whose folder is a small disk."""

    def __init__(self, folder, size="16m", *options):
        self.disk = small_disk(folder, size, "streams")
        self.server = Server(folder, *options)
        self.place = Place(self.server, "full", folder)
        self.streams, self.sent = [], {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.kill()

    def create(self, count):
        for _ in range(count):
            s = self.place.stream()
            until(lambda p=s: p.put({"Content-Type": "text/plain"}, status=(201, 503)).status == 201, "a stream can be made")
            self.streams.append(s)
            self.sent[s] = []

    def append(self, s, size, letter=b"m"):
        status = s.post(letter * size, status=(204, 503)).status
        if status == 204:
            self.sent[s].append(letter * size)
        return status == 204

    def fill(self, sizes=SIZES, letter=b"m"):
        """Appends, by turns, until the smallest of them is refused by all; how many were taken."""
        taken = 0
        for size in sizes:
            going = list(self.streams)
            while going:
                going = [s for s in going if self.append(s, size, letter)]
                taken += len(going)
        return taken

    def metric(self, name):
        with self.place.wire() as w:
            lines = w.ask("GET", "/metrics").body.decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"sc_streams_{name} "))

    def delete(self, s):
        s.delete()
        self.streams.remove(s)
        del self.sent[s]

    def until_deleted(self):
        """And until the room can be used again: that is a commit or two later."""
        until(lambda: self.metric("delete_backlog") == 0, "what was deleted is away")
        until(lambda: self.append(self.streams[-1], 60), "there is room again")

    def verify(self):
        """All that was acknowledged is there, and nothing else."""
        for s in self.streams:
            check(s.all() == b"".join(self.sent[s]), "other bytes in", s.target)
        done = subprocess.run([os.path.join(BIN, "sc-streams"), "verify", self.disk], capture_output=True, timeout=60, check=False)
        check(done.returncode == 0, "verify:", done.stdout, done.stderr)


def trim(w, s, offset):
    done = subprocess.run([os.path.join(BIN, "sc-streams"), "trim", w.disk, s.target, offset], capture_output=True, timeout=60, check=False)
    check(done.returncode == 0, "trim:", done.returncode, done.stderr.decode())


@lab.test
def a_stream_can_be_deleted_again_and_again(folder):
    with World(folder) as w:
        w.create(4)
        check(w.fill() > 20, "nothing was taken")
        fill(w.disk)
        for n in range(25):
            w.fill()
            w.delete(w.streams[0])
            w.until_deleted()
            w.create(1)
            check(w.fill(letter=b"%d" % (n % 10)) > 20, "round", n, "nothing was taken after a delete")
        w.verify()


@lab.test
def a_stream_can_be_trimmed(folder):
    with World(folder) as w:
        w.create(3)
        w.fill()
        fill(w.disk)
        w.fill()
        for n in range(6):
            s = w.streams[n % 3]
            trim(w, s, s.head().next)
            w.sent[s] = []
            w.until_deleted()
            check(w.fill() > 10, "round", n, "nothing was taken after a trim")
        w.verify()
        # and without a server
        s, tail = w.streams[0], w.streams[0].head().next
        check(w.server.end() == 0, w.server.log()[-1000:])
        trim(w, s, tail)
        w.sent[s] = []
        w.server.start()
        check(w.fill() > 10, "nothing was taken after a trim without a server")
        w.verify()


@lab.test
def a_killed_server_can_be_freed_too(folder):
    with World(folder) as w:
        w.create(3)
        w.fill()
        fill(w.disk)
        for _ in range(5):
            w.fill()
            w.server.kill()
            w.server.start()
            w.fill()
            w.delete(w.streams[0])
            w.server.kill()
            w.server.start()
            w.until_deleted()
            w.create(1)
            check(w.fill() > 10, "nothing was taken after a delete")
        w.verify()


@lab.test
def a_delete_is_done_while_others_append(folder):
    """Appends that fail all the time keep neither the delete nor the removal of its data from being done."""
    with World(folder) as w:
        w.create(6)
        w.fill()
        fill(w.disk)
        w.fill()
        over = threading.Event()
        taken = []

        def write(s):
            mine = w.place.at(s.target)
            while not over.is_set():
                try:
                    if mine.post(b"w" * 50000, status=(204, 503)).status == 204:
                        taken.append(s)
                        w.sent[s].append(b"w" * 50000)
                except Gone:
                    return

        writers = [threading.Thread(target=write, args=(s,)) for s in w.streams[3:]]
        for t in writers:
            t.start()
        try:
            for _ in range(3):
                before = len(taken)
                w.delete(w.streams[0])
                until(lambda b=before: len(taken) > b + 5, "appends are taken again")
        finally:
            over.set()
            for t in writers:
                t.join()
        w.until_deleted()
        w.verify()


@lab.test
def one_message_takes_the_disk(folder):
    """Messages so large that the next one does not fit anywhere, and leave any rest."""
    for size in (3000000, 5300000, 7900000):
        sub = os.path.join(folder, str(size))
        os.mkdir(sub)
        with World(sub) as w:
            w.create(2)
            w.fill((size, 300000))
            fill(w.disk)
            w.fill((size, 300000, 60))
            w.delete(w.streams[0])
            w.until_deleted()
            check(w.fill((300000,)) > 0, size, "nothing was taken after a delete")
            w.verify()
        os.sync()
        subprocess.run(["umount", "-l", w.disk], check=False)


if __name__ == "__main__":
    lab.main()
