"""soak_lost.py: a log that is lost again and again, and made anew in its place, under everybody who reads it.

Goal    every row that was acknowledged and shipped is in the log that is made anew, once, under its offset; what comes then has offsets
        beyond the gap; whoever reads goes on behind it, printing no row twice and none that is not the log's, or ends with a reason that
        is true; the copy that was lost is refused by the archive.
Method  two appenders and sc-seal --watch --ship, killed at random; the log's folder moved away or removed; sc-log restore, killed at
        random and begun again; followers, a server with a subscriber and readers all the while. SC_SOAK_S / 5 seconds, three times at
        least. Part of soak.py.
"""

import json
import os
import re
import shutil
import time

from lab import Program, Wrong, check, good, offset_of, read_ready, run, until, whole_lines

JUMP = 1 << 20
SHIPPED = re.compile(r"shipped rows \d+ to (\d+) to the archive")
GONE = re.compile(r"its folder is gone|cannot open log [^:]*: No such file|is not finished|another log was made|no such log|"
                  r"there is no log\.json")
TORN = re.compile(r"is missing|damaged or missing|journal': No such file|it has no journal|the journals end at")


def told_well(loss, status, words):
    """66 and why; or 65 where rm was at work: what went before log.json did is missing in a log that is still there."""
    return (status == 66 and GONE.search(words)) or (status == 65 and loss.removed and TORN.search(words))


class Watcher:
    """Reads the log all the time. AGAIN: from its next row on when it ended, else from the first."""

    def __init__(self, loss, name, argv, again):
        self.loss, self.name, self.argv, self.again = loss, name, argv, again
        self.seen, self.last, self.at, self.rest, self.rows, self.lives, self.ends = 0, None, 0, b"", 0, 0, 0
        self.pending = []           # lines, and None where it began anew, that were not compared yet
        self.program = None
        self.start()

    def start(self):
        if not self.again:
            self.pending.append(None)
        self.lives += 1
        self.said = len(self.program.err()) if self.program else 0
        self.program = Program(self.loss.folder, self.name, *self.argv(self.seen + 1))

    def take(self):
        """What it printed since the last look."""
        with open(self.program.out_path, "rb") as f:
            f.seek(self.at)
            data = f.read()
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        self.pending += lines
        if lines:
            self.seen = offset_of(lines[-1])

    def compare(self):
        """Rows of the log, each behind the one before it, or behind a gap that was made."""
        self.take()
        pending, self.pending = self.pending, []
        for line in pending:
            if line is None:
                self.last = None
                continue
            offset = offset_of(line)
            check(self.loss.truth.get(offset) == line, self.name, "printed", line[:80], "where the log had",
                  str(self.loss.truth.get(offset))[:80])
            check(self.last is None or offset == self.last + 1 or self.loss.is_gap(self.last, offset), self.name, "printed", offset,
                  "behind", self.last, "and the gaps are", self.loss.gaps)
            self.last = offset
            self.rows += 1

    def revive(self):
        """It ended: well, or because the log was gone, and said so."""
        if self.program.running():
            return
        status, words = self.program.wait(), self.program.err()[self.said:]
        good_end = status == 0 or (status == 79 and GONE.search(words)) or told_well(self.loss, status, words)
        check(good_end, self.name, "ended with", status, words[-600:])
        self.ends += status != 0
        self.take()
        check(not self.rest, self.name, "ended inside a line:", self.rest[:80])
        self.start()


