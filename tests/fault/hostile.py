"""hostile.py: peers that mean harm, or are merely broken.

Goal: whatever one of them does has its exact outcome, costs the server neither memory nor descriptors nor its life, and the others
notice nothing. Method: in every test a good subscriber is connected while rows are appended all the time; in the end it must have
each row, with the bytes that sc-log reads, without ever having waited long. SC_HOSTILE=full makes the counts those of a bad day.
"""

import json
import os
import select
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import zlib

from hostile_peer import (BINARY, CLOSE, KEY, PING, PONG, TEXT, Peer, WebSocket, World, answer, close_frame, frame, head_of,
                          upgrade)
from lab import LIMIT_S, Lab, Program, Skip, Wrong, check, read_all, read_ready, sanitized, until

lab = Lab()
FULL = os.environ.get("SC_HOSTILE") == "full"


def count(short, full):
    return full if FULL else short


def ask(target="/stats", *fields, method="GET", version="HTTP/1.1", host="Host: h"):
    lines = [f"{method} {target} {version}"] + ([host] if host else []) + list(fields)
    return "\r\n".join(lines + ["", ""]).encode()


BROKEN = [
    # name, bytes after the handshake, close code
    ("not masked", frame(TEXT, b"x", masked=False), 1002),
    ("first reserved bit without compression", frame(TEXT, b"x", rsv=4), 1002),
    ("second reserved bit", frame(TEXT, b"x", rsv=2), 1002),
    ("third reserved bit", frame(BINARY, b"x", rsv=1), 1002),
    ("reserved bit of a ping", frame(PING, b"x", rsv=4), 1002),
    ("reserved opcode 3", frame(3, b"x"), 1002),
    ("reserved opcode 7", frame(7, b""), 1002),
    ("reserved opcode 11", frame(11, b""), 1002),
    ("reserved opcode 15", frame(15, b""), 1002),
    ("ping in fragments", frame(PING, b"x", final=False), 1002),
    ("close in fragments", frame(CLOSE, b"", final=False), 1002),
    ("ping of 126 bytes", frame(PING, b"x" * 126), 1002),
    ("close that announces 2^40", head_of(CLOSE, 1 << 40) + b"mask", 1002),
    ("text that is no UTF-8", frame(TEXT, b"\xff\xfe"), 1007),
    ("text with a surrogate", frame(TEXT, b"\xed\xa0\x80"), 1007),
    ("text with an overlong letter", frame(TEXT, b"\xc0\xaf"), 1007),
    ("text that ends inside a letter", frame(TEXT, b"a\xe2\x82"), 1007),
    ("text in fragments that is no UTF-8", frame(TEXT, b"\xe2", final=False) + frame(0, b"xy"), 1007),
    ("continuation of nothing", frame(0, b"x"), 1002),
    ("last continuation of nothing", frame(0, b""), 1002),
    ("message inside a message", frame(TEXT, b"x", final=False) + frame(TEXT, b"y"), 1002),
    ("close with half a code", frame(CLOSE, b"\x03"), 1002),
    ("close with code 0", close_frame(0), 1002),
    ("close with code 999", close_frame(999), 1002),
    ("close with code 1004", close_frame(1004), 1002),
    ("close with code 1005", close_frame(1005), 1002),
    ("close with code 1006", close_frame(1006), 1002),
    ("close with code 1015", close_frame(1015), 1002),
    ("close with code 2999", close_frame(2999), 1002),
    ("close with code 5000", close_frame(5000), 1002),
    ("close with a reason that is no UTF-8", close_frame(1000, b"\xff"), 1007),
    ("close after a good message", frame(TEXT, b"{}") + close_frame(4321, b"bye"), 4321),
    ("close without a code", frame(CLOSE), 1005),
    ("length of 2^40", head_of(BINARY, 1 << 40) + b"mask", 1009),
    ("length of 2^63 - 1", head_of(BINARY, (1 << 63) - 1) + b"mask", 1009),
    ("length of 2^63, which no frame may have", head_of(BINARY, 1 << 63) + b"mask", 1002),
    ("length of 2^64 - 1", head_of(TEXT, (1 << 64) - 1) + b"mask", 1002),
    ("length 5 in 16 bits", head_of(TEXT, 5, form=16) + b"\0\0\0\0hello", 1002),
    ("length 200 in 64 bits", head_of(TEXT, 200, form=64) + b"\0\0\0\0" + b"x" * 200, 1002),
    ("fragments of 2^40 bytes in the end", frame(BINARY, b"x" * 100, final=False) + head_of(0, 1 << 40) + b"mask", 1009),
]


@lab.test
def malformed_frames(folder):
    with World(folder, "--publish", "--max-message", "100KiB") as w:
        before, files = w.memory(), w.files_open()
        for target in ("/s", "/s?publish", "/s?offset=0"):
            for name, data, code in BROKEN:
                p = WebSocket(w.port, target)
                p.send(data)
                try:
                    got = p.ending()
                except Wrong as e:
                    raise Wrong(target, name) from e
                check(got[0] == code, target, name, "ended with", got)
                check(not code == 4321 or got[1] == b"bye", target, name, "ended with", got)
                p.rest()
                p.close()
        # byte by byte as well
        for name, data, code in BROKEN[:30]:
            p = WebSocket(w.port, "/s")
            for i in range(len(data)):
                if not p.send(data[i:i + 1]):
                    break
            got = p.ending()
            check(got[0] == code, name, "byte by byte ended with", got)
            p.close()
        w.memory_below(before, 1024, "malformed frames")
        w.files_back(files)


