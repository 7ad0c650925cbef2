#!/usr/bin/env python3
"""A proxy on loopback: HTTP CONNECT and SOCKS5 on one port, with or without a password.

    proxy.py --ready FILE --report FILE [--user NAME:PASSWORD]

Connects to loopback only. The report lists what was asked for: [{"kind", "target", "user", "granted"}].
"""

import argparse
import asyncio
import base64
import json
import os

asked = []


def report(options):
    with open(options.report + ".new", "w", encoding="utf-8") as file:
        json.dump(asked, file)
    os.replace(options.report + ".new", options.report)


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def http(first, reader, writer, options):
    head = first + await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) if ": " in line else (line, "") for line in lines[1:])
    given = next((line.split(" ", 2)[2] for line in lines if line.lower().startswith("proxy-authorization: basic ")), "")
    user = base64.b64decode(given).decode()
    target = lines[0].split(" ")[1]
    granted = lines[0].startswith("CONNECT ") and (not options.user or user == options.user)
    asked.append({"kind": "http", "target": target, "user": user, "granted": granted, "host": headers.get("host")})
    report(options)
    if not granted:
        writer.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
        return None
    port = int(target.rsplit(":", 1)[1])
    return port, b"HTTP/1.1 200 Connection established\r\n\r\n"


async def socks(reader, writer, options):
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    user = ""
    if 2 in methods and options.user:
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        name = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        user = (name + b":" + password).decode()
        writer.write(b"\x01\x00" if user == options.user else b"\x01\x01")
    else:
        writer.write(b"\x05\xff" if options.user else b"\x05\x00")
    granted = not options.user or user == options.user
    target = None
    if granted:
        kind = (await reader.readexactly(4))[3]
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        address = await reader.readexactly(size)
        port = int.from_bytes(await reader.readexactly(2), "big")
        target = (address.decode() if kind == 3 else address.hex()) + f":{port}"
    asked.append({"kind": "socks5", "target": target, "user": user, "granted": granted})
    report(options)
    if not granted:
        return None
    return port, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00"


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--report", default="proxy.json")
    parser.add_argument("--user")
    options = parser.parse_args()

    async def connected(reader, writer):
        try:
            first = await reader.readexactly(1)
            granted = await (socks(reader, writer, options) if first == b"\x05" else http(first, reader, writer, options))
            if granted is None:
                await writer.drain()
                writer.close()
                return
            port, answer = granted
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(answer)
            await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    report(options)
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    with open(options.ready, "w", encoding="utf-8") as ready:
        ready.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
