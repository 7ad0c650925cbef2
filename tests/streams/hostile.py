"""hostile.py: HTTP as it should not be, and more of it than is good.

Goal    whatever comes has its exact outcome, costs neither memory nor descriptors nor the server's life, and the others notice nothing.
Method  raw sockets; in every test a good writer and a good reader are at work on a stream of their own, and must never wait long.
        The crowd is of 10,000 long-polls and 1,000 event streams (400 and 100 when sanitized): this process and the server need 11,100
        open files each. Where the hard limit is lower the crowd is as large as it allows, and the test says so; with SC_HOSTILE=full
        it fails.
"""

import json
import os
import random
import resource
import selectors
import socket
import subprocess
import threading
import time

from world import METHODS, Place, Server, check  # noqa: F401  (world first: it says where lab is)
from lab import BUILD, Lab, Wrong, sanitized
from web import Gone, Wire, after, request, until
from world import PREFIX, check_every

lab = Lab()
FULL = os.environ.get("SC_HOSTILE") == "full"
POLLS, READERS = (400, 100) if sanitized() and not FULL else (10000, 1000)
PATIENCE_S = 15 if sanitized() else 5


class World:
    """A server with a good writer and a good reader."""

    def __init__(self, folder, *options, **kw):
        self.server = Server(folder, *options, **kw)
        self.place = Place(self.server, "hostile", folder)
        self.port = self.server.port
        self.good = self.place.stream("good")
        self.good.put({"Content-Type": "text/plain"})
        self.stop = threading.Event()
        self.wrong, self.slowest, self.wrote, self.read = [], 0, [], b""
        self.threads = [threading.Thread(target=self.guard, args=(f,), daemon=True) for f in (self.write, self.follow)]

    def guard(self, function):
        try:
            function()
        except BaseException as e:
            self.wrong.append(f"{function.__name__}: {type(e).__name__} {e}")

    def write(self):
        s, n = self.place.at(self.good.target), 0
        while not self.stop.is_set():
            began = time.monotonic()
            s.post(b"%08d" % n)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.wrote.append(b"%08d" % n)
            n += 1
            time.sleep(0.005)
        s.close()

    def follow(self):
        s, offset = self.place.at(self.good.target), "-1"
        while True:
            r = s.poll(offset, status=(200, 204))
            self.read += r.body
            offset = r.next
            if r.closed:
                return

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, kind, *_):
        self.stop.set()
        try:
            if kind is None:
                for t in self.threads:
                    t.join(60)
                check(not self.wrong, self.wrong, self.server.log()[-1500:])
                check(self.read == b"".join(self.wrote), "the good reader has", len(self.read), "bytes of", 8 * len(self.wrote))
                check(self.slowest < PATIENCE_S, "the good writer waited", self.slowest, "s")
                status = self.server.end()
                check(status == 0, "the server ended with", status, self.server.log()[-3000:])
                check("ERROR: AddressSanitizer" not in self.server.log() and "runtime error" not in self.server.log(), self.server.log()[-3000:])
        finally:
            self.server.kill()

    def files_back(self, before, slack=3):
        end = time.monotonic() + 30
        while self.server.files_open() > before + slack:
            check(time.monotonic() < end, "descriptors are not given back:", self.server.files_open(), "of", before)
            time.sleep(0.05)

    def memory_below(self, kb, what):
        check(sanitized() or self.server.memory_kb() <= kb, "memory grew to", self.server.memory_kb(), "KiB, not", kb, "with", what)


def ask_raw(w, data, close=False):
    """The answer to these bytes on a connection of their own; with close, the server must hang up after it."""
    with w.place.wire(limit_s=30) as c:
        try:
            c.send(data)
        except Gone:
            pass
        r = c.reply()
        if close:
            rest = c.ended()
            check(rest == b"", "more came before the end:", rest[:200])
        return r


def head(method, target, *lines):
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: h", *lines, "", ""]).encode("latin-1")


