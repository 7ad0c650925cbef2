#!/usr/bin/env python3
"""A WebSocket server that does the same steps on each connection (or others, see next). Standard library only, so that the cli tests need no other
people's programs (tests/interop/feedserver.py can do much more). Prints its port, then `asked TARGET` for each connection and
`got TEXT` for each message received.

    peer.py STEP...

    file PATH        each line of the file as a text message
    text TEXT        hex BYTES (binary)     close CODE REASON     cut (end without a close frame)
    want N           wait for N messages             run COMMAND (by the shell)
    next             the steps behind it are for the next connection; the last ones for all that follow
After the steps it holds the connection until the client leaves. Pings are answered.
"""
import asyncio
import base64
import hashlib
import struct
import sys

TURNS = [[]]
words = sys.argv[1:]
while words:
    name = words.pop(0)
    arguments = {"close": 2, "cut": 0, "next": 0}.get(name, 1)
    if name == "next":
        TURNS.append([])
    else:
        TURNS[-1].append((name, words[:arguments]))
    del words[:arguments]


def frame(opcode, payload):
    n = len(payload)
    if n < 126:
        head = struct.pack("!BB", 0x80 | opcode, n)
    elif n < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 126, n)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, n)
    return head + payload


class Peer:
    def __init__(self, reader, writer):
        self.reader, self.writer, self.received = reader, writer, 0

    async def read_frame(self):
        first, second = await self.reader.readexactly(2)
        n = second & 127
        if n == 126:
            n, = struct.unpack("!H", await self.reader.readexactly(2))
        elif n == 127:
            n, = struct.unpack("!Q", await self.reader.readexactly(8))
        mask = await self.reader.readexactly(4)
        data = await self.reader.readexactly(n)
        return first & 15, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    async def take(self):
        """One message; False when the client closes."""
        while True:
            opcode, data = await self.read_frame()
            if opcode == 8:
                self.writer.write(frame(8, data[:2]))
                await self.writer.drain()
                return False
            if opcode == 9:
                self.writer.write(frame(10, data))
            if opcode in (1, 2):
                print("got", data.decode(), flush=True)
                self.received += 1
                return True

    async def step(self, name, arguments):
        if name == "file":
            with open(arguments[0], "rb") as lines:
                for line in lines:
                    self.writer.write(frame(1, line.rstrip(b"\n")))
                    await self.writer.drain()
        elif name == "text":
            self.writer.write(frame(1, arguments[0].encode()))
        elif name == "hex":
            self.writer.write(frame(2, bytes.fromhex(arguments[0])))
        elif name == "want":
            while self.received < int(arguments[0]) and await self.take():
                pass
        elif name == "run":
            await (await asyncio.create_subprocess_shell(arguments[0])).wait()
        elif name == "close":
            self.writer.write(frame(8, struct.pack("!H", int(arguments[0])) + arguments[1].encode()))
        elif name == "cut":
            await self.writer.drain()
            raise ConnectionError
        await self.writer.drain()

    async def run(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        key = next(line.split(":", 1)[1].strip() for line in head.split("\r\n")
                   if line.lower().startswith("sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        self.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        print("asked", head.split(" ")[1], flush=True)
        for name, arguments in TURNS.pop(0) if len(TURNS) > 1 else TURNS[0]:
            await self.step(name, arguments)
        while await self.take():
            pass


async def serve(reader, writer):
    try:
        await Peer(reader, writer).run()
    except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
