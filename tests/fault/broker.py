"""broker.py: nodes of sc-broker that flood, stall, lie or die, and very many of them.

Goal: each has its exact outcome, the broker's memory stays within its bounds, and other nodes notice nothing. Method: in every test
a task queue with one worker goes on all the time, and each of its messages must be delivered once, in order, none of them late.
SC_HOSTILE=full makes the counts those of a bad day.
"""

import os
import random
import select
import signal
import struct
import threading
import time

from hostile_peer import BINARY, CLOSE, PING, PONG, TEXT, Peer, WebSocket, frame, upgrade
from lab import LIMIT_S, Lab, Program, Wrong, check, read_ready, sanitized, until

lab = Lab()
FULL = os.environ.get("SC_HOSTILE") == "full"


def count(short, full):
    return full if FULL else short


# msgpack, as much of it as is needed


def packed(value):
    if value is None:
        return b"\xc0"
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return (bytes([0xa0 | len(data)]) if len(data) < 32 else b"\xda" + struct.pack(">H", len(data))) + data
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    return b"\xdc" + struct.pack(">H", len(value)) + b"".join(packed(v) for v in value)


def unpacked(data, at=0):
    """The value at AT, and where it ends: what the broker sends of its own, and what these tests send."""
    c = data[at]
    if c < 0x80:
        return c, at + 1
    if c >= 0xe0:
        return c - 256, at + 1
    if c == 0xc0:
        return None, at + 1
    if 0xa0 <= c < 0xc0:
        end = at + 1 + (c & 31)
        return data[at + 1:end].decode(), end
    sizes = {0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4}
    if c in sizes:
        start = at + 1 + sizes[c]
        end = start + int.from_bytes(data[at + 1:start], "big")
        return (data[start:end] if c < 0xc7 else data[start:end].decode()), end
    numbers = {0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8}
    if c in numbers:
        end = at + 1 + numbers[c]
        return int.from_bytes(data[at + 1:end], "big"), end
    if c == 0xcb:
        return struct.unpack(">d", data[at + 1:at + 9])[0], at + 9
    if 0x90 <= c < 0xa0 or c == 0xdc:
        size, at = (c & 15, at + 1) if c != 0xdc else (int.from_bytes(data[at + 1:at + 3], "big"), at + 3)
        items = []
        for _ in range(size):
            item, at = unpacked(data, at)
            items.append(item)
        return items, at
    if 0x80 <= c < 0x90 or c == 0xde:
        size, at = (c & 15, at + 1) if c != 0xde else (int.from_bytes(data[at + 1:at + 3], "big"), at + 3)
        items = {}
        for _ in range(size):
            key, at = unpacked(data, at)
            items[key], at = unpacked(data, at)
        return items, at
    raise Wrong("cannot read", data[at:at + 20])


serial = iter(range(1 << 60))


def uid():
    return struct.pack(">QQ", os.getpid(), next(serial))


def message(channel, subject, data=None, reference=None, uid_=None):
    return packed([uid_ or uid(), channel, subject, reference, data])


class Node(WebSocket):
    def __init__(self, port, endpoint, window=0):
        super().__init__(port, "/" + endpoint, window=window)
        self.endpoint = endpoint
        self.pieces = b""

    def say(self, channel, subject, data=None, reference=None):
        uid_ = uid()
        self.send(frame(BINARY, message(channel, subject, data, reference, uid_)))
        return uid_

    def hear(self):
        """The next message, whole, as a list."""
        whole = b""
        while True:
            got = self.next(skip=(PING, PONG))
            check(got and got[0] != CLOSE, self.endpoint, "was cut off:", got)
            whole += got[1]
            try:
                value, end = unpacked(whole)
            except IndexError:
                continue
            if end == len(whole):
                return value

    def answer(self, uid_):
        """The answer to what was said as UID; deliveries in front of it are kept."""
        while True:
            m = self.hear()
            if m[1] == "system" and m[3] == uid_:
                check(m[2] in ("ack", "error", "stats"), m)
                return m
            self.kept = m

    def do(self, channel, subject, data=None, reference=None):
        m = self.answer(self.say(channel, subject, data, reference))
        check(m[2] == "ack", subject, "was refused:", m)
        return m[4]

    def subscribe(self, channel, subject="*", endpoint=None):
        self.do("system", "subscribe.channel", [endpoint or self.endpoint, channel, subject])

    def stats(self):
        uid_ = self.say("system", "stats")
        m = self.answer(uid_)
        check(m[2] == "stats", m)
        self.answer(uid_)
        return m[4]


