"""Subscriptions (section 20): configuration, links, wakes, leases and fencing, webhooks and what they may not reach, restarts."""

import base64
import hashlib
import json
import os
import stat
import threading
import time

from hooks import Receiver, Sub, b64, events, free_port, gated
from lab import BUILD, check
from web import PREFIX, ZERO, after, off, request, until
from world import Place, Server, Stream, test

JSON = {"Content-Type": "application/json"}
ON = ["--subscriptions"]
SHIM = os.path.join(BUILD, "fault", "names.so")


def names(folder, **hosts):
    """The environment of a server for which these hosts have these addresses."""
    old = os.environ.get("ASAN_OPTIONS", "")
    return {"LD_PRELOAD": SHIM, "ASAN_OPTIONS": old + (":" if old else "") + "verify_asan_link_order=0", "SC_NAMES_LOG": os.path.join(folder, "names"),
            "SC_NAMES": ",".join(f"{h.replace('_', '.')}={a}" for h, a in hosts.items())}


def stream(p, path, body=b"[]"):
    s = Stream(p, PREFIX + path)
    s.put(JSON, body)
    return s


def keys(p):
    with p.wire() as w:
        r = w.ask("GET", PREFIX + "__ds/jwks.json")
    check((r.status, r.get("Content-Type"), r.get("Cache-Control")) == (200, "application/jwk-set+json", "public, max-age=300"), r)
    return json.loads(r.body)["keys"]


def metric(p, name):
    with p.wire() as w:
        text = w.ask("GET", "/metrics").body.decode()
    return next(int(line.split()[-1]) for line in text.splitlines() if line.startswith("sc_streams_" + name + " "))


# --- configuration -------------------------------------------------------------------------------------------------

@test(ours=True)
def without_the_option_there_are_no_subscriptions(p):
    Sub(p, "a").ask("GET", status=404, code="SUBSCRIPTION_NOT_FOUND")
    Sub(p, "a").ask("PUT", body={"type": "pull-wake", "pattern": "*", "wake_stream": "w"}, status=404, code="SUBSCRIPTION_NOT_FOUND")
    with p.wire() as w:
        check(w.ask("GET", PREFIX + "__ds/jwks.json").status == 404, "keys")


@test(ours=True, options=ON)
def a_subscription_is_made_once(p):
    s = Sub(p, "é a/b")
    config = {"type": "pull-wake", "pattern": "/ev/*/", "streams": ["b", "a", "/b/"], "wake_stream": "/wake/", "lease_ttl_ms": 1000, "description": "d\n"}
    r = s.put(**config).json
    check({k: r[k] for k in ("id", "subscription_id", "type", "pattern", "wake_stream", "lease_ttl_ms", "status", "description")} == {
        "id": "é a/b", "subscription_id": "é a/b", "type": "pull-wake", "pattern": "ev/*", "wake_stream": "wake", "lease_ttl_ms": 1000,
        "status": "active", "description": "d\n"}, r)
    check("webhook" not in r and r["created_at"].endswith("Z"), r)
    check(s.links() == {"a": ("explicit", ZERO), "b": ("explicit", ZERO)}, s.links())
    check(s.put(200, **{**config, "streams": ["a", "b"], "unknown": 1}).json == r, "the same, otherwise written")
    for other in ({"pattern": "ev/**"}, {"streams": ["a"]}, {"wake_stream": "w"}, {"lease_ttl_ms": 1001}, {"description": "e"}):
        s.put(409, "SUBSCRIPTION_ALREADY_EXISTS", **{**config, **other})
    without = dict(config)
    del without["description"]
    s.put(409, "SUBSCRIPTION_ALREADY_EXISTS", **without)
    s.delete()
    s.delete()
    s.ask("GET", status=404, code="SUBSCRIPTION_NOT_FOUND")
    s.put(**{**config, "pattern": "x"})


@test(ours=True, options=ON)
def bodies_are_checked(p):
    good = {"type": "pull-wake", "pattern": "a/*", "wake_stream": "w"}
    s = Sub(p, "a")
    for bad in ({"type": "x"}, {"type": None}, {"pattern": ""}, {"pattern": 1}, {"pattern": "a b"}, {"streams": "a"}, {"streams": [1]},
                {"streams": [""]}, {"streams": ["__ds/x"]}, {"streams": ["w"]}, {"streams": ["a?b"]}, {"streams": ["x" * 600]}, {"wake_stream": None},
                {"wake_stream": "/"}, {"lease_ttl_ms": 999}, {"lease_ttl_ms": 600001}, {"lease_ttl_ms": 1000.5}, {"lease_ttl_ms": "1000"},
                {"lease_ttl_ms": -1}, {"lease_ttl_ms": None}, {"description": 5}, {"type": "webhook"}, {"type": "webhook", "webhook": {"url": 1}},
                {"type": "webhook", "webhook": "http://localhost/"}):
        s.put(400, "INVALID_REQUEST", **{**good, **bad})
    s.put(400, "INVALID_REQUEST", type="pull-wake", wake_stream="w", streams=[])
    for body in (b"", b"[]", b"{", b"1", b'{"type":"pull-wake"', b"\xff", b'{"a":1}x'):
        s.ask("PUT", body=body, status=400, code="INVALID_REQUEST")
    s.ask("PUT", body=b" " * (1 << 20) + b"{}", status=413, code="INVALID_REQUEST")
    s.ask("GET", status=404)
    s.put(**good)
    for body in ({}, {"streams": []}, {"streams": ["w"]}, {"streams": [None]}):
        s.ask("POST", "/streams", body, status=400, code="INVALID_REQUEST")
    for body in ({}, {"worker": ""}, {"worker": 1}, {"worker": "a\x01"}):
        s.ask("POST", "/claim", body, status=400, code="INVALID_REQUEST")


