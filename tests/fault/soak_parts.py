"""soak_parts.py: the programs of soak.py: each is started again when it ended, and what it prints is compared with the truth."""

import json
import os
import re
import signal
import subprocess
import time
from array import array

from lab import BIN, LIMIT_S, check, environment, run, whole_lines
from peers import Subscriber

PIPE = 1 << 20
EVICTED = re.compile(r"offset (\d+) is (?:not held any more|no longer held)[;,] the earliest is (\d+)")
HEAD = re.compile(rb'\[(\d+),\{"w":(\d),"n":(\d+),"pad":"')
PAD = os.urandom(1 << 19).hex().encode()  # rows that do not compress to nothing


def row(writer, n, more=b""):
    """The row number N of a writer: what is stored can be told from it."""
    at = (n * 7919 + writer * 104729) % (len(PAD) - 300)
    return b'{"w":%d,"n":%d,"pad":"%s"%s}' % (writer, n, PAD[at:at + n * 31 % 300], more)


NEW_COLUMN = b',"new":null'  # what a row has more while the schema has one more


def schema(migrated):
    columns = {"w": {"type": "integer"}, "n": {"type": "integer"}, "pad": {"type": "string"}}
    if migrated:
        columns["new"] = {"type": ["number", "null"]}
    return json.dumps({"type": "object", "properties": columns, "required": ["w", "n", "pad"]})


class Truth:
    """All rows of a log in order, as they were read from it once: in a file, so that hours of them fit."""

    def __init__(self, path, chained):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self.starts = array("Q", [0])   # of row 1, row 2, ... and the end
        self.last_n = {}
        self.seams, self.migrated = 0, False
        self.chained = chained          # writers whose numbers have no gap

    @property
    def last(self):
        return len(self.starts) - 1

    def size(self, first, last):
        return self.starts[last] - self.starts[first - 1]

    def add(self, data):
        """Whole lines, the next ones: offsets rise by one, each writer's numbers rise, and its rows are the ones it wrote."""
        at = self.starts[-1]
        check(os.pwrite(self.fd, data, at) == len(data), "the truth cannot be written")
        for line in data.splitlines(keepends=True):
            head = HEAD.match(line)
            check(head and int(head[1]) == self.last + 1, "the log has", line[:60], "behind", self.last)
            writer, n = int(head[2]), int(head[3])
            before = self.last_n.get(writer, 0)
            check(n > before and (writer not in self.chained or n == before + 1), "writer", writer, "has", n, "after", before)
            migrated = line.endswith(NEW_COLUMN + b"}]\n")
            self.seams += migrated != self.migrated
            self.migrated = migrated
            check(line == b"[%d,%s]\n" % (self.last + 1, row(writer, n, NEW_COLUMN if migrated else b"")), "offset", self.last + 1,
                  "holds", line[:200])
            self.last_n[writer] = n
            at += len(line)
            self.starts.append(at)

    def text(self, first, size):
        return os.pread(self.fd, size, self.starts[first - 1])


class Output:
    """What a program printed, by a pipe: an unbroken run of rows, the very bytes of the truth."""

    def __init__(self, name, stream, fd, first=None):
        self.name, self.stream, self.fd = name, stream, fd
        self.next = first   # None: wherever it begins
        self.rest, self.rows, self.open = b"", 0, True
        os.set_blocking(fd, False)

    def step(self, limit=4 << 20):
        while limit > 0 and self.open:
            try:
                data = os.read(self.fd, PIPE)
            except BlockingIOError:
                return
            limit -= len(data)
            if data:
                self.take(data)
            else:
                os.close(self.fd)
                self.open = False

    def take(self, data):
        data = self.rest + data
        cut = data.rfind(b"\n") + 1
        self.rest = data[cut:]
        if cut:
            self.lines(data[:cut])

    def lines(self, data):
        if self.next is None:
            self.next = int(data[1:data.index(b",")])
        count = data.count(b"\n")
        self.compare(data, count)
        self.next += count
        self.rows += count

    def compare(self, data, count):
        if self.next + count - 1 > self.stream.truth.last:
            self.stream.read_on()
        truth = self.stream.truth
        check(self.next + count - 1 <= truth.last, self.name, "saw", count, "rows from", self.next, "but the log ends at", truth.last)
        if truth.text(self.next, len(data)) == data and truth.size(self.next, self.next + count - 1) == len(data):
            return
        for number, line in enumerate(data.splitlines(keepends=True), self.next):
            want = truth.text(number, truth.size(number, number))
            check(line == want, self.name, "saw", line[:100], "where the log has", want[:100])

    def end(self):
        """Nobody writes any more: the rest, of which the last line may be torn."""
        while self.open:
            self.step()
        if self.rest and self.next and self.next <= self.stream.truth.last:
            want = self.stream.truth.text(self.next, len(self.rest))
            check(want == self.rest, self.name, "had begun", self.rest[:80], "where the log has", want[:80])