class Loss:
    def __init__(self, folder, random):
        self.folder, self.random = folder, random
        self.log = os.path.join(folder, "t")
        self.shelf = "file://" + os.path.join(folder, "shelf")
        self.truth, self.gaps, self.port, self.n, self.losses = {}, [], 0, 0, 0
        self.removed = False        # the last loss was by rm, not by a move
        self.last = 0               # of the truth that the log has now
        self.programs = []
        self.killed_restores, self.server_ends, self.lost_rows = 0, 0, 0
        os.mkdir(os.path.join(folder, "shelf"))
        good("sc-log", "create", self.log, "--journal-size", 64 << 10)
        self.server = None
        self.serve()
        self.watchers = [
            Watcher(self, "follower", lambda n: ("sc-log", "read", self.log, "--from", n, "--follow"), True),
            Watcher(self, "subscriber", lambda n: ("sc-sub", f"ws://127.0.0.1:{self.port}/t", "--offset", n), True),
            Watcher(self, "reader", lambda n: ("sc-log", "read", self.log), False),
            Watcher(self, "catchup", lambda n: ("sc-catchup", self.log), False),
        ]

    def is_gap(self, before, offset):
        return any(offset == new and kept <= before <= last for kept, last, new in self.gaps)

    def serve(self):
        if self.server is not None:
            status, words = self.server.wait(), self.server.err()[self.said:]
            check(told_well(self, status, words), "the server ended with", status, words[-600:])
            self.server_ends += 1
        self.said = len(self.server.err()) if self.server else 0
        ready, ready_in = os.pipe()
        self.server = Program(self.folder, "server", "sc-serve", "--listen", f"127.0.0.1:{self.port}", "--ready-fd", ready_in, self.log,
                              pass_fds=(ready_in,))
        os.close(ready_in)
        word = read_ready(ready)
        os.close(ready)
        check(word, "the server did not become ready:", self.server.err()[-600:])
        self.port = word["port"]

    # --- one life ---

    def begin_writers(self):
        self.pipes, self.writers, self.programs, self.rests = [], [], [], [b"", b""]
        for i in (1, 2):
            read, write = os.pipe()
            self.writers.append(Program(self.folder, f"life{self.losses}-{i}", "sc-log", "append", "--batch-rows",
                                        self.random.choice((1, 20, 500)), self.log, stdin=read))
            os.close(read)
            os.set_blocking(write, False)
            self.pipes.append(write)
        self.sealer = Program(self.folder, f"sealer{self.losses}", "sc-seal", "--watch", "--ship=50ms", "--interval", "150ms", "--age",
                              self.random.choice(("100ms", "1h")), "--target", "64K", "-v", "--archive", self.shelf, self.log)
        self.programs = self.writers + [self.sealer]

    def feed(self):
        for i, (write, writer) in enumerate(zip(self.pipes, self.writers)):
            rows = self.rests[i]    # a full pipe takes a part, which may end inside a line
            for _ in range(0 if rows else self.random.choice((1, 5, 40))):
                self.n += 1
                rows += b'{"n":%d,"pad":"%s"}\n' % (self.n, b"x" * (self.n * 31 % 200))
            self.rests[i] = rows
            try:
                self.rests[i] = rows[os.write(write, rows):]
            except BlockingIOError:
                pass
            except BrokenPipeError as e:
                raise Wrong(f"{writer.name} ended with {writer.wait()}: {writer.err()[-600:]}") from e
        time.sleep(0.002)

    def shipped(self):
        found = SHIPPED.findall(self.sealer.err())
        return int(found[-1]) if found else 0

    def live(self, seconds):
        self.begin_writers()
        end = time.monotonic() + seconds
        limit = time.monotonic() + 60
        while time.monotonic() < end or self.shipped() <= self.last:
            check(time.monotonic() < limit, "nothing was shipped:", self.sealer.err()[-600:])
            self.feed()
            self.revive()
        first, then = (self.sealer.kill,), [w.kill for w in self.writers]
        for kill in (*first, *then) if self.random.random() < 0.7 else (*then, *first):
            kill()
            if self.random.random() < 0.5:
                self.feed_quietly()
        for write in self.pipes:
            os.close(write)

    def feed_quietly(self):
        """Rows that are acknowledged, and never shipped."""
        for _ in range(20):
            try:
                self.feed()
            except Wrong:   # killed just now
                return

    def revive(self):
        for w in self.watchers:
            w.revive()
        if not self.server.running():
            self.serve()

    def know(self):
        """Nobody writes: what the log holds is the truth, and every acknowledged row is in it."""
        for line in whole_lines(good("sc-log", "read", self.log, "--from", self.last + 1).out):
            offset = offset_of(line)
            check(offset > self.last and offset not in self.truth, "offset", offset, "is given again, behind", self.last)
            self.truth[offset] = line
            self.last = offset
        for w in self.writers:
            for line in whole_lines(w.out()):
                check(self.truth.get(offset_of(line)) == line, w.name, "was acknowledged", line[:80], "and the log has",
                      str(self.truth.get(offset_of(line)))[:80])

    # --- its loss ---

    def lose(self):
        self.losses += 1
        there = os.path.join(self.folder, f"lost{self.losses}")
        if self.random.random() < 0.5:
            os.mkdir(there)
            self.removed = False
            os.rename(self.log, os.path.join(there, "t"))
        else:
            there = None
            self.removed = True
            shutil.rmtree(self.log, ignore_errors=True)
            until(lambda: not os.path.exists(self.log) or shutil.rmtree(self.log, ignore_errors=True), "the log is gone")
        time.sleep(self.random.choice((0, 0, 0.1, 1.5)))   # longer than anybody takes to see it, or not
        self.restore()
        if there:
            late = run("sc-seal", os.path.join(there, "t"), "--force", "--archive", self.shelf)
            check(late.status == 77 and b"taken over" in late.err, "the lost log archived on:", late.status, late.err)
            shutil.rmtree(there)

    def restore(self):
        argv = ("sc-log", "restore", self.log, "--archive", self.shelf)
        while self.random.random() < 0.6:
            half = Program(self.folder, "restore", *argv)
            time.sleep(self.random.uniform(0, 0.03))
            self.killed_restores += half.running()
            half.kill()
            if os.path.exists(os.path.join(self.log, "log.json")):
                break
        if os.path.exists(os.path.join(self.log, "log.json")) and not os.path.exists(os.path.join(self.log, "restore.json")):
            return
        good(*argv)

    def check_restored(self, shipped):
        lines = whole_lines(good("sc-log", "read", self.log).out)
        offsets = [offset_of(line) for line in lines]
        check(offsets and offsets[0] == 1, "made anew it begins at", offsets[:1])
        before = None
        for offset, line in zip(offsets, lines):
            check(self.truth.get(offset) == line, "made anew it has", line[:80], "where it had", str(self.truth.get(offset))[:80])
            check(before is None or offset == before + 1 or self.is_gap(before, offset), "made anew it has", offset, "behind", before)
            before = offset
        check(before >= shipped, "made anew it ends at", before, "and", shipped, "was shipped")
        info = json.loads(good("sc-log", "info", "--json", self.log).out)
        new = info["next"]
        check(new > before + JUMP and new > self.last, "it goes on at", new, "behind", before, "and", self.last)
        good("sc-log", "verify", self.log)
        self.lost_rows += sum(1 for offset in range(before + 1, self.last + 1) if offset in self.truth)
        self.gaps.append((before, self.last, new))
        self.last = new - 1

    def cycle(self):
        self.live(self.random.uniform(0.2, 0.7))
        self.know()
        shipped = self.shipped()
        self.lose()
        self.check_restored(shipped)
        for w in self.watchers:
            w.compare()

    def settle(self):
        """Once more; then the last row arrives everywhere."""
        self.live(0.2)
        self.know()

        def arrived():
            self.revive()
            for w in self.watchers:
                w.compare()
            return all(w.last == self.last for w in self.watchers[:2])

        until(arrived, "the last row arrived everywhere", 60)
        self.end()
        good("sc-seal", self.log, "--force", "--archive", self.shelf)
        here = good("sc-log", "read", self.log).out
        check(here == good("sc-catchup", self.shelf + "/t").out, "the archive holds other rows than the log")
        proofs = [json.loads(good(*argv, "--json").out) for argv in
                  (("sc-log", "verify", self.log), ("sc-catchup", self.shelf + "/t", "--verify"))]
        check(proofs[0]["hash"] == proofs[1]["hash"] and proofs[0]["orphans"] == 0, "the proofs are", proofs)

    def end(self):
        for w in self.watchers:
            w.program.kill()
        self.server.kill()


def run_loss(folder, random, seconds):
    loss = Loss(folder, random)
    began = time.monotonic()
    try:
        while loss.losses < 3 or time.monotonic() - began < seconds:
            loss.cycle()
        loss.settle()
    except Wrong as e:
        raise Wrong(f"after {loss.losses} losses: {e}; " + str({w.name: w.last for w in loss.watchers})) from e
    finally:
        loss.end()
        for p in loss.programs:
            p.kill()
    print(f"    {loss.losses} losses, {len(loss.truth)} rows, of which {loss.lost_rows} were not shipped; {loss.killed_restores} restores "
          f"killed; the server ended {loss.server_ends} times; " +
          ", ".join(f"{w.name} {w.lives} lives, {w.rows} rows, {w.ends} times told" for w in loss.watchers), flush=True)
