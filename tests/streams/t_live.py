"""Long-poll (section 11) and server-sent events (section 12)."""

import json
import os
import time

from lab import check
from t_create import stamp
from web import after, unbase64, until
from world import Place, REFERENCE, Server, test

JSON = "application/json"
OCTETS = "application/octet-stream"


def check_timeout(r, tail):
    check(r.status == 204 and r.next == tail and r.fresh == "true" and r.get("Stream-Cursor").isdigit() and r.closed is None, r)
    check("etag" not in r.names(), r)


@test
def long_poll_with_data_is_answered_at_once(p):
    s = p.text(b"one", b"two")
    for offset, body in (("-1", b"onetwo"), (after(b"one"), b"two")):
        r = s.poll(offset)
        check((r.body, r.next, r.fresh) == (body, after(b"one", b"two"), "true"), r)
        check(r.get("Stream-Cursor").isdigit() and r.etag == s.get(offset).etag and r.get("Content-Type") == "text/plain", r)


@test
def long_poll_is_woken_by_an_append(p):
    s = p.text(b"one")
    for offset in (s.head().next, "now"):
        tail = s.head().next
        w = s.waiter(offset)
        began = time.monotonic()
        s.post(b"two")
        r = w.reply()
        check(time.monotonic() - began < 2, "it took", time.monotonic() - began)
        check((r.status, r.body, r.next, r.fresh) == (200, b"two", after(b"two", start=int(tail[17:])), "true"), r)
        check(r.get("Stream-Cursor").isdigit() and r.etag, r)
        w.close()


@test(long_poll_ms=300)
def long_poll_ends_without_data(p):
    s = p.text(b"one")
    tail = s.head().next
    for offset in (tail, "now"):
        began = time.monotonic()
        r = s.poll(offset, status=204)
        took = time.monotonic() - began
        check(0.25 < took < 3, "it took", took)
        check_timeout(r, tail)


@test(long_poll_ms=300, differs="an empty answer at once")
def long_poll_of_an_empty_stream_waits(p):
    s = p.text()
    began = time.monotonic()
    check_timeout(s.poll("-1", status=204), s.head().next)
    check(time.monotonic() - began > 0.25, "it did not wait")
    w = s.place.wire()
    w.send(b"GET " + s.target.encode() + b"?offset=-1&live=long-poll HTTP/1.1\r\nHost: h\r\n\r\n")
    s.post(b"first")
    check(w.reply().body == b"first", "not woken")


@test
def long_poll_at_the_end_of_a_closed_stream(p):
    s = p.text(b"one")
    s.close()
    for offset in (s.head().next, "now"):
        r = s.poll(offset, status=204)
        check((r.next, r.fresh, r.closed) == (s.head().next, "true", "true") and "etag" not in r.names(), r)
    r = s.poll("-1")
    check(r.body == b"one" and r.closed == "true", r)


@test
def long_poll_is_woken_by_a_close(p):
    s = p.text(b"one")
    w = s.waiter(s.head().next)
    s.close()
    r = w.reply()
    check((r.status, r.closed, r.fresh, r.next) == (204, "true", "true", s.head().next), r)


@test(differs="204 without the data")
def long_poll_is_woken_by_an_append_and_close(p):
    for fields in ({}, {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}):
        s = p.text(b"one")
        w = s.waiter(s.head().next)
        s.post(b"last", {"Stream-Closed": "true", **fields})
        r = w.reply()
        check((r.status, r.body, r.closed, r.fresh, r.next) == (200, b"last", "true", "true", s.head().next), r)


@test(differs="it waits on")
def long_poll_ends_when_the_stream_is_deleted(p):
    s = p.text(b"one")
    w = s.waiter(s.head().next)
    began = time.monotonic()
    s.delete()
    r = w.reply()
    check(r.status == 404 and time.monotonic() - began < 2, r)
    s = p.text(b"one")
    p.fork(s)
    w = s.waiter("now")
    s.delete()
    check(w.reply().status in (404, 410), "the source of a fork")