class Worker:
    """A program that is started again when it ended. PAUSED: nobody reads what it prints."""

    output = None

    def __init__(self, soak, name, stream):
        self.soak, self.name, self.stream = soak, name, stream
        self.process, self.out, self.killed, self.polite, self.lives, self.paused = None, None, False, False, 0, 0.0
        self.begun = 0

    def launch(self, *argv, stdin=None, pass_fds=(), **kw):
        self.lives += 1
        self.killed = self.polite = False
        self.err_path = os.path.join(self.soak.folder, self.name + ".err")
        read, write = os.pipe()
        argv = [os.path.join(BIN, argv[0])] + [str(a) for a in argv[1:]]
        with open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(argv, stdin=stdin if stdin is not None else subprocess.DEVNULL, stdout=write, stderr=err,
                                            env=environment(self.soak.env), pass_fds=pass_fds)
        os.close(write)
        self.out = (self.output or Output)(self.name, self.stream, read, **kw)
        self.begun = self.stream.truth.last if self.stream else 0

    def err(self):
        with open(self.err_path, "rb") as f:
            return f.read().decode(errors="replace")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def fds(self):
        return [self.out.fd] if self.out and self.out.open and self.paused < time.monotonic() else []

    def step(self):
        self.out.step()

    def kill(self):
        if self.running():
            self.killed = True
            self.process.kill()

    def reap(self):
        """It ended, or is to end now: all that it printed, and why it ended."""
        if self.process is None:
            return
        if self.killed:
            self.process.wait()
        self.out.end()
        status = self.process.wait(LIMIT_S)
        self.process = None
        if (self.killed and status == -signal.SIGKILL) or (self.polite and status in (-signal.SIGTERM, 128 + signal.SIGTERM)):
            self.ended(None, "")
            return
        words = self.err()
        check(self.good_end(status, words), self.name, "ended with", status, words[-1500:])
        check(not self.out.rest, self.name, "ended inside a line:", self.out.rest[:80])
        self.ended(status, words)

    def wanted(self):
        return True

    def good_end(self, status, words):
        return status == 0

    def ended(self, status, words):
        pass

    def restart(self):
        self.reap()
        self.start()

    def stop(self):
        """End it politely."""
        if self.running():
            self.polite = True
            self.process.send_signal(signal.SIGTERM)
        self.paused = 0.0
        self.reap()


class Lines(Output):
    """Acknowledged rows of one appender: not in one run; each at its offset when the truth has it."""

    def lines(self, data):
        self.stream.acked.append((self.name, data))
        self.rows += data.count(b"\n")

    def end(self):
        while self.open:
            self.step()


class Appender(Worker):
    """Rows in bursts, as fast as they are taken, RATE a second in the mean. SOURCE: they are pairs of it."""

    output = Lines

    def __init__(self, soak, number, stream, rate, source=None):
        super().__init__(soak, f"{stream.name}.writer{number}", stream)
        self.number, self.rate, self.source = number, rate, source
        self.fd, self.n, self.pending, self.due, self.since, self.acked = None, 0, b"", 0.0, time.monotonic(), 0

    def start(self):
        if self.source:
            done = run("sc-log", "source", self.stream.log, self.source, ok=(0,))
            self.n = int(done.out or b"0")
        read, self.fd = os.pipe()
        os.set_blocking(self.fd, False)
        batch = self.soak.random.choice((None, None, 1, 7, 500))
        more = ["--batch-rows", batch] if batch else []
        more += ["--source", self.source] if self.source else []
        self.launch("sc-log", "append", self.stream.log, *more, stdin=read)
        os.close(read)
        self.pending = b""

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def reap(self):
        self.close()
        super().reap()

    def ended(self, status, words):
        self.acked += self.out.rows

    def pump(self):
        """Write on; True while there is more to write and it is taken."""
        now = time.monotonic()
        self.due = min(self.due + (now - self.since) * self.rate, self.rate)
        self.since = now
        if self.fd is None or not self.running():
            return False
        burst = self.soak.random.choice((1, 20, 400))
        if not self.pending and self.due >= burst:
            self.due -= burst
            rows = [(n, row(self.number, n)) for n in range(self.n + 1, self.n + burst + 1)]
            self.pending = b"".join(b"[%d,%s]\n" % r if self.source else r[1] + b"\n" for r in rows)
            self.n += burst
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.fd, self.pending):]
        except (BlockingIOError, BrokenPipeError):
            return False
        return bool(self.pending)


