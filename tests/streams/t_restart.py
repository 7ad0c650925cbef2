"""What is durable (section 19): all that was acknowledged is so after the server was ended, and after it was killed."""

import os
import time

from lab import check
from t_create import stamp
from web import after, until
from world import Place, Server, test

JSON = "application/json"


def both_ends(p, check_it, **options):
    """check_it is a generator: it makes state, yields for the restart, and looks."""
    for end in ("end", "kill"):
        folder = os.path.join(p.folder, end)
        os.mkdir(folder)
        with Server(folder, **options) as server:
            run = check_it(Place(server, end, folder))
            for _ in run:
                if end == "end":
                    check(server.end() == 0, "its end:", server.log()[-800:])
                else:
                    server.kill()
                server.start()


@test
def data_and_metadata_survive(p):
    def run(q):
        s = q.text(b"one", b"two", fields={"Stream-TTL": "3600"}, kind="text/plain; a=b")
        j = q.json(b"[1,2.50]")
        c = q.text(b"end")
        c.close()
        d = q.text(b"x")
        d.delete()
        before = [(t.get(), t.head()) for t in (s, j, c)]
        yield
        for t, (body, head) in zip((s, j, c), before):
            now = t.get()
            check((now.body, now.next, now.closed, now.etag) == (body.body, body.next, body.closed, body.etag), now, "was", body)
            now = t.head()
            check({k: v for k, v in now.fields if k != "Date"} == {k: v for k, v in head.fields if k != "Date"}, now, "was", head)
        d.get(status=404)
        check(s.post(b"three", kind="text/plain").next == after(b"one", b"two", b"three"), "the next offset")
        s.get(fields={"If-None-Match": before[0][0].etag}, status=200)
        j.get(fields={"If-None-Match": before[1][0].etag}, status=304)
    both_ends(p, run)


@test
def producers_and_sequences_survive(p):
    def run(q):
        s = q.text()
        fields = [{"Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": str(n)} for n in range(5)]
        for f in fields[:3]:
            s.post(b".", {**f, "Stream-Seq": "m" + f["Producer-Seq"]}, status=200)
        yield
        for f in fields[:3]:
            check(s.post(b"x", f, status=204).get("Producer-Seq") == "2", "the highest")
        check(s.post(b"x", fields[4], status=409).get("Producer-Expected-Seq") == "3", "a gap")
        s.post(b"x", {**fields[0], "Producer-Epoch": "2"}, status=403)
        s.post(b"x", {"Stream-Seq": "m2"}, status=409)
        s.post(b".", {**fields[3], "Stream-Seq": "m3"}, status=200)
        yield
        s.post(b"x", fields[3], status=204)
        check(s.all() == b"....", s.all())
    both_ends(p, run)


@test
def what_closed_a_stream_survives(p):
    def run(q):
        s, t = q.text(b"a"), q.text(b"a")
        closing = {"Producer-Id": "p", "Producer-Epoch": "1", "Producer-Seq": "0", "Stream-Closed": "true"}
        s.post(b"b", closing, status=200)
        t.close({k: v for k, v in closing.items() if k != "Stream-Closed"})
        yield
        r = s.post(b"b", closing, status=204)
        check((r.closed, r.get("Producer-Epoch"), r.get("Producer-Seq"), r.next) == ("true", "1", "0", after(b"a", b"b")), r)
        check(s.post(b"b", {**closing, "Producer-Seq": "1"}, status=409).closed == "true", "another seq")
        check(t.close({k: v for k, v in closing.items() if k != "Stream-Closed"}).closed == "true", "a close alone")
        check(t.post(b"b", {**closing, "Producer-Id": "q"}, status=409).closed == "true", "another producer")
    both_ends(p, run)


@test(ours=True)
def lifetimes_survive(p):
    def run(q):
        s = q.text(b"one", fields={"Stream-TTL": "5"})
        short = q.text(b"one", fields={"Stream-TTL": "1"})
        instant = q.text(b"one", fields={"Stream-Expires-At": stamp(3600)})
        text = instant.head().get("Stream-Expires-At")
        time.sleep(3)
        check(s.get().body == b"one", "touched")
        time.sleep(0.5)  # a tenth of its TTL: so late may it be stored
        yield
        check(s.head().get("Stream-TTL") == "5", "the window")
        short.get(status=404)
        check(instant.head().get("Stream-Expires-At") == text, "the instant")
        time.sleep(2.1)  # past its first window, within the one of the last read
        check(s.get().body == b"one", "the last read before the end is forgotten")
        yield
        check(s.get().body == b"one", "a second time")
    both_ends(p, run)


@test
def a_ttl_goes_on_while_the_server_is_down(p):
    folder = os.path.join(p.folder, "own")
    os.mkdir(folder)
    with Server(folder) as server:
        q = Place(server, "own", folder)
        s, t = q.text(b"one", fields={"Stream-TTL": "1"}), q.text(b"one", fields={"Stream-TTL": "3600"})
        server.kill()
        time.sleep(1.2)
        server.start()
        s.get(status=404)
        s.put(status=201)
        check(t.get().body == b"one", "the other")


@test
def forks_and_what_is_gone_survive(p):
    def run(q):
        s = q.text(b"one", b"two")
        f = q.fork(s, {"Stream-Fork-Offset": after(b"one")})
        g = q.fork(f)
        f.post(b"own")
        s.delete()
        yield
        s.get(status=410)
        s.put(status=409)
        check(f.all() == b"oneown" and g.all() == b"one", f.all())
        f.put({"Stream-Forked-From": s.target, "Stream-Fork-Offset": after(b"one"), "Content-Type": "text/plain"}, status=200)
        f.delete()
        f.get(status=410)
        yield
        check(g.all() == b"one", g.all())
        g.delete()
        for t in (s, f, g):
            until(lambda t=t: t.head(status=(404, 410)).status == 404, "freed", 5)
    both_ends(p, run)


@test(differs="the path and not a life of it")
def a_new_life_is_new_after_a_restart(p):
    def run(q):
        s = q.text(b"old")
        etag = s.get().etag
        s.delete()
        s.put({"Content-Type": "text/plain"}, b"new")
        yield
        check(s.all() == b"new" and s.get().etag != etag, s.get())
        s.delete()
        yield
        s.put({"Content-Type": "text/plain"}, b"old")
        check(s.get().etag != etag, "an ETag again")
    both_ends(p, run)


@test(ours=True)
def a_thousand_streams_survive(p):
    def run(q):
        with q.wire() as w:
            for n in range(1000):
                r = w.ask("PUT", f"/v1/stream/many/{n}", {"Content-Type": "text/plain"}, b"%d" % n)
                check(r.status == 201, r)
            yield
        with q.wire() as w:
            for n in range(1000):
                check(w.ask("GET", f"/v1/stream/many/{n}").body == b"%d" % n, n)
    both_ends(p, run)
