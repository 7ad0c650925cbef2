"""Forks and soft delete (section 16)."""

from lab import check
from web import FRAME, NINES, ZERO, after, off, until
from world import test

JSON = "application/json"


def at(offset=None, sub=None, **more):
    fields = {k.replace("_", "-"): v for k, v in more.items()}
    if offset is not None:
        fields["Stream-Fork-Offset"] = offset
    if sub is not None:
        fields["Stream-Fork-Sub-Offset"] = str(sub)
    return fields


@test
def a_fork_has_what_was_before_it(p):
    s = p.text(b"one", b"two", b"three")
    for offset, want in ((None, b"onetwothree"), (after(b"one"), b"one"), (after(b"one", b"two"), b"onetwo"), (ZERO, b""),
                         (after(b"one", b"two", b"three"), b"onetwothree")):
        f = p.fork(s, at(offset))
        check(f.all() == want, offset, "has", f.all())
        check(f.head().next == (offset or s.head().next) and f.head().get("Content-Type") == "text/plain", f.head())


@test(differs="400")
def a_fork_from_the_beginning(p):
    s = p.text(b"one")
    f = p.fork(s, at("-1"))
    check(f.all() == b"" and f.head().next == ZERO, f.head())


@test
def a_forks_offsets_go_on_from_the_sources(p):
    s = p.text(b"one", b"two")
    f = p.fork(s, at(after(b"one")))
    check(f.post(b"mine").next == after(b"one", b"mine"), "the offset of its own")
    s.post(b"three")
    check(f.all() == b"onemine" and s.all() == b"onetwothree", f.all())
    check(f.get(after(b"one")).body == b"mine" and s.get(after(b"one")).body == b"twothree", "from the fork's point")
    check(f.get(ZERO).body == b"onemine", "from the start")


@test(differs="any position is taken")
def a_fork_inside_a_message_is_refused(p):
    s = p.text(b"one", b"two")
    for inside in (1, 4, 6, 8):
        p.fork(s, at(off(inside)), status=400)


@test
def a_fork_past_the_tail_is_refused(p):
    s = p.text(b"one")
    for past in (off(FRAME + 4), off(99), NINES):
        p.fork(s, at(past), status=400)
    for bad in ("now", "abc", "1", "-2"):
        p.fork(s, at(bad), status=400)
    s.delete()
    s.get(status=404)  # no reference is left


@test(differs="paths outside the prefix are streams")
def a_fork_of_what_is_not_there(p):
    f = p.stream()
    for source in (p.stream().target, "/v1/stream", "nowhere", "/", f"http://h{p.text(b'x').target}", "/v1/stream/"):
        f.put({"Stream-Forked-From": source}, status=404)
    f.head(status=404)


@test
def a_fork_of_itself(p):
    s = p.text(b"one")
    s.put({"Stream-Forked-From": s.target, "Content-Type": "text/plain"}, status=409)
    check(s.all() == b"one", s.all())
    t = p.stream()
    t.put({"Stream-Forked-From": t.target}, status=(400, 404))


@test
def a_fork_of_another_type_is_refused(p):
    s = p.text(b"one", kind="text/plain; charset=utf-8")
    p.fork(s, {"Content-Type": "text/html"}, status=409)
    p.fork(s, {"Content-Type": JSON}, status=409)
    f = p.fork(s, {"Content-Type": "TEXT/Plain;x=y"})
    check(f.all() == b"one", f.all())
    s.delete()
    s.get(status=410)


@test
def a_fork_of_what_is_gone(p):
    s = p.text(b"one")
    f = p.fork(s)
    s.delete()
    p.fork(s, status=409)
    p.fork(s, at(off(99)), status=409)
    p.fork(s, {"Content-Type": "text/html"}, status=409)
    g = p.fork(f)
    check(g.all() == b"one", g.all())


@test
def sub_offsets_of_bytes(p):
    s = p.text(b"hello", b"world")
    for sub, want in ((0, b""), (1, b"h"), (4, b"hell"), (5, b"hello")):
        f = p.fork(s, at(ZERO, sub))
        check(f.all() == want, sub, "gave", f.all())
        check(f.head().next == (off(FRAME + sub) if sub else ZERO), sub, "ends at", f.head().next)
    f = p.fork(s, at(after(b"hello"), 2), body=b"!!")
    check(f.all() == b"hellowo!!" and f.head().next == after(b"hello", b"wo", b"!!"), f.head())
    f.post(b"more")
    check(f.get(after(b"hello", b"wo")).body == b"!!more", "after the prefix")


@test
def sub_offsets_that_go_too_far(p):
    s = p.text(b"hello", b"world")
    for offset, sub in ((ZERO, 6), (after(b"hello"), 6), (s.head().next, 1), (None, 1), (ZERO, 9999999999999999999999)):
        p.fork(s, at(offset, sub), status=400)
    for bad in ("01", "+1", "-1", "1.5", "", "x", "1 2", "00", "0x1"):
        p.fork(s, at(ZERO, bad), status=400)
    check(p.fork(s, at(None, 0)).all() == b"helloworld", "0 at the tail")
    s.delete()
    s.get(status=410)


