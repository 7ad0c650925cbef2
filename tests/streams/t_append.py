"""POST (sections 5 to 7): appends, idempotent producers, closing; which error wins when there are several."""

import threading

from lab import check
from web import after, off, until
from world import test

JSON = "application/json"


def producer(epoch, seq, name="p", **more):
    return {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq), **more}


@test
def append_to_what_is_not_there(p):
    s = p.stream()
    s.post(b"x", status=404)
    s.close(status=404)
    s.delete(status=404)


@test(differs="the syntax first")
def a_missing_stream_wins_over_malformed_fields(p):
    s = p.stream()
    for fields in ({"Producer-Id": "p"}, {"Producer-Id": ""}, producer("x", 0), producer(0, "x"), producer(0, 9007199254740992)):
        s.post(b"x", fields, status=404)
    s.post(b"", status=404)
    s.post(b"x", kind=None, status=404)
    source = p.text(b"x")
    p.fork(source)
    source.delete()
    for fields in ({"Producer-Id": "p"}, {"Producer-Id": ""}, producer("x", 0), {}):
        source.post(b"x", fields, status=410)
    source.post(b"", status=410)
    source.close(status=410)


@test
def malformed_fields_win_over_closure(p):
    s = p.text(b"x")
    s.close()
    for fields in ({"Producer-Id": "p"}, {"Producer-Epoch": "0"}, {"Producer-Seq": "0"}, {"Producer-Id": "p", "Producer-Epoch": "0"},
                   producer("x", 0), producer(0, "-1"), producer(0, "")):
        s.post(b"x", fields, status=400)
        s.close(fields, status=400)
    s.post(b"", status=400)
    s.post(b"x", kind=None, status=400)


@test
def producer_fields_all_or_none(p):
    s = p.text()
    full = producer(0, 0)
    for missing in full:
        s.post(b"x", {k: v for k, v in full.items() if k != missing}, status=400)
        s.post(b"x", {k: "" if k == missing else v for k, v in full.items()}, status=400)
        s.post(b"x", {k: "  " if k == missing else v for k, v in full.items()}, status=400)
    check(s.all() == b"", "something was stored")


@test
def producer_numbers(p):
    s = p.text()
    for bad in ("-1", "+1", "1.0", "1e3", "abc", "0x1", "1 2", "1,1", "9007199254740992", "18446744073709551616", "9" * 100, "1_0", "\xb2"):
        s.post(b"x", producer(bad, 0), status=400)
        s.post(b"x", producer(0, bad), status=400)
    check(s.all() == b"", "something was stored")


@test
def producer_numbers_that_are_good(p):
    s = p.text()
    s.post(b"a", producer("00", "000"), status=200)
    s.post(b"b", producer("0", "01"), status=200)
    s.post(b"b", producer("000", "1"), status=204)
    s.post(b"c", producer(9007199254740991, 0), status=200)
    check(s.post(b"d", producer(0, 2), status=403).get("Producer-Epoch") == "9007199254740991", "its epoch")
    check(s.all() == b"abc", s.all())


@test
def an_empty_body_is_refused(p):
    s = p.text()
    for fields in ({}, {"Content-Type": "text/plain"}, {"Stream-Closed": "false"}, {"Stream-Closed": ""}, producer(0, 0)):
        s.post(b"", fields, status=400)
        s.post([], fields, status=400)
    check(s.post(b"x", producer(0, 0), status=200).next == after(b"x"), "the seq was consumed")


@test
def the_type_is_needed_with_a_body_alone(p):
    s = p.text()
    s.post(b"x", kind=None, status=400)
    s.post(b"x", {"Content-Type": ""}, kind=None, status=400)
    s.post(b"x", {"Content-Type": "TEXT/Plain ; charset=latin-1"})
    for kind in ("text/html", "text/plainx", "application/octet-stream", "text", "text/plain/x"):
        s.post(b"x", kind=kind, status=409)
    s.close({"Content-Type": "image/png"})
    check(s.all() == b"x", s.all())


@test
def closure_wins_over_type_sequence_and_json(p):
    s = p.json(b"[1]")
    tail = s.post(b"[2]", {"Stream-Seq": "b"}, kind=JSON).next
    s.close()
    for body, fields, kind in ((b"x", {}, "text/plain"), (b"{", {}, JSON), (b"[]", {}, JSON), (b"[3]", {"Stream-Seq": "a"}, JSON),
                               (b"[3]", producer(5, 3), JSON), (b"[3]", producer(0, 7), JSON), (b"x", producer(0, 0), "text/plain")):
        r = s.post(body, fields, kind=kind, status=409)
        check(r.closed == "true" and r.next == tail, r)


