"""GET in one go (section 10), pages, ETag and caching (section 17), JSON (section 13)."""

import json
import re
import time

from lab import check
from web import FRAME, after, off
from world import REFERENCE, test

JSON = "application/json"
OCTETS = "application/octet-stream"
INTERVAL_S = 20
CURSOR_EPOCH = 1728432000  # 2024-10-09T00:00:00Z


@test
def what_is_missing_wins_over_the_offset(p):
    s = p.stream()
    for query in ("?offset=bad", "?offset=", "?live=sse", "?offset=1&offset=2", "?offset=" + off(99)):
        s.ask("GET", query=query, status=404)


@test
def gone_wins_over_the_offset(p):
    s = p.text(b"one")
    p.fork(s)
    s.delete()
    for query in ("", "?offset=bad", "?offset=", "?live=sse", "?offset=-1&live=long-poll", "?offset=-1&live=sse", "?offset=now"):
        s.ask("GET", query=query, status=410)


@test
def a_read_of_all(p):
    s = p.text(b"one", b"two", kind="text/plain;charset=UTF-8")
    r = s.get()
    check((r.body, r.next, r.fresh, r.closed) == (b"onetwo", after(b"one", b"two"), "true", None), r)
    check(r.get("Content-Type") == "text/plain;charset=UTF-8" and r.get("Cache-Control") is None and r.get("Stream-Cursor") is None, r)
    check(s.get("-1").etag == r.etag, "an offset of -1 is not none")
    r = s.get(after(b"one"))
    check((r.body, r.next, r.fresh) == (b"two", after(b"one", b"two"), "true"), r)
    r = s.get(after(b"one", b"two"))
    check((r.body, r.next, r.fresh) == (b"", after(b"one", b"two"), "true"), r)