class Reader(Worker):
    """Prints rows of the log or its archive; WHENCE tells the arguments; ends by itself, or follows."""

    def __init__(self, soak, name, stream, whence, follows=False):
        super().__init__(soak, f"{stream.name}.{name}", stream)
        self.whence, self.follows, self.next = whence, follows, 1
        self.rows, self.whole, self.evicted = 0, 0, 0

    def start(self):
        if self.follows:
            self.launch(*self.whence(self.next), first=self.next)
        else:
            self.launch(*self.whence(self.next))

    def good_end(self, status, words):
        return status == 0 or self.was_evicted(status, words)

    def was_evicted(self, status, words):
        """It says truly that the next row it wanted is not held any more."""
        said = EVICTED.search(words)
        if status != 79 or not said or not self.stream.retains:
            return False
        offset, earliest = int(said[1]), int(said[2])
        check(self.out.next in (None, offset), self.name, "printed up to", self.out.next, "and then missed", offset)
        check(earliest > offset, self.name, "misses", offset, "and names", earliest)
        self.evicted += 1
        self.next = earliest
        return True

    def ended(self, status, words):
        self.rows += self.out.rows
        if status == 79:
            return
        if self.follows:
            self.next = self.out.next
        elif status == 0:
            self.whole += 1
            if self.reaches_end() and not self.found_empty():
                check((self.out.next or 1) > self.begun, self.name, "ended before", self.out.next, "where the log had",
                      self.begun, "rows as it began")

    def reaches_end(self):
        return True

    def found_empty(self):
        """It had no row to print: retention had taken all that were there as it began, and no other had come."""
        return self.out.next is None and self.stream.retains and self.stream.earliest() > self.begun


class ArchiveReader(Reader):
    """Ends where the archive does."""

    def start(self):
        self.begun_archive = self.stream.archived
        super().start()

    def good_end(self, status, words):
        return super().good_end(status, words) or (status == 66 and not self.stream.archived)

    def reaches_end(self):
        check((self.out.next or 1) > self.begun_archive, self.name, "ended before", self.out.next, "where the archive had",
              self.begun_archive, "as it began")
        return False


class Cursor(Reader):
    """sc-sub with a cursor: begins behind what that holds; what was printed and not yet noted there comes twice, nothing is missing."""

    def __init__(self, soak, name, stream, whence):
        super().__init__(soak, name, stream, whence)
        self.cursor = os.path.join(soak.folder, self.name + ".cursor")

    def start(self):
        noted = self.noted()
        check(noted is None or (noted.isdigit() and int(noted) < self.next), self.name, "printed up to", self.next,
              "and has a cursor that holds", noted)
        first = int(noted) + 1 if noted else None if self.stream.retains else 1
        self.launch(*self.whence(() if noted else ("--offset", "earliest")), "--cursor", self.cursor, first=first)

    def noted(self):
        try:
            with open(self.cursor, encoding="ascii") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def ended(self, status, words):
        self.rows += self.out.rows
        self.next = max(self.next, self.out.next or 1)
        if status == 79:
            os.unlink(self.cursor)  # as a user who takes the loss


class Words(Output):
    """What a program says, other than rows."""

    text = b""

    def take(self, data):
        self.text += data

    def end(self):
        while self.open:
            self.step()


class CatchUp(Reader):
    """sc-sub --catch-up from somewhere in the past: all of it, or that nobody has it any more."""

    def start(self):
        last = self.stream.truth.last
        wish = self.soak.random.randint(max(1, last - 30000), max(1, last))
        self.launch(*self.whence(wish), first=wish)

    def good_end(self, status, words):
        if status == 79 and self.stream.retains and re.search('"why":"(gap|evicted)"', words):
            self.evicted += 1
            return True
        return status == 0