@test
def type_wins_over_producer(p):
    s = p.text()
    s.post(b"a", producer(2, 0), status=200)
    for fields in (producer(1, 0), producer(2, 0), producer(2, 9), producer(3, 4)):
        s.post(b"x", fields, kind="text/html", status=409)
    r = s.post(b"x", producer(2, 9), kind="text/html", status=409)
    check("producer-expected-seq" not in r.names(), "a type conflict shown as a gap", r)


@test
def producer_wins_over_stream_seq(p):
    s = p.text()
    s.post(b"a", producer(1, 0, **{"Stream-Seq": "m"}), status=200)
    s.post(b"a", producer(1, 0, **{"Stream-Seq": "a"}), status=204)
    s.post(b"a", producer(0, 0, **{"Stream-Seq": "a"}), status=403)
    s.post(b"a", producer(2, 3, **{"Stream-Seq": "a"}), status=400)
    check(s.post(b"a", producer(1, 5, **{"Stream-Seq": "a"}), status=409).get("Producer-Expected-Seq") == "1", "the gap")
    r = s.post(b"b", producer(1, 1, **{"Stream-Seq": "a"}), status=409)
    check("producer-expected-seq" not in r.names(), r)
    s.post(b"b", producer(1, 1, **{"Stream-Seq": "n"}), status=200)
    check(s.all() == b"ab", s.all())


@test
def stream_seq_wins_over_json(p):
    s = p.json()
    s.post(b"[1]", {"Stream-Seq": "5"}, kind=JSON)
    s.post(b"{", {"Stream-Seq": "4"}, kind=JSON, status=409)
    s.post(b"[]", {"Stream-Seq": "5"}, kind=JSON, status=409)
    s.post(b"{", {"Stream-Seq": "6"}, kind=JSON, status=400)


@test
def what_json_refuses_leaves_producer_and_seq_as_they_were(p):
    s = p.json()
    for bad in (b"{", b"[]", b"[1,]", b"nan"):
        s.post(bad, producer(0, 0, **{"Stream-Seq": "5"}), kind=JSON, status=400)
    s.post(b"[1]", producer(0, 0, **{"Stream-Seq": "5"}), kind=JSON, status=200)
    s.post(b"[1,", producer(0, 1, **{"Stream-Seq": "6"}), kind=JSON, status=400)
    s.post(b"[2]", producer(0, 1, **{"Stream-Seq": "6"}), kind=JSON, status=200)
    check(s.all("json") == [1, 2], s.all())


@test
def a_duplicates_body_is_not_looked_at(p):
    s = p.json()
    s.post(b"[1]", producer(0, 0), kind=JSON, status=200)
    for body in (b"{broken", b"[]", b"[99]", b"\xff\xfe"):
        s.post(body, producer(0, 0), kind=JSON, status=204)
    check(s.all() == b"[1]", s.all())


@test(differs="a duplicate is answered without the tail")
def answers_of_producers(p):
    s = p.text(b"zero")
    r = s.post(b"a", producer(4, 0), status=200)
    check((r.get("Producer-Epoch"), r.get("Producer-Seq"), r.next, r.closed) == ("4", "0", after(b"zero", b"a"), None), r)
    s.post(b"b", producer(4, 1), status=200)
    r = s.post(b"c", producer(4, 2), status=200)
    check((r.get("Producer-Epoch"), r.get("Producer-Seq")) == ("4", "2"), r)
    s.post(b"other")
    r = s.post(b"a", producer(4, 0), status=204)
    check((r.get("Producer-Epoch"), r.get("Producer-Seq")) == ("4", "2"), "the highest seq", r)
    check(r.next == s.head().next and r.closed is None, r)
    r = s.post(b"d", producer(4, 9), status=409)
    check((r.get("Producer-Expected-Seq"), r.get("Producer-Received-Seq")) == ("3", "9"), r)
    r = s.post(b"d", producer(3, 0), status=403)
    check(r.get("Producer-Epoch") == "4", r)
    check(s.all() == b"zeroabcother", s.all())


@test
def the_table_of_producers(p):
    s = p.text()
    r = s.post(b"x", producer(0, 3), status=409)
    check((r.get("Producer-Expected-Seq"), r.get("Producer-Received-Seq")) == ("0", "3"), r)
    s.post(b"a", producer(7, 0), status=200)
    s.post(b"x", producer(8, 1), status=400)
    s.post(b"x", producer(9007199254740991, 5), status=400)
    s.post(b"b", producer(7, 1), status=200)
    s.post(b"c", producer(9, 0), status=200)
    s.post(b"x", producer(7, 2), status=403)
    s.post(b"x", producer(7, 0), status=403)
    s.post(b"d", producer(0, 0, "q"), status=200)
    s.post(b"e", producer(9, 1), status=200)
    s.post(b"f", producer(9, 1), status=204)
    check(s.all() == b"abcde", s.all())


