"""PUT (section 4): what is created, what an equal stream is, in which order errors win."""

import datetime
import threading

from lab import check
from web import ZERO, after, off
from world import REFERENCE, test


def stamp(seconds, zone="Z", fraction=""):
    t = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    if zone != "Z":
        sign, hours = (1, int(zone[1:3])) if zone[0] == "+" else (-1, int(zone[1:3]))
        t += sign * datetime.timedelta(hours=hours)
    return t.strftime("%Y-%m-%dT%H:%M:%S") + fraction + zone


@test(differs="Location is made of its own address")
def created_and_again(p):
    s = p.stream()
    r = s.put({"Content-Type": "text/plain; charset=UTF-8"}, b"first")
    check(r.get("Content-Type") == "text/plain; charset=UTF-8" and r.closed is None, r)
    check(r.get("Location") == "http://h" + s.target, "Location", r.get("Location"))
    again = s.put({"Content-Type": "text/plain"}, b"other", status=200)
    check(again.next == r.next and "location" not in again.names(), again)
    check(again.get("Content-Type") == "text/plain; charset=UTF-8", "the type of the second request", again)
    check(s.all() == b"first", "the body of the second PUT was taken")


@test(differs="Location is made of its own address")
def location_is_the_path_as_sent(p):
    for name in ("a%2Fb", "a//b", "a%20b"):
        s = p.stream(name)
        r = s.put(query="?x=y", host="example.org:99")
        check(r.get("Location") == "http://example.org:99" + s.target, r.get("Location"))


@test(differs="it trusts whoever sends them")
def forwarded_fields_are_not_trusted(p):
    s = p.stream()
    r = s.put({"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil"}, host="h")
    check(r.get("Location") == "http://h" + s.target, r.get("Location"))


@test(ours=True, options=["--trust-forwarded"])
def forwarded_fields_are_trusted_when_told(p):
    s = p.stream()
    r = s.put({"X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside.example"}, host="h")
    check(r.get("Location") == "https://outside.example" + s.target, r.get("Location"))
    s.delete()  # through two proxies: the one next to the client knows
    r = s.put({"X-Forwarded-Proto": "https , http", "X-Forwarded-Host": "outside.example, inside:80"}, host="h")
    check(r.get("Location") == "https://outside.example" + s.target, r.get("Location"))


@test
def the_body_is_not_looked_at_when_the_stream_exists(p):
    s = p.json(b"[1]")
    s.put({"Content-Type": "application/json"}, b"{no json", status=200)
    s.put({"Content-Type": "text/plain"}, b"{no json", status=409)
    check(s.all() == b"[1]", s.all())


@test(differs="parameters of the type count")
def an_equal_configuration(p):
    s = p.stream()
    s.put()
    for kind in ({}, {"Content-Type": "application/octet-stream"}, {"Content-Type": "APPLICATION/Octet-Stream; x=y"}):
        s.put(kind, status=200)
    for fields in ({"Content-Type": "text/plain"}, {"Stream-TTL": "60"}, {"Stream-Expires-At": "2099-01-01T00:00:00Z"},
                   {"Stream-Closed": "true"}):
        s.put(fields, status=409)
    t = p.stream()
    t.put({"Stream-TTL": "60"})
    t.put({"Stream-TTL": "60"}, status=200)
    for fields in ({}, {"Stream-TTL": "61"}, {"Stream-Expires-At": "2099-01-01T00:00:00Z"}):
        t.put(fields, status=409)


@test(differs="texts are compared")
def an_equal_expiry_is_an_equal_instant(p):
    s = p.stream()
    s.put({"Stream-Expires-At": "2099-01-01T12:00:00Z"})
    for text in ("2099-01-01T12:00:00Z", "2099-01-01T14:00:00+02:00", "2099-01-01T06:30:00-05:30", "2099-01-01T12:00:00.000Z",
                 "2099-01-01T12:00:00-00:00"):
        s.put({"Stream-Expires-At": text}, status=200)
    for text in ("2099-01-01T12:00:01Z", "2099-01-01T12:00:00+00:01"):
        s.put({"Stream-Expires-At": text}, status=409)


@test
def closed_or_open_is_part_of_the_configuration(p):
    s = p.stream()
    s.put(status=201)
    s.put(status=200)
    s.put({"Stream-Closed": "true"}, status=409)
    s.close()
    s.put(status=409)
    check(s.put({"Stream-Closed": "true"}, status=200).closed == "true", "closed is not shown")


@test
def a_stream_may_be_created_closed(p):
    s = p.stream()
    r = s.put({"Content-Type": "text/plain", "Stream-Closed": "true"}, b"whole")
    check(r.closed == "true", r)
    check(s.get().body == b"whole" and s.get().closed == "true", "its content")
    check(s.post(b"more", status=409).closed == "true", "it takes more")


