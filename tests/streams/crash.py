"""crash.py: nothing lost, nothing twice, whenever the server is killed.

Goal    after any kill -9: every acknowledged append is there exactly once, at the offset that was acknowledged, with its bytes, and each
        writer's are in its order; no offset was used twice; what was not acknowledged is there whole or not at all, and once when a
        producer sent it again; a reader saw nothing that is not there; creations with their lifetimes, closures, deletions and forks
        that were acknowledged are still so.
Method  rounds of: sixteen writers on four streams (half of them idempotent producers that send again what has no answer, half without;
        one stream is JSON, with batches), a clerk that makes, closes, deletes and forks streams, a reader that follows; kill -9 at a
        random moment, start again, up to three times a round; then all is read and compared.
        SC_ROUNDS (4; 3 when sanitized; 100 for the long form) and SC_SEED choose.
"""

import json
import os
import random
import sys
import threading
import time

from world import Place, Server, Wrong, check  # noqa: F401  (world first: it says where lab is)
from lab import Lab, sanitized
from web import FRAME, Gone, off, position, request
from world import REFERENCE

lab = Lab()
ROUNDS = int(os.environ.get("SC_ROUNDS", "3" if sanitized() else "4"))
SEED = int(os.environ.get("SC_SEED", "1"))
WRITERS, STREAMS = 16, 4
JSON = "application/json"


