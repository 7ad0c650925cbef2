#!/usr/bin/env python3
"""A wsmsg broker for tests of sc-node: small, with faults on request. Standard library only, its own WebSocket and msgpack, so that
an error of ours is not made twice. Each message received is a JSON line on standard output:
{"node":N,"order":"D","uid":HEX,"channel":..,"subject":..,"reference":HEX|null,"data":..} (bytes in data as {"hex":..}); besides
{"node":N,"event":"joined","path":..,"authorization":..} and {"node":N,"event":"left","code":..}.

    msgpeer.py --ready FILE [--order R] [FAULT]...

--ready-fd N   instead of --ready: the descriptor to write {"port":N} to
--port N       listen there
--order R      speak the reference order, and close with 1000 on the other
--status N     answer the upgrade with this status
--close N:CODE[:REASON]  close the connection with CODE instead of answering the Nth message that is no ack (of the first connection)
--cut N        the same without a close frame
--mute         answer nothing
--refuse CHANNEL:CODE:TEXT  an error for each message on CHANNEL
--flood        deliver without waiting for acks
--stopping N   after the Nth message: `stopping`, and a close with 1001 a little later
--bad HEX      send these bytes as a message after the first message
--text         send a text frame after the first message
"""
import argparse
import asyncio
import base64
import fnmatch
import hashlib
import json
import os
import struct
import sys
import urllib.parse

parser = argparse.ArgumentParser()
for name in ("ready", "ready-fd", "port", "order", "status", "close", "cut", "refuse", "stopping", "bad"):
    parser.add_argument("--" + name)
for name in ("mute", "flood", "text"):
    parser.add_argument("--" + name, action="store_true")
O = parser.parse_args()
subscriptions = {}  # endpoint: [(channel pattern, subject pattern)]
references = {}  # (endpoint, uid): expires
queues = {}  # endpoint: [message]
nodes = []
seen = {"messages": 0, "connections": 0}


class Str(bytes):
    """A str that is not UTF-8."""


class Ext:
    def __init__(self, raw):
        self.raw = raw


def unpack(b, at=0):
    """One value, and what follows it. Maps are lists of pairs in a tuple."""
    c, at = b[at], at + 1
    if c < 0x80:
        return c, at
    if c >= 0xE0:
        return c - 256, at
    if c < 0x90:
        return unpack_map(b, at, c & 15)
    if c < 0xA0:
        return unpack_list(b, at, c & 15)
    if c < 0xC0:
        return text(b[at : at + (c & 31)]), at + (c & 31)
    if c in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[c], at
    numbers = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    if c in numbers:
        size = struct.calcsize(numbers[c])
        return struct.unpack_from(numbers[c], b, at)[0], at + size
    if 0xD4 <= c <= 0xD8:
        n = 1 + (1 << (c - 0xD4))
        return Ext(b[at - 1 : at + n]), at + n
    kinds = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    size = kinds[c]
    n = int.from_bytes(b[at : at + size], "big")
    start, at = at - 1, at + size
    if c in (0xDC, 0xDD):
        return unpack_list(b, at, n)
    if c in (0xDE, 0xDF):
        return unpack_map(b, at, n)
    if c in (0xC7, 0xC8, 0xC9):
        return Ext(b[start : at + 1 + n]), at + 1 + n
    return (text(b[at : at + n]) if c >= 0xD9 else bytes(b[at : at + n])), at + n


def text(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Str(raw)


def unpack_list(b, at, n):
    out = []
    for _ in range(n):
        value, at = unpack(b, at)
        out.append(value)
    return out, at


def unpack_map(b, at, n):
    out = []
    for _ in range(n):
        key, at = unpack(b, at)
        value, at = unpack(b, at)
        out.append((key, value))
    return tuple(out), at


def head(n, small, limit, forms):
    if small is not None and n < limit:
        return bytes([small | n])
    for code, size in forms:
        if n < 1 << 8 * size:
            return bytes([code]) + n.to_bytes(size, "big")


def pack(v):
    """Of what the broker itself says."""
    if v is None:
        return b"\xc0"
    if isinstance(v, int):
        return bytes([v]) if 0 <= v < 128 else b"\xd3" + struct.pack(">q", v)
    if isinstance(v, str):
        raw = v.encode()
        return head(len(raw), 0xA0, 32, ((0xD9, 1), (0xDA, 2), (0xDB, 4))) + raw
    if isinstance(v, bytes):
        return head(len(v), None, 0, ((0xC4, 1), (0xC5, 2), (0xC6, 4))) + v
    if isinstance(v, list):
        return head(len(v), 0x90, 16, ((0xDC, 2), (0xDD, 4))) + b"".join(map(pack, v))
    if isinstance(v, dict):
        return head(len(v), 0x80, 16, ((0xDE, 2), (0xDF, 4))) + b"".join(pack(k) + pack(x) for k, x in v.items())
    raise TypeError(v)


def show(v):
    if isinstance(v, tuple):
        return {k if isinstance(k, str) else repr(k): show(x) for k, x in v}
    if isinstance(v, list):
        return [show(x) for x in v]
    if isinstance(v, bytes):
        return {"hex": v.hex()}
    if isinstance(v, Ext):
        return {"ext": v.raw.hex()}
    return v


def say(**fields):
    print(json.dumps(fields), flush=True)


def frame(opcode, payload):
    n = len(payload)
    size = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)
    return bytes([0x80 | opcode]) + size + payload


