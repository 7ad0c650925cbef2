"""wakes.py: no wake is lost, whenever the server is killed.

Goal    what was acknowledged to a writer reaches a worker, and a receiver of webhooks: at the end, after kills at random moments, every
        message of every stream was seen by both, every link is at its tail, and no cursor ever went back or past what was seen.
Method  rounds: writers make streams and append (and remember what was acknowledged); pull-wake workers follow the wake stream, claim,
        read from the acked offset to the tail they were told, acknowledge, sometimes release or just vanish; a receiver of webhooks
        answers done, calls back, fails or hangs; kill -9 and start again, in between and at once. SC_ROUNDS (3) and SC_SEED choose.
"""

import json
import os
import random
import threading
import time

from world import Place, Server, Wrong, check
from hooks import JSON, Receiver, Sub
from lab import Lab, run
from web import PREFIX, Gone, until

lab = Lab()
ROUNDS = int(os.environ.get("SC_ROUNDS", "3"))
SEED = int(os.environ.get("SC_SEED", "1"))
STREAMS, KILLS = 12, 4
LOST = (Gone, OSError)


class World:
    def __init__(self, server, folder, number):
        self.server, self.number = server, number
        self.place = Place(server, "wakes", folder)
        self.random = random.Random(SEED * 100 + number)
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.acked = {}              # path: the messages that were acknowledged to their writer
        self.seen = {"pull": {}, "hook": {}}   # path: {offset after: messages up to there}, by who did the work
        self.wrong = []
        self.top = f"r{number}"
        self.wake = f"{self.top}-wake"
        self.pull = Sub(self.place, f"pull-{number}")
        self.hook = Sub(self.place, f"hook-{number}")

    def try_hard(self, what):
        """Until it has an answer: what is asked may be asked twice."""
        while True:
            try:
                return what()
            except LOST:
                time.sleep(0.02)

    def ask(self, method, path, fields=(), body=None, query=""):
        def once():
            with self.place.wire(limit_s=20) as w:
                return w.ask(method, PREFIX + path + query, fields, body)
        return self.try_hard(once)

    def begin(self, url):
        self.ask("PUT", self.wake, JSON, b"[]")
        self.try_hard(lambda: self.pull.put(status=None, type="pull-wake", pattern=f"{self.top}/**", wake_stream=self.wake,
                                            lease_ttl_ms=1000))
        self.try_hard(lambda: self.hook.put(status=None, type="webhook", pattern=f"{self.top}/*/*", webhook={"url": url}, lease_ttl_ms=1000))

    # -- writers: a producer each, so that what is sent again is stored once --

    def write(self, n):
        path, dice = f"{self.top}/s/{n}", random.Random(self.number * 1000 + n)
        time.sleep(dice.random() * 0.5)
        self.ask("PUT", path, JSON, b"[]")
        self.acked[path] = []
        seq = 0
        while not self.stop.is_set():
            fields = {**JSON, "Producer-Id": "w", "Producer-Epoch": "0", "Producer-Seq": str(seq)}
            r = self.ask("POST", path, fields, b"%d" % seq)
            check(r.status in (200, 204, 503), "an append:", r)
            if r.status != 503:
                self.acked[path].append(seq)
                seq += 1
            time.sleep(dice.random() * 0.05)

    # -- readers --

    def process(self, who, s):
        """Read one stream from its acked offset to the tail that was told."""
        offset = "-1" if s["acked_offset"] == "-1" else s["acked_offset"]
        got, at = [], offset
        while True:
            r = self.ask("GET", s["path"], query=f"?offset={at}")
            check(r.status == 200, "a read:", r)
            got += json.loads(r.body)
            at = r.get("Stream-Next-Offset")
            if r.get("Stream-Up-To-Date"):
                break
        with self.lock:
            seen = self.seen[who].setdefault(s["path"], [])
            first = got[0] if got else None
            if got and first > len(seen):
                self.wrong.append(f"{who} is told to begin at {offset} of {s['path']}, with message {first}, having seen {len(seen)}")
            if got and got[-1] + 1 > len(seen):
                seen.extend(range(len(seen), got[-1] + 1))
        return at

    def work(self, n):
        dice = random.Random(n)
        while not self.stop.is_set() or not self.at_rest("pull"):
            try:
                r = self.pull.ask("POST", "/claim", {"worker": f"w{n}"})
                if r.status != 200:
                    check(r.json["error"]["code"] in ("ALREADY_CLAIMED", "NO_PENDING_WORK"), r.json)
                    time.sleep(0.05)
                    continue
                if dice.random() < 0.1 and not self.stop.is_set():
                    continue  # vanishes: the lease ends
                acks = [(s["path"], self.process("pull", s)) for s in r.json["streams"] if s["has_pending"]]
                body = {"wake_id": r.json["wake_id"], "generation": r.json["generation"], "done": dice.random() < 0.8,
                        "acks": [{"stream": p, "offset": o} for p, o in acks]}
                bearer = {"Authorization": "Bearer " + r.json["token"]}
                answer = self.pull.ask("POST", "/ack", body, bearer)
                check(answer.status in (200, 409, 503), answer.json)
                if not body["done"]:
                    self.pull.ask("POST", "/release", body, bearer)
            except LOST:
                time.sleep(0.05)
            except Wrong as e:
                self.wrong.append(str(e))
                return

    def receive(self, hook):
        """A webhook: done at once, by callback, or badly."""
        dice = self.random.random()
        if hook.body["subscription_id"] != self.hook.id or (dice < 0.15 and not self.stop.is_set()):
            return 500, b"no"
        told = [s for s in hook.body["streams"] if s["has_pending"]]
        acks = [{"path": s["path"], "offset": self.process("hook", s)} for s in told]
        if dice < 0.6:
            return 200, b'{"done":true}'
        try:
            self.hook.ask("POST", "/callback", {"wake_id": hook.body["wake_id"], "generation": hook.body["generation"], "acks": acks,
                                                "done": dice < 0.9}, {"Authorization": "Bearer " + hook.body["callback_token"]})
        except LOST:
            pass
        return 200, b"{}"

    def at_rest(self, who):
        if not self.stop.is_set():
            return False
        sub = self.pull if who == "pull" else self.hook
        try:
            links = sub.links()
        except LOST:
            return False
        return set(links) == set(self.acked) and all(self.ask("HEAD", p).get("Stream-Next-Offset") == o for p, (_, o) in links.items())

    def run(self):
        with Receiver(self.receive) as receiver:
            self.begin(receiver.url)
            threads = [threading.Thread(target=self.write, args=(n,), daemon=True) for n in range(STREAMS)]
            workers = [threading.Thread(target=self.work, args=(n,), daemon=True) for n in range(2)]
            for t in threads + workers:
                t.start()
            for _ in range(KILLS):
                time.sleep(self.random.uniform(0.2, 0.9))
                self.server.kill()
                self.server.start()
            time.sleep(0.3)
            self.stop.set()
            for t in threads:
                t.join(30)
                check(not t.is_alive(), "a writer hangs")
            for who in ("pull", "hook"):
                until(lambda who=who: self.wrong or self.at_rest(who), f"{who}: all is acknowledged\n{self.server.log()[-600:]}", 60)
            for t in workers:
                t.join(30)
                check(not t.is_alive(), "a worker hangs")
        check(not self.wrong, "\n".join(self.wrong[:5]))
        total = 0
        for path, sent in self.acked.items():
            total += len(sent)
            for who in ("pull", "hook"):
                check(self.seen[who].get(path, []) == list(range(len(sent))), who, "did not see all of", path, len(sent),
                      len(self.seen[who].get(path, [])))
        check(total > 50, "hardly anything was written:", total)
        done = run("sc-streams", "verify", "--json", self.server.data)
        got = json.loads(done.out)
        check(done.status == 0 and got["faults"] == 0 and got["links"] >= 2 * STREAMS, done.out, done.err)
        print(f"round {self.number}: {total} messages, {self.server.lives} lives", flush=True)