@test
def producers_are_of_one_stream(p):
    s, t = p.text(), p.text()
    s.post(b"a", producer(3, 0), status=200)
    t.post(b"a", producer(0, 0), status=200)
    fork = p.fork(s)
    fork.post(b"b", producer(0, 0), status=200)
    fork.post(b"x", producer(1, 1, "q"), status=409)
    check(fork.all() == b"ab" and s.all() == b"a", fork.all())


@test
def producer_ids_are_bytes_of_any_length(p):
    s = p.text()
    names = ["a", "A", "a b", "a/b", "%61", "\xe9", "é".encode().decode("latin-1"), "x" * 600, "x" * 599 + "y", "{\"a\":1}", "0", "-"]
    for n, name in enumerate(names):
        s.post(b"%x" % n, producer(0, 0, name), status=200)
    for name in names:
        s.post(b"?", producer(0, 0, name), status=204)
    check(s.all() == b"0123456789ab", s.all())


@test
def a_seq_counts_requests_not_messages(p):
    s = p.json()
    s.post(b"[1,2,3]", producer(0, 0), kind=JSON, status=200)
    s.post(b"[4,5]", producer(0, 1), kind=JSON, status=200)
    s.post(b"[4,5]", producer(0, 1), kind=JSON, status=204)
    check(s.all("json") == [1, 2, 3, 4, 5], s.all())


@test
def of_many_equal_requests_at_once_one_is_stored(p):
    s = p.text()
    for seq in range(5):
        got = []

        def send(seq=seq, got=got):
            r = p.at(s.target).post(b"<%d>" % seq, producer(0, seq), status=(200, 204))
            got.append((r.status, r.next))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(sorted(g[0] for g in got) == [200] + [204] * 7, got)
    check(s.all() == b"<0><1><2><3><4>", s.all())


@test
def stream_seq_is_compared_as_bytes(p):
    s = p.text()
    for good in ("10", "2", "20", "20 ", "B", "a", "aa", "ab", "b", "\xff"):
        if good != "20 ":
            s.post(b".", {"Stream-Seq": good})
        s.post(b"x", {"Stream-Seq": good}, status=409)
    for bad in ("10", "b", "zzzz", "\xfe\xff"):
        s.post(b"x", {"Stream-Seq": bad}, status=409)
    s.post(b".")
    s.post(b"x", {"Stream-Seq": "a"}, status=409)
    t = p.text()
    t.post(b".", {"Stream-Seq": "9"})
    check(s.all() == b"." * 10, s.all())


@test
def a_refused_stream_seq_stores_nothing(p):
    s = p.text()
    s.post(b"a", {"Stream-Seq": "5"})
    s.post(b"x", producer(0, 0, **{"Stream-Seq": "4"}), status=409)
    s.post(b"b", producer(0, 0, **{"Stream-Seq": "6"}), status=200)
    s.post(b"x", {"Stream-Seq": "9"}, kind="text/html", status=409)
    s.post(b"c", {"Stream-Seq": "7"})
    check(s.all() == b"abc", s.all())


@test
def bodies_are_stored_as_they_are(p):
    s = p.stream()
    s.put({"Content-Type": "application/octet-stream"})
    everything = bytes(range(256)) * 5
    for body in (everything, [everything[:7], everything[7:300], everything[300:]], b"\0", b"\r\n", [b"0\r\n\r\n"]):
        s.post(body, kind="application/octet-stream")
    check(s.all() == everything * 2 + b"\0\r\n0\r\n\r\n", "other bytes")


@test(differs="five bytes a message")
def chunks_of_the_transfer_are_no_messages(p):
    s = p.text()
    check(s.post([b"a", b"b", b"cd"]).next == off(8), "three chunks are one message")
    s.get(off(5), status=400)
    t = p.stream()
    check(t.put({"Content-Type": "text/plain"}, [b"a", b"b"]).next == off(6), "PUT in chunks")


@test
def closing(p):
    s = p.text(b"one")
    tail = s.head().next
    for _ in range(3):
        r = s.close()
        check(r.closed == "true" and r.next == tail, r)
    check(s.head().closed == "true", s.head())
    r = s.get()
    check(r.closed == "true" and r.fresh == "true" and r.body == b"one", r)
    r = s.get(tail)
    check(r.closed == "true" and r.fresh == "true" and r.body == b"", r)
    r = s.get("now")
    check(r.closed == "true" and r.next == tail and r.body == b"", r)
    r = s.post(b"x", {"Stream-Closed": "true"}, status=409)
    check(r.closed == "true" and r.next == tail, r)
    s.delete()
    s.head(status=404)


