"""Limits (section 18): bodies, paths, pages; what is refused is refused before it costs anything."""

import threading

from lab import check
from web import Gone, after, off, request
from world import test


@test(ours=True, options=["--max-body", "1000"])
def a_body_has_a_limit(p):
    s = p.text()
    s.post(b"x" * 1000)
    s.post([b"x" * 500, b"x" * 500])
    for body in (b"x" * 1001, [b"x" * 500, b"x" * 501], b"x" * 100000, [b"x" * 1000] * 50):
        with p.wire() as w:
            try:
                w.send(request("POST", s.target, {"Content-Type": "text/plain"}, body))
            except Gone:
                pass
            r = w.reply()
            check(r.status == 413, len(body), "gave", r)
            w.ended()
        with p.wire() as w:
            try:
                w.send(request("PUT", s.target + "/new", {"Content-Type": "text/plain"}, body))
            except Gone:
                pass
            check(w.reply().status == 413, "PUT of", len(body))
        p.at(s.target + "/new").head(status=404)
    check(s.head().next == after(b"x" * 1000, b"x" * 1000), "part of a body was stored")


@test(ours=True)
def a_declared_length_is_refused_before_the_body(p):
    s = p.text()
    for length in ("67108865", "9223372036854775807", "99999999999"):
        for method, target in (("POST", s.target), ("PUT", s.target), ("PUT", s.target + "/new"), ("POST", s.target + "/absent")):
            with p.wire() as w:
                w.send(f"{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n".encode())
                r = w.reply()
                check(r.status == 413, method, target, length, r)
                w.ended()
    check(s.all() == b"", "something was stored")


@test(ours=True, options=["--max-body", "1000"])
def syntax_wins_over_the_limit_of_a_put(p):
    s = p.stream()
    with p.wire() as w:
        w.send(f"PUT {s.target} HTTP/1.1\r\nHost: h\r\nStream-TTL: x\r\nContent-Length: 5000\r\n\r\n".encode())
        check(w.reply().status == 400, "the syntax of PUT comes first")


@test(ours=True, options=["--max-path", "60"])
def a_path_has_a_limit_of_ones_own(p):
    start = f"/v1/stream/{p.name[:20]}/"
    p.at(start + "x" * (60 - len(start))).put()
    p.at(start + "x" * (61 - len(start))).put(status=414)


@test(ours=True, options=["--max-read", "1000"])
def a_page_has_a_limit_of_ones_own(p):
    s = p.text(*[b"%0100d" % n for n in range(25)])
    r = s.get()
    check(len(r.body) == 1000 and r.fresh is None and r.next == after(*[b"x" * 100] * 10), r)
    check(s.all() == b"".join(b"%0100d" % n for n in range(25)), "pages")
    with s.sse() as e:
        data, _ = e.until(s.head().next)
        check(b"".join(data) == s.all() and len(data) == 3, len(data))


@test(ours=True, options=["--prefix", "/streams/of/mine/"])
def a_prefix_of_ones_own(p):
    s = p.at("/streams/of/mine/a/b")
    check(s.put({"Content-Type": "text/plain"}, b"x").get("Location").endswith("/streams/of/mine/a/b"), "Location")
    check(s.all() == b"x", s.all())
    p.at("/v1/stream/a").put(status=404)


@test(ours=True, options=["--cors", "none"])
def no_cors(p):
    with p.wire() as w:
        for method, target in (("GET", "/v1/stream/a"), ("OPTIONS", "/v1/stream/a")):
            r = w.ask(method, target)
            check(not [n for n in r.names() if n.startswith("access-control")], r)
            check(r.get("X-Content-Type-Options") == "nosniff", r)


@test(ours=True, options=["--cors", "https://app.example"])
def cors_of_one_origin(p):
    with p.wire() as w:
        check(w.ask("GET", "/v1/stream/a").get("Access-Control-Allow-Origin") == "https://app.example", "the origin")


@test(ours=True, options=["--max-held", "1100KiB"])
def bodies_in_flight_have_a_budget(p):
    """Two bodies that are nearly there leave no room for a third; it is refused before it is read, and taken when they are done."""
    s = p.text()
    body = b"b" * 400000
    data = request("POST", s.target, {"Content-Type": "text/plain"}, body)
    wires = [p.wire() for _ in range(2)]
    for w in wires:
        w.send(data[:-1000])
        check(w.quiet(0.3), "refused though it fits")
    with p.wire() as third:
        third.send(request("POST", s.target, {"Content-Type": "text/plain", "Expect": "100-continue"}, body)[:-len(body)])
        r = third.reply()
        check(r.status == 503 and r.get("Retry-After") == "1", r)
    s.post(b"a small one has room")
    for w in wires:
        w.send(data[-1000:])
        check(w.reply().status == 204, "what fits")
        w.close()
    s.post(body)
    check(len(s.all()) == 3 * 400000 + 20, "lost")


@test
def long_values_in_fields(p):
    s = p.text()
    s.post(b"a", {"Stream-Seq": "s" * 4000})
    s.post(b"x", {"Stream-Seq": "s" * 3999}, status=409)
    s.post(b"b", {"Stream-Seq": "s" * 4001, "Producer-Id": "p" * 2000, "Producer-Epoch": "0", "Producer-Seq": "0"}, status=200)
    s.post(b"x", {"Producer-Id": "p" * 2000, "Producer-Epoch": "0", "Producer-Seq": "0"}, status=204)
    check(s.all() == b"ab", s.all())


@test
def a_large_message_while_others_write(p):
    s, t = p.text(), p.text()
    done = []

    def large():
        done.append(p.at(s.target).post(b"L" * (20 << 20)).next)

    thread = threading.Thread(target=large)
    thread.start()
    count = 0
    while thread.is_alive():
        t.post(b"s")
        count += 1
    thread.join()
    check(done == [after(b"L" * (20 << 20))] and t.all() == b"s" * count, done)
    check(s.get(off(0)).body == b"L" * (20 << 20), "other bytes")
