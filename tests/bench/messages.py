"""messages.py: sc-broker beside mosquitto, the published Python server and bare servers (rows of bench.py).

All are driven by one client, msgbench: messages of 100 bytes of text. Every message is acknowledged by the broker to its sender, and every
delivery by its receiver before that gets the next: wsmsg has it so, mosquitto is told to (QoS 1, max_inflight_messages 1). The
published server sends and waits for the same acks, but its deliveries do not wait for them.
"""
import json
import os
import socket
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PEERS = os.environ.get("SC_PEERS", os.path.join(ROOT, "build", "peers"))
MOSQUITTO = """listener %d 127.0.0.1
allow_anonymous true
persistence false
log_type none
set_tcp_nodelay true
max_inflight_messages 1
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def why_not(server):
    """Why a server is not here, or None: what setup.sh left."""
    name = SERVERS[server][2]
    if name is None or os.path.exists(os.path.join(PEERS, name + ".stamp")):
        return None
    try:
        with open(os.path.join(PEERS, name + ".why"), encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return "tests/bench/setup.sh has not laid it"


def broker(b, port):
    return [b.prog("sc-broker"), "-q", "--no-state", "--listen", "127.0.0.1:%d" % port], None


def mosquitto(b, port):
    root, config = os.path.join(PEERS, "mosquitto"), b.path("mosquitto.conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(MOSQUITTO % port)
    libraries = [folder for folder, _, names in os.walk(root) if any(".so" in name for name in names)]
    return ([os.path.join(root, "usr", "sbin", "mosquitto"), "-c", config],
            dict(os.environ, LD_LIBRARY_PATH=":".join(libraries)))


def published(_, port):
    return [os.path.join(PEERS, "wsmsg", "bin", "python"), "-m", "wsmsg", "server", "-H", "127.0.0.1", "-p", str(port)], None


def lwspair(_, port):
    return [os.path.join(PEERS, "lwspair"), str(port)], None


def barefan(b, port):
    return [b.tool("barefan"), str(port)], None


# how it is started, what it speaks, the peer that setup.sh lays
SERVERS = {"ours": (broker, "wsmsg", None), "mosquitto": (mosquitto, "mqtt", "mosquitto"), "mosquitto0": (mosquitto, "mqtt-qos0", "mosquitto"),
           "published": (published, "wsmsg-reference", "wsmsg"), "lws": (lwspair, "wsmsg", "lwspair"), "bare": (barefan, "wsmsg", None)}


def measure(b, name, mode, *options):
    """One run of msgbench against a server of its own."""
    start, proto, _ = SERVERS[name]
    port = free_port()
    command, env = start(b, port)
    child = b.spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=b.dir)
    try:
        wait_for(child, port, command[0])
        out = subprocess.run([b.tool("msgbench"), mode, "--port", str(port), "--proto", proto, "--secs", "1.5", "--pid",
                              "server=%d" % child.pid, *options],
                             stdout=subprocess.PIPE, check=True, timeout=60).stdout
    finally:
        b.stop(child)
    got = json.loads(out)
    got["cpu_us"] = got["cpu"]["server"] * 1e6 / got["count"]
    return got


def wait_for(child, port, what):
    end = time.monotonic() + 20
    while time.monotonic() < end and child.poll() is None:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit("bench: %s did not start" % what)


class Row:
    """A figure: what msgbench does to ours, and to the other; how the figure is found in what it says."""

    def __init__(self, words, unit, ours, other, against, reach, better="more", of=("per_s",)):
        self.words, self.unit, self.ours, self.other, self.against = words, unit, ours, other, against
        self.reach, self.better, self.of = reach, better, of

    def figure(self, got):
        for name in self.of:
            got = got[name]
        return got


ONE, DELIVER, FAN = ("ours", "one"), ("ours", "deliver"), ("ours", "fan")
REQUEST, AWAIT = ("ours", "request"), ("ours", "request", "--await")
QOS1 = "mosquitto, QoS 1, a window of one"


def rows():
    yield Row("a message in and out, all acks, 1/s", "1/s", ONE, ("lws", "one", "--bare"), "libwebsockets, the same frames", 0.6)
    yield Row("a message in and out, all acks, 1/s", "1/s", ONE, ("mosquitto", "one"), QOS1, 1)
    yield Row("a message in and out, all acks, 1/s", "1/s", ONE, ("published", "one"), "the published server", 1)
    yield Row("acknowledged deliveries/s to one node", "1/s", DELIVER, ("lws", "pong"), "libwebsockets ping-pong", 0.6)
    yield Row("acknowledged deliveries/s to one node", "1/s", DELIVER, ("mosquitto", "deliver"), QOS1, 1)
    yield Row("acknowledged deliveries/s to one node", "1/s", DELIVER, ("published", "deliver"), "the published server", 1)
    yield Row("fan-out to 50 endpoints, deliveries/s", "1/s", FAN, ("mosquitto", "fan"), QOS1, 10)
    yield Row("fan-out to 50 endpoints, deliveries/s", "1/s", FAN, ("bare", "fan"), "bare epoll, the same frames", None)
    yield Row("fan-out to 50 endpoints, deliveries/s", "1/s", FAN, ("mosquitto0", "fan"), "mosquitto, QoS 0, without acks", None)
    yield Row("the same, CPU time of the broker, us each", "us", FAN, ("mosquitto", "fan"), QOS1, None, "less", ("cpu_us",))
    yield Row("the same, CPU time of the broker, us each", "us", FAN, ("bare", "fan"), "bare epoll, the same frames", None, "less", ("cpu_us",))
    for at in ("p50", "p99"):
        for words, mine in (("request to reply, %s us", REQUEST), ("the same, each reply subscribed, %s us", AWAIT)):
            for other, against in (("mosquitto", QOS1), ("published", "the published server")):
                yield Row(words % at, "us", mine, (other, "request"), against, None, "less", ("lat_us", at))


def bench_messages(b, record, missing):
    table, got = list(rows()), {}
    for _ in range(b.rounds):
        for side in dict.fromkeys(side for row in table for side in (row.other, row.ours)):
            if not why_not(side[0]):
                got.setdefault(side, []).append(measure(b, *side))
    for row in table:
        if row.other in got:
            record(row.words, row.unit, *([row.figure(one) for one in got[side]] for side in (row.ours, row.other)),
                   row.against, row.reach, row.better)
        else:
            missing(row.words, row.against, why_not(row.other[0]))
    bench_routing(b, record)


def bench_routing(b, record):
    """What a message costs the broker, without sockets."""
    few, many = [], []
    for _ in range(b.rounds):
        out = subprocess.run([b.tool("routebench"), "100000", "10", "10000"], stdout=subprocess.PIPE, check=True, timeout=300).stdout
        cost = {one["subscriptions"]: one["ns_per_message"] for one in map(json.loads, out.splitlines())}
        few.append(cost[10])
        many.append(cost[10000])
    record("routing, 10,000 subscriptions, ns", "ns", many, few, "10 subscriptions", 1.1, "less")