@test(differs="it waits on")
def long_poll_ends_when_the_stream_expires(p):
    s = p.text(fields={"Stream-Expires-At": stamp(2)})
    w = s.waiter("now")
    began = time.monotonic()
    r = w.reply()
    check(r.status == 404 and time.monotonic() - began < 4, r, time.monotonic() - began)


@test
def long_poll_on_a_forks_tail_is_not_woken_by_the_source(p):
    s = p.text(b"one")
    f = p.fork(s)
    w = f.waiter(f.head().next)
    s.post(b"for the source")
    check(w.quiet(0.4), "woken")
    f.post(b"for the fork")
    check(w.reply().body == b"for the fork", "not woken")
    w = s.waiter("now")
    f.post(b"x")
    check(w.quiet(0.3), "the source is woken by the fork")
    w.close()


@test
def long_polls_many_of_one_stream(p):
    s = p.text()
    waiters = [s.waiter("now") for _ in range(20)]
    s.post(b"all of you")
    for w in waiters:
        check(w.reply().body == b"all of you", "one has other data")
        w.close()


@test
def long_poll_chain_misses_nothing(p):
    s = p.text()
    other = p.at(s.target)
    got, offset = b"", "now"
    offset = s.head().next
    for n in range(60):
        other.post(b"%02d" % n)
        if n % 7 == 0:
            r = s.poll(offset)
            got, offset = got + r.body, r.next
    while len(got) < 120:
        r = s.poll(offset)
        got, offset = got + r.body, r.next
    check(got == b"".join(b"%02d" % n for n in range(60)), got)


@test(differs="the wait goes on")
def a_waiter_is_told_when_the_server_stops(p):
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    with Server(folder, long_poll_ms=60000) as server:
        own = Place(server, "own", folder)
        s = own.text(b"one")
        w, reader = s.waiter("now"), s.sse("-1")
        reader.pair()
        began = time.monotonic()
        status = server.end()
        check(status == 0 and time.monotonic() - began < 10, "it ended with", status, "after", time.monotonic() - began)
        check(w.reply().status == 503, "the long-poll")
        check(reader.event() is None, "the event stream does not end cleanly")


@test
def sse_head(p):
    for kind, coded in (("text/plain", None), ("application/json", None), ("text/html; charset=x", None), ("TEXT/Markdown", None), (OCTETS, "base64"),
                        ("application/x-ndjson", "base64"), ("image/png", "base64"), ("application/vnd.x+json", "base64")):
        s = p.stream()
        s.put({"Content-Type": kind})
        with s.sse() as e:
            r = e.reply
            check(r.status == 200 and r.get("Content-Type") == "text/event-stream", r)
            check(r.get("Cache-Control") == "no-cache" and r.get("Stream-SSE-Data-Encoding") == coded, kind, r)
            check(REFERENCE or r.get("X-Accel-Buffering") == "no", r)
            part, control = e.pair()
            check(part is None and control["upToDate"] and control["streamNextOffset"] == s.head().next, control)


@test
def sse_errors_are_plain_answers(p):
    s = p.text(b"one")
    for target, query, status in ((s.target + "x", "?offset=-1&live=sse", 404), (s.target, "?live=sse", 400), (s.target, "?offset=x&live=sse", 400),
                                  (s.target, "?offset=&live=sse", 400)):
        r = p.at(target).ask("GET", query=query, status=status)
        check(not (r.get("Content-Type") or "").startswith("text/event-stream"), r)
    p.fork(s)
    s.delete()
    s.ask("GET", query="?offset=-1&live=sse", status=410)


@test(differs="several data events in a row")
def sse_catches_up_and_follows(p):
    s = p.text(b"one", b"two")
    with s.sse() as e:
        data, control = e.until(s.head().next)
        check(b"".join(data) == b"onetwo" and control["upToDate"] is True, data)
        for n in range(5):
            s.post(b"live %d" % n)
            data, control = e.until(s.head().next)
            check(b"".join(data) == b"live %d" % n and control["upToDate"] is True, data)
    with s.sse(after(b"one")) as e:
        data, _ = e.until(s.head().next)
        check(b"".join(data) == b"twolive 0live 1live 2live 3live 4", data)


