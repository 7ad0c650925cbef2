"""world.py: a server to test, and a runner of tests.

The server is sc-streams; with SC_STREAMS_REFERENCE=1 it is the official Node server, laid by tests/interop/setup.sh. There a test that
is marked @differs("why") must fail: this shows that the test can, and that the known faults of that server are tested for.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "fault"))
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from lab import BIN, LIMIT_S, ROOT, Wrong, check, environment, read_ready  # noqa: E402
from web import ALLOWED, EXPOSED, METHODS, PREFIX, Sse, Wire, request  # noqa: E402

REFERENCE = os.environ.get("SC_STREAMS_REFERENCE") == "1"
INTEROP = os.environ.get("SC_INTEROP", os.path.join(ROOT, "build", "interop"))
THREADS = int(os.environ.get("SC_TEST_THREADS", "8"))


class Server:
    """A server in a process of its own, in a folder; the folder stays when it ends."""

    def __init__(self, folder, *options, long_poll_ms=10000, env=None, preexec_fn=None):
        self.folder, self.options, self.long_poll_ms = folder, list(options), long_poll_ms
        self.data = os.path.join(folder, "streams")
        self.env, self.preexec_fn = env, preexec_fn
        self.port, self.process, self.lives = 0, None, 0
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def argv(self, fd):
        if REFERENCE:
            check(not self.options, "the reference server has no options:", self.options)
            os.makedirs(self.data, exist_ok=True)
            return [os.path.join(INTEROP, "durable", "bin", "node"), os.path.join(INTEROP, "durable", "reference.mjs"), self.data, str(self.port), str(fd),
                    str(self.long_poll_ms)]
        return [os.path.join(BIN, "sc-streams"), self.data, "--listen", f"127.0.0.1:{self.port}", "--ready-fd", str(fd),
                "--long-poll", f"{self.long_poll_ms}ms", *self.options]

    def start(self):
        """Start (again), on the same port."""
        self.lives += 1
        ready, give = os.pipe()
        with open(os.path.join(self.folder, "server.log"), "ab") as log:
            self.process = subprocess.Popen(self.argv(give), stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(give,),
                                            env=environment(self.env), preexec_fn=self.preexec_fn)
        os.close(give)
        try:
            line = read_ready(ready)
        finally:
            os.close(ready)
        if line is None:
            self.kill()
            raise Wrong("the server did not start:", self.log()[-1500:])
        self.port = line["port"]

    def log(self):
        with open(os.path.join(self.folder, "server.log"), "rb") as f:
            return f.read().decode(errors="replace")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self, limit_s=LIMIT_S):
        """Ask it to end; its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired as e:
            self.kill()
            raise Wrong("the server did not end:", self.log()[-1000:]) from e

    def memory_kb(self, which="RssAnon"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(which))

    def files_open(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def check_every(r, target="/"):
    """What each answer of ours must have."""
    if REFERENCE:
        return
    for name, value in (("Access-Control-Allow-Origin", "*"), ("X-Content-Type-Options", "nosniff"),
                        ("Cross-Origin-Resource-Policy", "cross-origin"), ("Access-Control-Allow-Methods", METHODS)):
        check(r.get(name) == value, name, "is", r.get(name), "in", r)
    for name, words in (("Access-Control-Allow-Headers", ALLOWED), ("Access-Control-Expose-Headers", EXPOSED)):
        got = {w.strip().lower() for w in (r.get(name) or "").split(",")}
        check({w.lower() for w in words} <= got, name, "lacks", [w for w in words if w.lower() not in got])
    check(not [n for n in r.names() if n.startswith("stream-fork")], "a fork's field in", r)
    if r.status >= 400 and not target.startswith(PREFIX + "__ds"):
        check((r.get("Content-Type") or "").startswith("text/plain"), "an error of type", r.get("Content-Type"), r)
        check(len(r.body) < 500 and not re.search(rb"<html|<body", r.body, re.I), "an error with a page:", r.body[:100])
    check(r.status != 500, "status 500:", r)


class Stream:
    """A stream by its path, on a connection of its own."""

    def __init__(self, place, target):
        self.place, self.target = place, target
        self.wire, self.life = None, 0

    def ask(self, method, fields=(), body=None, query="", status=None, **kw):
        """One request; status: what it must be answered with, a number or several."""
        data = request(method, self.target + query, fields, body, **kw)
        if self.wire is None or self.life != self.place.server.lives:
            self.wire, self.life = self.place.wire(), self.place.server.lives
        try:
            self.wire.send(data)
            r = self.wire.reply(method)
        except Exception:
            self.wire = None
            raise
        if (r.get("Connection") or "").lower() == "close":
            self.wire.close()
            self.wire = None
        check_every(r, self.target)
        if status is not None:
            wanted = status if isinstance(status, tuple) else (status,)
            check(r.status in wanted, method, self.target[:100] + query, dict(fields) if fields else "", (body or b"")[:60], "gave",
                  r.status, r.body[:200], "not", status)
        return r

    def put(self, fields=(), body=None, status=201, **kw):
        return self.ask("PUT", fields, body if body is not None else b"", status=status, **kw)

    def post(self, body=b"", fields=(), status=None, kind="text/plain", **kw):
        fields = list(fields.items() if isinstance(fields, dict) else fields)
        if kind is not None and body and not [n for n, _ in fields if n.lower() == "content-type"]:
            fields.append(("Content-Type", kind))
        return self.ask("POST", fields, body, status=status if status is not None else (200, 204), **kw)

    def close(self, fields=(), status=204, **kw):
        fields = list(fields.items() if isinstance(fields, dict) else fields)
        return self.post(b"", fields + [("Stream-Closed", "true")], status=status, **kw)

    def get(self, offset=None, fields=(), status=200, live=None, **kw):
        parts = ([f"offset={offset}"] if offset is not None else []) + ([f"live={live}"] if live else [])
        return self.ask("GET", fields, query="?" + "&".join(parts) if parts else "", status=status, **kw)

    def poll(self, offset, status=200, **kw):
        return self.get(offset, status=status, live="long-poll", **kw)

    def head(self, status=200, **kw):
        return self.ask("HEAD", status=status, **kw)

    def delete(self, status=204, **kw):
        return self.ask("DELETE", status=status, **kw)

    def sse(self, offset="-1", fields=(), more="", **kw):
        return Sse(self.place.port, f"{self.target}?offset={offset}&live=sse{more}", fields, **kw)

    def all(self, kind=None):
        """All bytes, over all pages."""
        offset, parts = "-1", []
        while True:
            r = self.get(offset)
            parts.append(r.body)
            check(offset == "-1" or r.next >= offset, "the offset goes back from", offset, "to", r.next)
            if r.fresh:
                break
            offset = r.next
        if kind == "json":
            return [m for p in parts for m in json.loads(p)]
        return b"".join(parts)

    def waiter(self, offset, fields=()):
        """A long-poll that has begun to wait."""
        w = self.place.wire()
        w.send(request("GET", f"{self.target}?offset={offset}&live=long-poll", fields))
        check(w.quiet(0.15), "the long-poll did not wait:", self.target)
        return w


class Place:
    """What a test is given: a server, and a corner of it that is its own."""

    def __init__(self, server, name, folder):
        self.server, self.name, self.folder, self.number = server, name, folder, 0

    @property
    def port(self):
        return self.server.port

    def wire(self, **kw):
        return Wire(self.port, **kw)

    def stream(self, name=None):
        if name is None:
            self.number += 1
            name = str(self.number)
        return Stream(self, f"{PREFIX}{self.name}/{name}")

    def at(self, target):
        return Stream(self, target)

    def text(self, *messages, fields=(), kind="text/plain"):
        """A new stream with these messages, one append each."""
        s = self.stream()
        s.put([("Content-Type", kind), *(fields.items() if isinstance(fields, dict) else fields)])
        for m in messages:
            s.post(m, kind=kind)
        return s

    def json(self, *bodies, fields=()):
        return self.text(*bodies, fields=fields, kind="application/json")

    def fork(self, source, fields=(), status=201, body=None, name=None):
        f = self.stream(name)
        fields = list(fields.items() if isinstance(fields, dict) else fields)
        f.put([("Stream-Forked-From", source.target), *fields], body, status=status)
        return f


class Suite:
    def __init__(self):
        self.tests = []

    def test(self, function=None, differs=None, ours=False, **server):
        """A test of the shared server; with a keyword of Server, of one of its own.

        differs: why the reference server fails it. ours: it needs what the reference server has not, or is too slow for.
        """
        def add(f):
            self.tests.append((f, differs, ours, server))
            return f
        return add(function) if function else add

    def run_one(self, entry, shared, top, suffix=""):
        function, differs, _, options = entry
        name = function.__name__ + suffix
        folder = os.path.join(top, name)
        os.makedirs(folder)
        began = time.monotonic()
        try:
            if options:
                options = dict(options)
                with Server(folder, *options.pop("options", ()), **options) as server:
                    function(Place(server, name, folder))
                    check(server.process.poll() is None, "the server ended:", server.log()[-1500:])
            else:
                function(Place(shared, name, folder))
                check(shared.process.poll() is None, "the server ended:", shared.log()[-1500:])
            why = None
        except Wrong as e:
            why = str(e)
        except Exception as e:  # a fault of the test itself counts as one
            why = f"{type(e).__name__}: {e}\n{traceback.format_exc()}"
        shutil.rmtree(folder, ignore_errors=True)
        took = f"({time.monotonic() - began:.1f} s)"
        if REFERENCE and differs:
            if why is None:
                return False, f"FAILED {function.__name__}: passes, though the reference server is said to differ: {differs}"
            return True, f"ok {function.__name__} {took} fails as it must: {differs}: {why.splitlines()[0][:200]}"
        if why is None:
            return True, f"ok {function.__name__} {took}"
        return False, f"FAILED {function.__name__} {took}: {why}"

    def main(self):
        names = [t[0].__name__ for t in self.tests]
        check(len(names) == len(set(names)), "two tests have one name:", {n for n in names if names.count(n) > 1})
        wanted = sys.argv[1:]
        chosen = [t for t in self.tests if not wanted or any(w in t[0].__name__ for w in wanted)]
        if REFERENCE:
            chosen = [t for t in chosen if not t[2]]
        top = os.path.realpath(tempfile.mkdtemp(prefix="sc-streams."))
        passed = failed = 0
        again = []  # the reference server is slow where the machine is busy: once more, alone
        lock = threading.Lock()

        def one(entry, last=not REFERENCE):
            nonlocal passed, failed
            good, line = self.run_one(entry, shared, top, ".again" if REFERENCE and last else "")
            with lock:
                if not good and not last:
                    again.append(entry)
                    print(line.replace("FAILED", "once more:", 1), flush=True)
                    return
                passed, failed = passed + good, failed + (not good)
                print(line, flush=True)

        shared_folder = os.path.join(top, "shared.server")
        os.mkdir(shared_folder)
        try:
            with Server(shared_folder) as shared:
                with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
                    list(pool.map(one, chosen))
                for entry in again:
                    one(entry, last=True)
                if not REFERENCE:
                    status = shared.end()
                    if status != 0:
                        failed += 1
                        print("FAILED the server's end: status", status, shared.log()[-3000:])
        except Wrong as e:
            failed += 1
            print("FAILED", e)
        shutil.rmtree(top, ignore_errors=True)
        print(f"{os.path.basename(sys.argv[0])}: {passed} passed, {failed} failed", flush=True)
        sys.exit(failed != 0)


suite = Suite()
test = suite.test