@test(ours=True, options=ON)
def routes_and_methods(p):
    s = Sub(p, "a")
    s.put(type="pull-wake", pattern="a", wake_stream="w")
    for method, more in (("POST", ""), ("PATCH", ""), ("GET", "/streams"), ("POST", "/streams/a"), ("GET", "/claim"), ("PUT", "/ack"), ("HEAD", "/release")):
        with p.wire() as w:
            r = w.ask(method, s.target + more, {}, b"")
            check(r.status == 405 and r.get("Allow"), method, more, r)
    for more in ("/x", "/", "/streams/", "/claim/x", "/callback/"):
        s.ask("DELETE" if "streams" in more else "POST", more, {}, status=404)
    for target in ("__ds", "__ds/", "__ds/x", "__ds/subscriptions", "__ds/subscriptions/", "__ds/subscriptions/%ff", "__ds/subscriptions/%0a",
                   "__ds/subscriptions/%2", "__ds/subscriptions/" + "x" * 257):
        with p.wire() as w:
            r = w.ask("GET", PREFIX + target)
            check(r.status == 404 and json.loads(r.body)["error"]["code"] == "SUBSCRIPTION_NOT_FOUND", target, r)
    with p.wire() as w:
        check(w.ask("OPTIONS", s.target).status == 204, "a preflight")
        check(w.ask("POST", PREFIX + "__ds/jwks.json", {}, b"").status == 405, "keys by POST")
    for what in ("streams", "claim"):
        Sub(p, "none").ask("POST", "/" + what, {"worker": "w", "streams": ["x"]}, status=404, code="SUBSCRIPTION_NOT_FOUND")
    Sub(p, "none").ask("DELETE", "/streams/a", status=404, code="SUBSCRIPTION_NOT_FOUND")


@test(ours=True, options=ON)
def webhooks_may_not_be_everywhere(p):
    s = Sub(p, "a")
    for url in ("http://10.0.0.1/", "http://example.com/", "https://10.1.2.3/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/",
                "https://169.254.169.254/latest/meta-data", "https://127.0.0.1/", "https://localhost/", "https://LOCALHOST./", "https://0.0.0.0/",
                "https://0.1.2.3/", "https://100.64.0.1/", "https://2130706433/", "https://0x7f000001/", "https://127.1/", "https://0300.0250.1.1/",
                "https://[::1]/", "https://[2606:4700::1111]/", "http://[::1]/", "https://224.0.0.1/", "https://255.255.255.255/", "ftp://a/", "a", "//a",
                "ws://localhost/", "https://", "https:///x", "https://u:p@example.com/", "https://u@example.com/", "https://a b/", "https://a/#f", "https://a:0/",
                "https://a:99999/", "javascript:x", "https://a\r\nX: y/", "https://a/\r\nX:y", "https://example.com/" + "x" * 2100):
        code = s.webhook(url, 400, pattern="a").json["error"]["code"]
        check(code == "WEBHOOK_URL_REJECTED", url, "is", code)
    for n, url in enumerate(("https://example.com/x", "https://example.com:8443", "http://localhost:1/", "http://127.0.0.1:1/", "http://127.5.5.5:1/",
                             "https://172.32.0.1/", "https://8.8.8.8/")):
        check(Sub(p, f"good{n}").webhook(url, pattern="none/*").json["webhook"]["url"] == url, url)


@test(ours=True, options=[*ON, "--max-subscriptions", "3", "--max-links", "4"])
def there_are_limits(p):
    for n in range(3):
        Sub(p, str(n)).pull("w", pattern=f"p{n}/*")
    Sub(p, "more").pull("w", 400, pattern="x")
    Sub(p, "2").delete()
    for n in range(5):
        stream(p, f"q/{n}")
    Sub(p, "2").pull("w", 400, pattern="q/*")
    Sub(p, "2").pull("w", 400, streams=["1", "2", "3", "4", "5"])
    s = Sub(p, "2")
    s.pull("w", streams=["1", "2", "3"])
    s.ask("POST", "/streams", {"streams": ["4", "5"]}, status=400, code="INVALID_REQUEST")
    s.ask("POST", "/streams", {"streams": ["4"]}, status=204)
    check(len(s.links()) == 4, s.links())
    for n in range(6):
        stream(p, f"p0/{n}")
    check(len(Sub(p, "0").links()) == 4 and metric(p, "subscription_links_refused_total") == 2, "links")
    check(metric(p, "subscriptions") == 3 and metric(p, "subscription_links") == 8, "numbers")
    Stream(p, PREFIX + "p0/0").delete()
    stream(p, "p0/later")
    check("p0/later" in Sub(p, "0").links(), "room again")


