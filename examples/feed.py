#!/usr/bin/env python3
"""A local market feed to try things on: a WebSocket server in the shape of a public exchange's.

    feed.py [PORT] [TRADES_PER_SECOND]

It waits for the subscribe message {"event":"bts:subscribe",...}, acknowledges it, then sends trades, with a heartbeat now and
then. Port 0 picks a free one; the address is the first line printed. Only Python's standard library is used. For trying only:
a real feed is the internet's.
"""
import asyncio
import base64
import hashlib
import itertools
import json
import random
import struct
import sys
import time

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
RATE = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
trade_ids = itertools.count(643660479)
rng = random.Random(1)


def frame(opcode, payload):
    n = len(payload)
    if n < 126:
        return struct.pack("!BB", 0x80 | opcode, n) + payload
    return struct.pack("!BBH", 0x80 | opcode, 126, n) + payload


def text(value):
    return frame(1, json.dumps(value, separators=(",", ":")).encode())


def trade():
    price = 83946.08 + rng.randrange(-500, 500) / 100
    amount = rng.randrange(1, 50_000_000) / 1e8
    return {
        "data": {"id": next(trade_ids), "amount": amount, "price": round(price, 2), "type": rng.randrange(2),
                 "microtimestamp": str(time.time_ns() // 1000)},
        "channel": "live_trades_btcusd", "event": "trade",
    }


async def read_frame(reader):
    """Opcode and payload of a client's frame, which is always masked."""
    first, second = await reader.readexactly(2)
    length = second & 127
    if length == 126:
        length, = struct.unpack("!H", await reader.readexactly(2))
    elif length == 127:
        length, = struct.unpack("!Q", await reader.readexactly(8))
    mask = await reader.readexactly(4)
    data = await reader.readexactly(length)
    return first & 15, bytes(b ^ mask[i % 4] for i, b in enumerate(data))


async def send_trades(writer):
    for n in itertools.count(1):
        writer.write(text(trade()))
        if n % 20 == 0:
            writer.write(text({"event": "bts:heartbeat", "channel": "", "data": {"status": "success"}}))
        await writer.drain()
        await asyncio.sleep(1 / RATE)


async def serve(reader, writer):
    sender = None
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        key = next(line.split(":", 1)[1].strip() for line in head.split("\r\n")
                   if line.lower().startswith("sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            opcode, data = await read_frame(reader)
            if opcode == 8:
                writer.write(frame(8, data[:2]))
                break
            if opcode == 9:
                writer.write(frame(10, data))
            if opcode == 1 and json.loads(data).get("event") == "bts:subscribe" and sender is None:
                writer.write(text({"event": "bts:subscription_succeeded", "channel": "live_trades_btcusd", "data": {}}))
                sender = asyncio.ensure_future(send_trades(writer))
    except (asyncio.IncompleteReadError, ConnectionError, StopIteration, ValueError):
        pass
    finally:
        if sender:
            sender.cancel()
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    print("ws://127.0.0.1:%d/" % server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