@test
def sse_from_now(p):
    s = p.text(b"one")
    with s.sse("now") as e:
        part, control = e.pair()
        check(part is None and control["streamNextOffset"] == s.head().next and control["upToDate"] is True, control)
        s.post(b"two")
        part, control = e.pair()
        check(part == b"two", part)


def batch(p, text, kind="text/plain"):
    """The one data event of these bytes, read in one batch."""
    s = p.stream()
    s.put({"Content-Type": kind}, text)
    with s.sse() as e:
        first = e.event()
        check(first.kind == "data" and e.event().kind == "control", first)
        return first


@test
def sse_lines_cannot_be_injected(p):
    for text in (b"a\n\nevent: control\ndata:{\"streamClosed\":true}\n\n", b"a\r\rdata:x\r", b"\r\n\r\nevent: data\r\n", b"id: 5\nretry: 1\n:\n", b"\n", b"\r\n",
                 b"a\nb\rc\r\nd", b"\n\n\n", b"x\r\n"):
        e = batch(p, text)
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        check(e.data == lines, text, "became", e.data, e.raw)


@test(differs="one leading blank is lost")
def sse_keeps_leading_blanks(p):
    for text in (b" a", b"  a", b" ", b"a\n b\n  c", b"   "):
        check(batch(p, text).data == text, text, "became", batch(p, text).raw)
    check(b"data:line1\n" in batch(p, b"line1").raw, "a blank after data:")
    check(b"data:\ta\n" in batch(p, b"\ta").raw, "a tab")


@test
def sse_text_ends_inside_a_letter(p):
    s = p.text()
    with s.sse("now") as e:
        e.pair()
        for part in (b"\xf0\x9f", b"\x98\x80"):
            s.post(part)
        data, _ = e.until(s.head().next)
        check(REFERENCE or b"".join(data) == b"\xf0\x9f\x98\x80", data)


@test(differs="bytes that are no UTF-8 are replaced")
def sse_text_is_not_repaired(p):
    check(batch(p, b"a\xff\xc3b").data == b"a\xff\xc3b", batch(p, b"a\xff\xc3b").raw)
    check(b"a\0b" in batch(p, b"a\0b").raw, "a zero byte")


@test
def sse_of_json(p):
    s = p.json(b'[{"a":1},"x\\ny"]')
    with s.sse() as e:
        part, control = e.pair()
        check(json.loads(part) == [{"a": 1}, "x\ny"] and control["upToDate"] is True, part)
        s.post(b"[2,3]", kind=JSON)
        part, _ = e.pair()
        check(json.loads(part) == [2, 3], part)
    s = p.json(b'{"a":\n1,\r\n"b":\r2}')
    with s.sse() as e:
        part, _ = e.pair()
        check(json.loads(part) == [{"a": 1, "b": 2}], part)


@test
def sse_of_bytes(p):
    everything = bytes(range(256)) * 4
    s = p.stream()
    s.put({"Content-Type": OCTETS})
    s.post(everything, kind=OCTETS)
    with s.sse() as e:
        part, _ = e.pair()
        check(unbase64(part) == everything, part[:100])
        for n in range(1, 6):
            s.post(b"\xff" * n, kind=OCTETS)
            part, _ = e.pair()
            check(unbase64(part) == b"\xff" * n and len(part) % 4 == 0, part)


@test(differs="several data events in a row")
def sse_of_much_is_data_and_control_by_turns(p):
    for kind, message in (("text/plain", b"t" * 300000), (JSON, b'"' + b"j" * 300000 + b'"'), (OCTETS, b"\x80" * 300000)):
        s = p.text(*[message] * 12, kind=kind)
        with s.sse() as e:
            data, control = e.until(s.head().next)
            check(control["upToDate"] is True and len(data) > 2, len(data))
            if kind == JSON:
                check([m for d in data for m in json.loads(d)] == ["j" * 300000] * 12, "JSON")
            elif kind == OCTETS:
                check(b"".join(unbase64(d) for d in data) == message * 12, "base64")
            else:
                check(b"".join(data) == message * 12, "text")