@test(ours=True)
def bodies_of_strangers_are_not_taken(p):
    """What is refused whatever its body says is refused before the body: by who asks, where, and how long it is."""
    path = os.path.join(p.folder, "tokens")
    with open(path, "w", encoding="ascii") as f:
        f.write("read r-token\nadmin a-token\n")
    admin, forged = {"Authorization": "Bearer a-token"}, {"Authorization": "Bearer e30.AAAA"}
    for options, cases in ((ON, (("PUT", "s", {}, 401), ("PUT", "s", {"Authorization": "Bearer r-token"}, 403), ("POST", "s/streams", {}, 401),
                                 ("POST", "s/claim", {}, 401), ("POST", "s/ack", {}, 401), ("POST", "s/ack", forged, 401),
                                 ("POST", "s/callback", forged, 401), ("POST", "s/release", forged, 401), ("POST", "s", {}, 405), ("POST", "s/x", {}, 404),
                                 ("PUT", "s", admin, 413), ("POST", "../jwks.json", {}, 404))), ((), (("PUT", "s", {}, 404), ("PUT", "s", admin, 404)))):
        folder = os.path.join(p.folder, f"own{len(options)}")
        os.mkdir(folder)
        with Server(folder, *options, "--token-file", path) as server:
            q = Place(server, "own", folder)
            for method, what, fields, status in cases:
                for length in ({"Content-Length": 60 << 20}, {"Content-Length": (1 << 20) + 1}):
                    with q.wire() as w:
                        w.send(request(method, PREFIX + "__ds/subscriptions/" + what, {**fields, **length}))
                        r = w.reply()
                        check(r.status == status and r.get("Connection") == "close" and b'"error"' in r.body, method, what, fields, length, r)
            if not options:
                continue
            with q.wire() as w:  # and one that only turns out to be too long
                w.send(request("PUT", PREFIX + "__ds/subscriptions/s", admin, [b"x" * 65536] * 16 + [b"y"]))
                r = w.reply()
                check(r.status == 413 and b'"error"' in r.body, r)


# --- links ---------------------------------------------------------------------------------------------------------

@test(ours=True, options=ON)
def streams_are_linked_at_their_tail_or_before_their_first_append(p):
    old, other = stream(p, "ev/old", b'[1,"two"]'), stream(p, "ev/a/b", b"[1]")
    s = Sub(p, "s")
    s.pull("w", pattern="ev/*", streams=["ev/old", "named/none", "ev/a/b"])
    tail = after(b"1", b'"two"')
    check(s.links() == {"ev/old": ("explicit", tail), "named/none": ("explicit", ZERO), "ev/a/b": ("explicit", other.head().next)}, s.links())
    s.claim(status=409, code="NO_PENDING_WORK")
    empty, new = stream(p, "ev/empty"), stream(p, "ev/new", b"[1]")
    stream(p, "ev/x/y", b"[1]"), stream(p, "else", b"[1]")
    check(s.links()["ev/new"] == ("glob", "-1") and s.links()["ev/empty"] == ("glob", "-1") and len(s.links()) == 5, s.links())
    held = s.claim()
    told = {x["path"]: x for x in held["streams"]}
    check(told["ev/new"] == {"path": "ev/new", "link_type": "glob", "acked_offset": "-1", "tail_offset": after(b"1"), "has_pending": True}, told)
    check(told["ev/empty"]["has_pending"] is False and held["streams"][0]["path"] == "ev/new", "what is pending comes first", held)
    old.post(b"3", kind="application/json")
    empty.post(b"4", kind="application/json")
    s.say("ack", held, [("ev/new", new.head().next)], done=True)
    check({x["path"] for x in s.claim()["streams"] if x["has_pending"]} == {"ev/old", "ev/empty"}, "the rest")


@test(ours=True, options=ON)
def patterns_are_of_whole_segments(p):
    paths = ["a", "a/b", "a/c", "a/b/c", "a/x/c", "a/x/y/c", "b", "ab", "a*", "a/*", "b/c", "a//c"]
    wanted = {"a": {"a"}, "*": {"a", "b", "ab", "a*"}, "a/*": {"a/b", "a/c", "a/*"}, "**": set(paths), "a/**": {x for x in paths if x == "a" or x[:2] == "a/"},
              "**/c": {x for x in paths if x.endswith("/c")}, "a/**/c": {"a/c", "a/b/c", "a/x/c", "a/x/y/c", "a//c"}, "a/*/c": {"a/b/c", "a/x/c", "a//c"},
              "*/c": {"a/c", "b/c"}, "a%2A": {"a*"}, "a/%2a": {"a/*"}, "**/b/**": {"a/b", "a/b/c", "b", "b/c"}, "*b": set(), "a*": {"a*"},
              "**/**/**/x/**/c": {"a/x/c", "a/x/y/c"}}
    for n, pattern in enumerate(wanted):
        Sub(p, f"before{n}").pull("w", pattern=pattern)
    for path in paths:
        stream(p, path, b"[1]")
    for n, (pattern, paths_of) in enumerate(wanted.items()):
        Sub(p, f"after{n}").pull("w", pattern=pattern)
        for when in ("before", "after"):
            got = set(Sub(p, f"{when}{n}").links())
            check(got == paths_of, pattern, when, "links", got, "not", paths_of)


@test(ours=True, options=ON)
def links_by_name_come_and_go(p):
    s = Sub(p, "s")
    s.pull("w", pattern="a/*", streams=["a/one", "b/one"])
    one = stream(p, "a/one", b"[1]")
    check(s.links() == {"a/one": ("explicit", ZERO), "b/one": ("explicit", ZERO)}, s.links())
    for _ in range(2):
        s.ask("DELETE", "/streams/a%2Fone", status=204)
        s.ask("DELETE", "/streams/b/one", status=204)
        s.ask("DELETE", "/streams/none", status=204)
    check(s.links() == {"a/one": ("glob", ZERO)}, s.links())
    s.ask("POST", "/streams", {"streams": ["a/one", "/b/one/", "c"]}, status=204)
    s.ask("POST", "/streams", {"streams": ["c"]}, status=204)
    check(s.links() == {"a/one": ("explicit", ZERO), "b/one": ("explicit", ZERO), "c": ("explicit", ZERO)}, s.links())
    s.say("ack", s.claim(), [("a/one", one.head().next)], done=True)
    check(s.links()["a/one"] == ("explicit", after(b"1")), s.links())
    one.delete()
    check(s.links()["a/one"] == ("explicit", "-1"), "a new one begins anew", s.links())
    stream(p, "a/one", b"[2]")
    check(s.claim()["streams"][0] == {"path": "a/one", "link_type": "explicit", "acked_offset": "-1", "tail_offset": after(b"2"), "has_pending": True}, "new")
    two = stream(p, "a/two", b"[1]")
    check("a/two" in s.links(), "a/two")
    two.delete()
    check("a/two" not in s.links(), "a link by pattern goes with its stream")