class Worker(threading.Thread):
    """A publisher and a worker that must notice nothing of it all."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.publisher, self.worker = Node(port, "good-p"), Node(port, "good-w")
        self.worker.subscribe("good")
        self.rounds, self.longest, self.fault, self.done = 0, 0.0, None, False
        self.start()

    def run(self):
        try:
            while not self.done:
                began = time.monotonic()
                got = self.publisher.do("good", "s", self.rounds)
                check(got == 1, "a good message went to", got)
                m = self.worker.hear()
                check(m[4] == self.rounds, "the worker got", m[4], "for", self.rounds)
                self.worker.say("system", "ack", None, m[0])
                self.rounds += 1
                self.longest = max(self.longest, time.monotonic() - began)
                time.sleep(0.002)
        except (Wrong, OSError) as e:
            self.fault = e
        self.publisher.close()
        self.worker.close()


class Broker:
    def __init__(self, folder, *options, good=True):
        self.folder = folder
        read, write = os.pipe()
        self.program = Program(folder, "broker", "sc-broker", "--listen", "127.0.0.1:0", "--state", os.path.join(folder, "s"),
                               "--ready-fd", write, *options, pass_fds=(write,))
        os.close(write)
        ready = read_ready(read)
        os.close(read)
        check(ready, "the broker did not start:", self.program.err())
        self.port = ready["port"]
        self.good = Worker(self.port) if good else None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.program.kill()
            return
        if self.good:
            self.others_served()
            self.good.done = True
            self.good.join(LIMIT_S)
            check(not self.good.fault, "the good ones:", self.good.fault)
            check(self.good.longest < (20 if sanitized() else 8), "a good message took", self.good.longest, "s")
        status = self.program.end()
        err = self.program.err()
        check(status == 0, "it ended with", status, err[-3000:])
        check("Sanitizer" not in err and "runtime error" not in err, err[-3000:])

    def others_served(self):
        check(not self.good.fault, "the good ones:", self.good.fault)
        more = self.good.rounds + 5
        until(lambda: self.good.rounds >= more or self.good.fault, "the good ones are served")
        check(not self.good.fault, "the good ones:", self.good.fault)

    def memory(self):
        """KiB resident."""
        with open(f"/proc/{self.program.pid}/status") as f:
            return int([line for line in f if line.startswith("VmRSS")][0].split()[1])

    def memory_below(self, before, more_kib, what):
        now = self.memory()
        check(sanitized() or now <= before + more_kib, what, ": memory", before, "KiB before, now", now)


@lab.test
def a_flood_that_reads_no_answers(folder):
    with Broker(folder, "--ping", "none") as b:
        before = b.memory()
        data = frame(BINARY, message("flood", "s", 1)) * 1000
        crowd = [Node(b.port, f"f{i}", window=4096) for i in range(count(4, 30))]
        for p in crowd:
            went = p.pour(data, 64 << 20, 1)
            check(went < 64 << 20, "all was taken from one that reads no answers")
        b.memory_below(before, 4096 + len(crowd) * 512, "floods")
        b.others_served()
        for p in crowd:
            p.cut()


@lab.test
def large_messages_for_nodes_that_do_not_read(folder):
    n, size = count(50, 300), 1000000
    with Broker(folder, "--ping", "none", "--max-memory", "16MiB") as b:
        crowd = [Node(b.port, f"slow{i}", window=4096) for i in range(n)]
        for p in crowd:
            p.subscribe("large")
        before = b.memory()
        pub = Node(b.port, "pub")
        accepted = 0
        for _ in range(40):
            m = pub.answer(pub.say("large", "s", b"x" * size))
            if m[2] == "ack":
                accepted += 1
                check(m[4] == n, "it went to", m[4])
            else:
                check(m[4][0] == "limit", m)
        # of each node the queue has what is shared; a part of the one in its window is a copy
        check(10 <= accepted <= 17, accepted, "messages were accepted into 16 MiB")
        b.memory_below(before, 24 * 1024 + n * 150, "large messages that nobody reads")
        b.others_served()
        for p in crowd[:5]:  # those that read after all get everything, whole
            p.widen()
            for _ in range(accepted):
                m = p.hear()
                check(m[4] == b"x" * size, "not what was sent")
                p.say("system", "ack", None, m[0])
        for p in crowd:
            p.cut()


@lab.test
def subscriptions_without_end(folder):
    """Within the limits of endpoints and of each endpoint's subscriptions, but not within the memory."""
    with Broker(folder, "--ping", "none", "--max-memory", "8MiB") as b:
        before = b.memory()
        crowd = [Node(b.port, f"greedy{i}") for i in range(20)]
        done, refused = 0, 0
        for n, p in enumerate(crowd):
            for i in range(1000):
                kind = i % 3
                if kind == 0:
                    m = p.answer(p.say("system", "subscribe.channel", [p.endpoint, f"{'c' * 200}{n}.{i}", "*"]))
                elif kind == 1:
                    m = p.answer(p.say("system", "subscribe.channel", [p.endpoint, f"{'w' * 200}{n}.{i}.*", "s" * 200]))
                else:
                    m = p.answer(p.say("system", "subscribe.message", [p.endpoint, b"%064d" % (n * 1000 + i), None]))
                if m[2] == "ack":
                    done += 1
                else:
                    check(m[4][0] == "limit" and "--max-memory" in m[4][1], m)
                    refused += 1
                    if refused > 5 * (n + 1):
                        break
        check(5000 < done < 19000 and refused > 0, done, "subscriptions were taken into 8 MiB")
        check(crowd[0].stats()["memory_bytes"] <= 8 << 20, crowd[0].stats())
        b.memory_below(before, 16 * 1024, "subscriptions")
        for p in crowd:
            p.do("system", "unsubscribe.channel", [p.endpoint, "*"])
        b.others_served()
        for p in crowd:
            p.cut()


