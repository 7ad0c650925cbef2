"""soak.py: logs that are sealed, archived and thinned out while everybody writes and reads, and anybody dies.

Goal    every acknowledged row is exactly once in journals, segments and archive; whoever reads, and from where, gets an unbroken run of the
        very bytes, or a named error that is true; what lies on the disk stays within what is held; nothing is left over at the end.
Method  two logs, written in bursts by three appenders each (one with --source). One keeps all its rows, the other a few, and so does its
        archive (S3 where tests/interop is set up). sc-seal runs without a pause, with all its options in turn; followers, readers and
        catch-ups of log and archive, verifications, a server with sc-sub and plain subscribers; kill -9 of any of them at random.
        Then a log that is lost and made anew under its readers (soak_lost.py).
        SC_SOAK_S (15) seconds, SC_SOAK_RATE (2000) rows a second and appender, SC_SEED.
"""

import json
import os
import random
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from lab import BUILD, ROOT, Lab, Wrong, check, good, has, read_ready, run, sanitized, until, whole_lines  # noqa: E402
from soak_parts import (Appender, ArchiveReader, CatchUp, Cursor, Migrator, Peer, Prover, Reader, Rival, Sealer,  # noqa: E402
                        Truth, Words, Worker, row, schema)
from soak_lost import run_loss  # noqa: E402

lab = Lab()
SECONDS = float(os.environ.get("SC_SOAK_S", "15"))
RATE = float(os.environ.get("SC_SOAK_RATE", "500" if sanitized() else "2000"))
SEED = int(os.environ.get("SC_SEED", "1"))
KEEP_LOCAL, KEEP_ARCHIVE = 128 << 10, 1 << 20
JOURNAL, TARGET_MAX = 64 << 10, 1 << 20
MIB = 1 << 20