@test(ours=True, options=ON)
def forks_and_expired_streams(p):
    s = Sub(p, "s")
    source = stream(p, "src/a", b"[1,2]")
    s.pull("w", pattern="ev/*")
    f = Stream(p, PREFIX + "ev/fork")
    f.put({"Stream-Forked-From": source.target})
    check(s.claim()["streams"][0]["tail_offset"] == after(b"1", b"2"), "all of a fork is new")
    t = Stream(p, PREFIX + "ev/short")
    t.put({**JSON, "Stream-TTL": "1"}, b"[1]")
    check("ev/short" in s.links(), "short")
    until(lambda: "ev/short" not in s.links(), "the sweeper's")
    g = Stream(p, PREFIX + "src/of-fork")
    g.put({"Stream-Forked-From": f.target})
    f.delete()  # gone, not away
    check("ev/fork" not in s.links(), s.links())


# --- pull-wake -----------------------------------------------------------------------------------------------------

@test(ours=True, options=ON)
def a_wake_is_told_once_and_its_words(p):
    wake, one = stream(p, "wake"), stream(p, "ev/one")
    s = Sub(p, "s\"\\")
    s.pull("wake", pattern="**")
    began = time.time() * 1000
    for n in range(20):
        one.post(b"%d" % n, kind="application/json")
    got = events(wake)
    check(len(got) == 1, "told", got)
    check({k: v for k, v in got[0].items() if k != "ts"} == {"type": "wake", "subscription_id": s.id, "stream": "ev/one", "generation": 1}, got)
    check(began - 1000 < got[0]["ts"] < time.time() * 1000 + 1000, got)
    check("wake" not in s.links(), "its own wake stream is no reason for a wake")
    held = s.claim("me")
    check((held["generation"], held["lease_ttl_ms"]) == (1, 30000) and held["wake_id"].startswith("w_"), held)
    check(s.claim("you", 409, "ALREADY_CLAIMED")["error"]["current_holder"] == "me", "holder")
    check(s.say("ack", held, [("ev/one", one.head().next)]) == {"ok": True, "next_wake": False}, "ack")
    one.post(b"1", kind="application/json")
    check(len(events(wake)) == 1, "no wake while it is held")
    check(s.say("ack", held, done=True) == {"ok": True, "next_wake": True}, "the next")
    check([e["generation"] for e in events(wake)] == [1, 2], events(wake))
    s.say("ack", held, done=True, status=409, code="FENCED")


@test(ours=True, options=ON)
def the_order_of_checks(p):
    one = stream(p, "ev/one", b"[1]")
    stream(p, "ev/two", b"[1]")
    s, other = Sub(p, "s"), Sub(p, "other")
    for x in (s, other):
        x.pull("w", streams=["ev/one", "ev/two"])
    one.post(b"234", kind="application/json")
    held, theirs = s.claim(), other.claim()
    tail, low = one.head().next, after(b"1")
    body = {"wake_id": held["wake_id"], "generation": held["generation"], "acks": [{"stream": "ev/one", "offset": tail}]}
    bearer = {"Authorization": "Bearer " + held["token"]}
    for fields in ({}, {"Authorization": held["token"]}, {"Authorization": "Basic x"}, {"Authorization": "Bearer "}):
        s.ask("POST", "/ack", body, fields, 401, "TOKEN_INVALID")
    Sub(p, "none").ask("POST", "/ack", body, bearer, 404, "SUBSCRIPTION_NOT_FOUND")
    for x in ("x", "x.y", held["token"][:-1] + ("A" if held["token"][-1] != "A" else "B"), theirs["token"], held["token"] + "x", "." + held["token"]):
        s.ask("POST", "/ack", {"wake_id": "x", "generation": 99}, {"Authorization": "Bearer " + x}, 401, "TOKEN_INVALID")
    for wrong in ({"generation": 2}, {"generation": "1"}, {"wake_id": theirs["wake_id"]}, {"generation": None}, {"wake_id": None}):
        s.ask("POST", "/ack", {**body, **wrong, "acks": [{"stream": "none", "offset": "x"}]}, bearer, 409, "FENCED")
    s.ask("POST", "/callback", body, bearer, 400, "INVALID_REQUEST")
    for ack in ({"stream": "none", "offset": tail}, {"stream": "ev/one", "offset": "-1"}, {"stream": "ev/one", "offset": "now"},
                {"stream": "ev/one", "offset": ZERO}, {"stream": "ev/one", "offset": off(999)}, {"stream": "ev/one", "offset": off(6)},
                {"stream": "ev/one", "offset": "5"}, {"stream": "", "offset": tail}):
        s.ask("POST", "/ack", {**body, "acks": [{"stream": "ev/two", "offset": low}, {"path": "ev/one", "offset": tail}, ack]}, bearer, 409, "INVALID_OFFSET")
    check(s.links()["ev/one"][1] == low, "nothing of it was done")
    for bad in ({"acks": {}}, {"acks": [1]}, {"acks": [{"stream": "ev/one"}]}, {"acks": [{"offset": tail}]}, {"wake_id": 1}):
        s.ask("POST", "/ack", {**body, **bad}, bearer, 400, "INVALID_REQUEST")
    s.ask("POST", "/ack", {**body, "acks": [{"path": "/ev/one/", "offset": tail}, {"stream": "ev/one", "offset": low}]}, bearer, 200)
    check(s.links()["ev/one"][1] == tail, s.links())
    s.ask("POST", "/ack", {**body, "acks": [{"stream": "ev/one", "offset": low}]}, bearer, 409, "INVALID_OFFSET")
    s.ask("POST", "/release", body, bearer, 204)
    s.ask("POST", "/release", body, bearer, 409, "FENCED")
    s.claim(status=409, code="NO_PENDING_WORK")