@lab.test
def halves_of_messages(folder):
    n, part = count(60, 600), 900000
    with Broker(folder, "--ping", "none", "--max-memory", "16MiB") as b:
        before = b.memory()
        crowd, closed = [Node(b.port, f"half{i}") for i in range(n)], 0
        whole = frame(BINARY, message("halves", "s", b"x" * 1000000))
        for p in crowd:
            p.send(whole[:part])
            b.others_served()
        for p in crowd:
            try:
                p.send(whole[part:])
                m = p.next(skip=(PING, PONG))
            except OSError:
                m = None
            closed += m is None or m[0] == CLOSE and m[1][:2] == struct.pack(">H", 1013)
        check(n - 17 <= closed < n, closed, "of", n, "were told to come again")
        b.memory_below(before, 24 * 1024, "halves of messages")
        b.others_served()
        for p in crowd:
            p.cut()


@lab.test
def a_worker_that_takes_nothing_gets_nothing(folder):
    """It floods and reads no answers, and has a partner at its endpoint: that one gets all of the work."""
    with Broker(folder, "--ping", "none") as b:
        pub, stuck, partner = Node(b.port, "pub"), Node(b.port, "w", window=4096), Node(b.port, "w")
        stuck.subscribe("work")
        stuck.pour(frame(BINARY, message("flood", "s", 1)) * 1000, 64 << 20, 1)
        for i in range(20):
            check(pub.do("work", "s", i) == 1, i)
            m = partner.hear()
            check(m[4] == i, "the partner got", m[4], "for", i)
            partner.do("system", "unsubscribe.message", ["w", m[0]])
            partner.say("system", "ack", None, m[0])
        check(pub.stats()["lost_unacked"] == 0, "one was lost")
        for p in (pub, stuck, partner):
            p.cut()