@lab.test
def messages_about_the_limit(folder):
    limit = 100 << 10
    with World(folder, "--publish", "--max-message", str(limit)) as w:
        def row(size):
            return b'{"n":1,"s":"' + b"y" * (size - 14) + b'"}'

        p = WebSocket(w.port, "/s?publish")
        p.message()
        p.send(frame(TEXT, row(limit)))
        check("ok" in p.reply(), "a message of the limit's length was refused")
        p.send(frame(TEXT, row(limit)[:1000], final=False) + frame(0, row(limit)[1000:]))
        check("ok" in p.reply(), "a message of the limit's length was refused in fragments")
        end = w.end_offset()
        p.send(frame(TEXT, row(limit + 1)))
        check(p.ending()[0] == 1009, "a byte over the limit was taken")
        for parts in (2, 50):
            q = WebSocket(w.port, "/s?publish")
            q.message()
            data = row(limit + 1)
            size = len(data) // parts
            q.send(frame(TEXT, data[:size], final=False))
            for i in range(1, parts):
                q.send(frame(0, data[i * size:(i + 1) * size] if i < parts - 1 else data[i * size:], final=i == parts - 1))
            check(q.ending()[0] == 1009, "a byte over the limit was taken in fragments")
        rows = [json.loads(line)[1] for line in read_all(w.log, "--from", end)]
        check(not [r for r in rows if len(r["s"]) > 50], "part of a message over the limit was stored")


@lab.test
def slow_and_silent_before_the_request(folder):
    with World(folder, "--handshake-timeout", "1500ms") as w:
        files, cpu, begun = w.files_open(), w.cpu_s(), time.monotonic()
        silent = [Peer(w.port) for _ in range(20)]
        slow = [Peer(w.port) for _ in range(20)]
        text = upgrade("/s") * 10
        ended = {}
        at = 0
        while len(ended) < 40 and time.monotonic() - begun < LIMIT_S:
            for p in slow:
                if p not in ended:
                    p.send(text[at:at + 1])
            at += 1
            for p in select.select([p for p in silent + slow if p not in ended], [], [], 0.1)[0]:
                if not p.more():
                    ended[p] = time.monotonic() - begun
        for p in silent:
            check(not p.inbox, "a silent one was told", bytes(p.inbox))
            check(1.4 < ended.get(p, 0) < 12, "a silent one was cut after", ended.get(p))
        for p in slow:
            check(p.inbox.startswith(b"HTTP/1.1 408 "), "a slow one was told", bytes(p.inbox))
            check(1.4 < ended.get(p, 0) < 15, "a slow one was cut after", ended.get(p))
        check(w.cpu_s() - cpu < 2, "they cost", w.cpu_s() - cpu, "s of processor")
        for p in silent + slow:
            p.close()
        w.files_back(files)