@test
def append_and_close(p):
    s = p.text(b"one")
    r = s.post(b"two", {"Stream-Closed": "true"}, status=204)
    check(r.closed == "true" and r.next == s.head().next, r)
    check(s.all() == b"onetwo", s.all())
    t = p.json(b"[1]")
    check(t.post(b"[2,3]", {"Stream-Closed": "true"}, kind=JSON, status=204).closed == "true", "JSON")
    check(t.all("json") == [1, 2, 3], t.all())
    t = p.json(b"[1]")
    t.post(b"[2,", {"Stream-Closed": "true"}, kind=JSON, status=400)
    check(t.head().closed is None, "closed though refused")


@test
def close_with_a_producer(p):
    s = p.text()
    s.post(b"a", producer(0, 0), status=200)
    r = s.close(producer(0, 1), status=204)
    check((r.closed, r.get("Producer-Epoch"), r.get("Producer-Seq")) == ("true", "0", "1"), r)
    r = s.close(producer(0, 1), status=204)
    check((r.closed, r.get("Producer-Epoch"), r.get("Producer-Seq")) == ("true", "0", "1"), r)
    for other in (producer(0, 0), producer(0, 2), producer(1, 0), producer(0, 1, "q")):
        r = s.close(other, status=409)
        check(r.closed == "true" and r.next == after(b"a", start=0) or r.next == s.head().next, r)
    check(s.close().closed == "true", "without a producer it is the same as ever")


@test
def append_and_close_with_a_producer(p):
    s = p.text()
    r = s.post(b"a", producer(3, 0, **{"Stream-Closed": "true"}), status=200)
    check((r.closed, r.get("Producer-Epoch"), r.get("Producer-Seq")) == ("true", "3", "0"), r)
    r = s.post(b"a", producer(3, 0, **{"Stream-Closed": "true"}), status=204)
    check((r.closed, r.get("Producer-Epoch"), r.get("Producer-Seq"), r.next) == ("true", "3", "0", s.head().next), r)
    r = s.post(b"other", producer(3, 0, **{"Stream-Closed": "true"}), status=204)
    r = s.post(b"b", producer(3, 1), status=409)
    check(r.closed == "true" and r.next == s.head().next, r)
    check(s.all() == b"a", s.all())


@test
def an_older_epoch_on_a_closed_stream(p):
    s = p.text()
    s.post(b"a", producer(3, 0), status=200)
    s.close()
    r = s.post(b"b", producer(2, 0), status=409)
    check(r.closed == "true", r)
    r = s.close(producer(2, 0), status=409)
    check(r.closed == "true", r)


@test(differs="the answer says closed")
def a_duplicate_close_on_an_open_stream_closes_nothing(p):
    s = p.text()
    s.post(b"a", producer(0, 0), status=200)
    s.post(b"b", producer(0, 1), status=200)
    for fields in (producer(0, 0), producer(0, 1)):
        r = s.close(fields, status=204)
        check(r.closed is None and r.get("Producer-Seq") == "1" and r.next == s.head().next, r)
        r = s.post(b"z", {**fields, "Stream-Closed": "true"}, status=204)
        check(r.closed is None, r)
    check(s.head().closed is None, "it is closed")
    s.close(producer(1, 4), status=400)
    check(s.close(producer(0, 5), status=409).get("Producer-Expected-Seq") == "2", "a gap")
    s.close(producer(0, 2), status=204)
    check(s.head().closed == "true", "it is open")


@test
def a_close_alone_does_not_set_stream_seq(p):
    s = p.text()
    s.post(b"a", {"Stream-Seq": "5"})
    r = s.close({"Stream-Seq": "1"}, status=204)
    check(r.closed == "true", r)


@test
def writers_of_one_stream_keep_their_order(p):
    s = p.text()
    ends = []

    def write(n):
        mine = p.at(s.target)
        for i in range(30):
            r = mine.post(b"<%d.%d>" % (n, i))
            ends.append((r.next, b"<%d.%d>" % (n, i)))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(len({e for e, _ in ends}) == 180, "an offset twice")
    check(s.all() == b"".join(m for _, m in sorted(ends)), "the data is not in the order of the offsets")
    for n in range(6):
        mine = [e for e in sorted(ends) if e[1].startswith(b"<%d." % n)]
        check([m for _, m in mine] == [b"<%d.%d>" % (n, i) for i in range(30)], "writer", n)


@test
def an_acknowledged_append_is_seen_at_once(p):
    s = p.text()
    for n in range(50):
        r = s.post(b"%02d" % n)
        check(p.at(s.target).get().next == r.next, "not yet there")
        check(p.at(s.target).head().next == r.next, "HEAD lags")
    until(lambda: len(s.all()) == 100, "all are there")
