"""rounds.py: nothing lost, nothing twice, whoever dies.

Goal    every acknowledged row is in the log once, in order, at its offset, with its bytes; every subscriber's union is contiguous and the
        same bytes as sc-log read; a chain A to B with --source holds A exactly; no row is seen by anybody that is not in the log.
Method  rounds of: two appenders at full speed, a server with 20 subscribers (some live, some replaying, some stalled, some leaving at any
        moment; some are sc-sub), followers and chains; kill -9 of one or more of them at a random moment; start them again.
        In the second test writes, syncs and allocations fail at random instead. SC_ROUNDS (25; 6 when sanitized) and SC_SEED choose.
"""

import os
import random
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.dirname(__file__))
from lab import (BIN, Lab, Program, Wrong, check, environment, good, has, message_of, offset_of, read_all,  # noqa: E402
                 read_ready, run, sanitized, until, verify, whole_lines)
from peers import Subscriber  # noqa: E402

lab = Lab()
ROUNDS = int(os.environ.get("SC_ROUNDS", "6" if sanitized() else "25"))
SEED = int(os.environ.get("SC_SEED", "1"))
QUOTA = int(os.environ.get("SC_ROWS", "1500"))  # rows a writer and round
SUBSCRIBERS, SUB_PROGRAMS = 14, 6
STREAM = "A"


class Tail:
    """The lines that a program wrote to a file, as they come; a torn last one is dropped when it was killed."""

    def __init__(self, path):
        self.path, self.at, self.rest = path, 0, b""

    def take(self):
        try:
            with open(self.path, "rb") as f:
                f.seek(self.at)
                data = f.read()
        except FileNotFoundError:
            return []
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        return lines


class Worker:
    """A program (or a pipe of two) that is started again when it died. Each life has its own output."""

    def __init__(self, world, name):
        self.world, self.name, self.lives, self.programs, self.tails = world, name, 0, [], []
        self.fault = None

    def env(self):
        fault, self.fault = self.fault, None
        return {"SC_FAULT": fault} if fault else None

    def alive(self):
        return bool(self.programs) and all(p.running() for p in self.programs)

    def start(self):
        self.reap()
        self.lives += 1
        self.launch(f"{self.name}.{self.lives}")

    def reap(self):
        """What is left of it ends; its status must be one that was to be expected."""
        for p in self.programs:
            p.signal(signal.SIGCONT)
            p.kill()
        self.programs = []

    def kill(self):
        if self.programs:
            self.world.random.choice(self.programs).kill()

    def check_status(self):
        for p in self.programs:
            if not p.running():
                status = p.process.returncode
                good = status == -signal.SIGKILL or status in self.good_statuses() or self.half_a_line(p, status)
                check(good, p.name, "ended with", status, p.err()[-1500:])

    def half_a_line(self, program, status):
        return False

    def good_statuses(self):
        return (0, -signal.SIGPIPE, 70, 73, 74, 75) if self.world.inject else (0, -signal.SIGPIPE)

    def pump(self):
        pass

    def take(self):
        lines = [line for tail in self.tails for line in tail.take()]
        self.tails = self.tails[-1:]
        return lines


class Appender(Worker):
    def __init__(self, world, number):
        super().__init__(world, f"writer{number}")
        self.number, self.n, self.quota, self.pending, self.fd = number, 0, 0, b"", None
        self.acked = 0

    def launch(self, name):
        out, self.fd = os.pipe()
        os.set_blocking(self.fd, False)
        batch = self.world.random.choice((None, 1, 7, 100, 5000))
        more = ["--batch-rows", batch] if batch else []
        self.programs = [Program(self.world.folder, name, "sc-log", "append", self.world.log, *more, stdin=out, env=self.env())]
        os.close(out)
        self.tails.append(Tail(self.programs[0].out_path))
        self.pending = b""

    def reap(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        super().reap()

    def pump(self):
        if self.fd is None:
            return False
        if not self.pending and self.quota > 0:
            count = min(self.quota, self.world.random.choice((1, 10, 300)))
            self.quota -= count
            pad = "x" * self.world.random.choice((0, 10, 100))
            self.pending = b"".join(b'{"w":%d,"n":%d,"pad":"%s"}\n' % (self.number, n, pad.encode())
                                    for n in range(self.n + 1, self.n + count + 1))
            self.n += count
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.fd, self.pending):]
        except BlockingIOError:
            return False
        except OSError:
            self.pending = b""
            return False
        return bool(self.pending or self.quota)