@lab.test
def pipelined_requests_are_answered_in_order(folder):
    with World(folder) as w:
        s = w.place.text()
        for rounds in (5, 60):
            base = position_of(s)
            data, sizes = b"", []
            for n in range(rounds):
                body = b"%d." % n * (n % 7 + 1)
                data += request("POST", s.target, {"Content-Type": "text/plain"}, body if n % 2 else [body[:1], body[1:]])
                sizes.append(body)
            data += request("GET", s.target) + request("GET", s.target + "?offset=bad") + request("GET", s.target) + request("HEAD", s.target)
            with w.place.wire() as c:
                c.send(data)
                for n in range(rounds):
                    r = c.reply()
                    check(r.status == 204 and r.next == after(*sizes[:n + 1], start=base), n, r)
                first, bad, last, heads = c.reply(), c.reply(), c.reply(), c.reply("HEAD")
                check(first.body.endswith(b"".join(sizes)) and bad.status == 400 and last.body == first.body, first, bad, last)
                check(heads.status == 200 and heads.next == first.next, heads)


def position_of(s):
    return int(s.head().next[17:])


@lab.test
def pipelined_dependent_requests(folder):
    """Each request sees what the one before it on the connection did."""
    with World(folder) as w:
        target = w.place.stream().target
        producer = {"Content-Type": "text/plain", "Producer-Id": "p", "Producer-Epoch": "0"}
        requests = [("PUT", {"Content-Type": "text/plain"}, b"", 201), ("POST", {"Content-Type": "text/plain"}, b"a", 204), ("GET", {}, None, 200)]
        requests += [("POST", {**producer, "Producer-Seq": str(n)}, b"b", 200) for n in range(5)]
        requests += [("POST", {**producer, "Producer-Seq": "3"}, b"b", 204), ("POST", {"Stream-Closed": "true"}, b"", 204),
                     ("POST", {"Content-Type": "text/plain"}, b"x", 409), ("GET", {}, None, 200), ("DELETE", {}, None, 204), ("GET", {}, None, 404),
                     ("PUT", {"Content-Type": "text/plain"}, b"new", 201), ("GET", {}, None, 200)]
        with w.place.wire() as c:
            c.send(b"".join(request(m, target, f, b) for m, f, b, _ in requests))
            bodies = []
            for m, f, b, status in requests:
                r = c.reply(m)
                check(r.status == status, m, f, b, "gave", r)
                bodies += [r.body] if m == "GET" and r.status == 200 else []
            check(bodies == [b"a", b"abbbbb", b"new"], bodies)


@lab.test
def a_long_poll_holds_up_its_own_connection_alone(folder):
    with World(folder) as w:
        s = w.place.text(b"one")
        with w.place.wire() as c:
            c.send(request("GET", s.target + "?offset=now&live=long-poll") + request("GET", s.target) + request("HEAD", s.target))
            check(c.quiet(0.3), "out of order")
            s.post(b"two")
            check(c.reply().body == b"two" and c.reply().body == b"onetwo" and c.reply("HEAD").status == 200, "the order")


