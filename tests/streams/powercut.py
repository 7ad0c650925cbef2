"""powercut.py: streams survive the loss of power at any moment.

Goal    whatever a power cut leaves of the folder, the server opens it, and every stream is as after the last request that was
        acknowledged, or as after the one that was under way: nothing torn, nothing of one request without the rest of it.
Method  one client's requests, one after the other, while tests/fault/record.so writes down every change to the folder. Before each sync,
        and before each write that is its own sync, the disk may hold any choice of what was not synced: 512-byte sectors of writes,
        sizes that ran ahead, names. Some of these choices are built (none, all, one lost, one kept, at random; a fixed seed), a server
        is started on each, and all streams are read. SC_STATES (4; 1 when sanitized) choices at random for each moment.
"""

import fcntl
import os
import random
import shutil
import struct
import tempfile
import threading

from world import Place, Server, Wrong, check  # noqa: F401  (world first: it says where lab is)
from lab import BUILD, Lab, sanitized
from web import until

lab = Lab()
STATES = int(os.environ.get("SC_STATES", "1" if sanitized() else "4"))
# as in tests/fault/trace.h
CREATE, SIZE, WRITE, SYNC, DIRSYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, ACK, MARK, DSYNC, ODD = range(1, 15)
SECTOR = 512
HEAD = struct.Struct("=IIQQII")
JSON = "application/json"


class Record:
    def __init__(self, kind, ino, at, path, data):
        self.kind, self.ino, self.at, self.path, self.data = kind, ino, at, path, data


def read_trace(path):
    with open(path, "rb") as f:
        raw = f.read()
    records, at = [], 0
    while at < len(raw):
        kind, _, ino, where, path_len, data_len = HEAD.unpack_from(raw, at)
        at += HEAD.size
        records.append(Record(kind, ino, where, raw[at:at + path_len].decode(), raw[at + path_len:at + path_len + data_len]))
        at += path_len + data_len
        check(kind != ODD, "the folder was changed in a way that is not modelled:", records[-1].path, records[-1].data)
    return records


class File:
    def __init__(self):
        self.data, self.pending = bytearray(), []  # durable; (at, bytes), or (size, None)


def apply(data, at, part):
    if part is None:
        del data[at:]
        data.extend(bytes(at - len(data)))
        return
    if len(data) < at:
        data.extend(bytes(at - len(data)))
    data[at:at + len(part)] = part