@test(differs="sub-offsets within a batch count frames")
def sub_offsets_of_json(p):
    s = p.json(b"[1,2,3]", b"[4]")
    for offset, sub, want in ((ZERO, 0, []), (ZERO, 1, [1]), (ZERO, 3, [1, 2, 3]), (ZERO, 4, [1, 2, 3, 4]), (off(5), 2, [1, 2, 3]), (off(15), 1, [1, 2, 3, 4])):
        f = p.fork(s, at(offset, sub))
        check(f.all("json") == want and f.head().next == off(5 * len(want)), offset, sub, "gave", f.all())
    for offset, sub in ((ZERO, 5), (off(15), 2), (None, 1), (off(20), 1)):
        p.fork(s, at(offset, sub), status=400)
    f = p.fork(s, at(ZERO, 2), body=b"[9]")
    check(f.all("json") == [1, 2, 9], f.all())


@test
def sub_offset_without_a_source(p):
    s = p.stream()
    for sub in ("0", "1", "", "x"):
        s.put({"Stream-Fork-Sub-Offset": sub}, status=400)
    s.head(status=404)


@test
def sub_offsets_of_forks_and_closed_sources(p):
    s = p.text(b"hello", b"world")
    s.close()
    f = p.fork(s, at(ZERO, 3))
    g = p.fork(f, at(ZERO, 2))
    check(g.all() == b"he" and f.all() == b"hel" and f.head().closed is None, g.all())
    f.post(b"more")
    h = p.fork(f, at(after(b"hel"), 2))
    check(h.all() == b"helmo", h.all())
    i = p.fork(s, at(after(b"hello"), 2))
    j = p.fork(i, at(ZERO, 4))
    check(j.all() == b"hell", j.all())


@test
def a_fork_starts_open(p):
    s = p.text(b"one")
    s.close()
    f = p.fork(s)
    check(f.head().closed is None and f.post(b"two").next == after(b"one", b"two"), f.head())
    g = p.fork(s, {"Stream-Closed": "true"}, body=b"end")
    check(g.head().closed == "true" and g.all() == b"oneend", g.all())


@test
def a_fork_does_not_inherit_stream_seq(p):
    s = p.text()
    s.post(b"one", {"Stream-Seq": "9"})
    f = p.fork(s)
    f.post(b"two", {"Stream-Seq": "1"})
    check(f.all() == b"onetwo", f.all())


@test
def a_fork_of_a_fork_of_a_fork(p):
    s = p.text(b"0")
    chain = [s]
    for n in range(1, 12):
        f = p.fork(chain[-1])
        f.post(b"%x" % n)
        chain.append(f)
    for n, f in enumerate(chain):
        check(f.all() == b"0123456789ab"[:n + 1], n, "has", f.all())
    for f in chain[:-1]:
        f.delete()
        f.get(status=410)
    check(chain[-1].all() == b"0123456789ab", chain[-1].all())
    check(chain[-1].get(off(3 * (FRAME + 1))).body == b"3456789ab", "from the middle")
    chain[-1].delete()
    chain[-1].get(status=404)
    for f in chain[:-1]:
        until(lambda f=f: f.head(status=(404, 410)).status == 404, "freed", 5)
        f.put(status=201)


@test
def much_data_through_a_fork(p):
    s = p.text(*[b"%07d" % n * 30000 for n in range(8)])
    f = p.fork(s, at(after(*[b"x" * 210000] * 5)))
    f.post(b"own" * 300000)
    f.post(b"more")
    check(f.all() == b"".join(b"%07d" % n * 30000 for n in range(5)) + b"own" * 300000 + b"more", "other data")


@test(differs="what is gone can be closed")
def what_is_gone(p):
    s = p.text(b"one", b"two")
    f = p.fork(s, at(after(b"one")))
    s.delete()
    s.get(status=410)
    s.head(status=410)
    s.post(b"x", status=410)
    s.close(status=410)
    s.delete(status=410)
    s.put({"Content-Type": "text/plain"}, status=409)
    s.put({"Content-Type": "text/html"}, status=409)
    s.put({"Stream-Forked-From": f.target}, status=409)
    check(f.all() == b"one" and f.post(b"!").next == after(b"one", b"!"), f.all())
    f.delete()
    f.get(status=404)
    until(lambda: s.head(status=(404, 410)).status == 404, "freed", 5)
    s.put({"Content-Type": "text/html"}, b"new")
    check(s.all() == b"new", s.all())


@test
def a_source_outlives_its_forks(p):
    s = p.text(b"one")
    forks = [p.fork(s) for _ in range(3)]
    for f in forks:
        f.delete()
    check(s.all() == b"one", s.all())
    s.delete()
    s.get(status=404)