@test(differs="only true itself counts")
def true_has_no_case(p):
    for n, word in enumerate(("TRUE", "True", "tRuE", " true ")):
        check(p.stream(f"a{n}").put({"Stream-Closed": word}).closed == "true", word)
        s = p.text(b"x")
        check(s.post(b"y", {"Stream-Closed": word}, status=204).closed == "true", "POST", word)
    for n, word in enumerate(("yes", "1", "false", "", "truee", "true,true", "\"true\"")):
        check(p.stream(f"b{n}").put({"Stream-Closed": word}).closed is None, word)
        s = p.text(b"x")
        check(s.post(b"y", {"Stream-Closed": word}, status=204).closed is None, "POST", word)
        s.post(b"", {"Stream-Closed": word}, status=400)


@test(differs="an empty stream stays after the 400")
def what_fails_leaves_nothing(p):
    s = p.stream()
    for fields, body, status in (({"Content-Type": "application/json"}, b"{", 400), ({"Content-Type": "application/json"}, b"[1,]", 400),
                                 ({"Stream-TTL": "x"}, b"", 400), ({"Stream-Forked-From": s.target + "/none"}, b"", 404)):
        s.put(fields, body, status=status)
        s.head(status=404)
    s.put({"Content-Type": "text/plain"}, b"now")
    check(s.all() == b"now", s.all())


@test
def both_lifetimes_are_refused(p):
    s = p.stream()
    s.put({"Stream-TTL": "60", "Stream-Expires-At": "2099-01-01T00:00:00Z"}, status=400)
    s.head(status=404)


BAD_TTL = ["+60", "060", "00", "60.5", "1e3", "-1", "abc", "6 0", "0x10", "60s", "60,60", "1_000", "\u0661".encode().decode("latin-1")]
BAD_DATES = ["tomorrow", "2099-01-01", "2099-01-01T00:00:00", "2099-13-01T00:00:00Z", "2099-02-30T00:00:00Z", "2099-01-01T25:00:00Z",
             "2099-01-01T00:60:00Z", "2099-01-01 00:00", "4070908800", "2099-01-01T00:00:00Zx", "2099-01-01T00:00Z", "2099-1-1T00:00:00Z",
             "2099-01-01T00:00:00+2", "Thu, 01 Jan 2099 00:00:00 GMT", "2099-01-01T00:00:00+25:00", "2099-01-01T00:00:00.Z", "-2099-01-01T00:00:00Z"]


@test
def malformed_ttl_is_refused(p):
    s = p.stream()
    for bad in BAD_TTL:
        s.put({"Stream-TTL": bad}, status=400)
    s.head(status=404)
    for n, fine in enumerate(("1", "60", "86400", "2147483648", "9999999999")):
        t = p.stream()
        t.put({"Stream-TTL": fine})
        check(t.head().get("Stream-TTL") == fine, "HEAD shows", t.head().get("Stream-TTL"), "for", fine)


@test(differs="what Date.parse takes")
def malformed_dates_are_refused(p):
    s = p.stream()
    for bad in BAD_DATES:
        s.put({"Stream-Expires-At": bad}, status=400)
    s.head(status=404)