@lab.test
def a_last_ack_and_a_close(folder):
    """What comes in one piece is understood as one: who leaves is not given the next message."""
    with Broker(folder) as b:
        pub = Node(b.port, "pub")
        pub.do("system", "subscribe.channel", ["w", "work", "*"])
        n = count(30, 300)
        for i in range(n):
            pub.do("work", "s", i)
        for i in range(n):
            w = Node(b.port, "w")
            m = w.hear()
            check(m[4] == i, m[4], "comes where", i, "is due")
            words = frame(BINARY, message("system", "ack", None, m[0]))
            if i % 3 == 1:  # with frames of other kinds and lengths in between
                words += frame(BINARY, message("other", "s", b"x" * 200)) + frame(PING, b"") + frame(BINARY, message("other", "s", b"x" * 3000))
            if i % 3 == 2:
                words += frame(BINARY, message("system", "subscribe.channel", ["w", "work", "*"]))
            w.send(words + frame(CLOSE, struct.pack(">H", 1000)))
            check(w.ending()[0] == 1000, "no close came back")
            w.close()
        until(lambda: pub.stats()["nodes"] == 3, "they are gone")
        s = pub.stats()
        check(s["lost_unacked"] == 0 and s["per_endpoint"]["w"]["queued"] == 0, s)
        # frames that only look like it, and one that is not whole
        pub.do("work", "s", "one")
        w = Node(b.port, "w")
        m = w.hear()
        w.send(frame(BINARY, message("system", "ack", None, m[0])) + frame(BINARY, message("other", "s", b"\x88\x80" * 50))[:60])
        pub.do("work", "s", "two")
        check(w.hear()[4] == "two", "it was taken for one that leaves")
        w.cut()
        pub.cut()


@lab.test
def acks_of_what_was_not_read(folder):
    """Who knows a uid can acknowledge a message of which the first part is on its way."""
    n, size = count(20, 200), 300000
    with Broker(folder, "--ping", "none") as b:
        pub, w = Node(b.port, "pub"), Node(b.port, "w", window=4096)
        w.subscribe("large")
        before = pub.stats()["queued_bytes"]
        for i in range(n):
            uid_ = uid()
            pub.send(frame(BINARY, message("large", "s", b"x" * size, uid_=uid_)))
            check(pub.answer(uid_)[4] == 1, "not to one")
            w.say("system", "ack", None, uid_)
        b.others_served()
        check(pub.stats()["queued"] >= n - 2, "more than a window was given to it:", pub.stats())
        w.widen()
        for i in range(n):  # in whole messages
            m = w.hear()
            check(m[4] == b"x" * size, "not what was sent")
            w.say("system", "ack", None, m[0])
        until(lambda: pub.stats()["queued_bytes"] <= before + size, "what was delivered takes no memory")
        w.cut()
        until(lambda: pub.stats()["queued_bytes"] <= before + 10000, "it is all gone with the node")
        pub.cut()


@lab.test
def a_full_queue_with_nobody_attached(folder):
    n = count(30000, 150000)
    with Broker(folder, "--queue-size", "5000") as b:
        pub = Node(b.port, "pub")
        pub.do("system", "subscribe.channel", ["nobody", "c", "*"])
        before = b.memory()
        for start in range(0, n, 1000):
            pub.send(b"".join(frame(BINARY, message("c", "s", i)) for i in range(start, start + 1000)))
            for _ in range(1000):
                pub.hear()
        s = pub.stats()
        check(s["dropped_full"] == n - 5000 and s["per_endpoint"]["nobody"]["queued"] == 5000, s)
        b.memory_below(before, 4096, "a queue of 5000")
        w = Node(b.port, "nobody")
        for want in range(n - 5000, n - 4900):
            m = w.hear()
            check(m[4] == want, m[4], "comes where", want, "is due")
            w.say("system", "ack", None, m[0])
        w.cut()
        pub.cut()


@lab.test
def lost_nodes(folder):
    with Broker(folder) as b:
        pub = Node(b.port, "pub")
        pub.do("system", "subscribe.channel", ["w", "c", "*"])
        sent = count(300, 2000)
        for i in range(sent):
            pub.do("c", "s", i)
        got, rng = [], random.Random(1)
        while pub.stats()["per_endpoint"]["w"]["queued"] > 10:
            w = Node(b.port, "w")
            for _ in range(rng.randrange(1, 8)):
                m = w.hear()
                got.append(m[4])
                if rng.random() < 0.2:
                    break
                w.say("system", "ack", None, m[0])
            w.send(frame(BINARY, message("sync", "s"))[:rng.randrange(1, 20)])  # in the middle of a frame
            w.cut()
            until(lambda: pub.stats()["per_endpoint"]["w"]["nodes"] == 0, "the lost node is gone")
        check(got == sorted(set(got)), "a message came twice, or out of order")
        s = pub.stats()
        left = s["per_endpoint"]["w"]["queued"]
        check(s["lost_unacked"] > 0 and sent - left - s["lost_unacked"] <= len(got) <= sent - left, len(got), "came;", s)
        pub.cut()


