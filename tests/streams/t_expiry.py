"""Lifetimes (section 15) and forks of what has expired (section 16)."""

import time

from lab import check
from t_create import stamp
from web import after, until
from world import REFERENCE, test

TTL_S = 3


def touch_test(p, touch, lives, ttl=TTL_S):
    """Half a life, touch, and past the first life: it lives on or not."""
    s = p.text(b"one", fields={"Stream-TTL": str(ttl)})
    for _ in range(3):
        time.sleep(ttl * 0.55)
        if lives or _ == 0:
            touch(s)
    check(s.head(status=(200, 404)).status == (200 if lives else 404), "alive" if lives else "dead", "was expected")
    return s


@test
def dead_after_its_ttl(p):
    s = p.text(b"one", fields={"Stream-TTL": "1"})
    s.head()
    until(lambda: s.head(status=(200, 404)).status == 404, "dead", 4)
    s.get(status=404)
    s.post(b"x", status=404)
    s.close(status=404)
    s.delete(status=404)
    s.get("bad", status=404)
    s.put({"Content-Type": "text/html", "Stream-TTL": "60"}, b"new", status=201)
    check(s.all() == b"new" and s.head().next == after(b"new"), s.all())


@test
def dead_at_its_instant(p):
    s = p.text(b"one", fields={"Stream-Expires-At": stamp(2)})
    end = time.monotonic() + 6
    while s.get(status=(200, 404)).status == 200:  # reads do not help
        check(time.monotonic() < end, "it lives on")
        time.sleep(0.05)
    s.put(status=201)


@test
def a_read_prolongs(p):
    touch_test(p, lambda s: s.get(), True)


@test(differs="it does not")
def a_read_of_now_prolongs(p):
    touch_test(p, lambda s: s.get("now"), True)


@test
def a_read_that_is_not_modified_prolongs(p):
    touch_test(p, lambda s: s.get(fields={"If-None-Match": s.place.at(s.target).get().etag}, status=304), True)


@test
def a_not_modified_alone_prolongs(p):
    s = p.text(b"one", fields={"Stream-TTL": str(TTL_S)})
    etag = s.get().etag
    for _ in range(3):
        time.sleep(TTL_S * 0.55)
        s.get(fields={"If-None-Match": etag}, status=304)
    s.head()


@test
def an_append_prolongs(p):
    touch_test(p, lambda s: s.post(b"x"), True)


@test
def a_duplicate_prolongs(p):
    s = p.text(fields={"Stream-TTL": str(TTL_S)})
    fields = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    s.post(b"x", fields, status=200)
    for _ in range(3):
        time.sleep(TTL_S * 0.55)
        s.post(b"x", fields, status=204)
    s.head()


@test(differs="it does not")
def a_close_prolongs(p):
    touch_test(p, lambda s: s.close(), True)


@test(differs="it does not")
def a_close_with_a_producer_prolongs(p):
    touch_test(p, lambda s: s.close({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}), True)


@test
def head_does_not_prolong(p):
    s = touch_test(p, lambda s: (s.head(), s.ask("OPTIONS", status=204)), False)
    s.put(status=201)


@test
def a_fork_does_not_prolong_its_source(p):
    s = p.text(b"one", fields={"Stream-TTL": str(TTL_S)})
    time.sleep(TTL_S * 0.6)
    f = p.fork(s, {"Stream-TTL": "3600"})
    time.sleep(TTL_S * 0.6)
    s.head(status=(404, 410))
    check(f.all() == b"one", f.all())


@test
def what_is_refused_does_not_prolong(p):
    s = p.text(b"one", fields={"Stream-TTL": str(TTL_S)})
    time.sleep(TTL_S * 0.6)
    s.post(b"x", kind="text/html", status=409)
    s.post(b"", status=400)
    time.sleep(TTL_S * 0.6)
    s.head(status=404)


@test
def a_connected_reader_that_is_woken_keeps_it_alive(p):
    s = p.text(b"one", fields={"Stream-TTL": str(TTL_S)})
    with s.sse("now") as e:
        e.pair()
        for n in range(3):
            time.sleep(TTL_S * 0.55)
            s.post(b"x")
            e.pair()
        s.head()


@test
def a_long_poll_prolongs(p):
    touch_test(p, lambda s: s.poll("-1"), True)


@test
def a_fork_of_what_has_expired(p):
    s = p.text(b"one", fields={"Stream-TTL": "1"})
    time.sleep(1.2)
    p.fork(s, status=404).head(status=404)  # the first to see that it is dead
    s.put(status=201)


@test(differs="status 500")
def a_fork_of_what_never_lived(p):
    s = p.stream()
    s.put({"Stream-TTL": "0"})
    p.fork(s, status=404)
    s.put(status=201)


@test(differs="the fork reads the new content")
def a_put_over_what_has_expired_does_not_hurt_forks(p):
    s = p.text(b"one", fields={"Stream-TTL": "1"})
    f = p.fork(s, {"Stream-TTL": "3600"})
    until(lambda: s.head(status=(200, 404, 410)).status != 200, "dead", 4)
    s.put({"Content-Type": "text/plain"}, b"new", status=409)
    check(f.all() == b"one", f.all())
    p.fork(s, status=(404, 409))
    s.post(b"x", status=(404, 410))
    f.post(b"two")
    check(f.all() == b"onetwo", f.all())
    f.delete()
    until(lambda: s.put({"Content-Type": "text/plain"}, b"new", status=(201, 409)).status == 201, "freed", 5)
    check(s.all() == b"new", s.all())


@test
def an_expired_fork_frees_its_source(p):
    s = p.text(b"one")
    f = p.fork(s, {"Stream-TTL": "1"})
    s.delete()
    s.get(status=410)
    until(lambda: f.head(status=(200, 404)).status == 404, "dead", 4)
    until(lambda: s.put(status=(201, 409)).status == 201, "freed", 20)


@test
def a_forks_own_window(p):
    s = p.text(b"one", fields={"Stream-TTL": str(TTL_S)})
    f = p.fork(s)
    for _ in range(3):
        time.sleep(TTL_S * 0.55)
        check(f.get().body == b"one", "the fork")
    s.head(status=(404, 410))
    check(f.all() == b"one", f.all())


@test
def a_ttl_counts_from_the_creation(p):
    s = p.stream()
    s.put({"Stream-TTL": "2"})
    began = time.monotonic()
    until(lambda: s.head(status=(200, 404)).status == 404, "dead", 6)
    check(1.5 < time.monotonic() - began < 3.5 or REFERENCE, "it lived", time.monotonic() - began)
