"""Paths, methods, queries and the fields of every answer (sections 1 to 3 of the protocol)."""

import contextlib

from lab import check
from web import METHODS, NINES, PREFIX, ZERO, after, off, request
from world import check_every, test


@test
def first_offset_is_zeros(p):
    s = p.stream()
    check(s.put().next == ZERO, "an empty stream ends elsewhere")
    check(s.get().next == ZERO, "an empty stream reads to elsewhere")


@test(differs="five bytes a message")
def an_append_moves_the_offset_by_four_and_its_length(p):
    s = p.text()
    at = 0
    for size in (1, 2, 100, 70000):
        at += 4 + size
        check(s.post(b"x" * size).next == off(at), "the offset after", size, "bytes")
    check(s.head().next == off(at), "HEAD's offset")


@test(differs="a batch is one frame")
def each_json_message_moves_the_offset(p):
    s = p.json()
    check(s.post(b'[1,22,{"a":3}]', kind="application/json").next == after("1", "22", '{"a":3}'), "three messages")
    check(s.get(after("1", "22")).body == b'[{"a":3}]', "read from the third")
    check(s.put({"Content-Type": "application/json"}, status=200).next == after("1", "22", '{"a":3}'), "PUT's offset")


BAD_OFFSETS = ["0_0", "1", "abc", "-2", "--1", "-1x", "NOW", "Now", "now%20", "%20now", "%20-1", "+", "1_2_3", "_", "0000000000000000",
               "0000000000000000_", "_0000000000000000", "0000000000000000-0000000000000000", "000000000000000_0000000000000000",
               "00000000000000000_0000000000000000", "0000000000000000_00000000000000000", "0000000000000001_0000000000000000",
               "0000000000000000_000000000000000x", "0000000000000000_%2B000000000000000", "0000000000000000_-000000000000001",
               "0000000000000000__000000000000000", ZERO + "%00", ZERO + "%0A", ZERO + "%20", "%00", "%0d%0a", "..%2F..%2F", "%C0%80",
               "0x00000000000000_0000000000000000", "%EF%BC%90000000000000000_0000000000000000", "0,0", ZERO + "," + ZERO,
               ZERO + "%26", "a" * 300]


@test(differs="digits_digits is taken")
def offsets_of_any_other_form_are_refused(p):
    s = p.text(b"one")
    for bad in BAD_OFFSETS:
        for live in (None, "long-poll", "sse"):
            s.get(bad, live=live, status=400)


@test(differs="200")
def an_offset_past_the_tail_is_refused(p):
    s = p.text(b"one")
    for live in (None, "long-poll", "sse"):
        s.get(off(8), live=live, status=400)
        s.get(NINES, live=live, status=400)
    s.close()
    s.get(off(8), status=400)


@test(differs="the whole message")
def an_offset_inside_a_message_is_refused(p):
    s = p.text(b"one", b"two")
    for inside in (1, 3, 4, 6, 8, 13):
        for live in (None, "long-poll", "sse"):
            s.get(off(inside), live=live, status=400)
    check(s.get(off(7)).body == b"two", "a boundary is none")


@test
def an_offset_twice_or_empty_is_refused(p):
    s = p.text(b"one")
    for query in ("?offset=", "?offset=&live=long-poll", "?offset=-1&offset=-1", f"?offset=-1&offset={ZERO}", "?offset=-1&live=sse&offset=now"):
        s.ask("GET", query=query, status=400)
    for live in ("long-poll", "sse"):
        s.ask("GET", query=f"?live={live}", status=400)


@test
def the_query_is_form_decoded(p):
    s = p.text(b"one")
    for query in ("", "?", "?offset=-1", "?offset=%2D1", "?offset=%2d%31", "?off%73et=-1", "?foo=bar&offset=-1&&=x", "?Offset=bad",
                  "?offset=" + ZERO.replace("_", "%5F"), "?live=nonsense", "?live=", "?offset=-1&live=LONG-POLL", "?foo", "?cursor=abc"):
        check(s.ask("GET", query=query, status=200).body == b"one", query)
    s.ask("GET", query="?offset=+-1", status=400)


@test
def the_query_counts_for_get_alone(p):
    s = p.stream()
    s.put({"Content-Type": "text/plain"}, query="?offset=bad&live=sse")
    s.post(b"one", query="?offset=bad")
    check(s.ask("HEAD", query="?offset=bad&offset=&live=sse", status=200).get("Content-Type") == "text/plain", "HEAD")
    check(s.all() == b"one", "the query became part of the name")
    s.delete(query="?offset=bad&live=long-poll")
    s.get(status=404)


