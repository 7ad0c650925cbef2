#!/usr/bin/env python3
"""Measure the programs against what the machine can do, in one run.

    bench.py [--build DIR] [--rounds N] [--only NAME[,NAME]] [--json FILE] [--tmp DIR]

Each figure is a ratio of medians. The two sides take turns, round by round, so that a machine that is busy is busy for both.
Needs only the build, python3 and a POSIX shell; where redis-server, nats-server, the official Durable Streams server
(tests/interop/setup.sh) or other message brokers (setup.sh here, which run.sh runs) are to be had they are measured as well.
Everything is on loopback and in one temporary folder (on the file system that is to be measured: --tmp).
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from messages import bench_messages
from streams import bench_streams

SCHEMA = {
    "type": "object",
    "properties": {"event_ts": {"type": "integer"}, "price": {"type": "number"}, "amount": {"type": "number"},
                   "side": {"type": "integer", "format": "int32"}, "id": {"type": "integer"}, "sym": {"type": "string"}},
    "required": ["event_ts", "price", "amount", "side", "id", "sym"],
}
BULK_ROWS = 2_000_000
results = []


class Bench:
    """The build's programs, a folder of our own, and the processes that we started."""

    def __init__(self, build, tmp, rounds):
        self.bin = os.path.abspath(os.path.join(build, "bin"))
        self.tools = os.path.abspath(os.path.join(build, "bench"))
        self.rounds = rounds
        self.dir = tempfile.mkdtemp(prefix="sc-bench-", dir=tmp)
        self.children = []

    def path(self, name):
        return os.path.join(self.dir, name)

    def prog(self, name):
        return os.path.join(self.bin, name)

    def tool(self, name):
        return os.path.join(self.tools, name)

    def spawn(self, args, **kw):
        child = subprocess.Popen(args, start_new_session=True, **kw)
        self.children.append(child)
        return child

    def stop(self, child):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        self.children.remove(child)

    def close(self):
        for child in list(self.children):
            self.stop(child)
        shutil.rmtree(self.dir, ignore_errors=True)

    def serve(self, *args, stdin=None):
        """Start sc-serve, wait until it listens; the process and its port."""
        read_fd, write_fd = os.pipe()
        child = self.spawn([self.prog("sc-serve"), "-q", "--listen", "127.0.0.1:0", "--ready-fd", str(write_fd), *args],
                           stdin=stdin or subprocess.DEVNULL, pass_fds=(write_fd,))
        os.close(write_fd)
        with os.fdopen(read_fd) as ready:
            line = ready.readline()
        if not line:
            sys.exit("bench: sc-serve did not start")
        return child, json.loads(line)["port"]

    def fan(self, port, path, *args):
        out = subprocess.run([self.tool("fanbench"), "--port", str(port), "--path", path, "--quiet", *args],
                             stdout=subprocess.PIPE, check=True, timeout=120).stdout
        return json.loads(out)


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def record(name, unit, ours, theirs, against, reach, better="more"):
    """One line of the table: medians of what each side measured, and their ratio."""
    a, b = statistics.median(ours), statistics.median(theirs)
    ratio = a / b if b else float("nan")
    met = "" if reach is None else ("yes" if (ratio >= reach if better == "more" else ratio <= reach) else "NO")
    results.append({"what": name, "unit": unit, "ours": a, "theirs": b, "against": against, "ratio": ratio,
                    "reach": reach, "better": better, "met": met, "rounds": len(ours)})
    print("%-44s %14s %14s  %-34s %6.2f  %s %s" % (name, fmt(a), fmt(b), against, ratio,
          "" if reach is None else ("reach %s%g" % (">=" if better == "more" else "<=", reach)), met), flush=True)


def missing(name, against, why):
    """A line of the table that cannot be filled here."""
    results.append({"what": name, "against": against, "missing": why})
    print("%-44s not measured against %s: %s" % (name, against, why), flush=True)


def fmt(value):
    return "{:,.0f}".format(value) if value >= 100 else "{:.3g}".format(value)


def publish_command(b, seconds, window, go, credit):
    return ("while [ ! -e '%s' ]; do sleep 0.02; done; exec '%s' --secs %g --credit '%s' --window %d --format pair "
            "--size 100 2>/dev/null" % (go, b.tool("pubbench"), seconds, credit, window))


