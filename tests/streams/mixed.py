"""mixed.py: all that may be asked for, of a few streams, by many at once, and the server is killed.

Goal    forks, lifetimes, deletes, trims, producers and subscriptions share records and indexes; whatever meets in one commit, and
        wherever it is cut, each answer is one of the protocol's, and sc-streams verify finds the store in order.
Method  rounds: threads pick operations by chance, on so few names that they meet all the time; one of them trims from outside; kill -9
        in their midst, verify, and on with the same store. SC_ROUNDS (3) and SC_SEED choose.
"""

import json
import os
import random
import subprocess
import threading
import time

from world import Place, Server
from lab import BIN, Lab, check
from web import PREFIX, Gone, off

lab = Lab()
ROUNDS = int(os.environ.get("SC_ROUNDS", "3"))
SEED = int(os.environ.get("SC_SEED", "1"))
ROUND_S, THREADS = 4, 4
STREAMS = [f"a/{n}" for n in range(10)] + [f"b/{n}" for n in range(5)]
WAKES = ["wake", "other-wake"]
JSON, TEXT = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}
STATUSES = {200, 201, 204, 304, 400, 403, 404, 409, 410}
LOST = (Gone, OSError)


class User:
    def __init__(self, place, data, seed, trims):
        self.place, self.data, self.dice, self.trims = place, data, random.Random(seed), trims
        self.asked = {}

    def ask(self, method, path, fields=(), body=None):
        r = self.wire.ask(method, PREFIX + path, fields, body)
        check(r.status in STATUSES, method, path, fields, body, r)
        self.asked[method, r.status] = self.asked.get((method, r.status), 0) + 1
        if r.get("Connection") == "close":
            self.wire.close()
            self.wire = self.place.wire(limit_s=30)
        return r

    def tail(self, name):
        return self.ask("HEAD", name).next or off(0)

    def put(self, name):
        dice, fields = self.dice, dict(JSON if self.dice.random() < 0.7 else TEXT)
        if dice.random() < 0.3:
            fields["Stream-TTL"] = dice.choice("01129")
        if dice.random() < 0.1:
            fields["Stream-Closed"] = "true"
        if dice.random() < 0.5:
            source = dice.choice(STREAMS)
            fields["Stream-Forked-From"] = PREFIX + source
            if dice.random() < 0.6:
                fields["Stream-Fork-Offset"] = dice.choice(["-1", self.tail(source), off(dice.randrange(60))])
            if dice.random() < 0.3:
                fields["Stream-Fork-Sub-Offset"] = dice.choice("0123")
            if dice.random() < 0.5:
                del fields["Content-Type"]
        self.ask("PUT", name, fields, dice.choice([b"", b"[1,2]", b'{"a":1}', b"[]"]))

    def post(self, name):
        dice, fields = self.dice, dict(JSON if self.dice.random() < 0.8 else TEXT)
        if dice.random() < 0.3:
            fields.update({"Producer-Id": dice.choice("pqr"), "Producer-Epoch": dice.choice("012"), "Producer-Seq": dice.choice("0123")})
        if dice.random() < 0.04:
            fields["Stream-Closed"] = "true"
        self.ask("POST", name, fields, dice.choice([b"[1,2,3]", b'"x"', b"", b"[]", b"["]))

    def get(self, name):
        self.ask("GET", f"{name}?offset={self.dice.choice(['-1', 'now', off(self.dice.randrange(80))])}{self.dice.choice(['', '&live=long-poll'])}")

    def delete(self, name):
        self.ask("DELETE", name)

    def trim(self, name):
        if self.trims:
            offset = self.tail(name) if self.dice.random() < 0.5 else off(self.dice.randrange(40))
            status = subprocess.run([os.path.join(BIN, "sc-streams"), "trim", self.data, PREFIX + name, offset], stderr=subprocess.DEVNULL,
                                    check=False).returncode
            check(status in (0, 66, 79), "trim ended with", status)

    def subscription(self):
        return f"__ds/subscriptions/s{self.dice.randrange(5)}"

    def subscribe(self, name):
        body = {"pattern": self.dice.choice(["a/*", "**", "b/*", "x/**"]), "lease_ttl_ms": 1000, "streams": [name]}
        if self.dice.random() < 0.3:
            body.update(type="webhook", webhook={"url": "http://127.0.0.1:1/nobody"})
        else:
            body.update(type="pull-wake", wake_stream=self.dice.choice(WAKES))
        self.ask("PUT", self.subscription(), {}, json.dumps(body).encode())

    def unsubscribe(self, _):
        self.ask("DELETE", self.subscription())

    def link(self, name):
        if self.dice.random() < 0.6:
            self.ask("POST", self.subscription() + "/streams", {}, json.dumps({"streams": [name]}).encode())
        else:
            self.ask("DELETE", self.subscription() + "/streams/" + name.replace("/", "%2F"))

    def work(self, _):
        path = self.subscription()
        r = self.ask("POST", path + "/claim", {}, b'{"worker":"w"}')
        if r.status != 200:
            return
        held = json.loads(r.body)
        acks = [{"stream": s["path"], "offset": s["tail_offset"]} for s in held["streams"] if self.dice.random() < 0.8]
        body = {"wake_id": held["wake_id"], "generation": held["generation"], "acks": acks, "done": self.dice.random() < 0.8}
        self.ask("POST", path + self.dice.choice(["/ack", "/ack", "/release"]), {"Authorization": "Bearer " + held["token"]}, json.dumps(body).encode())

    def run(self, until):
        what = [self.put] * 18 + [self.post] * 30 + [self.delete] * 8 + [self.get] * 12 + [self.subscribe] * 6 + [self.unsubscribe] * 2
        what += [self.link] * 5 + [self.work] * 8 + [self.trim]
        try:
            with self.place.wire(limit_s=30) as self.wire:
                while time.monotonic() < until:
                    self.dice.choice(what)(self.dice.choice(STREAMS + WAKES * (self.dice.random() < 0.3)))
        except LOST:
            pass


def verify(data):
    done = subprocess.run([os.path.join(BIN, "sc-streams"), "verify", data], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout, done.stderr[-2000:])


@lab.test
def whatever_meets_the_store_is_in_order(folder):
    with Server(folder, "--subscriptions", long_poll_ms=200) as server:
        for number in range(ROUNDS):
            users = [User(Place(server, "mixed", folder), server.data, (SEED * 100 + number) * 10 + n, n == 0) for n in range(THREADS)]
            wrong = []

            def go(user, until):
                try:
                    user.run(until)
                except Exception as e:
                    wrong.append(e)

            until = time.monotonic() + ROUND_S
            threads = [threading.Thread(target=go, args=(u, until)) for u in users]
            for t in threads:
                t.start()
            time.sleep(ROUND_S * 0.9)
            server.kill()
            for t in threads:
                t.join()
            if wrong:
                raise wrong[0]
            verify(server.data)
            server.start()
            verify(server.data)
            asked = {}
            for u in users:
                for key, count in u.asked.items():
                    asked[key] = asked.get(key, 0) + count
            # it was a test of all of them only where all of them were done
            for key in (("PUT", 201), ("POST", 204), ("GET", 200), ("DELETE", 204)):
                check(asked.get(key, 0) > 0, "nothing was answered with", key, asked)
        check(server.end() == 0, "the server's end", server.log()[-1000:])
        verify(server.data)


if __name__ == "__main__":
    lab.main()