class Server(Worker):
    port = 0

    def launch(self, name):
        ready, ready_in = os.pipe()
        ring = self.world.random.choice(("64K", "64K", "1M", "16M"))
        self.programs = [Program(self.world.folder, name, "sc-serve", "--listen", f"127.0.0.1:{self.port}", "--ready-fd",
                                 str(ready_in), "--ring", ring, self.world.log, env=self.env(), pass_fds=(ready_in,))]
        os.close(ready_in)
        word = read_ready(ready)
        os.close(ready)
        if word:
            self.port = word["port"]
        else:
            check(self.world.inject, name, "did not become ready:", self.programs[0].err()[-1500:])


class Follower(Worker):
    """sc-log read --follow: its union is the log."""

    next = 1

    def launch(self, name):
        self.programs = [Program(self.world.folder, name, "sc-log", "read", self.world.log, "--from", self.next, "--follow",
                                 env=self.env())]
        self.tails.append(Tail(self.programs[0].out_path))

    def take(self):
        lines = super().take()
        for line in lines:
            check(offset_of(line) == self.next, self.name, "got", offset_of(line), "where", self.next, "comes")
            self.next += 1
        return lines

    def reap(self):
        super().reap()
        self.world.compare(self, self.take())


class SubProgram(Worker):
    """sc-sub with a cursor: nothing is missing; what was printed and not yet in the cursor may come twice."""

    def __init__(self, world, number):
        super().__init__(world, f"sub{number}")
        self.cursor = os.path.join(world.folder, self.name + ".cursor")
        self.next, self.begun = 1, False

    def launch(self, name):
        self.begun = False
        self.programs = [Program(self.world.folder, name, "sc-sub", self.world.url(), "--offset", "earliest", "--cursor",
                                 self.cursor, env=self.env())]
        self.tails.append(Tail(self.programs[0].out_path))

    def take(self):
        lines = super().take()
        for line in lines:
            offset = offset_of(line)
            if self.begun:
                check(offset == self.next, self.name, "got", offset, "where", self.next, "comes")
            else:
                check(offset <= self.next, self.name, "got", offset, "after a start, but", self.next, "comes")
            self.begun = True
            self.next = offset + 1
        return lines

    def reap(self):
        super().reap()
        self.world.compare(self, self.take())

    def good_statuses(self):
        return super().good_statuses() + ((69,) if self.world.inject else ())


class Chain(Worker):
    """A | append B --source A: B's messages are A's, from the first on."""

    def __init__(self, world, name, over_server):
        super().__init__(world, name)
        self.log = os.path.join(world.folder, name)
        self.over_server = over_server
        good("sc-log", "create", self.log, "--journal-size", "64k")

    def half_a_line(self, program, status):
        """Who is killed while it writes a line leaves half of it in the pipe: refused, and nothing of it stored."""
        killed = any(p.process.returncode == -signal.SIGKILL for p in self.programs if not p.running())
        return killed and status == 65 and "is not a pair" in program.err()

    def launch(self, name):
        stands = run("sc-log", "source", self.log, STREAM)
        after = int(stands.out) if stands.out.strip() else 0
        out, pipe = os.pipe()
        fault = self.env()
        # sc-sub writes into the pipe: with Program its output would be a file
        if self.over_server:
            argv = ["sc-sub", self.world.url(), "--after", str(after)]
        else:
            argv = ["sc-log", "read", self.world.log, "--from", str(after + 1), "--follow"]
        first = Piped(self.world.folder, name + ".from", argv, pipe)
        os.close(pipe)
        second = Program(self.world.folder, name + ".to", "sc-log", "append", self.log, "--source", STREAM, "--quiet", stdin=out,
                         env=fault)
        os.close(out)
        self.programs = [first, second]

    def held(self):
        return int(good("sc-log", "source", self.log, STREAM).out or b"0")

    def check_all(self, truth):
        lines = read_all(self.log)
        check(len(lines) == len(truth), self.name, "holds", len(lines), "rows of", len(truth))
        for i, line in enumerate(lines):
            check(offset_of(line) == i + 1 and message_of(line) == message_of(truth[i]), self.name, "differs at", i + 1,
                  line[:80], truth[i][:80])
        verify(self.log)