class Disk:
    """What is durable, and what may be."""

    def __init__(self):
        self.files, self.names, self.changes = {}, {}, []  # by inode; path to inode (None: a folder); changes of names

    def feed(self, r):
        if r.kind == CREATE:
            self.files[r.ino] = File()
            self.changes.append(("create", r.path, r.ino))
        elif r.kind == MKDIR:
            if r.path != ".":
                self.changes.append(("create", r.path, None))
        elif r.kind == RENAME:
            self.changes.append(("rename", r.path, r.data.decode()))
        elif r.kind == LINK:
            self.changes.append(("create", r.path, r.ino))
        elif r.kind in (UNLINK, RMDIR):
            self.changes.append(("remove", r.path, None))
        elif r.kind == WRITE:
            self.files[r.ino].pending.append((r.at, r.data))
        elif r.kind == SIZE:
            self.files[r.ino].pending.append((r.at, None))
        elif r.kind == SYNC:
            self.settle(self.files[r.ino])
        elif r.kind == DSYNC:
            file = self.files[r.ino]
            check(file.pending and file.pending[-1][0] == r.at, "a write of its own sync is not the last one")
            apply(file.data, *file.pending.pop())
        elif r.kind == DIRSYNC:
            for change in [c for c in self.changes if (os.path.dirname(c[1]) or ".") == r.path]:
                self.changes.remove(change)
                self.rename(self.names, change)

    @staticmethod
    def settle(file):
        for piece in file.pending:
            apply(file.data, *piece)
        file.pending = []

    @staticmethod
    def rename(names, change):
        what, path, other = change
        if what == "create":
            names[path] = other
        elif what == "remove":
            names.pop(path, None)
        elif path in names:
            names[other] = names.pop(path)

    def units(self):
        """All that may be there or not: sectors of writes, sizes, changes of names."""
        units = []
        for ino, file in self.files.items():
            for n, (at, part) in enumerate(file.pending):
                if part is None:
                    units.append((ino, n, 0))
                else:
                    units += [(ino, n, s) for s in range(at // SECTOR, (at + len(part) - 1) // SECTOR + 1)]
        return units + [("name", n, 0) for n in range(len(self.changes))]

    def build(self, folder, kept, ahead):
        """The folder with the units of KEPT; AHEAD: sizes as if all was written."""
        names = dict(self.names)
        for n, change in enumerate(self.changes):
            if ("name", n, 0) in kept:
                self.rename(names, change)
        os.makedirs(folder)
        for path in sorted(p for p, ino in names.items() if ino is None):
            os.makedirs(os.path.join(folder, path), exist_ok=True)
        for path, ino in names.items():
            if ino is None:
                continue
            file = self.files[ino]
            data = bytearray(file.data)
            for n, (at, part) in enumerate(file.pending):
                if part is None:
                    if (ino, n, 0) in kept:
                        apply(data, at, None)
                    continue
                for s in range(at // SECTOR, (at + len(part) - 1) // SECTOR + 1):
                    if (ino, n, s) in kept:
                        begin, end = max(at, s * SECTOR), min(at + len(part), (s + 1) * SECTOR)
                        apply(data, begin, part[begin - at:end - at])
                if ahead and len(data) < at + len(part):
                    data.extend(bytes(at + len(part) - len(data)))
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "wb") as f:
                f.write(data)


class Client:
    """Requests one after the other, and what each stream is after each of them."""

    def __init__(self, place, trace):
        self.place, self.trace = place, trace
        self.state, self.states = {}, [{}]

    def mark(self, text):
        """A word in the trace, in the true order."""
        data = text.encode()
        with open(self.trace, "ab", buffering=0) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.write(HEAD.pack(MARK, os.getpid(), 0, 0, 0, len(data)) + data)

    def does(self, status, method, name, fields=(), body=b"", becomes=None, others=()):
        """One request, after which NAME is BECOMES: (body, closed), None for absent, or "gone"."""
        self.state = {**self.state, name: becomes, **dict(others)}
        self.states.append(self.state)
        s = self.place.stream(name)
        s.ask(method, fields, body, status=status)
        self.mark(f"done {len(self.states) - 1}")
        s.wire.close()

    def work(self):
        text, closed = {"Content-Type": "text/plain"}, {"Stream-Closed": "true"}
        self.does(201, "PUT", "a", text, b"first;", (b"first;", None))
        body = b"first;"
        for n, size in enumerate((5, 100, 3000, 5000, 20000, 300000, 10, 1)):
            part = b"%d:" % n + bytes([65 + n]) * size + b";"
            body += part
            fields = {**text, "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(n)} if n % 2 == 0 else text
            if n % 2 == 0:
                fields["Producer-Seq"] = str(n // 2)
            self.does(200 if n % 2 == 0 else 204, "POST", "a", fields, part, (body, None))
        self.does(201, "PUT", "j", {"Content-Type": JSON}, b"[1,2]", (b"[1,2]", None))
        self.does(204, "POST", "j", {"Content-Type": JSON}, b'[3,{"x":4},"' + b"y" * 9000 + b'"]',
                  (b'[1,2,3,{"x":4},"' + b"y" * 9000 + b'"]', None))
        self.does(201, "PUT", "f", {"Stream-Forked-From": self.place.stream("a").target}, b"", (body, None))
        self.does(204, "POST", "f", text, b"own", (body + b"own", None))
        self.does(204, "DELETE", "a", (), b"", "gone")
        self.does(204, "POST", "f", {**text, **closed}, b" end", (body + b"own end", "true"))
        for n in range(3):
            self.does(201, "PUT", "t", {**text, "Stream-TTL": "3600"}, b"life %d" % n, (b"life %d" % n, None))
            self.does(204, "DELETE", "t", (), b"", None)
        self.does(204, "POST", "j", closed, b"", (b'[1,2,3,{"x":4},"' + b"y" * 9000 + b'"]', "true"))
        self.does(204, "DELETE", "f", (), b"", None, [("a", None)])
        self.does(201, "PUT", "a", text, b"new", (b"new", None))


def look(place, names):
    """Each stream as it is."""
    found = {}
    for name in names:
        s = place.stream(name)
        r = s.head(status=(200, 404, 410))
        found[name] = (s.all(), r.closed) if r.status == 200 else "gone" if r.status == 410 else None
    return found


def same(found, state):
    """A source that is freed with its last fork may be so a little later."""
    return all(found[n] == state.get(n) for n in found)


def try_state(disk, kept, ahead, states, done, folder):
    shutil.rmtree(folder, ignore_errors=True)
    disk.build(os.path.join(folder, "streams"), kept, ahead)
    names = sorted({n for s in states for n in s})
    with Server(folder) as server:
        place = Place(server, "power", folder)
        found = look(place, names)
        fits = [i for i in range(done, min(done + 2, len(states))) if same(found, states[i])]
        if not fits and found.get("a") == "gone" and found.get("f") is None:
            until(lambda: place.stream("a").head(status=(404, 410)).status == 404, "freed", 5)
            found = look(place, names)
            fits = [i for i in range(done, min(done + 2, len(states))) if same(found, states[i])]
        check(fits, "after request", done, "of", len(states) - 1, "were acknowledged it is",
              {n: v if not isinstance(v, tuple) else (len(v[0]), v[0][-40:], v[1]) for n, v in found.items()})
        place.stream("after").put({"Content-Type": "text/plain"}, b"it goes on", status=(200, 201))
        check(place.stream("after").all() == b"it goes on", "it does not go on")


def choices(units, dice):
    """Which units are there."""
    yield set(), False
    if not units:
        return
    yield set(units), False
    yield set(), True
    for _ in range(STATES):
        lost = dice.choice(units)
        yield set(units) - {lost}, False
        yield set(units[:dice.randrange(len(units))]), False
        density = dice.random()
        yield {u for u in units if dice.random() < density}, dice.random() < 0.5


def work(number, workers, records, states, folder, wrong, counts):
    try:
        disk, done, moments = Disk(), 0, 0
        for at, r in enumerate(records):
            if r.kind in (SYNC, DSYNC, DIRSYNC) or at + 1 == len(records):
                moments += 1
                if moments % workers == number:
                    dice = random.Random(at)
                    for kept, ahead in choices(disk.units(), dice):
                        try:
                            try_state(disk, kept, ahead, states, done, os.path.join(folder, f"disk-{number}"))
                        except Wrong as e:
                            raise Wrong(f"before record {at} of {len(records)}, {len(kept)} of {len(disk.units())} units there: {e}") from e
                        counts[number] += 1
            disk.feed(r)
            if r.kind == MARK and r.data.startswith(b"done "):
                done = int(r.data[5:])
    except BaseException as e:
        wrong.append(e)


@lab.test
def power_is_cut_before_every_sync(folder):
    shm = tempfile.mkdtemp(prefix="sc-power.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else folder)
    try:
        run = os.path.join(shm, "run")
        os.makedirs(os.path.join(run, "streams"))
        trace = os.path.join(shm, "trace")
        asan = os.environ.get("ASAN_OPTIONS", "")
        env = {"LD_PRELOAD": os.path.join(BUILD, "fault", "record.so"), "SC_RECORD": f"{os.path.join(run, 'streams')}:{trace}",
               "ASAN_OPTIONS": asan + (":" if asan else "") + "verify_asan_link_order=0"}
        with Server(run, env=env) as server:
            client = Client(Place(server, "power", run), trace)
            client.work()
            server.kill()
        records = read_trace(trace)
        check(sum(r.kind == WRITE for r in records) > 50, "hardly anything was recorded:", len(records))
        workers, wrong, counts = 2, [], [0, 0]
        threads = [threading.Thread(target=work, args=(n, workers, records, client.states, shm, wrong, counts)) for n in range(workers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if wrong:
            raise wrong[0]
        print(f"     {len(client.states) - 1} requests, {len(records)} records, {sum(counts)} states opened", flush=True)
    finally:
        shutil.rmtree(shm, ignore_errors=True)


if __name__ == "__main__":
    lab.main()