async def read_frame(reader):
    a, b = await reader.readexactly(2)
    n = b & 127
    if n == 126:
        n = int.from_bytes(await reader.readexactly(2), "big")
    elif n == 127:
        n = int.from_bytes(await reader.readexactly(8), "big")
    mask = await reader.readexactly(4)
    body = await reader.readexactly(n)
    key = (mask * (n // 4 + 1))[:n]
    return a & 15, (int.from_bytes(body, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")


class Node:
    def __init__(self, number, endpoint, writer):
        self.number, self.endpoint, self.writer = number, endpoint, writer
        self.order, self.holds, self.open = O.order or "D", None, True

    def send(self, uid, channel, subject, reference, data):
        """DATA is packed."""
        parts = [pack(uid), pack(channel), pack(subject), pack(reference)]
        if self.order == "R":
            parts = [parts[0], parts[3], parts[1], parts[2]]
        if self.open:
            self.writer.write(frame(2, b"\x95" + b"".join(parts) + data))

    def control(self, subject, reference, data):
        self.send(os.urandom(16), "system", subject, reference, pack(data))

    def close(self, code, reason=""):
        self.open = False
        self.writer.write(frame(8, struct.pack(">H", code) + reason.encode()))


def matches(pattern, name):
    return fnmatch.fnmatchcase(name, pattern)


def route(uid, channel, subject, reference, data):
    ends = set()
    for endpoint, pairs in subscriptions.items():
        if any(matches(c, channel) and matches(s, subject) for c, s in pairs):
            ends.add(endpoint)
    for endpoint, wanted in references:
        if wanted == reference:
            ends.add(endpoint)
    for endpoint in ends:
        queues.setdefault(endpoint, []).append((uid, channel, subject, reference, data))
    serve()
    return len(ends)


def serve():
    for node in nodes:
        queue = queues.get(node.endpoint, [])
        while queue and node.open and (O.flood or node.holds is None):
            message = queue.pop(0)
            node.holds = message[0]
            node.send(*message)


def command(node, uid, subject, data):
    args = data if isinstance(data, list) else []
    if subject == "subscribe.channel":
        subscriptions.setdefault(args[0], []).append((args[1], args[2]))
    elif subject == "unsubscribe.channel":
        subscriptions[args[0]] = [p for p in subscriptions.get(args[0], []) if not matches(args[1], p[0])]
    elif subject == "subscribe.message":
        references[(args[0], args[1])] = True
    elif subject == "unsubscribe.message":
        references.pop((args[0], args[1]), None)
    elif subject == "stats":
        node.control("stats", uid, {"nodes": len(nodes), "queued": 0})
    node.control("ack", uid, None)


def take(node, raw):
    """One message. False: the connection is over."""
    parts, end = unpack(raw)
    assert end == len(raw) and len(parts) == 5
    order = "D" if isinstance(parts[1], str) else "R"
    if order == "R":
        uid, reference, channel, subject, data = parts
    else:
        uid, channel, subject, reference, data = parts
    _, at = unpack(raw, 1)
    for _ in range(3):
        _, at = unpack(raw, at)
    say(node=node.number, order=order, uid=uid.hex(), channel=channel, subject=subject,
        reference=reference.hex() if reference else None, data=show(data))
    if O.order and order != O.order:
        node.close(1000)
        return False
    if channel == "system" and subject == "ack":
        if reference == node.holds:
            node.holds = None
            serve()
        return True
    seen["messages"] += 1
    n = seen["messages"]
    if O.cut and n == int(O.cut):
        return False
    if O.close and n == int(O.close.split(":")[0]):
        _, code, *reason = O.close.split(":")
        node.close(int(code), *reason)
        return False
    if O.mute:
        return True
    if O.bad and n == 1:
        node.writer.write(frame(2, bytes.fromhex(O.bad)))
    if O.text and n == 1:
        node.writer.write(frame(1, b"hello"))
    if O.refuse and O.refuse.split(":")[0] == channel:
        node.control("error", uid, O.refuse.split(":", 2)[1:])
        return True
    if channel == "system":
        command(node, uid, subject, data)
    else:
        node.control("ack", uid, route(uid, channel, subject, reference, raw[at:]))
    if O.stopping and n == int(O.stopping):
        node.control("stopping", None, None)
        node.close(1001, "stopping")
        return False
    return True


async def serve_node(reader, writer):
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if ":" in line)}
    path = urllib.parse.unquote(lines[0].split()[1])
    seen["connections"] += 1
    node = Node(seen["connections"], path.rsplit("/", 1)[1], writer)
    say(node=node.number, event="joined", path=path, authorization=fields.get("authorization"))
    if O.status:
        writer.write(f"HTTP/1.1 {O.status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        return
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    writer.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())
    nodes.append(node)
    code = 1006
    try:
        serve()
        while True:
            opcode, payload = await read_frame(reader)
            if opcode == 8:
                code = int.from_bytes(payload[:2], "big") if payload else 1005
                node.writer.write(frame(8, payload))
                break
            if opcode == 9:
                node.writer.write(frame(10, payload))
            if opcode == 2 and not take(node, payload):
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    nodes.remove(node)
    node.open = False
    say(node=node.number, event="left", code=code)
    try:
        await writer.drain()
        writer.close()
    except ConnectionError:
        pass
    serve()


async def main():
    server = await asyncio.start_server(serve_node, "127.0.0.1", int(O.port or 0), limit=1 << 26)
    line = json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n"
    if O.ready_fd:
        os.write(int(O.ready_fd), line.encode())
    else:
        with open(O.ready, "w") as f:
            f.write(line)
    await server.serve_forever()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