HEADS = [
    # name, bytes, status (0: closed without a word), text in the head
    ("no request at all", b"\r\n\r\n", 400, ""),
    ("HTTP/0.9", b"GET /\r\n\r\n", 400, ""),
    ("HTTP/1.0", b"GET /stats HTTP/1.0\r\n\r\n", 200, "connection: close"),
    ("HTTP/2", ask(version="HTTP/2.0"), 505, ""),
    ("version in words", ask(version="HTTP/one"), 400, ""),
    ("no host", ask(host=None), 400, ""),
    ("two hosts", ask("/stats", "Host: g"), 400, ""),
    ("NUL in the target", ask("/st\0ats"), 400, ""),
    ("NUL in a field", ask("/stats", "X: a\0b"), 400, ""),
    ("NULs alone", b"\0" * 40 + b"\r\n\r\n", 400, ""),
    ("a folded field", ask("/stats", "X: a", "  b"), 400, ""),
    ("a blank before the colon", ask("/stats", "X : a"), 400, ""),
    ("a field without a colon", ask("/stats", "nonsense"), 400, ""),
    ("a field without a name", ask("/stats", ": a"), 400, ""),
    ("a bare LF inside", ask("/stats", "X: a\nY: b"), 400, ""),
    ("a bare CR inside", ask("/stats", "X: a\rY: b"), 400, ""),
    ("a target with a blank", ask("/a b"), 400, ""),
    ("%00", ask("/%00"), 404, ""),
    ("//", ask("//"), 404, ""),
    ("..", ask("/../../etc/passwd"), 404, ""),
    ("no such stream", ask("/nope"), 404, ""),
    ("an absolute target", ask("http://h/healthz"), 200, ""),
    ("an absolute target of nothing", ask("http://h"), 200, "text/html"),
    ("an asterisk", ask("*"), 404, ""),
    ("a long target", ask("/" + "a" * 8000), 404, ""),
    ("too long a target", b"GET /" + b"a" * 70000, 414, ""),
    ("too large a head", ask("/stats", "X: " + "a" * 70000), 431, ""),
    ("too many fields", ask("/stats", *[f"X{i}: a" for i in range(250)]), 431, ""),
    ("a field that never ends", b"GET / HTTP/1.1\r\nX: " + b"a" * 70000, 431, ""),
    ("POST without a body", ask(method="POST"), 405, "allow: get, head"),
    ("POST with a body", ask("/s", "Content-Length: 5", method="POST") + b"hello", 405, "allow:"),
    ("PUT with a body", ask("/s", "Content-Length: 5", method="PUT") + b"hello", 405, "allow:"),
    ("DELETE", ask("/s", method="DELETE"), 405, "allow:"),
    ("OPTIONS", ask("*", method="OPTIONS"), 405, "allow:"),
    ("CONNECT", ask("h:80", method="CONNECT"), 405, "allow:"),
    ("lower case get", ask(method="get"), 405, "allow:"),
    ("a method of blanks", b" / HTTP/1.1\r\nHost: h\r\n\r\n", 400, ""),
    ("GET with a body", ask("/stats", "Content-Length: 5") + b"hello", 413, ""),
    ("GET with two lengths", ask("/stats", "Content-Length: 0", "Content-Length: 5"), 413, ""),
    ("GET with a huge length", ask("/stats", "Content-Length: 99999999999999999999999"), 413, ""),
    ("GET with length -1", ask("/stats", "Content-Length: -1"), 413, ""),
    ("GET with chunks and trailers", ask("/stats", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\nT: x\r\n\r\n", 413, ""),
    ("GET with both", ask("/stats", "Transfer-Encoding: chunked", "Content-Length: 5") + b"0\r\n\r\n", 413, ""),
    ("POST with both", ask("/s", "Transfer-Encoding: chunked", "Content-Length: 5", method="POST") + b"0\r\n\r\n", 405, ""),
    ("GET behind the body of a POST", ask("/s", "Content-Length: 5", method="POST") + b"hello" + ask(), 405, ""),
    ("GETs in a row", ask("/healthz") * 50, 200, ""),
    ("a WebSocket behind a GET", ask("/healthz") + upgrade("/s"), 200, ""),
    ("GET with length 0", ask("/healthz", "Content-Length: 0"), 200, ""),
    ("HEAD", ask("/stats", method="HEAD"), 200, "content-length:"),
    ("HEAD of events", ask("/s", "Accept: text/event-stream", method="HEAD"), 200, "text/event-stream"),
    ("no version", upgrade("/s", version=None), 426, "sec-websocket-version: 13"),
    ("version 8", upgrade("/s", version="8"), 426, "sec-websocket-version: 13"),
    ("version 0x13", upgrade("/s", version="013"), 426, "sec-websocket-version: 13"),
    ("no key", upgrade("/s", key=None), 400, ""),
    ("an empty key", upgrade("/s", key=""), 400, ""),
    ("a short key", upgrade("/s", key="c2hvcnQ="), 400, ""),
    ("a long key", upgrade("/s", key=KEY + KEY), 400, ""),
    ("a key that is not base64", upgrade("/s", key="!" * 22 + "=="), 400, ""),
    ("an upgrade by POST", upgrade("/s", method="POST"), 405, "allow:"),
    ("an upgrade with a body", upgrade("/s", "Content-Length: 3") + b"abc", 413, ""),
    ("an upgrade by HTTP/1.0", upgrade("/s").replace(b"HTTP/1.1", b"HTTP/1.0"), 400, ""),
    ("an upgrade without Connection", upgrade("/s").replace(b"Connection: Upgrade\r\n", b""), 400, ""),
    ("an upgrade to something else", upgrade("/healthz").replace(b": websocket", b": h2c"), 200, ""),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2, 400, ""),
]


@lab.test
def requests_that_are_none(folder):
    with World(folder, "--handshake-timeout", "3s") as w:
        before, files = w.memory(), w.files_open()
        for _ in range(count(1, 20)):
            for name, data, status, text in HEADS:
                got = answer(w.port, data)
                check(got[0] == status, name, "was answered", got[0], got[1][:300])
                check(text in got[1], name, "was answered", got[1][:300])
                check("connection: close" in got[1], name, "was answered without Connection: close")
                if "head" in name.lower() and name.startswith("HEAD"):
                    check(got[2] == b"", name, "was answered with a body")
                elif status:
                    check(f"content-length: {len(got[2])}\r\n" in got[1] + "\r\n", name, "has another length", got[1])
        # half a request, and lines that end in LF alone: there is no end of a head in either
        for name, data in (("half a request", ask()[:-2]), ("lone LFs", b"GET /stats HTTP/1.1\nHost: h\n\n")):
            got = answer(w.port, data)
            check(got[0] == 408, name, "was answered", got[0])
        # the other side is shut at once: the answer comes all the same, or nobody is left to have it
        check(answer(w.port, ask("/healthz"), shut=True)[0] == 200, "a half-closed one got no answer")
        check(answer(w.port, b"", shut=True)[0] == 0, "nothing was answered with something")
        w.memory_below(before, 1024, "bad requests")
        w.files_back(files)


@lab.test
def bodies_without_end(folder):
    with World(folder, "--handshake-timeout", "2s", "--idle-timeout", "2s") as w:
        before, files = w.memory(), w.files_open()
        def pour(data):
            p = Peer(w.port)
            p.send(data)
            begun = time.monotonic()
            p.pour(b"5\r\nhello\r\n" * 8000, 1 << 40, 3)
            took.append(time.monotonic() - begun)
            p.cut()

        took = []
        threads = [threading.Thread(target=pour, args=(data,)) for data in (
            ask("/s", "Content-Length: 999999999", method="POST"), ask("/s", "Transfer-Encoding: chunked", method="POST"),
            ask("/healthz"))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(len(took) == 3 and max(took) < 15, "bodies without end were read for", took, "s")
        w.memory_below(before, 1024, "bodies")
        w.files_back(files)


@lab.test
def half_open(folder):
    with World(folder, "--ping", "500ms", "--pong-timeout", "1s") as w:
        files, begun = w.files_open(), time.monotonic()
        deaf = [WebSocket(w.port, "/s", window=4096) for _ in range(10)]   # never read again
        mute = [WebSocket(w.port, "/s") for _ in range(10)]                # read, and never answer a ping
        publisher = WebSocket(w.port, "/s")
        dropped = {}
        while len(dropped) < len(mute) and time.monotonic() - begun < LIMIT_S:
            for p in select.select([p for p in mute if p not in dropped], [], [], 0.2)[0]:
                more = p.more()
                got = True
                while got:
                    got = p.cut_frame()
                    if got and got[0] == CLOSE:
                        check(got[1] == struct.pack(">H", 1011) + b"keepalive ping timeout", "closed with", got[1])
                        dropped[p] = time.monotonic() - begun
                check(more or p in dropped, "a mute one was cut without a Close")
        check(len(dropped) == len(mute), "mute ones stay")
        check(min(dropped.values()) > 1.2, "a mute one was dropped after", min(dropped.values()), "s")
        w.append(3000, 1000)   # more than the sockets of the deaf hold
        until(lambda: w.files_open() <= files, "the deaf are dropped")
        for p in deaf + mute + [publisher]:
            p.close()


@lab.test
def a_flood_of_pings(folder):
    with World(folder) as w:
        before, files = w.memory(), w.files_open()
        floods = [WebSocket(w.port, "/s", window=8192) for _ in range(4)]
        pings = b"".join(frame(PING, struct.pack(">Q", i) * 15) for i in range(1000))
        for p in floods:
            sent = p.pour(pings, count(20, 200) << 20, 2)
            check(sent >= len(pings), "only", sent, "bytes of pings were taken")
            # a frame cut in two would not be one in what comes back
            p.send(pings[sent % len(pings):])
            w.memory_below(before, 2048, "pings")
        w.others_served()
        for p in floods:
            last = None
            p.send(frame(PING, b"the last"))
            while last != b"the last":
                got = p.next()
                check(got and got[0] in (PONG, TEXT, PING), "after a flood of pings came", got)
                last = got[1] if got[0] == PONG else last
            p.close()
        w.memory_below(before, 1024, "pings")
        w.files_back(files)


@lab.test
def a_subscriber_that_talks(folder):
    with World(folder) as w:
        before, files = w.memory(), w.files_open()
        p = WebSocket(w.port, "/s?offset=0")
        message = frame(BINARY, bytes(60000))
        fragments = frame(TEXT, b"\xe2\x82\xac" * 9000, final=False) + frame(0, b"\xe2\x82\xac" * 9000)
        view = memoryview(message * 10 + fragments * 10)
        total = sent = 0
        p.socket.setblocking(False)
        while total < count(20, 100) << 20:
            readable, writable, _ = select.select([p], [p], [], LIMIT_S)
            if readable:
                p.more()
                while (got := p.cut_frame()):
                    check(got[0] != CLOSE, "it was closed:", got)
            if writable:
                n = p.socket.send(view[sent:])
                total, sent = total + n, (sent + n) % len(view)
        w.memory_below(before, 2048, "messages")
        check(w.stats()["subscribers"] == 2, "it was dropped")
        p.cut()
        w.files_back(files)


def events(port, offset, window=0):
    p = Peer(port, window)
    p.send(ask(f"/s?offset={offset}", "Accept: text/event-stream"))
    while b"\r\n\r\n" not in p.inbox:
        check(p.more(), "no events")
    head, _, p.inbox = p.inbox.partition(b"\r\n\r\n")
    check(head.startswith(b"HTTP/1.1 200"), "no events:", head)
    return p


@lab.test
def events_that_nobody_takes(folder):
    with World(folder, "--idle-timeout", "2s") as w:
        before, files = w.memory(), w.files_open()
        stalled = [events(w.port, 1, window=4096) for _ in range(5)]
        resumes = events(w.port, 1, window=4096)
        w.append(4000, 1000)
        time.sleep(0.5)
        w.memory_below(before, 4096, "events")
        resumes.widen()
        until(lambda: not resumes.more() or resumes.inbox.count(b"\n\n") > 4000, "events come after a pause")
        offsets = [int(line[4:]) for line in bytes(resumes.inbox).split(b"\n") if line.startswith(b"id: ") and line[4:]]
        check(len(offsets) > 3900 and offsets[:-1] == list(range(1, len(offsets))), "events are missing or twice")
        resumes.cut()
        until(lambda: w.files_open() <= files, "those that take nothing are cut")
        for p in stalled:
            p.close()
        w.memory_below(before, 1024, "events")


@lab.test
def too_many_clients(folder):
    with World(folder, "--max-clients", "10") as w:
        clients = [WebSocket(w.port, "/s") for _ in range(9)]
        for _ in range(3):
            status, head, _ = answer(w.port, upgrade("/s"))
            check(status == 503 and "retry-after:" in head, "the eleventh was answered", status, head)
            check(answer(w.port, ask("/s", "Accept: text/event-stream"))[0] == 503, "events were given beyond the limit")
            check(answer(w.port, ask("/healthz"))[0] == 200, "/healthz is refused at the limit")
        clients.pop().cut()
        until(lambda: w.stats()["subscribers"] == 9, "one left")
        clients.append(WebSocket(w.port, "/s"))
        clients[-1].message()
        # sockets that ask for nothing: they fill a second limit, which is told at once and ends
        idle = [Peer(w.port) for _ in range(400)]
        told = set()

        def all_told():
            for p in select.select([p for p in idle if p not in told], [], [], 0.1)[0]:
                p.more()
                check(p.inbox.startswith(b"HTTP/1.1 503 "), "an idle one was told", bytes(p.inbox))
                told.add(p)
            return len(told) > 100

        until(all_told, "idle sockets beyond the limit are refused")
        check(len(told) < 200, len(told), "of 400 idle sockets were refused")
        for p in idle + clients:
            p.cut()
        until(lambda: answer(w.port, ask("/healthz"))[0] == 200, "it serves again")


@lab.test
def too_many_from_one_address(folder):
    with World(folder, "--max-per-address", "20") as w:
        peers = [WebSocket(w.port, "/s") for _ in range(19)]
        for data in (upgrade("/s"), ask("/healthz")):
            status, head, _ = answer(w.port, data)
            check(status == 503 and "retry-after:" in head, "one too many was answered", status)
        # a storm of them does not let one more in
        storm = [Peer(w.port) for _ in range(500)]
        for p in storm:
            p.send(upgrade("/s"))
        for p in storm:
            check(p.rest()[:12] in (b"HTTP/1.1 503", b""), "one too many was answered", bytes(p.inbox[:30]))
            p.close()
        other = socket.create_connection(("127.0.0.1", w.port), source_address=("127.0.0.2", 0))
        other.sendall(ask("/healthz"))
        check(other.recv(100).startswith(b"HTTP/1.1 200"), "another address is refused as well")
        other.close()
        for p in peers:
            p.cut()
        until(lambda: answer(w.port, ask("/healthz"))[0] == 200, "they left")


@lab.test
def no_descriptors_left(folder):
    with World(folder, "--handshake-timeout", "5s", "--publish", files=64) as w:
        files = w.files_open()
        publisher = WebSocket(w.port, "/s?publish")
        publisher.message()
        replays = [WebSocket(w.port, "/s?offset=1", window=4096) for _ in range(12)]
        idle = [Peer(w.port) for _ in range(100)]
        cpu, begun = w.cpu_s(), time.monotonic()
        # journals of 8 MiB: new ones must be opened by the server while it has no descriptor to spare
        for _ in range(count(20, 60)):
            w.append(1000, 1000)
            publisher.publish({"n": -1})
            check("ok" in publisher.reply(), "a publisher was refused")
        w.others_served()
        end = w.good.lines and int(w.good.lines[-1][1:w.good.lines[-1].index(b",")])
        for p in replays[:6]:
            p.rows(min(end, 3000), 1)
        spent, took = w.cpu_s() - cpu, time.monotonic() - begun
        time.sleep(1)
        cpu = w.cpu_s()
        time.sleep(1)
        check(w.cpu_s() - cpu < 0.5, "it spins:", w.cpu_s() - cpu, "s of processor in a second, before", spent, "in", took)
        for p in idle + replays:
            p.cut()
        until(lambda: answer(w.port, ask("/healthz"))[0] == 200, "it serves again")
        publisher.close()
        w.files_back(files)
        check("EMFILE" not in w.server.err() and "cut off" not in w.server.err(), w.server.err()[-2000:])


@lab.test
def comers_and_goers(folder):
    with World(folder) as w:
        # the first round warms the allocator up, and what it keeps for good is not counted
        for p in [WebSocket(w.port, "/s?offset=0") for _ in range(50)]:
            p.cut()
        w.others_served()
        before, files, n = w.memory(), w.files_open(), count(1000, 10000)
        half = upgrade("/s")[:60]
        for i in range(n):
            Peer(w.port).cut()
            p = Peer(w.port)
            p.send(half)
            p.cut()
        for i in range(n):
            p = WebSocket(w.port, "/s" if i % 2 else "/s?offset=1")
            if i % 3 == 0:
                p.message()
            p.cut()
        for i in range(n // 4):
            p = events(w.port, 1)
            p.cut()
        w.files_back(files)
        w.memory_below(before, 1024, f"{n} comers and goers of each kind")
        stats = w.stats()
        check(stats["subscribers"] == 1, "it still counts", stats["subscribers"], "subscribers")


@lab.test
def all_at_once(folder):
    n = count(300, 1000)
    with World(folder, pause_s=0.02) as w:
        before, files = w.memory(), w.files_open()
        for _ in range(count(2, 5)):
            crowd = [Peer(w.port) for _ in range(n)]
            for p in crowd:
                p.send(upgrade("/s?offset=0"))
            for p in crowd[::2]:
                p.cut()
            for p in crowd[1::2]:
                while b'{"streamcast":1' not in p.inbox:
                    check(p.more(), "one of a crowd was cut off:", bytes(p.inbox[:100]))
                p.cut()
        w.files_back(files)
        w.memory_below(before, 2048, "crowds")


@lab.test
def leaving_in_the_middle_of_a_replay(folder):
    with World(folder) as w:
        w.append(10000, 1000)
        w.others_served()
        before, files = w.memory(), w.files_open()
        for i in range(count(100, 1000)):
            p = WebSocket(w.port, "/s?offset=0", window=8192)
            taken = 0
            while taken < i * 2000:
                p.inbox.clear()
                check(p.more(), "a replay ended")
                taken += len(p.inbox)
            if i % 2:
                p.cut()
            else:
                p.send(frame(CLOSE))
                p.close()
        w.files_back(files)
        w.memory_below(before, 1024, "broken replays")


@lab.test
def stalled_subscribers(folder):
    n = count(20, 200)
    with World(folder, "--ping", "none") as w:
        # not the smallest window: what no longer fits is sent again, each time twice as late
        crowd = [WebSocket(w.port, "/s" if i % 2 else "/s?offset=1", window=65536) for i in range(n)]
        w.others_served()
        before, files = w.memory(), w.files_open()
        for _ in range(count(8, 15)):
            w.append(1000, 1000)
        w.others_served()
        until(lambda: w.files_open() <= files, f"stalled ones hold no files: {files} before, now {w.files_open()}", 10)
        w.memory_below(before, 1024 + n * 16, "rows for the stalled")
        end = w.end_offset() - 1
        held = read_all(w.log)
        for p in crowd:
            p.widen()
        for i, p in enumerate(crowd):
            lines = p.rows(end, None if i % 2 else 1)
            check(lines == held[len(held) - len(held[int(lines[0][1:lines[0].index(b",")]) - 1:]):][:len(lines)],
                  "a stalled one got other rows")
            p.cut()
        w.files_back(files - n)


@lab.test
def stalled_beyond_the_backlog(folder):
    with World(folder, "--max-backlog", "3000", "--ping", "none") as w:
        p = WebSocket(w.port, "/s", window=4096)
        p.message()
        before = w.memory()
        w.append(12000, 1000)
        until(lambda: w.stats()["dropped_slow"] == 1 or w.good.fault, "the slow one is dropped")
        until(lambda: len(w.good.lines) > 12000 or w.good.fault, "the others have them all")
        check(not w.good.fault, w.good.fault)
        got, last = p.next(), None
        while got and got[0] != CLOSE:
            if got[0] == TEXT:
                offset = int(got[1][1:got[1].index(b",")])
                check(last is None or offset == last + 1, "offset", offset, "follows", last)
                last = offset
            got = p.next()
        check(got, "it was cut without a Close")
        code, reason = int.from_bytes(got[1][:2], "big"), json.loads(got[1][2:])
        check(code == 4429 and reason["error"] == "too_slow" and reason["backlog"] == 3000, "closed with", code, reason)
        check(reason.get("resume", last + 1) == last + 1, "it is to resume at", reason, "and has", last)
        again = WebSocket(w.port, f"/s?offset={last + 1}")
        again.rows(w.end_offset() - 1, last + 1)
        again.cut()
        if not FULL:
            return
        # one that never takes another byte is dropped as well, 10 s later
        files = w.files_open()
        q = WebSocket(w.port, "/s", window=4096)
        q.message()
        w.append(12000, 1000)
        until(lambda: w.files_open() <= files, "one that takes nothing goes")
        w.memory_below(before, 1024, "the slow")


@lab.test
def publishers_that_send_garbage(folder):
    with World(folder, "--publish") as w:
        p = WebSocket(w.port, "/s?publish")
        p.message()
        end = None
        for text in (b"", b"x", b"[]", b"[1]", b"1", b"null", b"\"s\"", b"{", b"[{}", b"[[]]", b"{}{}", b"\xef\xbb\xbf{}",
                     b'{"n":1}x', b"[" * 5000, b'{"n":' * 3000, b"[{},,{}]", b"[{},]", b"\0", b"NaN"):
            p.publish(text)
            got = p.reply()
            check(got.get("error") == "bad_frame", text[:20], "was answered", got)
        for rows, column in (([{"n": 1}, {"n": "2"}], "n"), ([{"n": 1}, {"n": 1, "s": 5}], "s"), ([{"n": 1}, {"s": "x"}], "n"),
                             ([{"n": 1}, {"n": 1, "zz": 2}], "zz"), ([{"n": 1}, {"n": 1.5}], "n"), ([{"n": 2 ** 63}], "n"),
                             ([{"n": -77}] * 500 + [{"n": None}], "n")):
            end = w.end_offset()
            p.publish(rows)
            got = p.reply()
            check(got.get("error") == "rejected" and column in got["detail"], rows[-1], "was answered", got)
        for text in (b'[{"n":-77},{"n":1,"s":"\\ud800"}]', b'[{"n":-77},{"n":1e400}]', b'[{"n":-77},{"n":9223372036854775808}]'):
            p.publish(text)
            got = p.reply()
            check("error" in got, text, "was answered", got)
        rows = [json.loads(line)[1] for line in read_all(w.log)]
        check(not [r for r in rows if r["n"] == -77], "part of a refused group was stored")
        huge = [{"n": -5}] * 50000
        p.publish(huge)
        offsets = p.reply()["ok"]
        check(len(offsets) == 50000 and offsets == list(range(offsets[0], offsets[0] + 50000)), "a huge group got", offsets[:3])
        check(all(json.loads(line)[1]["n"] == -5 for line in read_all(w.log, "--from", offsets[0], "--count", "50000")),
              "a huge group is not together")
        w.others_served()
        p.close()


@lab.test
def publishers_with_much_outstanding(folder):
    with World(folder, "--publish") as w:
        p = WebSocket(w.port, "/s?publish")
        p.message()
        n = count(2000, 20000)
        for i in range(n):
            p.publish({"n": 1000000 + i})
        offsets = [p.reply()["ok"][0] for _ in range(n)]
        check(offsets == sorted(set(offsets)), "replies come in another order")
        rows = dict(json.loads(line) for line in read_all(w.log, "--from", offsets[0]))
        check([rows[o]["n"] for o in offsets] == list(range(1000000, 1000000 + n)), "rows are not where the replies say")
        # all in one piece, with no reading in between
        p.send(b"".join(frame(TEXT, b'{"n":%d}' % i) for i in range(200)))
        check(len([p.reply()["ok"][0] for _ in range(200)]) == 200, "replies are missing")
        p.close()


@lab.test
def publishers_that_read_no_replies(folder):
    with World(folder, "--publish", "--ping", "1s", "--pong-timeout", "1s") as w:
        before, files = w.memory(), w.files_open()
        data = b"".join(frame(TEXT, b"[" + b",".join([b'{"n":-5}'] * 3000) + b"]") for _ in range(5))
        crowd = [WebSocket(w.port, "/s?publish", window=4096) for _ in range(3)]
        for p in crowd:
            sent = p.pour(data, count(30, 200) << 20, 1)
            check(sent < count(30, 200) << 20, "all was taken from one that reads no reply")
            w.memory_below(before, 40 << 10, "replies that nobody reads")
        w.others_served()
        until(lambda: w.files_open() <= files, "publishers that read nothing are dropped")
        for p in crowd:
            p.cut()
        w.memory_below(before, 12 << 10, "replies that nobody reads")   # what a stream keeps for its commits


@lab.test
def publishers_that_die(folder):
    with World(folder, "--publish") as w:
        before, files = w.memory(), w.files_open()
        acked = []
        for i in range(count(100, 1000)):
            p = WebSocket(w.port, "/s?publish")
            p.message()
            data = b"".join(frame(TEXT, b'[{"n":%d},{"n":%d}]' % (-i, -i), mask=b"\x11\x22\x33\x44") for _ in range(20))
            p.send(data[:len(data) - i % 30])
            for _ in range(i % 7):
                acked += p.reply()["ok"]
            p.cut()
        rows = dict(json.loads(line) for line in read_all(w.log))
        check(all(o in rows and rows[o]["n"] <= 0 for o in acked), "an acknowledged row is missing")
        numbers = [r["n"] for _, r in sorted(rows.items())]
        runs = [(a, b) for a, b in zip(numbers, numbers[1:]) if a < 0 or b < 0]
        for n in range(1, 20):
            check(numbers.count(-n) % 2 == 0, "half a group was stored:", -n, runs[:5])
        w.files_back(files)
        w.memory_below(before, 2048, "dead publishers")


@lab.test
def producers_of_one_name(folder):
    with World(folder, "--publish") as w:
        def producer(epoch):
            p = WebSocket(w.port, f"/s?publish&producer=me&epoch={epoch}")
            p.message()
            return p

        old = producer(1)
        old.publish({"seq": 0, "rows": [{"n": -1}, {"n": -2}]})
        first = old.reply()
        check(len(first["ok"]) == 2, first)
        old.cut()   # did it arrive? it asks again
        old = producer(1)
        old.publish({"seq": 0, "rows": [{"n": -1}, {"n": -2}]})
        again = old.reply()
        check(again["ok"] == first["ok"], "sent again it was answered", again, "first", first)
        old.publish({"seq": 2, "rows": [{"n": -3}]})
        check("ok" in old.reply(), "the next was refused")
        new = producer(2)
        new.publish({"seq": 0, "rows": [{"n": -4}]})
        check("ok" in new.reply(), "a successor was refused")
        for _ in range(3):
            old.publish({"seq": 3, "rows": [{"n": -99}]})
            got = old.reply()
            check(got.get("error") == "fenced", "the older one was answered", got)
        new.publish({"seq": 9, "rows": [{"n": -99}]})
        got = new.reply()
        check("error" in got, "a gap was taken", got)
        # two at once, of one name and epoch, send the same rows: each is stored once
        twins = [producer(3), producer(3)]
        for seq in range(count(200, 2000)):
            for t in twins:
                t.publish({"seq": seq, "rows": [{"n": -1000 - seq}]})
            got = [t.reply() for t in twins]
            check(all("ok" in g for g in got), "twins were answered", got)
        numbers = [json.loads(line)[1]["n"] for line in read_all(w.log)]
        check([n for n in numbers if -1000 < n < 0] == [-1, -2, -3, -4], "stored was", [n for n in numbers if -1000 < n < 0])
        check([n for n in numbers if -400000 < n <= -1000] == [-1000 - s for s in range(count(200, 2000))], "twins stored a row twice")
        for t in twins + [old, new]:
            t.close()


def packed(data):
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (z.compress(data) + z.flush(zlib.Z_SYNC_FLUSH))[:-4]


DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover; server_no_context_takeover"


@lab.test
def compressed_and_hostile(folder):
    with World(folder, "--publish", "--compress", "--ping", "none") as w:
        before, files = w.memory(), w.files_open()
        bomb = packed(b'{"n":1,"s":"' + b"x" * (50 << 20) + b'"}')
        pieces = frame(TEXT, b"a", final=False, rsv=4) + frame(0, b"b", rsv=4)
        for name, data, code in (("a bomb", frame(TEXT, bomb, rsv=4), 1009), ("rubbish", frame(TEXT, b"\xff" * 50, rsv=4), 1007),
                                 ("no UTF-8", frame(TEXT, packed(b"\xff\xfe"), rsv=4), 1007),
                                 ("a compressed ping", frame(PING, packed(b"x"), rsv=4), 1002),
                                 ("a compressed continuation", pieces, 1002)):
            for _ in range(count(3, 30)):
                p = WebSocket(w.port, "/s?publish", DEFLATE)
                p.message()
                p.send(data)
                got = p.ending()
                check(got[0] == code, name, "ended with", got)
                p.close()
        p = WebSocket(w.port, "/s?publish", DEFLATE)
        p.message()
        p.send(frame(TEXT, packed(b'{"n":-9}'), rsv=4))
        check("ok" in p.reply(), "a compressed row was refused")
        p.close()
        # a subscriber's messages are thrown away unread, compressed ones as well
        p = WebSocket(w.port, "/s", DEFLATE)
        for _ in range(20):
            p.send(frame(TEXT, bomb[:60000], rsv=4))
        # and one that stalls with compression costs a window, not what it does not read
        stalled = [WebSocket(w.port, "/s?offset=1", DEFLATE, window=4096) for _ in range(10)]
        w.append(5000, 1000)
        w.others_served()
        w.memory_below(before, 12 * 512, "compressed ones")
        for q in stalled + [p]:
            q.cut()
        w.files_back(files)
        w.memory_below(before, 3072, "compressed ones")


@lab.test
def tls_and_hostile(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    if not shutil.which("openssl"):
        raise Skip("there is no openssl to make a certificate with")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    with World(folder) as w:
        ready, ready_in = os.pipe()
        server = Program(folder, "tls", "sc-serve", "--listen", "127.0.0.1:0", "--ready-fd", ready_in, "--cert", cert,
                         "--key", key, "--handshake-timeout", "1s", "--ping", "500ms", "--pong-timeout", "1s", w.log, pass_fds=(ready_in,))
        os.close(ready_in)
        port = read_ready(ready)["port"]
        os.close(ready)
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False

        def fds():
            return len(os.listdir(f"/proc/{server.pid}/fd"))

        def secure_one(data):
            s = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
            s.sendall(data)
            return s

        first = secure_one(upgrade("/s"))
        seen = b""
        while b"[" not in seen:   # by now the server has the journal open
            part = first.recv(65536)
            check(part, "no rows over TLS")
            seen += part
        first.close()
        w.others_served()
        files = fds()
        peers = [Peer(port) for _ in range(40)]
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
        for i, p in enumerate(peers):   # silent, half a hello, rubbish, plain HTTP, a hello and nothing more
            p.send((b"", hello[:50], b"\0" * 3000, ask(), hello)[i % 5])
        secure = []
        for _ in range(10):
            secure.append(secure_one(upgrade("/s?offset=1")))   # and it never reads again
            check(secure[-1].recv(100).startswith(b"HTTP/1.1 101"), "no upgrade over TLS")
        w.append(6000, 1000)
        until(lambda: fds() <= files, "all are cut")
        s = secure_one(ask("/healthz"))
        check(s.recv(100).startswith(b"HTTP/1.1 200"), "it does not serve any more")
        s.close()
        for p in peers + secure:
            p.close()
        status = server.end()
        check(status == 0, "it ended with", status, server.err()[-3000:])


@lab.test
def without_a_log(folder):
    """A stream of standard input: nothing to fall back to, so the slow are dropped, and publishers are answered at once."""
    pipe, feed = os.pipe()
    ready, ready_in = os.pipe()
    server = Program(folder, "server", "sc-serve", "--listen", "127.0.0.1:0", "--ready-fd", ready_in, "--publish",
                     "--ring", "1MiB", "s=-", stdin=pipe, pass_fds=(ready_in,))
    os.close(pipe)
    os.close(ready_in)
    port = read_ready(ready)["port"]
    os.close(ready)

    def memory():
        with open(f"/proc/{server.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))

    good_one = WebSocket(port, "/s")
    good_one.message()
    before = memory()
    slow = [WebSocket(port, "/s", window=65536) for _ in range(20)]
    got, ended = [], []

    def read():
        try:
            while (m := good_one.next(skip=(PING, PONG))) and m[0] == TEXT:
                got.append(m[1])
        except OSError as e:   # it is cut in the end
            m = e
        ended.append(m)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for i in range(count(10000, 20000)):
        os.write(feed, b'{"i":%d,"s":"%s"}\n' % (i, b"x" * 1000))
    p = WebSocket(port, "/s?publish")
    p.message()
    for text in (b'[{"a":"kept out"},{"a":"\\ud800"}]', b'[{"a":"kept out"},1]'):
        p.publish(text)
        check("error" in p.reply(), text, "was taken")
    p.publish(b'{"last":1}')
    check(p.reply() == {"ok": [None]}, "a row was refused")
    until(lambda: ended or (len(got) > count(10000, 20000) and b'[null,{"last":1}]' in got), "the good one has all")
    check(not ended, "the good one was cut off after", len(got), "with", ended)
    numbers = [json.loads(line)[1]["i"] for line in got if b'"i":' in line]
    check(numbers == list(range(count(10000, 20000))), "the good one lost lines:", len(numbers))
    check(not [line for line in got if b"kept out" in line], "part of a refused group was sent")
    for q in slow:
        q.widen()
        code, reason = q.ending()
        check(code in (4429, 1011, 0), "a slow one was closed with", code, reason)
        q.close()
    # rows that nobody waits for, from one that takes no reply
    good_one.cut()
    deaf = WebSocket(port, "/s?publish", window=4096)
    rows = frame(TEXT, b"[" + b",".join([b"{}"] * 20000) + b"]")
    check(deaf.pour(rows, 40 << 20, 1) < 40 << 20, "all was taken from one that reads no reply")
    check(sanitized() or memory() < before + 8192, "memory grew to", memory(), "from", before)
    p.publish({"after": 1})
    check(p.reply() == {"ok": [None]}, "another publisher is not served any more")
    deaf.cut()
    p.close()
    os.close(feed)
    status = server.wait()
    check(status == 0, "it ended with", status, server.err()[-3000:])


if __name__ == "__main__":
    lab.main()