class Prover(Worker):
    """sc-log verify, or sc-catchup --verify: always good, and their hashes agree."""

    def __init__(self, soak, name, stream, argv):
        super().__init__(soak, f"{stream.name}.{name}", stream)
        self.argv, self.proofs = argv, 0

    output = Words

    def start(self):
        self.launch(*self.argv)

    def good_end(self, status, words):
        good = status == 0 or (status == 66 and not self.stream.archived) or (
            status == 79 and self.stream.retains and EVICTED.search(words) is not None)
        if status == 0:
            proof = json.loads(self.out.text)
            check(proof["rows"] == proof["last"] - proof["first"] + 1 if proof["rows"] else True, self.name, "proved", proof)
            self.proofs += 1
        return good


class Sealer(Worker):
    """sc-seal, again and again, each time with other options."""

    output = Words

    def __init__(self, soak, stream):
        super().__init__(soak, f"{stream.name}.sealer", stream)
        self.done = {"sealed": 0, "compacted": 0, "removed": 0, "uploaded": 0, "verified": 0, "expired": 0, "leftovers": 0}
        self.runs, self.held_us = 0, 0

    def start(self):
        choose = self.soak.random.choice
        how = choose((["--force"], ["--force"], ["--force", "--ship"], ["--force", "--compact"], ["--age", "200ms", "--ship"],
                      ["--watch", "--interval", "20ms", "--age", "100ms"],
                      ["--watch", "--interval", "300ms", "--age", "300ms", "--ship=50ms"]))
        self.watch = "--watch" in how
        self.seal(*how, "--target", choose(("64K", "256K", "1M")))

    def seal(self, *how):
        self.launch("sc-seal", self.stream.log, "--json", *how, *self.stream.seal_options)

    def reap(self):
        begun = self.begun
        super().reap()
        if self.process is None and self.whole and not self.watch:
            self.stream.settled = max(self.stream.settled, begun)

    def good_end(self, status, words):
        """The rival may be faster."""
        return status == 0 or (status == 75 and "another seal runs" in words + self.out.text.decode())

    def ended(self, status, words):
        self.whole = status == 0
        if status == 75:
            return
        for line in whole_lines(self.out.text):
            report = json.loads(line)
            # a watch opens a log anew that was changed, and may find the rival there
            check(report["ok"] or report["error"]["error"] == "busy", self.name, "said", line[-500:])
            self.runs += 1
            self.held_us = max(self.held_us, report["held_us"])
            for what in self.done:
                self.done[what] += len(report[what]) if isinstance(report[what], list) else report[what]
            for segment in report["uploaded"] + report["verified"]:
                self.stream.archived = max(self.stream.archived, segment["last"])


class Rival(Worker):
    """A second sc-seal, which is told so; a rebuild of the index under everybody. Now and then only."""

    output = Words

    def __init__(self, soak, name, stream, argv):
        super().__init__(soak, f"{stream.name}.{name}", stream)
        self.argv = argv

    def wanted(self):
        return self.soak.random.random() < 0.1

    def start(self):
        self.launch(*self.argv)

    def good_end(self, status, words):
        return status == 0 or (status == 75 and "another seal runs" in words)


class Migrator(Rival):
    """A live log's schema gets a column, and loses it again."""

    def wanted(self):
        return self.soak.random.random() < 0.03

    def start(self):
        path = os.path.join(self.soak.folder, self.name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(schema(self.lives % 2 == 0))
        self.launch(*self.argv, "--schema", path)


class Peer(Subscriber):
    """A subscriber without a library; begins again somewhere when it was refused."""

    def __init__(self, soak, name, stream, server):
        super().__init__(f"{stream.name}.{name}", server.port, stream.name, 1)
        self.stream_of, self.evicted, self.rows = stream, 0, 0

    def check_all(self):
        for payload in self.refusals:
            words = payload[2:].decode()
            check("evicted" in words and self.stream_of.retains, self.name, "was refused:", words)
            self.evicted += 1
            self.next = self.stream_of.earliest()
        self.refusals = []
        lines = self.take()
        if not lines:
            return
        first = int(lines[0][1:lines[0].index(b",")])
        out = Output.__new__(Output)
        out.name, out.stream, out.next, out.rows = self.name, self.stream_of, first, 0
        out.lines(b"\n".join(lines) + b"\n")
        self.rows += len(lines)