@test(differs="dots are folded")
def paths_are_the_bytes_that_were_sent(p):
    names = ["a/b", "a%2Fb", "a%2fb", "a//b", "a/./b", "a/x/../b", "a/b/", "a+b", "a%20b", "a%2Bb", "A/b", "a%2F%62", "~a", "%7Ea", "a;b", "a=b",
             "a&b", "a,b", "a%00b", "a%zz", "a%", "a:b", "(a)", "a'b", "a\"b", "a\\b", "a|b", "a^b", "{a}", "a*b", "$a!"]
    for n, name in enumerate(names):
        p.stream(name).put({"Content-Type": "text/plain"}, b"%d" % n)
    for n, name in enumerate(names):
        s = p.stream(name)
        check(s.all() == b"%d" % n, name, "is", s.all(), "not", n)
    p.stream("a%2Fb").delete()
    check(p.stream("a/b").all() == b"0" and p.stream("a%2fb").all() == b"2", "one delete, two streams gone")


@test(differs="no such answer")
def paths_outside_the_prefix_are_not_found(p):
    for target in ("/", "/v1", "/v1/strea", "/v1/streams/x", "/v1/STREAM/x", "//v1/stream/x", "/v1//stream/x", "/v2/stream/x", "/v1/%73tream/x",
                   "/" + "x" * 600, "/../v1/stream/x", "*"):
        for method in ("GET", "PUT", "HEAD", "DELETE"):
            if target != "*":
                p.at(target).ask(method, body=b"" if method == "PUT" else None, status=404)
    p.at("/").post(b"x", status=404)


@test(ours=True)
def health_is_answered(p):
    r = p.at("/health").get()
    check(0 < len(r.body) < 200 and r.get("Content-Type").startswith("text/plain"), r)
    p.at("/health").head()


@test(ours=True, options=[])
def each_answer_is_counted_by_its_status(p):
    def counted(method, status):
        with p.wire() as w:
            return f'sc_streams_http_requests_total{{method="{method}",status="{status}"}} 1\n' in w.ask("GET", "/metrics").body.decode()

    p.stream().put()
    with p.wire() as w:
        w.send(b"GET / HTTP/2.0\r\n\r\n")
        r = w.reply()
        check(r.status == 505 and b"HTTP/1.1" in r.body, r)
    for method, status in (("PUT", 201), ("OTHER", 505)):
        check(counted(method, status), method, status)


@test(differs="no limit")
def a_path_has_512_bytes(p):
    start = f"{PREFIX}{p.name}/"
    fits = start + "x" * (512 - len(start))
    p.at(fits).put({"Content-Type": "text/plain"}, b"one")
    check(p.at(fits).all() == b"one", "512 bytes")
    check(p.at(fits).ask("GET", query="?foo=" + "y" * 600, status=200).body == b"one", "the query counts as path")
    two = fits[:-1] + "y"
    p.at(two).put({"Content-Type": "text/plain"}, b"two")
    check(p.at(fits).all() == b"one" and p.at(two).all() == b"two", "two long names that differ in the last byte")
    for method in ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "FOO"):
        p.at(fits + "z").ask(method, body=b"" if method in ("PUT", "POST") else None, status=414)
    p.at(fits).ask("PUT", {"Content-Type": "text/plain"}, b"", status=200)


@test(differs="HEAD is not among the methods and If-None-Match not among the fields")
def preflight(p):
    s = p.text(b"one")
    for target in (s.target, p.stream("absent").target, PREFIX + "__ds/subscriptions/x"):
        r = p.at(target).ask("OPTIONS", {"Origin": "http://o", "Access-Control-Request-Method": "POST"}, status=204)
        check(r.get("Access-Control-Allow-Methods") == METHODS and "if-none-match" in r.get("Access-Control-Allow-Headers").lower(), r)
    s.delete()


@test(differs="no Allow")
def other_methods_are_refused(p):
    s = p.text(b"one")
    for target in (s.target, p.stream("absent").target):
        for method in ("PATCH", "FOO", "PROPFIND", "get", "Put", "TRACE"):
            r = p.at(target).ask(method, status=405)
            allow = {m.strip() for m in (r.get("Allow") or "").split(",")}
            check(allow == set(METHODS.split(", ")), "Allow is", r.get("Allow"))
    check(s.all() == b"one", "the stream changed")