class Piped(Program):
    def __init__(self, folder, name, argv, stdout):
        self.name = name
        self.err_path = os.path.join(folder, name + ".err")
        argv = [os.path.join(BIN, argv[0])] + argv[1:]
        with open(self.err_path, "ab") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=err, env=environment())


class World:
    def __init__(self, folder, inject):
        self.folder, self.inject = folder, inject
        self.random = random.Random(SEED + inject)
        self.log = os.path.join(folder, STREAM)
        self.truth = []           # all lines of the log, as read from it
        self.last_n = {}
        self.behind = 0           # most subscribers at once that were
        good("sc-log", "create", self.log, "--journal-size", "256k")
        self.writers = [Appender(self, 1), Appender(self, 2)]
        self.followers = [Follower(self, "follower")]
        self.chains = [Chain(self, "B", False)]
        self.server, self.subs, self.sub_programs = None, [], []
        if has("sc-serve"):
            self.server = Server(self, "server")
            self.server.start()
            self.subs = [Subscriber(f"peer{i}", self.server.port, STREAM, None if i < 3 else 1) for i in range(SUBSCRIBERS)]
            for s in self.subs:
                s.narrow = self.random.random() < 0.5
                s.starved = bool(inject)
        if self.server and has("sc-sub"):
            self.sub_programs = [SubProgram(self, i) for i in range(SUB_PROGRAMS)]
            self.chains.append(Chain(self, "C", True))
        self.workers = self.writers + self.followers + self.chains + self.sub_programs + ([self.server] if self.server else [])

    def url(self):
        return f"ws://127.0.0.1:{self.server.port}/{STREAM}"

    def keep_running(self):
        for w in self.workers:
            if not w.alive():
                w.check_status()
                w.start()

    def read_on(self):
        """The log's new rows: offsets rise by one, each writer's numbers rise."""
        lines = read_all(self.log, "--from", len(self.truth) + 1)
        for line in lines:
            check(offset_of(line) == len(self.truth) + 1, "the log has", offset_of(line), "behind", len(self.truth))
            self.truth.append(line)
            message = message_of(line)
            writer, n = int(message[5:6]), int(message[message.index(b'"n":') + 4:message.index(b',"pad"')])
            check(n > self.last_n.get(writer, 0), "writer", writer, "has", n, "after", self.last_n.get(writer))
            self.last_n[writer] = n

    def compare(self, who, lines):
        """Lines that somebody saw are the log's."""
        if lines and offset_of(lines[-1]) > len(self.truth):
            self.read_on()
        for line in lines:
            offset = offset_of(line)
            check(offset <= len(self.truth), who.name, "saw offset", offset, "but the log ends at", len(self.truth))
            check(self.truth[offset - 1] == line, who.name, "saw", line[:100], "but the log holds", self.truth[offset - 1][:100])

    def compare_all(self):
        for w in self.writers:
            lines = w.take()
            w.acked += len(lines)
            self.compare(w, lines)
        for w in self.followers + self.sub_programs + self.subs:
            self.compare(w, w.take())

    def mischief(self):
        """What subscribers do by themselves."""
        for s in self.subs:
            what = self.random.random()
            if s.socket is None:
                if what < 0.7:
                    s.connect()
            elif what < 0.02:
                s.close(reset=self.random.random() < 0.5)
            elif what < 0.03 and s.stalled_until < time.monotonic():
                s.stalled_until = time.monotonic() + self.random.uniform(0.05, 2)
            elif what < 0.035 and s.next and s.next > 100:
                self.compare(s, s.take())  # begin again somewhere in the past
                s.close()
                s.next = self.random.randrange(1, s.next)

    def pump(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            busy = [w.pump() for w in self.writers]
            self.mischief()
            now = time.monotonic()
            awake = [s for s in self.subs if s.socket is not None and s.stalled_until < now]
            if awake:
                for s in select.select([s.socket for s in awake], [], [], 0 if any(busy) else 0.01)[0]:
                    next(a for a in awake if a.socket is s).step()
            elif not any(busy):
                time.sleep(0.01)

    def replaying(self):
        """How many subscribers read the log now, because they are behind the ring."""
        if not self.server or not self.server.alive():
            return 0
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/metrics", timeout=10) as answer:
                words = answer.read().decode()
        except OSError:
            return 0
        return int(re.search(r"^sc_stream_replaying{.*} (\d+)$", words, re.M)[1])

    def harm(self):
        if self.inject:
            for w in self.random.sample(self.workers, 3):
                call, error, top = self.random.choice((("pwrite", "ENOSPC", 60), ("pwrite", "EIO", 60), ("fdatasync", "EIO", 40),
                                                       ("write", "EIO", 200), ("malloc", "ENOMEM", 300), ("fsync", "EIO", 6)))
                w.fault = f"{call}:{self.random.randrange(1, top)}:{error}"
                w.kill()
        else:
            for w in self.random.sample(self.workers, self.random.choice((1, 1, 2, 3, 4))):
                w.kill()

    def round(self):
        self.keep_running()
        quota = QUOTA * self.random.choice((1, 1, 1, 1, 10))
        for w in self.writers:
            w.quota = quota
        self.pump(self.random.uniform(0.05, 0.4))
        self.behind = max(self.behind, self.replaying())
        self.harm()
        self.pump(self.random.uniform(0, 0.05))
        self.read_on()
        self.compare_all()

    def settle(self):
        """Everything arrives everywhere."""
        for w in self.workers:
            w.fault = None
            if self.inject:
                w.start()
        for w in self.writers:
            w.reap()  # a last round: an end without a kill
        for w in self.writers:
            w.start()
            w.quota = 50
        self.keep_running()

        def fed():
            self.pump(0.02)
            self.keep_running()
            return not any(w.quota or w.pending for w in self.writers)

        until(fed, "the writers took their rows")
        for w in self.writers:
            os.close(w.fd)
            w.fd = None
            check(w.programs[0].wait() == 0, w.name, "ended with", w.programs[0].process.returncode, w.programs[0].err()[-500:])
        self.read_on()
        whole = len(self.truth)
        others = [w for w in self.workers if w not in self.writers]
        for s in self.subs:
            if s.next is None:
                s.next = whole + 1

        def arrived():
            for w in others:
                if not w.alive():
                    w.start()
            for s in self.subs:
                s.stalled_until = 0.0
                if s.socket is None:
                    s.connect()
                s.step()
            self.compare_all()
            return (all(w.next == whole + 1 for w in self.followers + self.sub_programs + self.subs) and
                    all(c.held() == whole for c in self.chains))

        until(arrived, "all rows arrived everywhere", 120)
        check(read_all(self.log) == self.truth, "the log reads otherwise than before")
        verify(self.log)
        for chain in self.chains:
            chain.check_all(self.truth)

    def where(self):
        return {w.name: getattr(w, "next", None) for w in self.followers + self.sub_programs + self.subs}

    def end(self):
        for s in self.subs:
            s.close()
        for w in self.workers:
            for p in w.programs:
                p.kill()


def rounds(folder, inject):
    world = World(folder, inject)
    number = 0
    try:
        for number in range(1, ROUNDS + 1):
            world.round()
        world.settle()
        lives = sum(w.lives for w in world.workers)
        print(f"    {ROUNDS} rounds, {len(world.truth)} rows, {sum(w.acked for w in world.writers)} acknowledged to a living writer, "
              f"{lives} lives of {len(world.workers)} programs, {len(world.subs)} peers, {world.behind} behind the ring at once")
        check(not world.server or ROUNDS < 20 or world.behind, "no subscriber ever fell behind the ring")
    except Wrong as e:
        raise Wrong(f"seed {SEED}, round {number} of {ROUNDS}: {e}; {world.where()}") from e
    finally:
        world.end()


@lab.test
def killed_at_any_moment(folder):
    rounds(folder, 0)


@lab.test
def writes_syncs_and_allocations_that_fail(folder):
    rounds(folder, 1)


if __name__ == "__main__":
    if not has("sc-log"):
        raise Wrong("sc-log is not built")
    lab.main()