@lab.test
def garbage(folder):
    rng = random.Random(2)
    with Broker(folder, "--max-message", "64KiB") as b:
        good = message("c", "s", [1, 2.5, "x", b"y" * 30, None])
        files = len(os.listdir(f"/proc/{b.program.pid}/fd"))
        for i in range(count(400, 5000)):
            p = WebSocket(b.port, f"/g{i % 7}")
            for _ in range(rng.randrange(1, 5)):
                kind = rng.randrange(6)
                if kind == 0:
                    data = frame(BINARY, bytes(rng.randrange(256) for _ in range(rng.randrange(80))))
                elif kind == 1:
                    at = rng.randrange(len(good))
                    data = frame(BINARY, good[:at] + bytes([rng.randrange(256)]) + good[at + 1:])
                elif kind == 2:
                    data = frame(BINARY, good[:rng.randrange(len(good))])
                elif kind == 3:
                    data = frame(TEXT, b"text")
                elif kind == 4:
                    data = frame(BINARY, message("system", rng.choice(["pause.", "channel.size", "subscribe.channel", "stats", "stop."]),
                                                 rng.choice([None, [], [1], ["x", 0], "x", [b"\xff"], [["x"]]])))
                else:
                    data = frame(BINARY, good)[:-rng.randrange(1, 20)]
                if not p.send(data):
                    break
            if rng.random() < 0.5:
                p.cut()
            else:
                p.close()
        # more than may be, announced and not sent
        p = WebSocket(b.port, "/g")
        p.send(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"mask" + b"x" * 100)
        check(p.ending()[0] == 1009, "a message of 2^40 bytes was not refused")
        p.close()
        for depth in (128, 129, 60000):
            p = WebSocket(b.port, "/g")
            p.send(frame(BINARY, b"\x95\xc4\x01a\xa1c\xa1s\xc0" + b"\x91" * depth + b"\xc0"))
            got = p.next(skip=(PING, PONG))
            check((got[0] == BINARY) == (depth == 128), depth, "containers deep:", got)
            p.close()
        until(lambda: len(os.listdir(f"/proc/{b.program.pid}/fd")) <= files, "all descriptors are back")


@lab.test
def killed_in_the_middle(folder):
    for round_ in range(count(3, 15)):
        b = Broker(folder, good=False)
        pub, w = Node(b.port, "pub"), Node(b.port, "w")
        w.subscribe("c")
        seen = []
        for i in range(50 + round_ * 7):
            pub.do("c", "s", i)
            if i % 2:
                m = w.hear()
                seen.append(m[4])
                w.say("system", "ack", None, m[0])
        b.program.kill()
        check(not os.path.exists(os.path.join(folder, "s")), "a killed broker left a state file")
        pub.close()
        w.close()
        with Broker(folder) as b:  # starts, and holds nothing of it
            s = Node(b.port, "x").stats()
            check(s["queued"] == 0, s)
        os.unlink(os.path.join(folder, "s"))