@test
def the_reserved_part_holds_no_streams(p):
    for target in ("__ds", "__ds/", "__ds/x", "__ds/subscriptions", "__ds/x/y"):
        for method in ("GET", "PUT", "DELETE"):
            r = p.at(PREFIX + target).ask(method, {"Content-Type": "text/plain"}, b"" if method == "PUT" else None, status=404)
            check(b'"error"' in r.body and b'"code"' in r.body and r.get("Content-Type").startswith("application/json"), r)
    for target in ("__dsx", "%5F%5Fds", f"{p.name}/__ds", "_ds"):
        p.at(PREFIX + target).put()
        p.at(PREFIX + target).delete()


@test(differs="fewer fields, and errors without a type")
def every_answer_has_the_same_fields(p):
    s = p.json(b"[1]")
    etag = s.get().etag
    tail = s.head().next
    with contextlib.ExitStack() as wires:
        for method, target, fields, body, status in (
                ("GET", s.target, {}, None, 200), ("GET", s.target, {"If-None-Match": etag}, None, 304), ("HEAD", s.target, {}, None, 200),
                ("HEAD", s.target + "x", {}, None, 404), ("GET", s.target + "x", {}, None, 404), ("GET", s.target + "?offset=x", {}, None, 400),
                ("PUT", s.target, {"Content-Type": "application/json"}, b"", 200), ("PUT", s.target, {}, b"", 409),
                ("PUT", s.target + "/new", {}, b"", 201), ("PUT", s.target + "/new2", {"Stream-TTL": "x"}, b"", 400),
                ("POST", s.target, {"Content-Type": "application/json"}, b"[2]", 204), ("POST", s.target, {}, b"", 400),
                ("POST", s.target, {"Content-Type": "application/json", "Producer-Id": "a", "Producer-Epoch": "0", "Producer-Seq": "0"},
                 b"[2]", 200), ("POST", s.target, {"Content-Type": "text/plain"}, b"[2]", 409), ("PATCH", s.target, {}, None, 405),
                ("OPTIONS", s.target, {}, None, 204), ("GET", "/", {}, None, 404), ("GET", f"{s.target}?offset={tail}", {}, None, 200),
                ("DELETE", s.target, {}, None, 204), ("DELETE", s.target, {}, None, 404)):
            r = wires.enter_context(p.wire()).ask(method, target, fields, body)
            check(r.status == status, method, target, "gave", r)
            check_every(r, target)
            check(r.get("X-Content-Type-Options") == "nosniff" and r.get("Access-Control-Expose-Headers"), r)
            check("content-type" in r.names() or r.status in (204, 304), "no type in", r)
            check(method == "HEAD" or r.status < 400 or r.body, "an error without words", r)


@test
def field_names_have_no_case_and_values_no_blanks(p):
    s = p.stream()
    with p.wire() as w:
        w.send(f"PUT {s.target} HTTP/1.1\r\nhOST: h\r\nCONTENT-TYPE:  \t text/plain \t \r\nsTREAM-ttl: \t 60 \r\ncontent-LENGTH: 0\r\n\r\n".encode())
        check(w.reply().status == 201, "not created")
    r = s.head()
    check(r.get("Content-Type") == "text/plain" and r.get("Stream-TTL") == "60", r)


@test(differs="an empty Stream-Seq is one")
def an_empty_value_counts_as_absent(p):
    s = p.stream()
    s.put({"Content-Type": "", "Stream-TTL": "", "Stream-Expires-At": "", "Stream-Closed": "", "Stream-Forked-From": ""})
    r = s.head()
    check(r.get("Content-Type") == "application/octet-stream" and r.closed is None, r)
    check("stream-ttl" not in r.names() and "stream-expires-at" not in r.names(), r)
    s.post(b"a", {"Stream-Seq": ""}, kind="application/octet-stream")
    s.post(b"b", {"Stream-Seq": ""}, kind="application/octet-stream")
    check(s.all() == b"ab", "empty Stream-Seq counted")


@test
def a_request_without_length_is_answered_at_once(p):
    s = p.stream()
    with p.wire(limit_s=5) as w:
        w.send(f"PUT {s.target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        check(w.reply().status == 201, "PUT")
        w.send(f"POST {s.target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        check(w.reply().status == 400, "POST")
        w.send(f"POST {s.target} HTTP/1.1\r\nHost: h\r\nStream-Closed: true\r\n\r\n".encode())
        check(w.reply().status == 204, "close")
        w.send(request("POST", s.target, {"Stream-Closed": "true"}, []))
        check(w.reply().status == 204, "close with an empty chunked body")