@test(differs="all in one answer, offsets of batches")
def pages(p):
    message = b"m" * 100000
    s = p.text(*[message] * 30)
    offset, sizes, seen = "-1", [], 0
    while True:
        r = s.get(offset)
        sizes.append(len(r.body))
        seen += len(r.body)
        check(len(r.body) % 100000 == 0, "a message was cut")
        check(r.next == after(*[message] * (seen // 100000)), "next offset", r.next)
        if r.fresh:
            check(r.get("Cache-Control") is None, "Cache-Control of the last page", r)
            break
        check(r.get("Cache-Control") == "public, max-age=60, stale-while-revalidate=300", "Cache-Control of a page", r)
        offset = r.next
    check(seen == 3000000 and len(sizes) == 3 and all(900000 <= n <= 1200000 for n in sizes[:-1]), "pages of", sizes)
    s.close()
    r = s.get()
    check(r.closed is None and r.fresh is None, "a page before the end is not the end", r)
    check(s.get(offset).closed == "true", "the last page is the end")


@test(differs="all in one answer")
def a_message_larger_than_a_page_is_whole(p):
    big = b"b" * 5000000
    s = p.text(b"small", big, b"after")
    r = s.get(after(b"small"))
    check(r.body == big and r.fresh is None and r.next == after(b"small", big), "a page of", len(r.body))
    r = s.get(r.next)
    check(r.body == b"after" and r.fresh == "true", r)
    check(s.all() == b"small" + big + b"after", "all of it")


@test
def many_small_messages_are_paged(p):
    s = p.stream()
    s.put({"Content-Type": JSON})
    for n in range(8):
        s.post(json.dumps([f"{i:099d}" for i in range(n * 5000, (n + 1) * 5000)]).encode(), kind=JSON)
    check(s.all("json") == [f"{i:099d}" for i in range(40000)], "other messages")


@test
def read_from_now(p):
    s = p.text(b"one")
    r = s.get("now")
    check((r.body, r.next, r.fresh) == (b"", s.head().next, "true"), r)
    check(r.get("Cache-Control") == "no-store" and r.etag is None, r)
    s.post(b"two")
    check(s.get(r.next).body == b"two", "what came after")
    j = p.json(b"[1]")
    r = j.get("now")
    check(r.body == b"[]" and r.get("Content-Type") == JSON, r)
    check(j.get(r.next).body == b"[]", "at the tail")


@test(differs="an ETag of HEAD")
def head_of_a_stream(p):
    s = p.text(b"one", kind="text/plain; x=y")
    r = s.head()
    check((r.get("Content-Type"), r.next, r.get("Cache-Control"), r.closed) == ("text/plain; x=y", after(b"one"), "no-store", None), r)
    check(r.fresh is None and "stream-ttl" not in r.names() and r.body == b"" and "etag" not in r.names(), r)
    s.close()
    check(s.head().closed == "true", "closed")
    t = p.stream()
    t.put({"Stream-TTL": "77"})
    check(t.head().get("Stream-TTL") == "77" and "stream-expires-at" not in t.head().names(), t.head())
    f = p.fork(s, {"Stream-TTL": "55"})
    check(f.head().get("Stream-TTL") == "55", f.head())


@test(differs="the path and not a life of it")
def form_of_an_etag(p):
    s = p.text(b"one", b"two")

    def parts(etag):
        m = re.fullmatch(r'"([^":/]+):([0-9_]+):([0-9_]+)(:c)?"', etag)
        check(m, "the form of", etag)
        return [m[1], *(int(n.rsplit("_", 1)[-1]) for n in (m[2], m[3])), m[4]]

    sid, begin, end, _ = parts(s.get().etag)
    middle, tail = FRAME + 3, 2 * (FRAME + 3)
    check((begin, end) == (0, tail), s.get().etag)
    check(parts(s.get(off(middle)).etag) == [sid, middle, tail, None], "from the middle")
    check(parts(s.get(off(tail)).etag) == [sid, tail, tail, None], "at the tail")
    check(parts(p.text(b"one", b"two").get().etag)[0] != sid, "another stream")
    before = s.get().etag
    s.close()
    check(s.get().etag == before[:-1] + ':c"', s.get().etag)
    s.get(fields={"If-None-Match": before}, status=200)


@test(differs="304 without the offset")
def not_modified(p):
    s = p.text(b"one")
    r = s.get()
    n = s.get(fields={"If-None-Match": r.etag}, status=304)
    check((n.etag, n.next, n.fresh) == (r.etag, r.next, "true"), n)
    s.get(fields={"If-None-Match": '"other"'}, status=200)
    s.post(b"two")
    check(s.get(fields={"If-None-Match": r.etag}, status=200).body == b"onetwo", "changed")
    s.close()
    r = s.get()
    check(s.get(fields={"If-None-Match": r.etag}, status=304).closed == "true", "closed")
    check(s.poll(after(b"one"), fields={"If-None-Match": s.get(after(b"one")).etag}, status=304).get("Stream-Cursor"), "long-poll")
    big = p.text(*[b"m" * 600000] * 3)
    r = big.get()
    n = big.get(fields={"If-None-Match": r.etag}, status=304)
    check(r.fresh is None and (n.next, n.fresh, n.get("Cache-Control")) == (r.next, None, r.get("Cache-Control")), n)


@test(differs="the whole field is compared")
def lists_and_weak_tags(p):
    s = p.text(b"one")
    etag = s.get().etag
    for fine in (etag, f'"a", {etag}', f'{etag} , "b"', f'"a",{etag},"c"', "W/" + etag, f'"x", W/{etag}', "*", f'"a,b",{etag}'):
        s.get(fields={"If-None-Match": fine}, status=304)
    for other in ('"a"', '"a", "b"', etag[1:-1], etag.replace(":", ";"), '""', "W/", '"a,' + etag[1:], ",", '"*"'):
        s.get(fields={"If-None-Match": other}, status=200)


@test(differs="304")
def an_etag_does_not_outlive_the_stream(p):
    s = p.text(b"one")
    etag = s.get().etag
    s.delete()
    s.put({"Content-Type": "text/plain"})
    s.post(b"two")
    r = s.get(fields={"If-None-Match": etag}, status=200)
    check(r.body == b"two" and r.etag != etag, r)
    s.delete()
    s.put({"Content-Type": "text/plain"})
    s.post(b"one")
    check(s.get(fields={"If-None-Match": etag}, status=200).etag not in (etag, r.etag), "the same bytes in a new life")


@test
def a_closure_changes_the_etag(p):
    s = p.text(b"one")
    r, end = s.get(), s.get(s.head().next)
    s.close()
    check(s.get(fields={"If-None-Match": r.etag}, status=200).closed == "true", "at the beginning")
    check(s.get(end.next, fields={"If-None-Match": end.etag}, status=200).closed == "true", "at the tail")


def interval():
    return int((time.time() - CURSOR_EPOCH) // INTERVAL_S)


@test
def cursors(p):
    s = p.text(b"one")

    def cursor(sent):
        return int(s.ask("GET", query=f"?offset=-1&live=long-poll{sent}", status=200).get("Stream-Cursor"))

    for sent in ("", "&cursor=", "&cursor=abc", "&cursor=-5", "&cursor=1", "&cursor=0", f"&cursor={interval() - 5}", "&cursor=1.5"):
        check(interval() - 1 <= cursor(sent) <= interval(), sent, "gave", cursor(sent), "at", interval())
    now = interval()
    for sent in (now + 1, now + 50, now + 100000, 999999999999):
        got = {cursor(f"&cursor={sent}") for _ in range(20)}
        check(all(sent < c <= sent + 180 for c in got) and len(got) > 1, sent, "gave", got)
    check("stream-cursor" not in s.get().names() and "stream-cursor" not in s.get("now").names(), "in a catch-up")
    r = s.ask("GET", query=f"?offset=now&live=long-poll&cursor={now}", status=(200, 204))


@test(differs="added up without a limit")
def cursors_too_large_are_none(p):
    s = p.text(b"one")
    for sent in ("9" * 16, "9" * 40, "18446744073709551615", "9223372036854775807"):
        got = s.ask("GET", query=f"?offset=-1&live=long-poll&cursor={sent}", status=200).get("Stream-Cursor")
        check(got.isdigit() and interval() - 1 <= int(got) <= interval(), sent, "gave", got)


@test(ours=True, options=["--private-cache"])
def caches_may_be_private(p):
    s = p.text(*[b"m" * 600000] * 3)
    check(s.get().get("Cache-Control") == "private, max-age=60, stale-while-revalidate=300", s.get().get("Cache-Control"))


FAITHFUL = [b"1.0", b"-0", b"0.10", b"1e400", b"1E+2", b"12345678901234567890", b"0.30000000000000004", b"-1.5e-7", b'"\\u0041\\/\\b\\ud83d\\ude00"',
            b'"\xc3\xa9\xf0\x9f\x98\x80"', b'{"b":1,"a":2,"b":3}', b'{"a" : 1 ,\t"b":[ 1 , 2 ]}', b'{"":{}}', b"true", b"false", b"null", b'""', b"{}",
            b"9007199254740993", b'"\x7f"', b'"\xe2\x80\xa8"', b'{"a":1.10,"c":[[]]}', b"[]", b"[[[]]]"]


@test(differs="values are spelled anew")
def json_stays_as_it_was_sent(p):
    s = p.stream()
    s.put({"Content-Type": JSON})
    for text in FAITHFUL:
        s.post(b" \t\r\n [ " + text + b" \n] ", kind=JSON)
    check(s.all() == b"[" + b",".join(FAITHFUL) + b"]", s.all())
    t = p.json(b"[" + b" , ".join(FAITHFUL) + b"]")
    check(t.all() == s.all(), "in one array", t.all())
    u = p.stream()
    u.put({"Content-Type": JSON})
    kept = [f for f in FAITHFUL if not f.startswith(b"[")]
    for text in kept:
        u.post(b"\n" + text + b" ", kind=JSON)
    check(u.all() == b"[" + b",".join(kept) + b"]", "alone", u.all())


BAD_JSON = [b"", b" ", b"{", b"}", b"[", b"]", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1,,2]", b"[1 2]", b"{}{}", b"1 2", b"[1]x", b"x", b"nan", b"NaN", b"[NaN]",
            b"Infinity", b"-Infinity", b"-", b"+1", b"01", b"-01", b".5", b"1.", b"1.e3", b"1e", b"1e+", b"0x10", b"tru", b"True", b"nul", b"'a'", b'"a', b'"\\x"',
            b'"\\u12"', b'"\\u12g4"', b'"\n"', b'"\t"', b'"\0"', b'"\x1f"', b'{"a"}', b'{"a":}', b'{"a":1,}', b'{a:1}', b'{1:1}', b'{"a" 1}', b'{"a":1 "b":2}',
            b"\xef\xbb\xbf[1]", b"\xff", b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b'"\x80"', b"[1]\0", b"\0[1]",
            b"/*x*/1", b"[1]//x", b"\x0b1", b"\xc2\xa01", b"[1]\x0c", b"[" * 100000, b"[" * 100000 + b"]" * 100000, b'{"a":' * 50000 + b"1" + b"}" * 50000]


@test(differs="bytes that are no UTF-8 are replaced, and any depth is fine")
def what_is_no_json_is_refused(p):
    s = p.stream()
    s.put({"Content-Type": JSON})
    for bad in BAD_JSON:
        s.post(bad, kind=JSON, status=400)
        t = p.stream()
        if bad.strip(b" \t\r\n"):
            t.put({"Content-Type": JSON}, bad, status=400)
            t.head(status=404)
    check(s.all() == b"[]" and s.head().next == off(0), s.all())


@test
def json_of_some_depth_is_taken(p):
    s = p.stream()
    s.put({"Content-Type": JSON})
    s.post(b"[" * 500 + b"]" * 500, kind=JSON)
    check(s.all() == b"[" * 500 + b"]" * 500, "other brackets")


@test
def arrays_are_flattened_by_one_level(p):
    for body, want in ((b"[[1,2],[3]]", [[1, 2], [3]]), (b"[[]]", [[]]), (b"[[[1]]]", [[[1]]]), (b'{"a":[1]}', [{"a": [1]}]), (b'"x"', ["x"]), (b"5", [5]),
                       (b"null", [None]), (b"[null]", [None]), (b"[1,[2],{}]", [1, [2], {}])):
        s = p.json(body)
        check(s.all("json") == want, body, "became", s.all())
    s = p.stream()
    s.put({"Content-Type": JSON})
    for empty in (b"[]", b" [ ] ", b"[\n]"):
        s.post(empty, kind=JSON, status=400)


@test
def json_mode_is_of_one_type(p):
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "Application/Json;a=b"):
        s = p.json()
        s = p.stream()
        s.put({"Content-Type": kind})
        s.post(b"[1,2]", kind="application/json")
        s.post(b"{", kind=kind, status=400)
        check(s.get().body == b"[1,2]" and s.get().get("Content-Type") == kind, s.get())
    for kind in ("application/vnd.api+json", "application/json5", "text/json", "application/x-ndjson", "application/jsonx"):
        s = p.text(b"{", b"[]", kind=kind)
        check(s.all() == b"{[]", kind)


@test
def a_batch_is_stored_whole_or_not(p):
    s = p.json(b"[1]")
    for bad in (b"[2,3,]", b"[2,x]", b"[2,3", b"[2,\"\xff\"]" if not REFERENCE else b"["):
        s.post(bad, kind=JSON, status=400)
    check(s.all() == b"[1]", s.all())


@test(differs="a batch is one frame")
def a_page_may_end_inside_a_batch(p):
    parts = [b'"%s"' % (letter * 600000) for letter in (b"a", b"b", b"c", b"d")]
    s = p.json(b"[" + b",".join(parts) + b"]")
    r = s.get()
    check(r.body == b"[" + b",".join(parts[:2]) + b"]" and r.next == after(*parts[:2]) and r.fresh is None, r.next)
    r = s.get(r.next)
    check(r.body == b"[" + b",".join(parts[2:]) + b"]" and r.fresh == "true", r.next)


@test
def forms_of_empty_json(p):
    s = p.stream()
    s.put({"Content-Type": JSON})
    r = s.get()
    check(r.body == b"[]" and r.fresh == "true" and r.get("Content-Type") == JSON, r)
    s.close()
    r = s.get()
    check(r.body == b"[]" and r.closed == "true", r)


@test
def a_stream_of_ten_million_bytes(p):
    data = bytes(i * 7 % 251 for i in range(10485760))
    s = p.stream()
    s.put({"Content-Type": OCTETS})
    r = s.post(data, kind=OCTETS)
    check(r.next == off(FRAME + len(data)), r)
    check(s.all() == data, "other bytes")


@test
def bytes_of_text_are_not_looked_at(p):
    s = p.text(b"\xff\xfe", b"\xc3", b"\xa9", b"\0\r\n\x85")
    check(s.all() == b"\xff\xfe\xc3\xa9\0\r\n\x85", s.all())