def payload(writer, number, size):
    return random.Random(writer << 32 | number).randbytes(size // 2).hex().encode()


def message(writer, number, size):
    """WRITER:NUMBER:SIZE:PAYLOAD; — from what is stored, every message can be told and checked."""
    return b"%d:%d:%d:%s;" % (writer, number, size, payload(writer, number, size))


class Lines:
    """One connection that is made anew when it broke."""

    def __init__(self, place, stop):
        self.place, self.stop, self.wire = place, stop, None

    def ask(self, method, target, fields=(), body=None):
        """The reply, or None when there is no telling what became of the request."""
        try:
            if self.wire is None:
                self.wire = self.place.wire(limit_s=30)
            self.wire.send(request(method, target, fields, body))
            return self.wire.reply(method)
        except (Gone, ConnectionError):
            if self.wire:
                self.wire.close()
            self.wire = None
            time.sleep(0.01)
            return None


class Writer(threading.Thread):
    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number = world, number
        self.target, self.json = world.streams[number % STREAMS], number % STREAMS == 0
        self.idempotent = number // STREAMS % 2 == 0
        self.random = random.Random(world.seed * 1000 + number)
        self.sent = []        # what one request held: a list of (number, size)
        self.acked = {}       # index in sent: the offset after it, or None when it was a duplicate
        self.wrong = None

    def size(self):
        dice = self.random.random()
        return self.random.randrange(2, 200) if dice < 0.8 else self.random.randrange(200, 20000) if dice < 0.99 else 300000

    def body(self, parts):
        texts = [message(self.number, n, size) for n, size in parts]
        return b"[" + b",".join(b'"%s"' % t for t in texts) + b"]" if self.json else texts[0]

    def run(self):
        try:
            lines, number = Lines(self.world.place, self.world.stop), 0
            while not self.world.stop.is_set():
                parts = [(number + i, self.size()) for i in range(self.random.randrange(1, 6) if self.json else 1)]
                number += len(parts)
                self.sent.append(parts)
                self.send(lines, len(self.sent) - 1, self.body(parts))
        except BaseException as e:  # seen by the one who waits for it
            self.wrong = e

    def send(self, lines, index, body):
        fields = {"Content-Type": JSON if self.json else "text/plain"}
        if self.idempotent:
            fields.update({"Producer-Id": f"w{self.number}", "Producer-Epoch": "1", "Producer-Seq": str(index)})
        while True:
            r = lines.ask("POST", self.target, fields, body)
            if r is None or r.status == 503:
                if not self.idempotent:
                    return
                continue  # also after the end: what was begun is brought to an end
            if self.idempotent:
                check(r.status in (200, 204), "writer", self.number, "request", index, "gave", r)
                self.acked[index] = r.next if r.status == 200 else None
            else:
                check(r.status == 204, "writer", self.number, "gave", r)
                self.acked[index] = r.next
            return


class Reader(threading.Thread):
    """Follows one stream; what it has seen must be what is there in the end."""

    def __init__(self, world, target):
        super().__init__(daemon=True)
        self.world, self.target, self.seen, self.offset, self.wrong = world, target, [], "-1", None

    def run(self):
        try:
            lines = Lines(self.world.place, self.world.stop)
            while not self.world.stop.is_set():
                r = lines.ask("GET", f"{self.target}?offset={self.offset}&live=long-poll")
                if r is None or r.status == 503:
                    continue
                check(r.status in (200, 204), "the reader got", r)
                if r.status == 200:
                    self.seen.append((self.offset, r.next, r.body))
                    self.offset = r.next
        except BaseException as e:
            self.wrong = e


class Clerk(threading.Thread):
    """Makes, closes, deletes and forks; keeps what each stream must be afterwards: a list of states, of which one must hold."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.states, self.wrong = world, {}, None
        self.random = random.Random(world.seed * 77)

    def run(self):
        try:
            lines, n = Lines(self.world.place, self.world.stop), 0
            while not self.world.stop.is_set():
                self.one_life(lines, f"{self.world.prefix}/clerk/{n}", n)
                n += 1
        except BaseException as e:
            self.wrong = e

    def step(self, lines, target, now, then, good, method, path, fields, body=None):
        """One request that makes NOW into THEN; True when that was acknowledged."""
        self.states[target] = [now, then]
        r = lines.ask(method, path, fields, body)
        if r is None or r.status == 503:
            return False
        check(r.status == good, method, path, fields, "gave", r)
        self.states[target] = [then]
        return True

    def one_life(self, lines, target, n):
        ttl = str(3600 + n)
        fresh = {"status": 200, "body": b"first %d" % n, "ttl": ttl, "closed": None}
        if not self.step(lines, target, {"status": 404}, fresh, 201, "PUT", target, {"Content-Type": "text/plain", "Stream-TTL": ttl},
                         fresh["body"]):
            return
        kind = n % 5
        state = fresh
        if kind in (0, 1):
            state = dict(fresh, closed="true", body=fresh["body"] + b" last" * (kind == 1))
            fields = {"Stream-Closed": "true", "Content-Type": "text/plain", "Producer-Id": "c", "Producer-Epoch": "0", "Producer-Seq": "0"}
            self.step(lines, target, fresh, state, 200 if kind else 204, "POST", target, fields, b" last" if kind else b"")
        elif kind == 2:
            self.step(lines, target, fresh, {"status": 404}, 204, "DELETE", target, {})
        elif kind == 3:
            fork = target + "/fork"
            if not self.step(lines, fork, {"status": 404}, fresh, 201, "PUT", fork, {"Stream-Forked-From": target}, b""):
                return
            if self.step(lines, target, fresh, {"status": 410}, 204, "DELETE", target, {}):
                more = dict(fresh, body=fresh["body"] + b"+")
                self.step(lines, fork, fresh, more, 204, "POST", fork, {"Content-Type": "text/plain"}, b"+")
        elif self.step(lines, target, fresh, {"status": 404}, 204, "DELETE", target, {}):
            again = {"status": 200, "body": b"again", "ttl": None, "closed": None}
            self.step(lines, target, {"status": 404}, again, 201, "PUT", target, {"Content-Type": "text/plain"}, b"again")


class World:
    def __init__(self, server, folder, number):
        self.server, self.seed = server, SEED * 1000 + number
        self.random = random.Random(self.seed)
        self.prefix = f"/v1/stream/round/{number}"
        self.place = Place(server, f"round/{number}", folder)
        self.streams = [f"{self.prefix}/s{i}" for i in range(STREAMS)]
        self.stop = threading.Event()
        for i, target in enumerate(self.streams):
            self.place.at(target).put({"Content-Type": "text/plain" if i else JSON})
        self.writers = [Writer(self, n) for n in range(WRITERS)]
        self.reader, self.clerk = Reader(self, self.streams[1]), Clerk(self)

    def threads(self):
        return [*self.writers, self.reader, self.clerk]

    def run(self):
        for t in self.threads():
            t.start()
        for _ in range(self.random.randrange(1, 4)):
            time.sleep(self.random.uniform(0.02, 0.5))
            self.server.kill()
            self.server.start()
        time.sleep(0.1)
        self.stop.set()
        for t in self.threads():
            t.join(90)
            check(not t.is_alive(), "a writer hangs:", t)
            if t.wrong:
                raise t.wrong

    def stored(self, number, target):
        """The messages of a stream as (end offset, bytes)."""
        s = self.place.at(target)
        if number == 0:
            texts = [m.encode() for m in s.all("json")]
            sizes = [len(t) + 2 for t in texts]
        else:
            data, texts = s.all(), []
            at = 0
            while at < len(data):
                end = data.find(b";", at)
                check(end >= 0, "half a message at the end of", target, data[at:at + 60])
                texts.append(data[at:end + 1])
                at = end + 1
            sizes = [len(t) for t in texts]
        ends, at = [], 0
        for size in sizes:
            at += FRAME + size
            ends.append(at)
        if number or not REFERENCE:
            check(s.head().next == off(at), target, "ends at", s.head().next, "and its messages at", off(at))
        return list(zip(ends, texts))

    def check_stream(self, number, target):
        stored, by_writer = self.stored(number, target), {}
        for end, text in stored:
            fields = text.split(b":", 3)
            check(len(fields) == 4 and all(f.isdigit() for f in fields[:3]), "no message of ours in", target, text[:80])
            writer, n, size = (int(f) for f in fields[:3])
            check(text == message(writer, n, size), "other bytes than were sent:", text[:80])
            by_writer.setdefault(writer, []).append((n, size, end))
        mine = [w for w in self.writers if w.target == target]
        check(set(by_writer) <= {w.number for w in mine}, "writers of another stream in", target)
        for w in mine:
            self.check_writer(w, by_writer.get(w.number, []))
        return stored

    def check_writer(self, w, have):
        numbers = [n for n, _, _ in have]
        check(numbers == sorted(numbers), "writer", w.number, "is out of order")
        check(len(numbers) == len(set(numbers)), "writer", w.number, "has messages twice:",
              sorted({n for n in numbers if numbers.count(n) > 1})[:10])
        at = {n: (size, end) for n, size, end in have}
        for index, parts in enumerate(w.sent):
            there = [n for n, _ in parts if n in at]
            check(len(there) in (0, len(parts)), "part of a batch of writer", w.number, "is there:", there, "of", parts)
            check(all(at[n][0] == size for n, size in parts if n in at), "writer", w.number, "another size")
            if index in w.acked:
                check(there, "writer", w.number, "request", index, "was acknowledged and is lost; at", w.acked[index])
                if w.acked[index] is not None and not (w.json and REFERENCE):
                    check(position(w.acked[index]) == at[parts[-1][0]][1], "writer", w.number, "request", index, "was acknowledged at",
                          w.acked[index], "and is at", at[parts[-1][0]][1])
            if w.json and there and not REFERENCE:
                ends = [at[n][1] for n, _ in parts]
                check(all(b - a == FRAME + 2 + len(message(w.number, *p)) for a, b, p in zip(ends, ends[1:], parts[1:])),
                      "a batch of writer", w.number, "is not in one piece")
        check(not w.idempotent or len(w.acked) == len(w.sent), "writer", w.number, "has requests without an answer")

    def check_clerk(self):
        for target, states in self.clerk.states.items():
            s = self.place.at(target)
            r = s.head(status=(200, 404, 410))
            have = {"status": r.status}
            if r.status == 200:
                have.update(body=s.all(), ttl=r.get("Stream-TTL"), closed=r.closed)
            check(have in states, target, "is", have, "and must be one of", states)

    def check_all(self):
        for number, target in enumerate(self.streams):
            stored = self.check_stream(number, target)
            if target == self.reader.target:
                self.check_reader(stored)
        self.check_clerk()

    def check_reader(self, stored):
        """What it saw between two offsets is what is there between them."""
        at, total = {0: 0}, 0
        for end, text in stored:
            total += len(text)
            at[end] = total
        data = b"".join(text for _, text in stored)
        for before, after, body in self.reader.seen:
            begin, end = (0 if o == "-1" else position(o) for o in (before, after))
            check(begin in at and end in at, "the reader saw offsets that are not there:", before, after)
            check(data[at[begin]:at[end]] == body, "the reader saw other bytes between", before, "and", after)


def show(number, world):
    w = world.writers
    print(f"round {number}: {sum(len(x.acked) for x in w)} of {sum(len(x.sent) for x in w)} requests acknowledged, {world.server.lives} lives, "
          f"{len(world.clerk.states)} streams of the clerk, {len(world.reader.seen)} answers to the reader", flush=True)


@lab.test
def killed_at_any_moment(folder):
    worlds = []
    with Server(folder, long_poll_ms=1000) as server:
        for number in range(ROUNDS):
            world = World(server, folder, number)
            try:
                world.run()
                world.check_all()
            except Wrong as e:
                raise Wrong(f"round {number} of seed {SEED}: {e}\n{server.log()[-1500:]}") from e
            show(number, world)
            check(sum(len(w.acked) for w in world.writers) > 20, "hardly anything was acknowledged")
            worlds = worlds[-3:] + [world]
        server.kill()
        server.start()
        for world in worlds:  # what was good stays good
            world.check_all()
        if not REFERENCE:
            check(server.end() == 0, "its end:", server.log()[-1500:])


def spoil(world, what):
    """A world that is wrong in one way; the checks must see it."""
    w = next(x for x in world.writers if x.idempotent and not x.json and len(x.acked) > 2)
    index = next(i for i in sorted(w.acked) if w.acked[i])
    if what == "lost":
        w.sent.append([(10 ** 6, 5)])
        w.acked[len(w.sent) - 1] = off(7)
    elif what == "moved":
        w.acked[index] = off(position(w.acked[index]) + 1)
    elif what == "bytes":
        n, size = w.sent[index][0]
        w.sent[index] = [(n, size + 1)]
    elif what == "clerk":
        target = next(t for t, s in world.clerk.states.items() if s[0]["status"] == 200 and len(s) == 1)
        world.clerk.states[target] = [{"status": 404}]
    elif what == "reader":
        world.reader.seen.append((world.reader.offset, world.reader.offset, b"never"))


@lab.test
def the_checks_see_what_is_wrong(folder):
    with Server(folder, long_poll_ms=1000) as server:
        world = World(server, folder, 0)
        world.run()
        world.check_all()
        for what in ("lost", "moved", "bytes", "clerk", "reader"):
            saved = (json.dumps([w.sent for w in world.writers]), [dict(w.acked) for w in world.writers], dict(world.clerk.states),
                     list(world.reader.seen))
            spoil(world, what)
            try:
                world.check_all()
            except Wrong:
                pass
            else:
                raise Wrong("nobody saw that it was wrong:", what)
            for w, sent, acked in zip(world.writers, json.loads(saved[0]), saved[1]):
                w.sent, w.acked = [[tuple(p) for p in parts] for parts in sent], acked
            world.clerk.states, world.reader.seen = saved[2], saved[3]
        world.check_all()


if __name__ == "__main__":
    sys.setswitchinterval(0.002)
    lab.main()