def fan_once(b, side, conns, seconds=2.0):
    """Deliveries a second of the same lines from a pipe, to CONNS subscribers. Lines are made as fast as the slowest takes them."""
    go, credit = b.path("go"), b.path("credit")
    for name in (go, credit):
        if os.path.exists(name):
            os.unlink(name)
    feeder = b.spawn(["sh", "-c", publish_command(b, seconds + 2, 100000, go, credit)], stdout=subprocess.PIPE)
    if side == "limit":
        port = free_port()
        server = b.spawn([b.tool("limit"), "--port", str(port), "--stdin", "--wait", str(conns)], stdin=feeder.stdout,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        path, more = "/", []
    else:
        server, port = b.serve("--max-clients", "0", "feed=-", stdin=feeder.stdout)
        path, more = "/feed", ["--greeting"]
    feeder.stdout.close()
    got = b.fan(port, path, "--conns", str(conns), "--secs", str(seconds), "--warmup", "0.5", "--credit", credit,
                "--ready-file", go, *more)
    b.stop(feeder)
    b.stop(server)
    return got["frames_s"]


def bench_fanout(b):
    for conns in (1, 50, 1000):
        ours, limit = [], []
        for _ in range(b.rounds):
            limit.append(fan_once(b, "limit", conns))
            ours.append(fan_once(b, "serve", conns))
        record("fan-out to %d, messages/s" % conns, "messages/s", ours, limit, "limit --stdin, same lines", 0.8)


def peer_once(b, name, conns, seconds=2.0):
    port = free_port()
    if name == "redis":
        server = b.spawn(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                          "--client-output-buffer-limit", "pubsub", "0", "0", "0"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=b.dir)
    else:
        server = b.spawn(["nats-server", "-a", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, cwd=b.dir)
    time.sleep(0.7)
    credit = b.path("credit-peer")
    if os.path.exists(credit):
        os.unlink(credit)
    pub = "'%s' --proto %s --port %d --secs %g --credit '%s' --window 100000 --format pair --size 100" % (
        b.tool("pubbench"), name, port, seconds + 1, credit)
    got = b.fan(port, "/", "--proto", name, "--conns", str(conns), "--secs", str(seconds), "--warmup", "0.5", "--credit",
                credit, "--pub", pub)
    b.stop(server)
    return got["frames_s"]


def bench_peers(b):
    peers = [n for n, p in (("redis", "redis-server"), ("nats", "nats-server")) if shutil.which(p)]
    if not peers:
        print("(no redis-server or nats-server here: peers are not measured)")
        return
    for conns in (50, 1000):
        ours, theirs = [], {n: [] for n in peers}
        for _ in range(b.rounds):
            ours.append(fan_once(b, "serve", conns))
            for n in peers:
                theirs[n].append(peer_once(b, n, conns))
        best = max(peers, key=lambda n: statistics.median(theirs[n]))
        record("fan-out to %d, messages/s" % conns, "messages/s", ours, theirs[best], "%s, best of %s" % (
            best, ", ".join(peers)), 5)


def bench_append(b):
    """Row in to acknowledged line out, and the floor: the same bytes into zeros, fdatasync. They take turns, row by row."""
    log = b.path("single")
    subprocess.run([b.prog("sc-log"), "-q", "create", log], check=True, stdout=subprocess.DEVNULL)
    child = b.spawn([b.prog("sc-log"), "append", log], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    row = b'{"event_ts":1790038800123456,"price":85565.0,"amount":0.015,"side":0,"id":643660480,"sym":"btcusd"}\n'
    count = 400 * b.rounds
    floor = os.open(b.path("floor"), os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(floor, bytes(512 * (count + 1)), 0)
    os.fsync(floor)
    size = len(row) + 5 + 96  # what a commit of this row writes, with its header
    ours, theirs, at = [], [], 0
    data = b"x" * size
    for _ in range(count):
        t = time.perf_counter()
        child.stdin.write(row)
        child.stdout.read(65536)
        ours.append((time.perf_counter() - t) * 1e6)
        t = time.perf_counter()
        os.pwrite(floor, data, at)
        os.fdatasync(floor)
        theirs.append((time.perf_counter() - t) * 1e6)
        at += size
    os.close(floor)
    b.stop(child)
    record("one durable append, us", "us", ours, theirs, "write into zeros + fdatasync", 1.5, "less")
    return statistics.median(ours)


def bulk_file(b):
    path = b.path("bulk.ndjson")
    if not os.path.exists(path):
        with open(path, "w") as f:
            for i in range(BULK_ROWS):
                f.write('{"event_ts":%d,"price":%d.%02d,"amount":0.%08d,"side":%d,"id":%d,"sym":"btcusd"}\n' % (
                    1790038800123456 + i * 137, 80000 + i % 9000, i % 100, i * 7919 % 100000000, i & 1, 643660480 + i))
    return path


def bench_bulk(b):
    path, schema = bulk_file(b), b.path("schema.json")
    with open(schema, "w") as f:
        json.dump(SCHEMA, f)
    ours, theirs = [], []
    for _ in range(b.rounds):
        log = b.path("bulk")
        shutil.rmtree(log, ignore_errors=True)
        subprocess.run([b.prog("sc-log"), "-q", "create", log, "--schema", schema], check=True)
        t = time.perf_counter()
        subprocess.run("cat '%s' | '%s' append --quiet '%s'" % (path, b.prog("sc-log"), log), shell=True, check=True)
        ours.append(BULK_ROWS / (time.perf_counter() - t))
        t = time.perf_counter()
        subprocess.run("cat '%s' | dd of='%s' bs=1M iflag=fullblock oflag=dsync status=none" % (path, b.path("dd")),
                       shell=True, check=True)
        theirs.append(BULK_ROWS / (time.perf_counter() - t))
        os.unlink(b.path("dd"))
    record("bulk append from a pipe, rows/s", "rows/s", ours, theirs, "the lines, fdatasync each MiB", 0.5)


def bench_replay(b):
    if not os.path.isdir(b.path("bulk")):
        bench_bulk(b)
    ours, theirs = [], []
    for _ in range(b.rounds):
        server, port = b.serve("--ring", "64K", b.path("bulk"))
        got = b.fan(port, "/bulk?offset=1", "--msgs", str(BULK_ROWS), "--greeting", "--idle", "5")
        b.stop(server)
        ours.append(got["frames_s"])
        theirs.append(fan_once(b, "serve", 1))
    record("replay of a journal, rows/s", "rows/s", ours, theirs, "live fan-out to one", 0.5)


def latency_once(b, side, seconds=4.0):
    go = b.path("go")
    if os.path.exists(go):
        os.unlink(go)
    lines = "while [ ! -e '%s' ]; do sleep 0.02; done; exec '%s' --secs %g --rate 1000 --format pair --size 100 2>/dev/null" % (
        go, b.tool("pubbench"), seconds + 1)
    started = []
    if side == "limit":
        port, path, more = free_port(), "/", []
        feeder = b.spawn(["sh", "-c", lines], stdout=subprocess.PIPE)
        started += [feeder, b.spawn([b.tool("limit"), "--port", str(port), "--stdin", "--wait", "50"], stdin=feeder.stdout,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        feeder.stdout.close()
        time.sleep(0.3)
    else:
        log = b.path("lat")
        shutil.rmtree(log, ignore_errors=True)
        subprocess.run([b.prog("sc-log"), "-q", "create", log], check=True)
        feeder = b.spawn(["sh", "-c", "{ %s; } | '%s' append --quiet '%s'" % (lines, b.prog("sc-log"), log)])
        server, port = b.serve(log)
        started += [feeder, server]
        path, more = "/lat", ["--greeting"]
    got = b.fan(port, path, "--conns", "50", "--secs", str(seconds), "--warmup", "1", "--latency", "--ready-file", go, *more)
    for child in started:
        b.stop(child)
    return got


def find(tree, *names):
    for name in names:
        for key, value in tree.items():
            if key == name:
                return value
            if isinstance(value, dict):
                got = find(value, name)
                if got is not None:
                    return got
    return None


def bench_latency(b):
    commit_us = bench_append(b) if not any(r["what"].startswith("one durable") for r in results) else next(
        r["ours"] for r in results if r["what"].startswith("one durable"))
    ours, theirs = {"p50": [], "p99": []}, {"p50": [], "p99": []}
    for _ in range(b.rounds):
        for side, into in (("limit", theirs), ("serve", ours)):
            got = latency_once(b, side)
            for name in ("p50", "p99"):
                value = find(got, "latency_%s_us" % name, "lat_%s_us" % name, name + "_us", name)
                into[name].append(value + (commit_us if side == "limit" else 0))
    record("row in to frame, 50 subscribers, p50 us", "us", ours["p50"], theirs["p50"], "limit --stdin plus a commit", 1.25,
           "less")
    record("row in to frame, 50 subscribers, p99 us", "us", ours["p99"], theirs["p99"], "limit --stdin plus a commit", None,
           "less")


def resident_kb(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def memory_once(b, stalled):
    log = b.path("mem")
    shutil.rmtree(log, ignore_errors=True)
    subprocess.run([b.prog("sc-log"), "-q", "create", log], check=True)
    go = b.path("go")
    if os.path.exists(go):
        os.unlink(go)
    feeder = b.spawn(["sh", "-c", "while [ ! -e '%s' ]; do sleep 0.02; done; exec '%s' --secs 5 --rate 20000 --format pair "
                      "--size 100 2>/dev/null | '%s' append --quiet '%s'" % (go, b.tool("pubbench"), b.prog("sc-log"), log)])
    server, port = b.serve("--max-clients", "0", log)
    b.fan(port, "/mem", "--conns", "1000", "--secs", "4", "--ready-file", go, "--greeting",
          *(["--stall", str(stalled)] if stalled else []))
    kb = resident_kb(server.pid)
    b.stop(feeder)
    b.stop(server)
    return kb


def bench_memory(b):
    ours, theirs = [], []
    for _ in range(max(1, b.rounds // 2)):
        theirs.append(memory_once(b, 0))
        ours.append(memory_once(b, 100))
    record("sc-serve, 1,000 subscribers, 100 stalled, KiB", "KiB", ours, theirs, "1,000 healthy ones", 1.05, "less")


def bench_scan(b):
    ours, theirs = [], []
    for _ in range(b.rounds):
        got = json.loads(subprocess.run([b.tool("scanbench")], stdout=subprocess.PIPE, check=True).stdout)
        ours.append(got["project_ns"])
        theirs.append(got["memcpy_ns"])
    record("scan and project six columns, ns", "ns", ours, theirs, "memcpy of the row", None, "less")
    record("scan and project six columns, ns", "ns", ours, [150.0] * len(ours), "150 ns", 1, "less")


def bench_segments(b):
    got = []
    for _ in range(b.rounds):
        done = subprocess.run([b.tool("sealbench"), b.dir, "1000000"], stdout=subprocess.PIPE, check=True)
        got.append(json.loads(done.stdout))

    def of(name):
        return [one[name] for one in got]

    record("seal to segments, MB/s of lines", "MB/s", of("seal_mb_s"), of("zstd_mb_s"), "zstd -3 of the same lines", 0.8)
    record("read segments, MB/s of lines", "MB/s", of("read_mb_s"), of("unzstd_mb_s"), "unpack and count lines", 0.5)
    record("a row in segments, bytes", "B", of("row_bytes"), of("zstd_row_bytes"), "zstd -3 of all lines", 1.1, "less")
    record("a row in segments, bytes", "B", of("row_bytes"), of("raw_row_bytes"), "the lines themselves", None, "less")
    record("open a segment, first row anywhere, ns", "ns", of("first_row_ns"), [5e6] * len(got), "5 ms", 1, "less")


def sealed_log(b, name, rows):
    """A log of that many rows, all of them in segments."""
    log = b.path(name)
    if os.path.isdir(log):
        return log
    path = bulk_file(b)
    subprocess.run([b.prog("sc-log"), "-q", "create", log], check=True)
    for at in range(0, rows, BULK_ROWS):
        take = min(BULK_ROWS, rows - at)
        subprocess.run("head -n %d '%s' | '%s' append --quiet '%s'" % (take, path, b.prog("sc-log"), log), shell=True, check=True)
        subprocess.run([b.prog("sc-seal"), "--force", log], check=True)
    return log


def bench_first(b):
    """The first row of a read at a random offset, in a large log and in a small one, in turns (firstbench)."""
    large, small = sealed_log(b, "large", 10_000_000), sealed_log(b, "small", 100_000)
    got = []
    for _ in range(b.rounds):
        done = subprocess.run([b.tool("firstbench"), b.prog("sc-log"), large, small, "400", "100"], stdout=subprocess.PIPE, check=True)
        got.append(json.loads(done.stdout))
    for how, words in (("log", "first row of 10 M, opened for it"), ("process", "first row of 10 M, sc-log read")):
        for what in ("mean", "p50", "p99", "worst"):
            ours, theirs = ([one["%s_%s" % (size, how)][what + "_us"] for one in got] for size in ("large", "small"))
            record("%s, %s us" % (words, what), "us", ours, theirs, "the same of 100,000 rows", 1.25 if what == "p50" else None, "less")
            if what in ("p50", "p99"):
                record("%s, %s us" % (words, what), "us", ours, [5000.0] * len(ours), "5 ms", 1, "less")


def lines_a_second(command, rows):
    t = time.perf_counter()
    done = subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE)
    if int(done.stdout) != rows:
        sys.exit("bench: %s of %d lines came" % (done.stdout.decode().strip(), rows))
    return rows / (time.perf_counter() - t)


def bench_sealed_replay(b):
    """All rows of a sealed log: by sc-log read, by a server, and as anybody would unpack them."""
    log, rows = sealed_log(b, "half", BULK_ROWS), BULK_ROWS
    if not shutil.which("zstdcat"):
        print("(no zstdcat here: reading segments is not compared with it)")
        return
    ours, served, theirs = [], [], []
    for _ in range(b.rounds):
        theirs.append(lines_a_second("zstdcat '%s'/sealed/*.zst | wc -l" % log, rows))
        ours.append(lines_a_second("'%s' read '%s' | wc -l" % (b.prog("sc-log"), log), rows))
        server, port = b.serve("--ring", "64K", log)
        got = b.fan(port, "/half?offset=1", "--msgs", str(rows), "--greeting", "--idle", "5")
        b.stop(server)
        served.append(got["frames_s"])
    record("sc-log read of segments, rows/s", "rows/s", ours, theirs, "zstdcat sealed/*.zst | wc -l", 0.5)
    record("replay of segments to one, rows/s", "rows/s", served, theirs, "zstdcat sealed/*.zst | wc -l", None)


class Sealing:
    """sc-seal without a pause, while something else is measured: what it says of itself is in held_us."""

    def __init__(self, b, log):
        self.command = [b.prog("sc-seal"), "--json", "--force", "--keep-local", "16M", log]
        self.held_us, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.is_set():
            done = subprocess.run(self.command, stdout=subprocess.PIPE, check=True)
            self.held_us.append(json.loads(done.stdout)["held_us"])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def append_one_by_one(child, row, seconds):
    """Row in to acknowledged line out, again and again: how long each took, in us."""
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter()
        child.stdin.write(row)
        child.stdout.read(65536)
        took.append((time.perf_counter() - t) * 1e6)
    return sorted(took)


def bench_pause(b):
    """What an appender of single rows waits, beside one that brings 20,000 a second, with sc-seal all the time and without it."""
    log, row = b.path("pause"), b'{"event_ts":1790038800123456,"price":85565.0,"amount":0.015,"side":0,"id":643660480,"sym":"btcusd"}\n'
    subprocess.run([b.prog("sc-log"), "-q", "create", log], check=True)
    feeder = b.spawn(["sh", "-c", "'%s' --secs %d --rate 20000 2>/dev/null | '%s' append --quiet '%s'" % (
        b.tool("pubbench"), 10 * b.rounds + 60, b.prog("sc-log"), log)])
    child = b.spawn([b.prog("sc-log"), "append", log], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    quiet, sealing, held = [], [], []
    append_one_by_one(child, row, 1)
    for _ in range(b.rounds):
        quiet.append(append_one_by_one(child, row, 2))
        with Sealing(b, log) as seals:
            sealing.append(append_one_by_one(child, row, 2))
        held.append(max(seals.held_us))
    if feeder.poll() is not None:
        sys.exit("bench: the other appender ended")
    b.stop(child)
    b.stop(feeder)
    for name, at in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0)):
        ours, theirs = ([one[min(int(len(one) * at), len(one) - 1)] for one in side] for side in (sealing, quiet))
        record("append of one row during seals, %s us" % name, "us", ours, theirs, "the same without seals", None, "less")
    record("longest transaction of a seal, us", "us", held, [one[len(one) // 2] for one in quiet], "append of one row, p50", None, "less")


BENCHES = {"fanout": bench_fanout, "peers": bench_peers, "append": bench_append, "bulk": bench_bulk, "replay": bench_replay,
           "latency": bench_latency, "memory": bench_memory, "scan": bench_scan, "segments": bench_segments,
           "sealed_replay": bench_sealed_replay, "first": bench_first, "pause": bench_pause,
           "streams": lambda b: bench_streams(b, record), "messages": lambda b: bench_messages(b, record, missing)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build")
    p.add_argument("--tmp", default=None, help="folder on the file system to measure")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default=",".join(BENCHES), help="of " + ", ".join(BENCHES))
    p.add_argument("--json", help="write the figures to this file as well")
    o = p.parse_args()
    b = Bench(o.build, o.tmp, o.rounds)
    try:
        print("%-44s %14s %14s  %-34s %6s" % ("what", "ours", "theirs", "against", "ratio"))
        for name in o.only.split(","):
            BENCHES[name](b)
    finally:
        b.close()
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"cpus": os.cpu_count(), "figures": results}, f, indent=1)
    return 0


sys.exit(main())