@test(differs="the last control event is not said to be up to date")
def sse_ends_with_the_stream(p):
    s = p.text(b"one")
    with s.sse() as e:
        e.pair()
        s.close()
        part, control = e.pair()
        check(part is None and control == {"streamNextOffset": s.head().next, "streamClosed": True, "upToDate": True}, control)
        check(e.event() is None, "it goes on")
    with s.sse() as e:
        data, control = e.until(s.head().next)
        if "streamClosed" not in control:
            _, control = e.pair()
        check(b"".join(data) == b"one" and control.get("streamClosed") is True and e.event() is None, control)
    for offset in (s.head().next, "now"):
        with s.sse(offset) as e:
            part, control = e.pair()
            check(part is None and control["streamClosed"] is True and e.event() is None, control)


@test(differs="the last control event is not said to be up to date")
def sse_has_the_last_data_before_the_end(p):
    for n in range(10):
        s = p.text(b"one")
        with s.sse("now") as e:
            e.pair()
            s.post(b"last %d" % n, {"Stream-Closed": "true"})
            data = []
            while True:
                part, control = e.pair()
                data += [part] if part is not None else []
                if "streamClosed" in control:
                    break
            check(b"".join(data) == b"last %d" % n and control["streamNextOffset"] == s.head().next and e.event() is None, data)


@test(differs="it stays open")
def sse_ends_when_the_stream_is_deleted(p):
    s = p.text(b"one")
    with s.sse(limit_s=5) as e:
        e.pair()
        began = time.monotonic()
        s.delete()
        check(e.event() is None and time.monotonic() - began < 2, "after", time.monotonic() - began)
    s.put({"Content-Type": "text/plain"}, b"a new life")
    with s.sse() as e:
        check(e.pair()[0] == b"a new life", "the new life")


@test(differs="it stays open")
def sse_ends_when_the_stream_expires(p):
    s = p.text(fields={"Stream-Expires-At": stamp(2)})
    with s.sse() as e:
        e.pair()
        began = time.monotonic()
        check(e.event() is None and time.monotonic() - began < 4, "after", time.monotonic() - began)


@test(ours=True, options=["--sse", "1s"])
def sse_lives_as_long_as_it_may(p):
    s = p.text(b"one")
    began = time.monotonic()
    with s.sse() as e:
        e.pair()
        check(e.event() is None, "it goes on")
        check(0.8 < time.monotonic() - began < 5, "after", time.monotonic() - began)
        # a clean end: the connection takes another request
        e.wire.send(b"GET " + s.target.encode() + b" HTTP/1.1\r\nHost: h\r\n\r\n")
        check(e.wire.reply().body == b"one", "the connection")


@test
def sse_says_nothing_while_nothing_happens(p):
    s = p.text(b"one")
    with s.sse() as e:
        e.pair()
        check(e.wire.quiet(2), "something came:", e.wire.held)


@test
def sse_cursors(p):
    s = p.text(b"one")
    with s.sse(more="&cursor=99999999") as e:
        _, control = e.pair()
        check(99999999 < int(control["streamCursor"]) <= 99999999 + 180, control)
        s.post(b"two")
        _, control = e.pair()
        check(99999999 < int(control["streamCursor"]) <= 99999999 + 180, control)


@test
def sse_of_a_forks_tail_is_not_woken_by_the_source(p):
    s = p.text(b"one")
    f = p.fork(s)
    with f.sse() as e:
        check(e.pair()[0] == b"one", "what is inherited")
        s.post(b"for the source")
        check(e.wire.quiet(0.4), "woken")
        f.post(b"own")
        check(e.pair()[0] == b"own", "not woken")


@test
def sse_of_many_with_one_that_does_not_read(p):
    s = p.text()
    lazy = s.sse("now", window=4096)
    readers = [s.sse("now") for _ in range(5)]
    for e in readers:
        e.pair()
    total = b""
    for n in range(40):
        data = b"%06d" % n * 20000
        s.post(data)
        total += data
    tail = s.head().next
    for e in readers:
        data, _ = e.until(tail)
        check(b"".join(data) == total, "other data")
        e.close()
    lazy.pair()
    data, _ = lazy.until(tail)
    check(b"".join(data) == total, "the lazy one has other data")
    lazy.close()
    until(lambda: s.head().status == 200, "it answers")