@lab.test
def no_wake_is_lost(folder):
    with Server(folder, "--subscriptions") as server:
        for number in range(ROUNDS):
            world = World(server, folder, number)
            try:
                world.run()
            except Wrong as e:
                raise Wrong(f"round {number} of seed {SEED}: {e}") from e
            world.pull.delete()
            world.hook.delete()
        check(server.end() == 0, server.log()[-1500:])


@lab.test
def a_wake_and_its_append_are_one(folder):
    """Killed in the moment of the first append, again and again: where the append is, the wake is."""
    with Server(folder, "--subscriptions") as server:
        place = Place(server, "one", folder)
        with place.wire() as w:
            check(w.ask("PUT", PREFIX + "wake", JSON, b"[]").status == 201, "wake")
        found = 0
        for n in range(15):
            sub = Sub(place, f"s{n}")
            sub.pull("wake", pattern=f"one/{n}/*")
            w = place.wire()
            killer = threading.Timer(0.0005 * (n % 5), server.kill)
            killer.start()
            try:
                w.ask("PUT", f"{PREFIX}one/{n}/s", JSON, b"[1]")
            except LOST:
                pass
            killer.join()
            server.start()
            with place.wire() as w:
                there = w.ask("HEAD", f"{PREFIX}one/{n}/s").status == 200
                told = [e for e in json.loads(w.ask("GET", PREFIX + "wake").body) if e["subscription_id"] == sub.id]
            check(len(told) == there and (f"one/{n}/s" in sub.links()) == there, "stream", there, "told", told, sub.links())
            sub.claim(status=200 if there else 409)
            found += there
        check(found > 0, "it was never stored")


if __name__ == "__main__":
    lab.main()
