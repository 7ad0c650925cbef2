"""Pages of long messages, which go out of the store's own memory: the bytes are the same at any pace, and no reader holds the store."""

import json
import os
import random

from lab import check, until
from web import Wire, after, request
from world import test

LEND = 8192  # from this length on a message is sent from where it lies
JSON = "application/json"


def body(rng, length, kind):
    letters = rng.randbytes(length // 2 + 1).hex()[:length].encode()
    return b'"' + letters[:-2] + b'"' if kind == JSON else letters


def filled(p, rng, kind, lengths):
    messages = [body(rng, n, kind) for n in lengths]
    return p.text(*messages, kind=kind), messages


def joined(messages, kind):
    return b"[" + b",".join(messages) + b"]" if kind == JSON else b"".join(messages)


def lengths_of(rng, count):
    edges = (2, 3, 100, LEND - 1, LEND, LEND + 1, 65515, 65516, 65517, 200000)
    return [rng.choice(edges) for _ in range(count)]


@test(ours=True)
def long_and_short_messages_in_one_page(p):
    rng = random.Random(1)
    for kind in ("text/plain", JSON):
        s, messages = filled(p, rng, kind, lengths_of(rng, 40))
        got = s.all("json" if kind == JSON else None)
        check(got == ([json.loads(m) for m in messages] if kind == JSON else b"".join(messages)), kind, "other bytes")


@test(ours=True)
def pages_at_any_pace(p):
    """Windows that take a page in many pieces, which end anywhere: in the head, between parts, inside one."""
    rng = random.Random(2)
    for kind in ("text/plain", JSON):
        s, messages = filled(p, rng, kind, [LEND, 10, 20000, LEND - 1, 300000, 5, 70000])
        whole = joined(messages, kind)
        for window in (1, 5000, 20000, None):
            with p.wire(window=window) as w:
                w.send(request("GET", s.target))
                while len(w.held) < 100000:
                    w.sock.settimeout(20)
                    w.held += w.sock.recv(rng.randrange(1, 3000))
                check(w.reply().body == whole, kind, window, "other bytes")
                check(w.ask("GET", s.target).body == whole, kind, window, "the next answer")


@test(ours=True)
def pages_in_a_row(p):
    """Requests that are there before their turn: answers with and without a page come one behind the other."""
    rng = random.Random(3)
    s, messages = filled(p, rng, "text/plain", [50000, 10, 60000])
    whole, etag = b"".join(messages), s.get().etag
    asked = [("GET", {}), ("HEAD", {}), ("GET", {"If-None-Match": etag}), ("GET", {}), ("POST", {"Content-Type": "text/plain"}),
             ("GET", {})]
    with p.wire(window=4096) as w:
        w.send(b"".join(request(method, s.target, fields, b"more" if method == "POST" else None) for method, fields in asked))
        got = [w.reply(method) for method, _ in asked]
    check([r.status for r in got] == [200, 200, 304, 200, 204, 200], got)
    check(got[0].body == whole and got[3].body == whole and got[5].body == whole + b"more", "other bytes")
    check(got[1].body == b"" and got[2].body == b"", "bytes of a body that is none")


@test(ours=True)
def pages_in_a_row_that_nobody_takes(p):
    """The system has no room left when the next answer begins, or inside its head."""
    rng = random.Random(7)
    for length in range(LEND, LEND + 1200, 120):
        s, messages = filled(p, rng, "text/plain", [length])
        with p.wire(window=4096) as w:
            w.send(request("GET", s.target) * 500)
            for _ in range(500):
                check(w.reply().body == messages[0], length, "other bytes")


@test(ours=True, options=["--max-read", "64MiB"])
def pages_that_are_taken_while_they_are_sent(p):
    rng = random.Random(8)
    for kind in ("text/plain", JSON):
        s, messages = filled(p, rng, kind, [100000, 3000000, 9000, 3100000, 2900000, 2000000])
        for _ in range(5):
            check(s.get().body == joined(messages, kind), kind, "other bytes")


@test
def pages_of_a_fork(p):
    rng = random.Random(4)
    s, messages = filled(p, rng, "text/plain", [20000, 10, 30000])
    f = p.fork(s, {"Stream-Fork-Offset": after(*messages[:2])})
    f.post(b"f" * 9000)
    check(f.all() == messages[0] + messages[1] + b"f" * 9000, "other bytes")


@test(ours=True)
def a_reader_leaves_in_the_middle_of_a_page(p):
    rng = random.Random(5)
    s, messages = filled(p, rng, "text/plain", [3000000])
    for cut in (True, False):
        for taken in (1, 200, 100000):
            w = p.wire(window=4096)
            w.send(request("GET", s.target))
            while len(w.held) < taken:
                w.more()
            if cut:
                w.cut()
            else:
                w.close()
    check(s.all() == messages[0], "other bytes")


@test(ours=True, options=["--max-held", "512MiB"])
def slow_readers_do_not_hold_the_store(p):
    """While eight of them stand still in the middle of a page, space that is given back is used again; what they read may be
    deleted, and they get all of it."""
    rng = random.Random(6)
    readers = []
    for kind in ("text/plain", JSON):
        s, messages = filled(p, rng, kind, [6000000])
        for _ in range(4):
            w = p.wire(window=4096)
            w.send(request("GET", s.target))
            w.more()
            readers.append((w, joined(messages, kind)))
        s.delete()
    store = os.path.join(p.server.data, "streams.mdb")
    held = os.stat(store).st_size
    for _ in range(30):
        t = p.text(b"t" * 2000000)
        t.delete()
        until(lambda: b"\nsc_streams_delete_backlog 0\n" in Wire(p.port).ask("GET", "/metrics").body, "it is deleted")
    more = os.stat(store).st_size - held
    check(more < 20000000, "the store grew by", more, "bytes, though nothing is in it")
    for w, whole in readers:
        check(w.reply().body == whole, "other bytes")
        w.close()