@test(ours=True, options=ON)
def tokens_of_a_former_life_are_fenced(p):
    one = stream(p, "one", b"[1]")
    s = Sub(p, "s")
    s.pull("w", streams=["one"])
    one.post(b"2", kind="application/json")
    old = s.claim()
    s.delete()
    s.say("ack", old, [("one", one.head().next)], status=404, code="SUBSCRIPTION_NOT_FOUND")
    s.pull("w", streams=["one"])
    one.post(b"3", kind="application/json")
    held = s.claim()
    check(held["generation"] == old["generation"] and held["wake_id"] != old["wake_id"], "a new wake")
    s.say("ack", old, [("one", one.head().next)], status=409, code="FENCED")
    s.say("ack", held, [("one", one.head().next)], done=True)


@test(ours=True, options=ON)
def a_lease_ends(p):
    wake, one = stream(p, "wake"), stream(p, "ev/one")
    s = Sub(p, "s")
    s.pull("wake", pattern="ev/*", lease_ttl_ms=1000)
    one.post(b"1", kind="application/json")
    held = s.claim("a")
    until(lambda: len(events(wake)) == 2, "woken again when the lease is over")
    s.say("ack", held, [("ev/one", one.head().next)], status=409, code="FENCED")
    again = s.claim("b")
    check(again["generation"] == 2, again)
    for _ in range(8):  # each ack keeps it
        time.sleep(0.25)
        s.say("ack", again)
    check(len(events(wake)) == 2, "extended")
    s.say("ack", again, [("ev/one", one.head().next)])
    until(lambda: s.claim("c", 409)["error"]["code"] == "NO_PENDING_WORK", "the lease is over, and nothing is pending")
    check(len(events(wake)) == 2 and metric(p, "subscription_leases_over_total") == 2, "no wake for nothing")


@test(ours=True, options=ON)
def release_gives_it_to_the_next(p):
    wake, one = stream(p, "wake"), stream(p, "ev/one")
    s = Sub(p, "s")
    s.pull("wake", pattern="ev/*")
    one.post(b"1", kind="application/json")
    held = s.claim("a")
    s.say("release", held, status=204)
    check([e["generation"] for e in events(wake)] == [1, 2], events(wake))
    s.say("ack", held, status=409, code="FENCED")
    check(s.claim("b")["generation"] == 2, "the next")


@test(ours=True, options=ON)
def a_wake_stream_that_is_not_there(p):
    one = stream(p, "ev/one")
    s = Sub(p, "s")
    s.pull("wake", pattern="ev/*")
    one.post(b"1", kind="application/json")
    check("its wake stream is not there; make the stream; a worker may" in p.server.log() and metric(p, "subscription_wakes_unheard_total") == 1, p.server.log())
    s.say("ack", s.claim(), [("ev/one", one.head().next)], done=True)
    wake = stream(p, "wake")
    one.post(b"2", kind="application/json")
    check(len(events(wake)) == 1, "told when it is there")
    wake.close()
    s.say("release", s.claim(), status=204)
    check(s.claim()["generation"] == 3 and len(events(wake)) == 1, "a closed one")
    check("its wake stream is closed; delete the stream, and make it anew; a worker may" in p.server.log(), p.server.log())


@test(ours=True, options=ON)
def what_is_woken_for_nothing_is_woken_again(p):
    wake, one = stream(p, "wake"), stream(p, "ev/one", b"[1]")
    s = Sub(p, "s")
    s.pull("wake", pattern="ev/*")
    one.post(b"2", kind="application/json")
    one.delete()
    s.claim(status=409, code="NO_PENDING_WORK")
    stream(p, "ev/one", b"[1]")
    check([e["generation"] for e in events(wake)] == [1, 2], events(wake))


@test(ours=True, options=ON)
def wake_streams_wake_others(p):
    a, b = stream(p, "w/a"), stream(p, "w/b")
    Sub(p, "a").pull("w/a", pattern="**")
    Sub(p, "b").pull("w/b", pattern="**")
    c = Sub(p, "c")
    c.pull("w/c", pattern="**")
    stream(p, "x", b"[1]")
    check(len(events(a)) == 1 and len(events(b)) == 1, "each once", events(a), events(b))
    own = stream(p, "w/c")
    c.say("release", c.claim(), status=204)
    check(len(events(own)) == 1 and "w/c" not in c.links() and "w/c" in Sub(p, "a").links(), "its own wake stream, made later", c.links())