@lab.test
def stopped_and_started(folder):
    """Over any number of stops each message comes once."""
    sent, got = 0, []
    for _ in range(count(4, 20)):
        with Broker(folder, good=False) as b:
            pub = Node(b.port, "pub")
            pub.do("system", "subscribe.channel", ["w", "c", "*"])
            for _ in range(40):
                pub.do("c", "s", sent)
                sent += 1
            w = Node(b.port, "w")
            for _ in range(random.randrange(5, 30)):
                m = w.hear()
                got.append(m[4])
                w.do("system", "unsubscribe.message", ["w", b"x"])  # the one before the ack has taken effect
                w.say("system", "ack", None, m[0])
            b.program.signal(signal.SIGTERM)
            for p in (pub, w):
                while True:
                    x = p.next(skip=(PING, PONG))
                    check(x, "the broker went without a close")
                    if x[0] == CLOSE:
                        check(x[1][:2] == struct.pack(">H", 1001), x)
                        break
                    m = unpacked(x[1])[0]
                    if m[1] == "c":
                        got.append(m[4])  # delivered in front of the notice: it is not kept
                p.send(frame(CLOSE, struct.pack(">H", 1001)))
                p.close()
    with Broker(folder, good=False) as b:
        w = Node(b.port, "w")
        while len(got) < sent:
            m = w.hear()
            got.append(m[4])
            w.say("system", "ack", None, m[0])
        w.close()
    check(got == list(range(sent)), "came", got)


@lab.test
def a_thousand_nodes(folder):
    n = count(300, 1000) if sanitized() else 1000
    with Broker(folder) as b:
        before = b.memory()
        crowd = []
        for i in range(n):
            p = Node(b.port, f"n{i % (n // 2)}")  # two share an endpoint
            crowd.append(p)
        pub = Node(b.port, "pub")
        for i in range(n // 2):
            pub.do("system", "subscribe.channel", [f"n{i}", "all", "*"])
        b.memory_below(before, n * 24, "nodes")
        for round_ in range(4):
            check(pub.do("all", "s", round_) == n // 2, "not to all")
            half = crowd[:n // 2] if round_ % 2 == 0 else crowd[n // 2:]
            for p in half:  # in turn
                m = p.hear()
                check(m[4] == round_, m)
                p.say("system", "ack", None, m[0])
            until(lambda: pub.stats()["queued"] == 0, "all is delivered")
        stalled = crowd[::2]
        for p in crowd:
            p.cut()
        until(lambda: pub.stats()["nodes"] <= 3, "they are gone")
        check(len(stalled) == n // 2, "half of them")
        pub.cut()


@lab.test
def a_hundred_thousand_subscriptions(folder):
    endpoints, each = (20, 1000) if sanitized() else (100, 1000)
    with Broker(folder) as b:
        before = b.memory()
        pub = Node(b.port, "pub")
        began = time.monotonic()
        for e in range(endpoints):
            for start in range(0, each, 500):
                pub.send(b"".join(
                    frame(BINARY, message("system", "subscribe.channel",
                                          [f"e{e}", [f"a.{i}", f"a.{i}.*", f"*.z{i}", f"b?{i}[xy]"][i % 4], "s*"]))
                    for i in range(start, start + 500)))
                for _ in range(500):
                    m = pub.hear()
                    check(m[2] == "ack", m)
        took = time.monotonic() - began
        s = pub.stats()
        check(s["subscriptions"] == endpoints * each + 1, s["subscriptions"])
        m = pub.answer(pub.say("system", "subscribe.channel", ["e0", "one more", "*"]))
        check(m[2] == "error" and m[4][0] == "limit", m)
        b.memory_below(before, endpoints * each // 4, "subscriptions")
        for channel, want in (("a.0", 1), ("a.1.q", 1), ("q.z2", 1), ("bq3x", 1), ("a.4", 1), ("none", 0)):
            check(pub.do(channel, "sub", 1) == endpoints * want, channel)
            check(pub.do(channel, "no", 1) == 0, channel, "no")
        print(f"     {endpoints * each} subscriptions in {took:.1f} s, {b.memory() - before} KiB", flush=True)
        pub.cut()


@lab.test
def comers_and_goers(folder):
    with Broker(folder) as b:
        before = b.memory()
        for i in range(count(1500, 20000)):
            p = Node(b.port, f"c{i}")
            if i % 3 == 0:
                p.say("system", "subscribe.message", [f"c{i}", uid()])
            if i % 2:
                p.cut()
            else:
                p.close()
        pub = Node(b.port, "pub")
        until(lambda: pub.stats()["nodes"] == 3, "they are gone")
        s = pub.stats()
        check(s["endpoints"] <= 3 + count(500, 6667), s["endpoints"])
        b.memory_below(before, 8192, "comers and goers")
        pub.cut()


if __name__ == "__main__":
    lab.main()