@test
def the_last_of_many_forks_frees_the_source(p):
    s = p.text(b"one")
    forks = [p.fork(s) for _ in range(4)]
    s.delete()
    for f in forks[:-1]:
        f.delete()
        s.get(status=410)
        check(forks[-1].all() == b"one", "the last one lost data")
    forks[-1].delete()
    until(lambda: s.head(status=(404, 410)).status == 404, "freed", 5)


@test(differs="an empty stream stays after the 400")
def a_fork_that_fails_leaves_nothing(p):
    s = p.json(b"[1]")
    for fields, body, status in ((at(off(99)), b"", 400), (at(ZERO, 9), b"", 400), ({}, b"{", 400), ({"Content-Type": "text/plain"}, b"x", 409),
                                 (at(ZERO, "x"), b"", 400), ({"Stream-TTL": "x"}, b"", 400)):
        f = p.fork(s, fields, status, body=body)
        f.head(status=404)
    s.delete()
    s.get(status=404)


@test
def a_fork_again(p):
    s = p.text(b"one", b"two")
    fields = at(after(b"one"), 0, Content_Type="text/plain")
    f = p.fork(s, fields)
    f.put({"Stream-Forked-From": s.target, **fields}, status=200)
    f.put({"Stream-Forked-From": s.target, "Content-Type": "text/plain"}, status=200)  # no offset matches any
    f.put({"Stream-Forked-From": s.target, **at(ZERO), "Content-Type": "text/plain"}, status=409)
    f.put({"Stream-Forked-From": p.text(b"x").target, "Content-Type": "text/plain"}, status=409)
    f.put({"Content-Type": "text/plain"}, status=409)
    f.put({"Stream-Forked-From": s.target, **at(after(b"one"), 1), "Content-Type": "text/plain"}, status=409)
    check(f.all() == b"one", f.all())
    s.delete()
    f.delete()
    until(lambda: s.head(status=(404, 410)).status == 404, "one reference, not three", 5)


@test(differs="compared with what it inherited")
def a_fork_again_that_left_all_to_the_source(p):
    s = p.text(b"one", fields={"Stream-TTL": "3600"})
    f = p.fork(s)
    f.put({"Stream-Forked-From": s.target}, status=200)
    f.put({"Stream-Forked-From": s.target, "Stream-TTL": "3601"}, status=409)
    s.delete()
    f.put({"Stream-Forked-From": s.target}, status=200)
    check(f.all() == b"one", f.all())


@test
def a_fork_inherits_a_lifetime(p):
    s = p.text(b"one", fields={"Stream-TTL": "3600"})
    check(p.fork(s).head().get("Stream-TTL") == "3600", "the source's")
    check(p.fork(s, {"Stream-TTL": "7200"}).head().get("Stream-TTL") == "7200", "its own")
    r = p.fork(s, {"Stream-Expires-At": "2099-01-01T00:00:00Z"}).head()
    check("stream-ttl" not in r.names() and r.get("Stream-Expires-At"), r)
    t = p.text(b"one", fields={"Stream-Expires-At": "2099-01-01T00:00:00Z"})
    check(p.fork(t).head().get("Stream-Expires-At") == t.head().get("Stream-Expires-At"), "the source's instant")
    check(p.fork(t, {"Stream-Expires-At": "2100-01-01T00:00:00Z"}).head().get("Stream-Expires-At").startswith("2100-01-01T00:00:00"), "no cap")
    p.fork(t, {"Stream-TTL": "5", "Stream-Expires-At": "2099-01-01T00:00:00Z"}, status=400)
    check("stream-ttl" not in p.fork(p.text(b"x")).head().names(), "none")


@test
def a_fork_point_may_be_a_forks_own(p):
    s = p.text(b"one")
    f = p.fork(s)
    f.post(b"two")
    f.post(b"three")
    g = p.fork(f, at(after(b"one", b"two")))
    check(g.all() == b"onetwo", g.all())
    h = p.fork(f, at(after(b"one")))
    check(h.all() == b"one", h.all())
    i = p.fork(f, at(ZERO))
    check(i.all() == b"", i.all())


@test
def a_forks_body_is_appended(p):
    s = p.text(b"one")
    f = p.fork(s, body=b"body")
    check(f.all() == b"onebody" and f.head().next == after(b"one", b"body"), f.all())
    j = p.json(b"[1]")
    g = p.fork(j, body=b"[2,3]")
    check(g.all("json") == [1, 2, 3], g.all())


@test
def forks_with_raw_paths(p):
    s = p.stream("a%2Fb")
    s.put({"Content-Type": "text/plain"}, b"escaped")
    t = p.stream("a/b")
    t.put({"Content-Type": "text/plain"}, b"plain")
    check(p.fork(s).all() == b"escaped" and p.fork(t).all() == b"plain", "the two are mixed up")