@test(ours=True, options=ON)
def claims_at_once_give_one_lease(p):
    one = stream(p, "one")
    s = Sub(p, "s")
    s.pull("w", streams=["one"])
    one.post(b"1", kind="application/json")
    got = []
    threads = [threading.Thread(target=lambda n=n: got.append(Sub(p, "s").ask("POST", "/claim", {"worker": f"w{n}"}).status)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(sorted(got) == [200] + [409] * 11, got)


@test(ours=True, options=ON)
def a_wake_tells_of_a_thousand_streams_and_the_next_of_the_rest(p):
    s = Sub(p, "s")
    s.pull("w", pattern="many/*")
    with p.wire() as w:
        for n in range(1200):
            check(w.ask("PUT", f"{PREFIX}many/{n}", JSON, b"[1]").status == 201, n)
    check(len(s.links()) == 1200, "links")
    held = s.claim()
    check(len(held["streams"]) == 1000 and all(x["has_pending"] for x in held["streams"]), len(held["streams"]))
    check(s.say("ack", held, [(x["path"], x["tail_offset"]) for x in held["streams"]], done=True)["next_wake"] is True, "more")
    held = s.claim()
    check(sum(x["has_pending"] for x in held["streams"]) == 200 and len(held["streams"]) == 1000, "the rest")
    s.delete()
    until(lambda: metric(p, "subscription_links") == 0, "its links go in the background")


# --- webhooks ------------------------------------------------------------------------------------------------------

@test(ours=True, options=ON)
def a_webhook_is_signed_and_done(p):
    with Receiver((200, b'{"done":true}')) as r:
        s = Sub(p, "é/1")
        made = s.webhook(r.url, pattern="ev/*").json
        base = f"http://127.0.0.1:{p.port}{PREFIX}__ds"
        check(made["webhook"] == {"url": r.url, "signing": {"alg": "ed25519", "kid": made["webhook"]["signing"]["kid"], "jwks_url": base + "/jwks.json"}}, made)
        (key,) = keys(p)
        check({k: v for k, v in key.items() if k not in ("x", "kid")} == {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA"}, key)
        thumb = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": key["x"]}, separators=(",", ":")).encode()
        kid = "ds_" + base64.urlsafe_b64encode(hashlib.sha256(thumb).digest()).decode().rstrip("=")
        check(key["kid"] == kid == made["webhook"]["signing"]["kid"] and len(b64(key["x"])) == 32, "its name")
        one = stream(p, "ev/one", b'[1,"\xc3\xa9"]')
        hook = r.wait()
        check((hook.path, hook.fields["Content-Type"], hook.fields["Host"]) == ("/hook?a=b", "application/json", f"127.0.0.1:{r.port}"), hook.fields)
        hook.check_signature(keys(p))
        tail = one.head().next
        check({k: v for k, v in hook.body.items() if k not in ("wake_id", "callback_token")} == {
            "subscription_id": "é/1", "generation": 1, "callback_url": f"{base}/subscriptions/%C3%A9%2F1/callback",
            "streams": [{"path": "ev/one", "link_type": "glob", "acked_offset": "-1", "tail_offset": tail, "has_pending": True}]}, hook.body)
        until(lambda: s.links()["ev/one"] == ("glob", tail), "acknowledged")
        one.post(b"3", kind="application/json")
        check(r.wait(2).body["generation"] == 2, "the next")
        until(lambda: s.links()["ev/one"][1] == one.head().next, "that too")
        check(len(r.hooks) == 2 and s.get()["status"] == "active", "no more")


@test(ours=True, options=ON)
def done_is_of_what_was_told(p):
    gate, slowly = gated(200, b'{"done":true}')
    with Receiver(slowly) as r:
        s = Sub(p, "s")
        s.webhook(r.url, pattern="ev/*")
        one = stream(p, "ev/one", b"[1]")
        first = r.wait()
        one.post(b"2", kind="application/json")
        stream(p, "ev/two", b"[1]")
        time.sleep(0.2)
        check(len(r.hooks) == 1 and s.links()["ev/one"][1] == "-1", "one at a time")
        gate.set()
        second = r.wait(2)
        told = {x["path"]: (x["acked_offset"], x["tail_offset"]) for x in second.body["streams"]}
        check(first.tail("ev/one") == after(b"1") and told == {"ev/one": (after(b"1"), after(b"1", b"2")), "ev/two": ("-1", after(b"1"))}, told)
        until(lambda: set(s.links().values()) == {("glob", after(b"1", b"2")), ("glob", after(b"1"))}, "all")


@test(ours=True, options=ON)
def a_callback_acknowledges_and_keeps_the_lease(p):
    with Receiver() as r:
        s = Sub(p, "s")
        s.webhook(r.url, pattern="ev/*", lease_ttl_ms=1000)
        one = stream(p, "ev/one", b"[1]")
        hook = r.wait().body
        for _ in range(8):
            check(s.say("callback", hook) == {"ok": True, "next_wake": False}, "alive")
            time.sleep(0.25)
        check(len(r.hooks) == 1, "kept")
        s.say("ack", hook, status=400, code="INVALID_REQUEST")
        s.claim(status=400, code="INVALID_REQUEST")
        again = r.wait(2).body  # nobody said more: the lease is over
        check(again["generation"] == 2 and again["wake_id"] != hook["wake_id"], again)
        s.say("callback", hook, [("ev/one", one.head().next)], status=409, code="FENCED")
        check(s.say("callback", again, [("ev/one", one.head().next)], done=True) == {"ok": True, "next_wake": False}, "done")
        s.say("callback", again, done=True, status=409, code="FENCED")
        time.sleep(1.3)
        check(len(r.hooks) == 2, "at rest")


@test(ours=True, options=ON)
def a_callback_before_the_answer(p):
    box = {}

    def calls_back(hook):
        if hook.body["generation"] == 1:
            box["answer"] = box["sub"].say("callback", hook.body, [("ev/one", hook.tail("ev/one"))], done=True)
        return 200, b'{"done":true}'

    with Receiver(calls_back) as r:
        box["sub"] = s = Sub(p, "s")
        s.webhook(r.url, pattern="ev/*")
        one = stream(p, "ev/one", b"[1]")
        until(lambda: "answer" in box, "called back")
        check(box["answer"] == {"ok": True, "next_wake": False}, box)
        one.post(b"2", kind="application/json")
        check(r.wait(2).body["generation"] == 2, "the next wake")
        until(lambda: s.links()["ev/one"][1] == one.head().next, "done")


@test(ours=True, options=ON)
def failures_are_tried_again_with_the_same_wake(p):
    with Receiver((500, b"no")) as r:
        s = Sub(p, "s")
        s.webhook(r.url, pattern="ev/*", lease_ttl_ms=1000)
        one = stream(p, "ev/one", b"[1]")
        r.wait(1)
        until(lambda: s.get()["status"] == "failed", "failed")
        one.post(b"2", kind="application/json")
        r.wait(3)
        gaps = [b.at - a.at for a, b in zip(r.hooks, r.hooks[1:])]
        check(0.75 < gaps[0] < 2.2 and 1.55 < gaps[1] < 4, "1 s and 2 s, a fifth more or less:", gaps)
        check(len({h.body["wake_id"] for h in r.hooks}) == 1 and len({h.tail("ev/one") for h in r.hooks}) == 1, "another wake")
        for h in r.hooks:
            h.check_signature(keys(p))
        r.answer = (200, b'{"done":true}')
        r.wait(4)
        until(lambda: s.get()["status"] == "active", "active again")
        until(lambda: s.links()["ev/one"][1] == one.head().next, "all of it")
        with p.wire() as w:
            text = w.ask("GET", "/metrics").body.decode()
        check('sc_streams_webhook_deliveries_total{result="failed"} 3' in text and 'result="done"} 2' in text, "numbers")


@test(ours=True)
def a_row_of_failures_is_told_once(p):
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    with Receiver((500, b"no")) as r, Server(folder, *ON) as server:
        q = Place(server, "own", folder)
        s = Sub(q, "s")
        s.webhook(r.url, pattern="ev/*")
        stream(q, "ev/one").post(b"1", kind="application/json")
        r.wait(3)
        server.end()
        told = [line for line in server.log().splitlines() if "cannot deliver a wake" in line]
        check(len(told) == 1 and "times more" not in told[0] and f"to webhook '{r.url}" in told[0], told, r.url)


@test(ours=True, options=[*ON, "--webhook-timeout", "700ms"])
def receivers_of_all_kinds(p):
    def close_at_once(h):
        h.connection.close()

    def half_a_head(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")

    def half_a_body(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"done\":")

    def no_http(h):
        h.wfile.write(b"hello\r\n\r\n")

    def bad_chunks(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")

    def two_lengths(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}")

    def endless_head(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(2000):
            h.wfile.write(b"X-Y: " + b"z" * 100 + b"\r\n")

    def stalls(h):
        time.sleep(1.5)

    def drips(h):
        h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(20):
            h.wfile.write(b" ")
            h.wfile.flush()
            time.sleep(0.1)

    failing = [close_at_once, half_a_head, half_a_body, no_http, bad_chunks, two_lengths, endless_head, stalls, drips]
    for n, how in enumerate(failing):
        with Receiver(lambda _, how=how: how) as r:
            s = Sub(p, f"bad{n}")
            s.webhook(r.url, streams=[f"bad{n}"])
            stream(p, f"bad{n}", b"[1]")
            until(lambda s=s: s.get()["status"] == "failed", how.__name__, 10)
            s.delete()

    def chunked(h):
        h.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n{\"don\r\n8\r\ne\":true}\r\n0\r\nA: b\r\n\r\n")

    def by_end(h):
        h.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n{\"done\":true}")

    def keeps_open(h):
        h.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"done":true}')
        time.sleep(2)

    for n, how in enumerate((chunked, by_end, keeps_open)):
        with Receiver(lambda _, how=how: how) as r:
            s = Sub(p, f"good{n}")
            s.webhook(r.url, streams=[f"good{n}"])
            stream(p, f"good{n}", b"[1]")
            until(lambda s=s, n=n: s.links()[f"good{n}"][1] == after(b"1"), how.__name__, 10)

    huge = b'{"done":true,"x":"' + b"y" * (8 << 20) + b'"}'
    for n, body in enumerate((huge, b'{"done":false}', b'{"done":"true"}', b"[true]", b"done", b'{"done":true} x', b"")):
        with Receiver((200, body)) as r:
            s = Sub(p, f"taken{n}")
            s.webhook(r.url, streams=[f"taken{n}"])
            stream(p, f"taken{n}", b"[1]")
            hook = r.wait()
            time.sleep(0.1)
            check(s.links()[f"taken{n}"][1] == ZERO and s.get()["status"] == "active", body[:30], s.get())
            check(s.say("callback", hook.body, [(f"taken{n}", after(b"1"))], done=True)["ok"], "the lease runs")
    check(p.server.memory_kb() < 200000, "memory", p.server.memory_kb())


@test(ours=True, options=ON)
def redirects_are_not_followed(p):
    with Receiver((200, b'{"done":true}')) as inner:
        for status in (301, 302, 303, 307, 308):
            with Receiver((status, b"", ("Location", f"http://127.0.0.1:{inner.port}/secret"))) as r:
                s = Sub(p, f"s{status}")
                s.webhook(r.url, streams=[f"s{status}"])
                stream(p, f"s{status}", b"[1]")
                until(lambda s=s: s.get()["status"] == "failed", f"{status} is a failure")
                s.delete()
        check(inner.connections == 0, "it was followed")


@test(ours=True)
def a_name_that_means_an_inner_address_is_refused(p):
    inner = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "::127.0.0.1")
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    hosts = {f"h{n}_test": address for n, address in enumerate(inner)}
    with Receiver((200, b'{"done":true}')) as r, Server(folder, *ON, env={**names(folder, localhost="8.8.8.8", **hosts)}) as server:
        q = Place(server, "own", folder)
        subs = []
        for n in range(len(inner)):
            s = Sub(q, f"s{n}")
            s.webhook(f"https://h{n}.test:{r.port}/", streams=[f"s{n}"])
            stream(q, f"s{n}", b"[1]")
            subs.append(s)
        # http is for this machine, whatever the resolver says of it
        s = Sub(q, "local")
        s.webhook(f"http://localhost:{r.port}/", streams=["local"])
        stream(q, "local", b"[1]")
        for s in [*subs, s]:
            until(lambda s=s: s.get()["status"] == "failed", s.id + " is refused")
        check(r.connections == 0, "it was connected to")
        check(os.path.getsize(os.path.join(folder, "names")) >= len(inner) + 1, "the names were not looked up")
        check("none that may be used here" in server.log(), server.log())


@test(ours=True, options=ON)
def a_deleted_subscription_is_left_alone(p):
    gate, slowly = gated(200, b'{"done":true}')
    with Receiver(slowly) as r:
        s = Sub(p, "s")
        s.webhook(r.url, streams=["one"])
        one = stream(p, "one", b"[1]")
        hook = r.wait()
        s.delete()
        s.say("callback", hook.body, [("one", one.head().next)], status=404, code="SUBSCRIPTION_NOT_FOUND")
        s.webhook(r.url, streams=["one"])
        gate.set()
        time.sleep(0.3)
        check(s.links() == {"one": ("explicit", after(b"1"))} and len(r.hooks) == 1, "of another life")
        until(lambda: metric(p, "webhook_deliveries_running") == 0, "none runs")


@test(ours=True, options=ON)
def a_receiver_that_hangs_keeps_no_other_waiting(p):
    gate, hangs = gated(500, b"")
    with Receiver(hangs) as slow, Receiver((200, b'{"done":true}')) as fast:
        for n in range(20):
            Sub(p, f"slow{n}").webhook(slow.url, streams=["one"])
        s = Sub(p, "fast")
        s.webhook(fast.url, streams=["one"])
        one = stream(p, "one", b"[1]")
        until(lambda: s.links()["one"][1] == one.head().next, "the fast one", 10)
        gate.set()


# --- who may, restarts ---------------------------------------------------------------------------------------------

@test(ours=True)
def tokens_say_who_may(p):
    path = os.path.join(p.folder, "tokens")
    with open(path, "w", encoding="ascii") as f:
        f.write("read r-token\nwrite w-token\nadmin a-token\n")
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    with Server(folder, *ON, "--token-file", path) as server:
        q = Place(server, "own", folder)
        r, w, a, none = (Sub(q, "s", t) for t in ("r-token", "w-token", "a-token", None))
        config = {"type": "pull-wake", "streams": ["one"], "wake_stream": "w"}
        none.put(401, **config)
        r.put(403, **config)
        w.put(403, **config)
        a.put(**config)
        none.ask("GET", status=401)
        r.get()
        w.ask("POST", "/streams", {"streams": ["x"]}, status=403)
        w.ask("DELETE", status=403)
        with q.wire() as wire:
            check(wire.ask("PUT", PREFIX + "one", {**JSON, "Authorization": "Bearer w-token"}, b"[1]").status == 201, "a stream")
            check(wire.ask("GET", PREFIX + "__ds/jwks.json").status == 200, "keys are public")
        none.claim(status=401)
        r.claim(status=403)
        none.say("ack", w.claim(), [("one", after(b"1"))], done=True)  # the wake's token is enough
        a.delete()


@test(ours=True)
def all_of_it_survives(p):
    for how in ("end", "kill"):
        folder = os.path.join(p.folder, how)
        os.mkdir(folder)
        with Server(folder, *ON) as server:
            q = Place(server, how, folder)
            wake, one = stream(q, "wake"), stream(q, "ev/one", b"[1]")
            s = Sub(q, "s")
            s.pull("wake", pattern="ev/*", lease_ttl_ms=20000)
            one.post(b"2", kind="application/json")
            held, before, key = s.claim("me"), s.get(), keys(q)
            path = os.path.join(server.data, "subscription-keys")
            check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the keys' mode")
            if how == "end":
                check(server.end() == 0, server.log())
            else:
                server.kill()
            server.start()
            check(keys(q) == key and s.get() == before, s.get(), "was", before)
            check(s.claim("you", 409, "ALREADY_CLAIMED")["error"]["current_holder"] == "me", "held")
            s.say("ack", held, [("ev/one", one.head().next)], done=True)
            stream(q, "ev/later", b"[1]")
            check(s.links()["ev/later"] == ("glob", "-1") and [e["generation"] for e in events(wake)] == [1, 2], s.links())
            server.kill()
            os.chmod(path, 0o644)
            try:
                server.start()
            except Exception as e:  # noqa: BLE001
                check("others may read it" in str(e), e)
            else:
                check(False, "it takes keys that others may read")
            os.chmod(path, 0o600)
            server.start()
            check(server.end() == 0, server.log())


@test(ours=True)
def what_was_due_is_delivered_after_a_restart(p):
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    port = free_port()
    with Server(folder, *ON) as server:
        q = Place(server, "own", folder)
        s = Sub(q, "s")
        s.webhook(f"http://127.0.0.1:{port}/", pattern="ev/*", lease_ttl_ms=1000)
        one = stream(q, "ev/one", b"[1]")
        until(lambda: s.get()["status"] == "failed", "nobody is there")
        gate, answer = gated(200, b"{}")
        server.kill()
        server.start()
        check(s.get()["status"] == "failed", "still")
        with Receiver(answer) as r:
            t = Sub(q, "t")
            t.webhook(r.url, pattern="ev/*")
            one.post(b"2", kind="application/json")
            first = r.wait().body
            server.kill()  # on its way: it is sent again
            gate.set()
            r.answer = (200, b'{"done":true}')
            server.start()
            second = r.wait(2).body
            check((second["wake_id"], second["streams"]) == (first["wake_id"], first["streams"]), "another wake", second)
            until(lambda: t.links()["ev/one"][1] == one.head().next, "done")
