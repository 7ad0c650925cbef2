#!/usr/bin/env python3
"""A server that greets each subscriber and then drops it as too slow (4429). Prints its port. For sc-sub.bats."""
import asyncio
import base64
import hashlib
import struct

REASON = b'{"error":"too_slow","backlog":8192}'
GREETING = (b'{"streamcast":1,"stream":"t","end_offset":9,"replay":[3,9],"durable":true,"schema":null,"archive":null}')


def frame(opcode, payload):
    return struct.pack("!BB", 0x80 | opcode, len(payload)) + payload if len(payload) < 126 else \
        struct.pack("!BBH", 0x80 | opcode, 126, len(payload)) + payload


async def serve(reader, writer):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        key = next(line.split(":", 1)[1].strip() for line in head.split("\r\n")
                   if line.lower().startswith("sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        writer.write(frame(1, GREETING) + frame(8, struct.pack("!H", 4429) + REASON))
        await writer.drain()
        while await reader.read(4096):
            pass
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