@lab.test
def bodies_in_chunks(folder):
    with World(folder) as w:
        s = w.place.text()
        good = [b"5\r\nhello\r\n0\r\n\r\n", b"5;ext=1;e2=\"a b\"\r\nhello\r\n0;last\r\n\r\n", b"2\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\nStream-Closed: true\r\n\r\n",
                b"0005\r\nhello\r\n000\r\n\r\n", b"1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n"]
        start = head("POST", s.target, "Content-Type: text/plain", "Transfer-Encoding: chunked")
        for data in good:
            for slow in (False, True):
                with w.place.wire() as c:
                    if slow:
                        for i in range(0, len(start + data), 3):
                            c.send((start + data)[i:i + 3])
                            time.sleep(0.001)
                    else:
                        c.send(start + data)
                    r = c.reply()
                    check(r.status == 204 and r.closed is None, data, r)
                    check(c.ask("HEAD", s.target).status == 200, "the next request", data)
        check(s.all() == b"hello" * 2 * len(good), s.all()[:100])
        check(w.place.at(s.target).ask("POST", {"Content-Type": "text/plain", "TE": "trailers"}, [b"x" * 100000] * 5).status == 204, "large")
        for bad in (b"x\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffffff\r\nhello\r\n", b"5\r\nhelloXX0\r\n\r\n", b"\r\n\r\n", b"5 5\r\nhello\r\n0\r\n\r\n",
                    b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n"):
            before = s.head().next
            with w.place.wire(limit_s=20) as c:
                c.send(start + bad)
                c.sock.shutdown(socket.SHUT_WR)
                got = c.ended()
                check(got == b"" or got.startswith(b"HTTP/1.1 400") or got.startswith(b"HTTP/1.1 413"), bad, "gave", got[:100])
            check(s.head().next == before, bad, "stored something")


@lab.test
def both_lengths_are_refused_and_the_connection_is_closed(folder):
    with World(folder) as w:
        s = w.place.text()
        smuggled = request("DELETE", s.target)
        for lines in (("Content-Length: 5", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 5"),
                      ("Content-Length: 0", "Transfer-Encoding: chunked"), ("content-length: 5", "transfer-encoding: CHUNKED")):
            for method in ("POST", "PUT"):
                data = head(method, s.target, "Content-Type: text/plain", *lines) + b"5\r\nhello\r\n0\r\n\r\n" + smuggled
                with w.place.wire(limit_s=20) as c:
                    c.send(data)
                    r = c.reply()
                    check(r.status == 400, lines, r)
                    rest = c.ended()
                    check(rest == b"", "a request that was smuggled in was answered:", rest[:100])
        check(s.all() == b"", s.all())


@lab.test
def lengths_that_are_none(folder):
    with World(folder) as w:
        s = w.place.text()
        for value in ("-1", "+5", "5 5", "5,5", "abc", "0x5", "", "99999999999999999999999999", "5\r\nContent-Length: 6", "1e1", "5;"):
            with w.place.wire(limit_s=20) as c:
                c.send(head("POST", s.target, "Content-Type: text/plain", f"Content-Length: {value}") + b"hello" + request("DELETE", s.target))
                c.sock.shutdown(socket.SHUT_WR)
                got = c.ended()
                check(got == b"" or got.split(b" ")[1] in (b"400", b"413"), repr(value), "gave", got[:200])
                check(got.count(b"HTTP/1.1 ") <= 1, repr(value), "was followed by another answer", got)
        check(s.all() == b"", s.all())
        for coding in ("gzip", "chunked, gzip", "identity", "xchunked", "gzip, chunked"):
            with w.place.wire(limit_s=20) as c:
                c.send(head("POST", s.target, "Content-Type: text/plain", f"Transfer-Encoding: {coding}") + b"5\r\nhello\r\n0\r\n\r\n")
                c.sock.shutdown(socket.SHUT_WR)
                got = c.ended()
                check(got == b"" or got.split(b" ")[1] in (b"400", b"501"), coding, "gave", got[:200])
        check(s.all() == b"", s.all())


@lab.test
def broken_heads(folder):
    with World(folder) as w:
        s = w.place.text(b"one")
        before = w.server.files_open()
        for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"\xff" * 200 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n",
                     b"GET / HTTP/9.9\r\nHost: h\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\nA: \0\r\nHost: h\r\n\r\n",
                     b"GET / HTTP/1.1\n\n", b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 200, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"GET /v1/stream/a b HTTP/1.1\r\nHost: h\r\n\r\n", b"G\0T / HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /v1/stream/\xc3\xa9\xff HTTP/1.1\r\nHost: h\r\n\r\n",
                     b"GET http://h/v1/stream/none HTTP/1.1\r\nHost: h\r\n\r\n", b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"):
            with w.place.wire(limit_s=20) as c:
                c.send(data)
                c.sock.shutdown(socket.SHUT_WR)
                try:
                    got = c.ended()
                except Wrong:
                    raise Wrong("held open:", data)
                check(got == b"" or (got[:9] == b"HTTP/1.1 " and got[9:10] in b"24" or got[9:12] == b"505"), data, "gave", got[:200])
        # a request without Host is not HTTP/1.1; one of HTTP/1.0 is answered and the connection closed
        check(ask_raw(w, f"GET {s.target} HTTP/1.1\r\n\r\n".encode()).status == 400, "no Host")
        r = ask_raw(w, f"GET {s.target} HTTP/1.0\r\n\r\n".encode(), close=True)
        check(r.status == 200 and r.body == b"one", r)
        w.files_back(before)


@lab.test
def garbage(folder):
    with World(folder) as w:
        dice = random.Random(7)
        before = w.server.files_open()
        target = w.place.stream().target
        whole = request("POST", target, {"Content-Type": "text/plain", "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}, [b"hello", b"world"])
        for n in range(300):
            data = bytearray(whole if n % 3 else dice.randbytes(dice.randrange(1, 2000)))
            for _ in range(dice.randrange(1, 6)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            with w.place.wire(limit_s=20) as c:
                try:
                    c.send(bytes(data))
                    c.sock.shutdown(socket.SHUT_WR)
                except (Gone, OSError):
                    continue
                got = c.ended()
                check(got == b"" or got.startswith(b"HTTP/1.1 "), bytes(data), "gave", got[:100])
        w.files_back(before)


@lab.test
def heads_that_are_too_large(folder):
    with World(folder) as w:
        s = w.place.text(b"one")
        memory, files = w.server.memory_kb(), w.server.files_open()
        for lines in (["X: " + "y" * 100000], [f"X{i}: {'y' * 90}" for i in range(1000)], ["X" * 100000 + ": y"], ["Cookie: " + "y" * 1000000],
                      ["Producer-Id: " + "p" * 100000, "Producer-Epoch: 0", "Producer-Seq: 0"]):
            r = ask_raw(w, head("GET", s.target, *lines))
            check(r.status == 431, len(lines[0]), r)
            check_every(r, s.target)
        r = ask_raw(w, head("GET", s.target, *[f"X{i}: y" for i in range(100)], "X: " + "y" * 8000))
        check(r.status == 200, "a head of 9 KB", r)
        # one that never ends
        with w.place.wire(limit_s=30) as c:
            try:
                c.send(head("GET", s.target)[:-2])
                for _ in range(4000):
                    c.send(b"X-More: " + b"y" * 1000 + b"\r\n")
            except Gone:
                pass
            got = c.ended()
            check(got == b"" or b" 431 " in got[:20], got[:100])
        w.files_back(files)
        w.memory_below(memory + 8192, "large heads")


@lab.test
def paths_that_are_too_long(folder):
    with World(folder) as w:
        for size in (513, 2000, 8000):
            for method in ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"):
                with w.place.wire() as c:
                    r = c.ask(method, PREFIX + "x" * (size - len(PREFIX)), body=b"" if method in ("PUT", "POST") else None)
                    check(r.status == 414, size, method, r)
                    check_every(r, PREFIX)
        for size in (70000, 1000000):
            r = ask_raw(w, head("GET", PREFIX + "x" * size))
            check(r.status in (414, 431), size, r)


@lab.test
def paths_with_zeros_and_slashes(folder):
    with World(folder) as w:
        names = ["a%00b", "a%00", "%00", "a//b", "//", "a/", ".", "..", "../..", "a/../../b", "%2e%2e/x", "%", "%zz", "a%0d%0aX:%20y", "%ff%fe"]
        for n, name in enumerate(names):
            w.place.stream("p/" + name).put({"Content-Type": "text/plain"}, b"%d" % n)
        for n, name in enumerate(names):
            s = w.place.stream("p/" + name)
            check(s.all() == b"%d" % n, name, s.all())
            r = s.put({"Content-Type": "text/plain"}, status=200)
            check("x" not in r.names(), "a field was injected", r)
        for query in ("?offset=%00", "?offset=-1%00", "?offset=%0d%0aX:y", "?%00=1", "?offset=" + "9" * 20000):
            r = w.place.stream("p/a//b").ask("GET", query=query)
            check(r.status in (200, 400, 414, 431), query[:40], r)


@lab.test
def unknown_methods(folder):
    with World(folder) as w:
        s = w.place.text(b"one")
        for method in ("PATCH", "BREW", "M-SEARCH", "X" * 100, "get"):
            for body in (None, b"body"):
                with w.place.wire() as c:
                    r = c.ask(method, s.target, body=body)
                    check(r.status == 405 and set((r.get("Allow") or "").split(", ")) == set(METHODS.split(", ")), method[:20], r)
                    check_every(r, s.target)
                    if (r.get("Connection") or "").lower() != "close":
                        check(c.ask("GET", s.target).body == b"one", "the next request")


@lab.test
def expect_continue(folder):
    with World(folder, "--max-body", "1000000") as w:
        s = w.place.text()
        for fields in (["Content-Length: 5"], ["Transfer-Encoding: chunked"]):
            with w.place.wire(limit_s=10) as c:
                c.send(head("POST", s.target, "Content-Type: text/plain", "Expect: 100-continue", *fields))
                status, _ = c.head()
                check(status == 100, "interim", status)
                c.send(b"hello" if "Content" in fields[0] else b"5\r\nhello\r\n0\r\n\r\n")
                check(c.reply().status == 204, "the final one")
                check(c.ask("GET", s.target).status == 200, "the next request")
        check(s.all() == b"hellohello", s.all())
        with w.place.wire(limit_s=10) as c:  # refused before the body
            c.send(head("POST", s.target, "Content-Type: text/plain", "Expect: 100-continue", "Content-Length: 1000001"))
            status, _ = c.head()
            check(status == 413, "a body that is too large was asked for:", status)
        with w.place.wire(limit_s=10) as c:  # sent without waiting
            c.send(head("POST", s.target, "Content-Type: text/plain", "Expect: 100-continue", "Content-Length: 5") + b"hello")
            check(c.reply().status == 204, "the body came at once")


@lab.test
def slow_heads_and_slow_bodies(folder):
    with World(folder) as w:
        s = w.place.text()
        wires = []
        for n in range(50):
            c = w.place.wire()
            wires.append(c)
            data = request("POST", s.target, {"Content-Type": "text/plain"}, b"%02d" % n)
            c.data, c.at = data, 0
        while any(c.at < len(c.data) for c in wires):
            for c in wires:
                c.send(c.data[c.at:c.at + 9])
                c.at += 9
            time.sleep(0.002)
        for c in wires:
            check(c.reply().status == 204, "a slow one")
            c.close()
        check(sorted(s.all()[i:i + 2] for i in range(0, 100, 2)) == [b"%02d" % n for n in range(50)], s.all())


@lab.test
def half_closed(folder):
    with World(folder) as w:
        s = w.place.text(b"one")
        for data, want in ((request("GET", s.target), b"200"), (request("POST", s.target, {"Content-Type": "text/plain"}, b"x"), b"204")):
            with w.place.wire(limit_s=10) as c:
                c.send(data)
                c.sock.shutdown(socket.SHUT_WR)
                got = c.ended()
                check(got.startswith(b"HTTP/1.1 " + want), data, "gave", got[:80])
        before = s.head().next
        for cut in range(1, 40, 3):
            with w.place.wire(limit_s=10) as c:
                c.send(request("POST", s.target, {"Content-Type": "text/plain"}, b"y" * 100)[:-cut])
                c.sock.shutdown(socket.SHUT_WR)
                c.ended()
        check(s.head().next == before, "half a body was stored")


@lab.test
def those_who_leave(folder):
    with World(folder, long_poll_ms=60000) as w:
        s = w.place.text(b"one")
        time.sleep(0.1)
        files, memory = w.server.files_open(), w.server.memory_kb()
        for n in range(200):
            c = w.place.wire()
            live = ("long-poll", "sse")[n % 2]
            c.send(request("GET", f"{s.target}?offset=now&live={live}"))
            if n % 2:
                c.head()
            if n % 4 < 2:
                c.cut()
            else:
                c.close()
        for n in range(100):
            c = w.place.wire()
            c.send(request("POST", s.target, {"Content-Type": "text/plain"}, b"x" * 100000)[:50000 + n])
            c.cut()
        w.files_back(files)
        check(s.all() == b"one", "part of a body was stored")
        s.post(b"two")
        check(s.all() == b"onetwo", s.all())
        w.memory_below(memory + 8192, "those who left")


@lab.test
def readers_that_do_not_read(folder):
    with World(folder, "--sse", "60s") as w:
        s = w.place.text()
        memory = w.server.memory_kb()
        lazy = [s.sse("now", window=4096) for _ in range(20)]
        pages = []
        for _ in range(20):
            c = w.place.wire(window=4096)
            pages.append(c)
        for n in range(60):
            s.post(b"%07d." % n * 25000)
        for c in pages:
            c.send(request("GET", s.target) * 5)
        for _ in range(20):
            check(w.place.at(s.target).head().status == 200, "it answers")
        # twenty of each, who were sent 12 MB each: a page or so is held for one, not all
        w.memory_below(memory + 40 * 3 * 1024 + 16384, "readers that do not read")
        lazy[0].pair()
        data, _ = lazy[0].until(s.head().next)
        check(b"".join(data) == b"".join(b"%07d." % n * 25000 for n in range(60)), "the lazy one has other data")
        for e in lazy:
            e.close()
        for c in pages:
            c.cut()


def held(w):
    """Bytes of answers in the server's memory."""
    with w.place.wire() as c:
        return next(int(line.split()[1]) for line in c.ask("GET", "/metrics").body.splitlines() if line.startswith(b"sc_streams_answer_bytes "))


@lab.test
def a_slow_event_stream_costs_a_small_batch(folder):
    """Of much that is there, little is held for one that does not take it: whatever the type, and of a log too."""
    readers = 20 if sanitized() else 60
    log = os.path.join(folder, "rows")
    run = lambda *args, **kw: subprocess.run([os.path.join(BUILD, "bin", "sc-log"), *args], check=True, timeout=60, **kw)  # noqa: E731
    run("create", log)
    run("append", "--quiet", log, input=(json.dumps("r" * 5000) + "\n").encode() * 1000)
    with World(folder, "--sse", "60s", "--log", "rows=" + log) as w:
        streams = [w.place.at(PREFIX + "rows")]
        for kind, body in (("text/plain", b"t" * 5000), ("application/json", json.dumps(["j" * 5000] * 10).encode()), ("a/b", b"\x80" * 5000)):
            s = w.place.stream()
            s.put({"Content-Type": kind})
            while position_of(s) < 5000000:
                s.post(body, kind=kind)
            streams.append(s)
        until(lambda: held(w) == 0, "answers to go")
        slow = [s.sse("-1", window=4096) for s in streams for _ in range(readers)]
        until(lambda: held(w) > len(slow) * 100000, "batches to be held")
        for _ in range(10):
            check(held(w) <= len(slow) * (256 << 10), len(slow), "slow event streams hold", held(w), "bytes")
            time.sleep(0.02)
        for s, e in zip(streams[1:], slow[readers::readers]):
            data, _ = e.until(s.head().next)
            check(len(data) > 20, "all of it in", len(data), "pieces")
        for e in slow:
            e.close()
        until(lambda: held(w) == 0, "answers to go")


def crowd_size():
    """How many long-polls and event streams there may be, by the limit of open files, which is raised for us and for the server."""
    polls, readers, others = POLLS, READERS, 100
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = polls + readers + others
    if hard < wanted:
        check(not FULL, f"the limit of open files is {hard}; {wanted} are needed for {polls} long-polls and {readers} event streams")
        readers = (hard - others) // 11
        polls, wanted = readers * 10, hard
        print(f"     NOTE: the limit of open files is {hard}: only {polls} long-polls and {readers} event streams, not {POLLS} and {READERS}",
              flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return polls, readers


class Crowd:
    """Very many waiters on one stream, read by one thread."""

    def __init__(self, w, target):
        self.selector, self.waiting, self.target = selectors.DefaultSelector(), {}, target
        self.port = w.port

    def add(self, live):
        c = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        c.sendall(request("GET", f"{self.target}?offset=now&live={live}"))
        c.setblocking(False)
        self.waiting[c] = bytearray()
        self.selector.register(c, selectors.EVENT_READ, live)
        return c

    def read(self, done, limit_s):
        """Read until done(data, live) holds for each; what holds for it is taken away."""
        left, end = set(self.waiting), time.monotonic() + limit_s
        while left:
            check(time.monotonic() < end, len(left), "of", len(self.waiting), "had no answer in", limit_s, "s")
            for key, _ in self.selector.select(1):
                try:
                    data = key.fileobj.recv(65536)
                except BlockingIOError:
                    continue
                check(data, "one was cut off, after", bytes(self.waiting[key.fileobj])[-200:])
                self.waiting[key.fileobj] += data
                if key.fileobj in left and done(self.waiting[key.fileobj], key.data):
                    left.discard(key.fileobj)

    def close(self):
        for c in self.waiting:
            c.close()
        self.selector.close()


@lab.test
def a_crowd_is_woken_by_one_append(folder):
    polls_wanted, readers_wanted = crowd_size()
    with World(folder, "--sse", "10m", long_poll_ms=300000) as w:
        s = w.place.text(b"before")
        memory, files = w.server.memory_kb(), w.server.files_open()
        crowd = Crowd(w, s.target)
        began = time.monotonic()
        for _ in range(readers_wanted):
            crowd.add("sse")
        crowd.read(lambda d, live: d.endswith(b"}\n\n\r\n") or d.endswith(b"}\n\n"), 60)
        for _ in range(polls_wanted):
            crowd.add("long-poll")
        end = time.monotonic() + 60
        while w.server.files_open() < files + polls_wanted + readers_wanted - 2:
            check(time.monotonic() < end, "only", w.server.files_open(), "connections are held")
            time.sleep(0.05)
        r = w.place.at(s.target).head()
        check(r.status == 200, r)
        grown = w.server.memory_kb() - memory
        each = grown * 1024 // (polls_wanted + readers_wanted)
        check(sanitized() or each < 48 << 10, "each of them costs", each, "bytes")
        gathered = time.monotonic() - began
        began = time.monotonic()
        s.post(b"wake up, all of you")
        crowd.read(lambda d, live: b"wake up, all of you" in d, 60)
        took = time.monotonic() - began
        print(f"     {polls_wanted} long-polls and {readers_wanted} event streams: {each} bytes each, gathered in {gathered:.1f} s, all woken {took:.2f} s "
              "after one append", flush=True)
        polls = [d for c, d in crowd.waiting.items() if b"text/event-stream" not in d]
        check(len(polls) == polls_wanted and all(d.startswith(b"HTTP/1.1 200 ") and d.endswith(b"wake up, all of you") for d in polls), "a long-poll")
        crowd.close()
        w.files_back(files)
        check(w.place.at(s.target).all() == b"beforewake up, all of you", "the stream")


@lab.test
def more_connections_than_it_may_have(folder):
    """The limit of open files is reached: those who are there are served, the others wait or are refused, and it recovers."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    server = Server(folder, preexec_fn=few)
    try:
        place = Place(server, "few", folder)
        s = place.text(b"one")
        wires = []
        for _ in range(150):
            try:
                wires.append(Wire(server.port, limit_s=5))
            except OSError:
                break
        check(s.post(b"two").status == 204, "the first one is not served any more")
        for c in wires:
            c.close()
        end = time.monotonic() + 20
        while True:
            try:
                with Wire(server.port, limit_s=2) as c:
                    if c.ask("GET", s.target).body == b"onetwo":
                        break
            except (Gone, Wrong, OSError):
                pass
            check(time.monotonic() < end, "it does not recover")
            time.sleep(0.1)
        check(server.end() == 0, "its end")
    finally:
        server.kill()


if __name__ == "__main__":
    lab.main()