@test
def dates_with_zone_and_fraction(p):
    for zone, fraction in (("Z", ""), ("+02:00", ""), ("-05:00", ""), ("Z", ".5"), ("Z", ".123456789"), ("+02:00", ".001")):
        s = p.stream()
        s.put({"Stream-Expires-At": stamp(3600, zone, fraction)})
        text = s.head().get("Stream-Expires-At")
        got = datetime.datetime.fromisoformat(text.replace("Z", "+00:00").split(".")[0].removesuffix("+00:00") + "+00:00") \
            if REFERENCE is False else None
        if got is not None:
            left = (got - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
            check(3590 < left <= 3601, zone, fraction, "became", text)


@test
def a_ttl_too_large_is_far_away(p):
    for ttl in ("99999999999999999999999999", "18446744073709551616", "9223372036854775807", "9223372036854775808", "4294967296", "9" * 200):
        s = p.stream()
        s.put({"Stream-TTL": ttl, "Content-Type": "text/plain"}, b"here")
        check(s.get().body == b"here", ttl, "wrapped")
        s.put({"Stream-TTL": ttl, "Content-Type": "text/plain"}, status=200)


@test(differs="the path of a PUT that is past is not free")
def a_life_of_nothing(p):
    for fields in ({"Stream-TTL": "0"}, {"Stream-Expires-At": "2001-01-01T00:00:00Z"}, {"Stream-Expires-At": stamp(-1)}):
        s = p.stream()
        r = s.put({"Content-Type": "text/plain", **fields}, b"dead")
        check(r.next == after(b"dead"), r)
        s.head(status=404)
        s.get(status=404)
        s.post(b"x", status=404)
        s.delete(status=404)
        s.put({"Content-Type": "text/html"}, b"new")
        check(s.all() == b"new", s.all())


@test(differs="syntax of the fork's fields comes later")
def precedence_of_create(p):
    s = p.stream()
    s.put({"Content-Type": "text/plain"})
    other = {"Content-Type": "text/html"}
    for fields in ({"Stream-Fork-Sub-Offset": "0"}, {"Stream-Fork-Sub-Offset": ""}, {"Stream-Fork-Sub-Offset": "1"},
                   {"Stream-TTL": "x"}, {"Stream-Expires-At": "x"}, {"Stream-TTL": "1", "Stream-Expires-At": "2099-01-01T00:00:00Z"},
                   {"Stream-Forked-From": s.target + "x", "Stream-Fork-Offset": "now"},
                   {"Stream-Forked-From": s.target + "x", "Stream-Fork-Offset": "0_0"},
                   {"Stream-Forked-From": s.target + "x", "Stream-Fork-Sub-Offset": "01"},
                   {"Stream-Forked-From": s.target + "x", "Stream-TTL": "+1"}):
        s.put({**other, **fields}, b"{", status=400)  # the syntax before the conflict
    s.put({**other, "Stream-Forked-From": s.target + "x"}, status=409)  # the conflict before the fork's source
    t = p.stream()
    t.put({"Stream-Forked-From": s.target + "x", "Content-Type": "application/json"}, b"{", status=404)  # the source before the JSON
    t.put({"Stream-Forked-From": s.target, "Content-Type": "application/json", "Stream-Fork-Offset": off(99)}, b"{", status=409)
    t.put({"Stream-Forked-From": s.target, "Stream-Fork-Offset": off(99), "Stream-Fork-Sub-Offset": "7"}, status=400)
    t.head(status=404)


@test
def a_fork_offset_without_a_source_is_ignored(p):
    s = p.stream()
    s.put({"Stream-Fork-Offset": ZERO, "Content-Type": "text/plain"}, b"x")
    check(s.all() == b"x", s.all())


@test
def json_content_at_creation(p):
    for body, want in ((b"", []), (b"[]", []), (b" [ ] ", []), (b"[1,2]", [1, 2]), (b'{"a":1}', [{"a": 1}]), (b"[[1,2]]", [[1, 2]]), (b"null", [None])):
        s = p.stream()
        s.put({"Content-Type": "application/json"}, body)
        check(s.all("json") == want, body, "became", s.all("json"))


@test(differs="a bad type becomes octet-stream")
def a_type_is_kept_as_it_is(p):
    for kind in ("foo", "text/plain;charset=utf-8;x=\"a b\"", "Text/PLAIN", "a/b/c", "application/vnd.x+json", "x" * 200):
        s = p.stream()
        check(s.put({"Content-Type": kind}).get("Content-Type") == kind, kind)
        check(s.head().get("Content-Type") == kind and s.get().get("Content-Type") == kind, kind)


@test
def control_characters_in_a_type_are_refused(p):
    s = p.stream()
    for bad in ("text/\x01plain", "text/plain\x7f", "text/plain; a=\x1b[0m", "text/\x0bplain"):
        s.put({"Content-Type": bad}, status=400)
    s.head(status=404)


@test
def one_of_many_creates_it(p):
    s = p.stream()
    got = []

    def create(n):
        got.append(p.at(s.target).put({"Content-Type": "text/plain"}, b"%d" % n, status=(200, 201)).status)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(sorted(got) == [200] * 11 + [201], got)
    check(len(s.all()) in (1, 2), s.all())


@test
def a_stream_that_was_deleted_is_a_new_one(p):
    s = p.stream()
    s.put({"Content-Type": "text/plain", "Stream-TTL": "60", "Stream-Closed": "true"}, b"old data")
    r = s.delete()
    check(not [n for n in r.names() if n.startswith("stream-") or n in ("etag", "content-type", "location")], "more than is said", r)
    s.head(status=404)
    check(s.put({"Content-Type": "application/json"}, b"[1]").closed is None, "still closed")
    r = s.head()
    check(s.all() == b"[1]" and "stream-ttl" not in r.names() and r.get("Content-Type") == "application/json", r)


@test
def many_streams_deleted_and_made_again(p):
    s = p.stream()
    for n in range(30):
        s.put({"Content-Type": "text/plain"}, b"life %d" % n)
        s.post(b"!", {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0", "Stream-Seq": "5"}, status=200)
        check(s.all() == b"life %d!" % n, s.all())
        s.delete()
        s.get(status=404)
