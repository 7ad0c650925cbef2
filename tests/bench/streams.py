"""streams.py: sc-streams beside the official Node reference server with its file store (rows of bench.py)."""
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
INTEROP = os.environ.get("SC_INTEROP", os.path.join(ROOT, "build", "interop"))
NODE = os.path.join(INTEROP, "durable", "bin", "node")
REFERENCE = os.path.join(INTEROP, "durable", "reference.mjs")
NAME = "reference server, file store"


class Server:
    """One of the two, on an empty folder. Both answer an append after an fdatasync of what it wrote: sc-streams of its database, for all
    appends that wait, the reference server of the stream's file, with a commit of its own database behind it that is not waited for
    on disk."""

    def __init__(self, b, side):
        self.b, self.side = b, side
        self.data = b.path("streams-" + side)
        shutil.rmtree(self.data, ignore_errors=True)
        os.makedirs(self.data)
        ready, give = os.pipe()
        if side == "ours":
            args = [b.prog("sc-streams"), self.data, "--listen", "127.0.0.1:0", "--ready-fd", str(give), "--long-poll", "30s"]
        else:
            args = [NODE, REFERENCE, self.data, "0", str(give), "30000"]
        self.child = b.spawn(args, pass_fds=(give,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(give)
        with os.fdopen(ready) as f:
            line = f.readline()
        if not line:
            sys.exit("bench: " + args[0] + " did not start")
        self.port = json.loads(line)["port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.b.stop(self.child)
        shutil.rmtree(self.data, ignore_errors=True)

    def load(self, mode, base, *args):
        out = subprocess.run([self.b.tool("streamsbench"), mode, "--port", str(self.port), "--base", "/v1/stream/" + base, *map(str, args)],
                             stdout=subprocess.PIPE, check=True, timeout=300).stdout
        return json.loads(out)

    def anonymous_kb(self):
        """What it holds itself; pages of files that it has mapped are the system's to keep or drop."""
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))


def floor_mb_s(b, secs=2.0):
    """What the disk takes: a file that grows by 8 MB at a time, each on disk before the next. No durable server can be faster for long."""
    path, block = b.path("floor"), os.urandom(8000000)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    began, written = time.perf_counter(), 0
    while time.perf_counter() - began < secs:
        os.pwrite(fd, block, written)
        os.fdatasync(fd)
        written += len(block)
    took = time.perf_counter() - began
    os.close(fd)
    os.unlink(path)
    return written / took / 1e6


def measure(b, side):
    """All figures of one server, in one life of it."""
    got = {}
    with Server(b, side) as s:
        got["one"] = s.load("append", "one", "--secs", 2, "--flight", 75)["appends_s"]
        got["many"] = s.load("append", "many", "--secs", 2, "--flight", 75, "--streams", 100)["appends_s"]
        got["large"] = s.load("append", "large", "--secs", 2, "--flight", 8, "--size", 1000000)["mb_s"]
        got["read"] = s.load("read", "read", "--secs", 2, "--size", 100000, "--total", 64 << 20)["read_mb_s"]
        latency = s.load("latency", "latency", "--count", 500)["latency_us"]
        got["p50"], got["p99"] = latency["p50"], latency["p99"]
    with Server(b, side) as s:
        before = s.anonymous_kb()
        s.load("create", "idle", "--streams", 10000, "--flight", 75)
        got["idle"], got["whole"] = s.anonymous_kb() - before, s.anonymous_kb()
    return got


def bench_streams(b, record):
    if not os.path.exists(REFERENCE):
        print("(tests/interop/setup.sh lays the reference server: sc-streams is not measured beside it)")
        return
    ours, theirs, floor = [], [], []
    for _ in range(b.rounds):
        theirs.append(measure(b, "reference"))
        floor.append(floor_mb_s(b))
        ours.append(measure(b, "ours"))

    def row(what, unit, name, reach, better="more"):
        record(what, unit, [o[name] for o in ours], [t[name] for t in theirs], NAME, reach, better)

    row("append to its long-poll, p50 us", "us", "p50", 1, "less")
    row("append to its long-poll, p99 us", "us", "p99", 1, "less")
    row("appends/s, 75 at once, one stream", "1/s", "one", 5)
    row("appends/s, 75 at once, 100 streams", "1/s", "many", 5)
    row("appends of 1 MB, MB/s", "MB/s", "large", 5)
    record("appends of 1 MB, MB/s", "MB/s", [o["large"] for o in ours], floor, "8 MB at a time and fdatasync", 0.8)
    row("catch-up, MB/s", "MB/s", "read", 5)
    row("10,000 idle streams, KiB more", "KiB", "idle", 1, "less")
    row("with 10,000 idle streams, KiB", "KiB", "whole", 1, "less")