def tree(folder):
    """Every file below: its path and its size; one that goes meanwhile is not there."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            try:
                found[os.path.relpath(path, folder)] = os.lstat(path).st_size
            except FileNotFoundError:
                pass
    return found


class Stream:
    """A log, its archive, and all that is known of them."""

    def __init__(self, soak, name, archives, retains):
        self.soak, self.name, self.retains = soak, name, retains
        self.log = os.path.join(soak.folder, name)
        self.archive = f"{archives}/{name}"
        self.seal_options = ["--archive", archives]
        if retains:
            self.seal_options += ["--keep-local", f"{KEEP_LOCAL >> 10}K", "--keep-archive", f"{KEEP_ARCHIVE >> 10}K"]
        self.acked, self.archived, self.settled = [], 0, 0   # settled: rows there as the last whole run of sc-seal began
        self.unsettled_max, self.largest = 0, 0
        more = []
        if retains:
            more = ["--schema", os.path.join(soak.folder, "schema.json")]
            with open(more[1], "w", encoding="utf-8") as f:
                f.write(schema(False))
        good("sc-log", "create", self.log, "--journal-size", JOURNAL, *more)
        self.truth = Truth(os.path.join(soak.folder, name + ".truth"), chained=(3,))
        self.writers = [Appender(soak, 1, self, RATE), Appender(soak, 2, self, RATE), Appender(soak, 3, self, RATE, "src")]
        self.sealer = Sealer(soak, self)
        first = "earliest" if retains else 1
        self.follower = Reader(soak, "follower", self, lambda n: ("sc-log", "read", self.log, "--from", n, "--follow"), follows=True)
        self.cursor = Cursor(soak, "cursor", self, lambda start: ("sc-sub", self.url(), *start, "--contiguous"))
        self.readers = [
            Reader(soak, "reader", self, lambda n: ("sc-log", "read", self.log, "--from", first)),
            Reader(soak, "catchup", self, lambda n: ("sc-catchup", self.log, "--from", first)),
            ArchiveReader(soak, "archive", self, lambda n: ("sc-catchup", self.archive, "--from", first)),
            Reader(soak, "replay", self, lambda n: ("sc-sub", self.url(), "--offset", first, "--until-end", "--contiguous")),
        ]
        self.provers = [Prover(soak, "verify", self, ("sc-log", "verify", "--json", self.log)),
                        Prover(soak, "proof", self, ("sc-catchup", self.archive, "--verify", "--json"))]
        self.others = [Rival(soak, "rival", self, ("sc-seal", "--force", self.log)),
                       Rival(soak, "reindex", self, ("sc-log", "reindex", self.log))]
        if retains:
            self.others.append(Migrator(soak, "migrator", self, ("sc-log", "migrate", self.log)))
        self.workers = self.writers + [self.sealer, self.follower, self.cursor] + self.readers + self.provers + self.others

    def add_history(self):
        """Subscribers of a server that replays what only the archive has."""
        self.readers.append(Reader(self.soak, "history", self, lambda n: (
            "sc-sub", self.url(self.soak.historian), "--offset", "earliest", "--until-end", "--contiguous")))
        self.readers.append(CatchUp(self.soak, "caughtup", self, lambda n: (
            "sc-sub", self.url(), "--offset", n, "--catch-up", "--until-end", "--contiguous", "--json")))
        self.workers += self.readers[-2:]

    def url(self, server=None):
        return f"ws://127.0.0.1:{(server or self.soak.server).port}/{self.name}"

    def info(self):
        return json.loads(good("sc-log", "info", "--json", self.log).out)

    def earliest(self):
        """The next row's offset where the log holds none: retention may take all that is sealed."""
        info = self.info()
        return info["first"] or info["next"]

    def read_on(self):
        """The rows that the truth has not yet: from the log, or where it gave them up, from the archive."""
        for _ in range(50):
            done = run("sc-log", "read", self.log, "--from", self.truth.last + 1, ok=(0, 79))
            self.truth.add(b"".join(line + b"\n" for line in whole_lines(done.out)))
            if done.status == 0:
                return
            check(self.retains, self.name, "keeps all and says", done.err)
            self.truth.add(good("sc-catchup", self.archive, "--from", self.truth.last + 1, env=self.soak.env).out)
        raise Wrong(f"{self.name} loses its rows faster than they can be read")

    def check_acked(self):
        """What was acknowledged is in the truth, at its offset, with its bytes."""
        acked, self.acked = self.acked, []
        for name, data in acked:
            first, count = int(data[1:data.index(b",")]), data.count(b"\n")
            if first + count - 1 <= self.truth.last and self.truth.text(first, len(data)) == data:
                continue
            for line in data.splitlines(keepends=True):
                offset = int(line[1:line.index(b",")])
                check(offset <= self.truth.last, name, "was given offset", offset, "but the log ends at", self.truth.last)
                check(self.truth.text(offset, len(line)) == line, name, "was given", line[:100], "but the log has",
                      self.truth.text(offset, 100))

    def check_disk(self):
        """What lies there is what is held, and what came since the last whole run of sc-seal, with its heads, twice while it is moved."""
        if not self.truth.last:
            return
        unsettled = self.truth.size(self.settled + 1, self.truth.last) if self.settled < self.truth.last else 0
        held = KEEP_LOCAL if self.retains else self.truth.size(1, self.truth.last)
        self.unsettled_max = max(self.unsettled_max, unsettled)
        there = sum(tree(self.log).values())
        self.largest = max(self.largest, there)
        check(there <= held + 3 * unsettled + 2 * TARGET_MAX + MIB, self.name, "takes", there, "bytes, of which", unsettled,
              "are of rows that came since a seal went through")

    # --- at the end ---

    def final_seal(self):
        self.sealer.seal("--force", "--target", "64K")
        self.sealer.watch = False
        self.sealer.reap()
        check(self.settled == self.truth.last, "the last seal did not go through")

    def check_parts(self):
        """Archive and log hold the truth between them, and overlap; their hashes agree."""
        local = good("sc-log", "read", self.log).out
        above = good("sc-catchup", self.archive, env=self.soak.env).out
        first_local, first_archived = (int(part[1:part.index(b",")]) for part in (local, above))
        for name, part, first in (("log", local, first_local), ("archive", above, first_archived)):
            check(part == self.truth.text(first, len(part)) and len(part) == self.truth.size(first, self.truth.last), self.name,
                  "differs from what was read, in its", name)
        check(self.retains or first_local == 1, self.name, "begins at", first_local)
        check(first_archived <= first_local, "the archive begins at", first_archived, "and the log at", first_local)
        check(first_archived == 1 or self.retains, "the archive begins at", first_archived)
        proof = json.loads(good("sc-log", "verify", "--json", self.log).out)
        other = json.loads(good("sc-catchup", self.archive, "--verify", "--json", "--from", first_local, env=self.soak.env).out)
        same = ("hash", "rows", "bytes", "first", "last")
        check([proof[k] for k in same] == [other[k] for k in same], self.name, "is proved as", proof, "and its archive as", other)
        check(proof["orphans"] == 0 and proof["last"] == self.truth.last, self.name, "is proved as", proof)

    def check_history(self):
        """A server that replays the archive has all that it holds, and the log's rows behind that."""
        if not self.soak.historian.running():
            self.soak.historian.restart()
        there = good("sc-catchup", self.archive, env=self.soak.env).out
        got = good("sc-sub", self.url(self.soak.historian), "--offset", "earliest", "--until-end", "--contiguous").out
        check(got == there, "the archive holds", len(there), "bytes of lines, and", len(got), "were replayed from it")

    def lose_machine(self):
        """Rows that are shipped and not sealed; then another machine makes the log anew, and this one may not archive any more."""
        n = self.truth.last_n[1]
        more = b"".join(row(1, n + i) + b"\n" for i in range(1, 31))
        done = good("sc-log", "append", "--batch-rows", 7, self.log, input=more)
        self.read_on()
        check(self.truth.text(self.truth.last - 29, len(done.out)) == done.out, "the last rows are not in", self.name)
        good("sc-seal", self.log, "--ship", *self.seal_options[:2], env=self.soak.env)
        anew = os.path.join(self.soak.folder, "anew", self.name)
        os.makedirs(os.path.dirname(anew), exist_ok=True)
        good("sc-log", "restore", anew, *self.seal_options[:2], env=self.soak.env)
        held = good("sc-log", "read", anew).out
        first, next_offset = int(held[1:held.index(b",")]), self.truth.last + 1 + (1 << 20)
        check(held == self.truth.text(first, self.truth.size(first, self.truth.last)), self.name, "was made anew otherwise, from",
              first, "with", held.count(b"\n"), "rows; the end is", self.truth.last)
        check(first == 1 or self.retains, self.name, "was made anew from", first, "on")
        there = good("sc-log", "append", anew, input=row(1, 1) + b"\n").out
        check(int(there[1:there.index(b",")]) >= next_offset, "the log made anew goes on with", there[:40], "not", next_offset)
        good("sc-log", "append", self.log, input=more)
        late = run("sc-seal", self.log, "--force", *self.seal_options[:2], env=self.soak.env)
        check(late.status == 77 and b"taken over" in late.err, "the lost machine archived on:", late.status, late.err)
        good("sc-seal", anew, "--force", *self.seal_options[:2], env=self.soak.env)
        proofs = [json.loads(good(*command, "--json", env=self.soak.env).out) for command in
                  (("sc-log", "verify", anew), ("sc-catchup", self.archive, "--verify"))]
        check(proofs[0]["hash"] == proofs[1]["hash"], "made anew it is", proofs[0], "and its archive", proofs[1])

    def check_files(self):
        """No file but those that hold rows, and no more of it than they need."""
        info, files = self.info(), tree(self.log)
        segments = {n: s for n, s in files.items() if n.startswith("sealed/")}
        journals = {n: s for n, s in files.items() if n.startswith("journal/")}
        rest = set(files) - set(segments) - set(journals)
        known = {"log.json", "archive.json", "index.mdb", "index.mdb-lock", "index.state", "index.lock", "seal.lock", "identity"}
        check(rest <= known, self.name, "has files left over:", sorted(rest - known))
        check(len(segments) == info["segments"] and sum(segments.values()) == info["segment_bytes"], self.name, "has", segments,
              "and says", info)
        check(len(journals) == info["journals"] == 1, self.name, "has journals left:", journals)
        check(sum(journals.values()) <= 2 * MIB, self.name, "has journals of", journals)
        check(not self.retains or sum(segments.values()) <= KEEP_LOCAL, self.name, "keeps", sum(segments.values()), "bytes")
        index = 256 * 1024 + 16 * (self.unsettled_max // 20) + 512 * info["segments"]
        check(files["index.mdb"] <= index, self.name, "has an index of", files["index.mdb"], "bytes, more than", index)

    def check_archive_files(self):
        if not self.archive.startswith("file://"):
            return
        files = tree(self.archive[len("file://"):])
        strange = [n for n in files if not (n.startswith("sealed/0") or n in ("log.json", "epoch.json", "list.json"))]
        check(not strange, "the archive has files left over:", strange)
        size = sum(s for n, s in files.items() if n.startswith("sealed/"))
        check(not self.retains or size <= KEEP_ARCHIVE + TARGET_MAX, "the archive keeps", size, "bytes")


class Server(Worker):
    output = Words
    port = 0

    def __init__(self, soak, name, streams, *more):
        super().__init__(soak, name, None)
        self.streams, self.more = streams, more

    def start(self):
        ready, ready_in = os.pipe()
        self.launch("sc-serve", "--listen", f"127.0.0.1:{self.port}", "--ready-fd", ready_in, "--ring",
                    self.soak.random.choice(("64K", "1M")), *self.more, *(s.log for s in self.streams), pass_fds=(ready_in,))
        os.close(ready_in)
        word = read_ready(ready)
        os.close(ready)
        check(word, "the server did not become ready:", self.err()[-1000:])
        self.port = word["port"]


class Soak:
    def __init__(self, folder):
        self.folder, self.random, self.env, self.other = folder, random.Random(SEED), {}, None
        self.calm = False   # the last rows are to arrive: no peer goes back to the beginning of so many
        os.mkdir(os.path.join(folder, "archive"))
        shelf = self.s3() or f"file://{folder}/archive"
        self.kinds = (f"file://{folder}/archive", shelf)
        self.streams = [Stream(self, "kept", self.kinds[0], False), Stream(self, "moved", self.kinds[1], True)]
        moved = self.streams[1]
        self.server = Server(self, "server", self.streams)
        self.historian = Server(self, "historian", [moved], "--replay-archive")
        self.servers = [self.server, self.historian]
        moved.add_history()
        for server in self.servers:
            server.start()
        self.peers = [Peer(self, f"peer{i}", s, self.server) for s in self.streams for i in (1, 2)]
        self.peers.append(Peer(self, "past", moved, self.historian))
        self.workers = self.servers + [w for s in self.streams for w in s.workers]
        self.writers = [w for s in self.streams for w in s.writers]
        for w in self.workers:
            if w.process is None:
                w.start()

    def s3(self):
        """A bucket of somebody else's server, when tests/interop is set up."""
        python = os.path.join(os.environ.get("SC_INTEROP", os.path.join(ROOT, "build", "interop")), "venv", "bin", "python")
        if not os.access(python, os.X_OK) or os.environ.get("SC_SOAK_S3") == "0":
            return None
        ready = os.path.join(self.folder, "s3.json")
        with open(os.path.join(self.folder, "s3.log"), "wb") as words:
            self.other = subprocess.Popen([python, os.path.join(ROOT, "tests", "interop", "s3servers.py"), "--ready", ready, "--dir",
                                           self.folder], stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        until(lambda: os.path.exists(ready) or self.other.poll() is not None, "the S3 servers began", 120)
        check(os.path.exists(ready), "the S3 servers ended")
        with open(ready, encoding="utf-8") as f:
            port = json.load(f)["weed"]
        self.env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "AKIDTEST",
                    "AWS_SECRET_ACCESS_KEY": "secret/with+chars", "HOME": self.folder}
        return "s3://prod/soak"

    def keep_running(self):
        for w in self.workers:
            if w.process is not None and w.process.poll() is not None:
                w.paused = 0.0
                w.reap()
            if w.process is None and w.wanted():
                w.start()

    def mischief(self):
        for p in self.peers:
            what = self.random.random()
            if p.socket is None:
                if what < 0.3 and not p.refusals:
                    p.connect()
            elif self.calm:
                continue
            elif what < 0.004:
                p.close(reset=self.random.random() < 0.5)
            elif what < 0.008 and p.next > 100 and not p.stream_of.retains:
                p.check_all()
                p.close()
                p.next = self.random.randrange(1, p.next)  # once more
            elif what < 0.012:
                p.stalled_until = time.monotonic() + self.random.uniform(0.1, 2)

    def pump(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            busy = [w.pump() for w in self.writers]
            self.mischief()
            now, ready = time.monotonic(), {}
            for w in self.workers:
                for fd in w.fds():
                    ready[fd] = w
            for p in self.peers:
                if p.socket is not None and p.stalled_until < now:
                    ready[p.socket.fileno()] = p
            for fd in select.select(list(ready), [], [], 0 if any(busy) else 0.02)[0]:
                ready[fd].step()

    def harm(self):
        """Whoever writes dies more often: there is more to break."""
        sealers, choose = [s.sealer for s in self.streams], self.random.choice
        choose((choose(sealers), choose(sealers), choose(self.writers), choose(self.workers), choose(self.workers))).kill()
        if self.random.random() < 0.1:
            choose(self.servers).kill()
        if self.random.random() < 0.15:  # a slow consumer: what it reads is moved, or given up, under it
            choose(self.streams[1].readers).paused = time.monotonic() + self.random.uniform(0.5, 4)

    def round(self):
        for _ in range(self.random.choice((1, 2, 4))):
            self.keep_running()
            self.pump(self.random.uniform(0.02, 0.25))
            self.harm()
        for s in self.streams:
            s.read_on()
            s.check_acked()
            s.check_disk()
        for p in self.peers:
            p.check_all()

    def settle(self):
        """The last rows arrive everywhere, once; then everybody ends, and the logs are looked at."""
        def fed():
            self.keep_running()
            self.pump(0.02)
            return not any(w.pending for w in self.writers)

        for w in self.writers:
            w.due = 20
        self.pump(0.1)
        for w in self.writers:
            w.rate = w.due = 0
        until(fed, "the appenders took their rows")
        for w in self.writers:
            w.close()
            w.reap()
        for s in self.streams:
            s.read_on()
            s.check_acked()
        self.arrive()
        for w in self.workers:
            if w not in self.writers and w is not self.historian:
                w.stop()
        for s in self.streams:
            s.final_seal()
            s.check_parts()
            s.check_files()
            s.check_archive_files()
        self.streams[1].check_history()
        self.historian.stop()
        for s in self.streams:
            s.lose_machine()
        left = [n for n in os.listdir(self.folder) if n.endswith(".tmp")]
        check(not left, "files are left over beside the cursors:", left)

    def arrive(self):
        followers = [w for s in self.streams for w in (s.follower, s.cursor)]
        self.calm = True

        def all_there():
            for w in self.workers:
                if w not in self.writers and w.process is not None and w.process.poll() is not None:
                    w.restart()
            for p in self.peers:
                p.stalled_until = 0.0
            self.pump(0.05)
            for p in self.peers:
                p.check_all()
            return (all(w.out.next == w.stream.truth.last + 1 for w in followers) and
                    all(p.next == p.stream_of.truth.last + 1 for p in self.peers))

        until(all_there, "the last rows arrived everywhere", 120)

    def tell(self):
        for s in self.streams:
            print(f"    {s.name} ({s.archive.split(':')[0]}): {s.truth.last} rows, {s.truth.starts[-1] / MIB:.1f} MiB, "
                  f"{sum(w.acked for w in s.writers)} acknowledged, at most {s.largest / MIB:.1f} MiB here; "
                  f"{s.sealer.runs} rounds of sc-seal: {', '.join(f'{v} {k}' for k, v in s.sealer.done.items())}; "
                  f"appends held {s.sealer.held_us} us at most", flush=True)
            print("      lives, rows read: " + ", ".join(f"{w.name.split('.')[1]} {w.lives}, {w.rows}" for w in
                                                         [s.follower, s.cursor] + s.readers) +
                  f"; {sum(w.whole for w in s.readers)} read to the end, {sum(p.proofs for p in s.provers)} proofs, "
                  f"{sum(w.evicted for w in s.readers + [s.follower, s.cursor])} evicted, {s.truth.seams} changes of schema", flush=True)

    def idle(self):
        """What did not happen yet: a soak without it proves little."""
        for s in self.streams:
            done = s.sealer.done
            if not (done["sealed"] and done["uploaded"] and s.sealer.runs):
                return f"{s.name} was not sealed"
            if s.retains and not done["removed"]:
                return f"nothing went from {s.name}"
            for w in s.readers + [s.follower, s.cursor]:
                if not w.rows and not (w.out and w.out.rows):
                    return f"{w.name} read nothing"
            if s.retains and not s.truth.seams:
                return f"the schema of {s.name} did not change"
            if SECONDS >= 60 and not (done["compacted"] and (done["expired"] or not s.retains)):
                return f"nothing was compacted in {s.name}, or went from its archive"
        return None

    def end(self):
        for p in self.peers:
            p.close()
        for w in self.workers:
            w.kill()
        if self.other:
            self.other.terminate()
            self.other.wait()

    def where(self):
        found = {w.name: w.out.next for s in self.streams for w in [s.follower, s.cursor] + s.readers if w.out}
        found.update({f"{s.name} itself": s.truth.last + 1 for s in self.streams})
        found.update({p.name: (p.next, "off" if p.socket is None else "on") for p in self.peers})
        return found


@lab.test
def sealed_and_moved_under_everybody(folder):
    soak = Soak(folder)
    began = time.monotonic()
    try:
        while time.monotonic() - began < SECONDS or (soak.idle() and time.monotonic() - began < 5 * SECONDS):
            soak.round()
        soak.settle()
        soak.tell()
        check(not soak.idle(), soak.idle())
    except Wrong as e:
        raise Wrong(f"seed {SEED}, after {time.monotonic() - began:.1f} s: {e}; {soak.where()}") from e
    finally:
        soak.end()


@lab.test
def lost_and_made_anew_under_readers(folder):
    run_loss(folder, random.Random(SEED), SECONDS / 5)


if __name__ == "__main__":
    if not all(has(p) for p in ("sc-log", "sc-seal", "sc-serve", "sc-sub", "sc-catchup")):
        raise Wrong("the programs are not built in " + BUILD)
    lab.main()
