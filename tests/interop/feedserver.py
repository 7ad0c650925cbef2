#!/usr/bin/env python3
"""A WebSocket feed that behaves, or misbehaves, as told: the upstream of sc-capture's tests.

    feedserver.py --ready FILE --report FILE [--feed FILE] [--cert FILE --key FILE] SCRIPT...

The first connection gets the first SCRIPT, the next one the second; the last SCRIPT is for all further ones. A script is
steps, separated by ';'. Before the upgrade:

    http STATUS [NAME=VALUE]...   answer the request so, and close
    mute                          never answer the request
    need NAME=VALUE               401 unless the request has this header
Then the upgrade is answered (the protocol is `websockets`' own), and:
    want N         wait until the client has sent N messages
    style STYLE    how the next messages go out: plain, fragments, split (fragments cut inside letters, pings
                   between them), binary
    play N | play rest   send the next N lines of the feed, wherever other connections left it
    again          go back to the feed's first line
    text TEXT      send TEXT       hex BYTES      send a binary message
    big N          send one message of N bytes, a JSON string; `bigfragments N` the same in fragments of 1000
    ping           send a ping     sync           send a ping and wait for its pong: the client has read all so far
    raw BYTES      put bytes (hex) on the wire as they are
    pause SECONDS
    close CODE [REASON]   close, and wait for the client's answer
    fin | reset    end the connection without a close frame: politely, or with a TCP reset
    deaf           stop reading (no pong is ever sent) and wait for the client to leave
A script that ends otherwise holds the connection, answering pings, until the client leaves.

The ready file gets one JSON line with the port; the report is rewritten after every event:
    {"connections": [{"at", "path", "headers", "received": [{"at", "text"}], "sent": [...], "pongs", "close", "ended"}]}
"""

import argparse
import asyncio
import json
import os
import shlex
import socket
import ssl
import struct
import time

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol


class Gone(Exception):
    """The client left."""


class Connection:
    def __init__(self, server, reader, writer, script):
        self.server, self.reader, self.writer, self.script = server, reader, writer, script
        self.protocol = ServerProtocol(max_size=None)
        self.style = "plain"
        self.changed = asyncio.Condition()
        self.request = None
        self.gone = False
        self.reading = None
        self.record = {"at": time.time(), "path": None, "headers": {}, "received": [], "sent": [], "pongs": 0,
                       "close": None, "ended": None}

    async def flush(self):
        for data in self.protocol.data_to_send():
            if data:
                self.writer.write(data)
        try:
            await self.writer.drain()
        except OSError as error:
            raise Gone from error

    async def read(self):
        """Feed what arrives to the protocol, and keep what the client said."""
        try:
            while True:
                data = await self.reader.read(65536)
                if not data:
                    self.protocol.receive_eof()
                    break
                self.protocol.receive_data(data)
                for event in self.protocol.events_received():
                    if isinstance(event, Frame):
                        self.take(event)
                    else:
                        self.request = event
                await self.flush()
                async with self.changed:
                    self.changed.notify_all()
        except (OSError, Gone):
            pass
        self.gone = True
        async with self.changed:
            self.changed.notify_all()

    def take(self, frame):
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self.record["received"].append({"at": time.time(), "text": frame.data.decode(errors="replace")})
        elif frame.opcode is Opcode.PONG:
            self.record["pongs"] += 1
        elif frame.opcode is Opcode.CLOSE:
            self.record["close"] = {"code": self.protocol.close_rcvd.code, "reason": self.protocol.close_rcvd.reason}
        self.server.report()

    async def until(self, true):
        async with self.changed:
            await self.changed.wait_for(lambda: self.gone or true())
        if not true():
            raise Gone

    # --- sending ----------------------------------------------------------------------------------------------

    def pieces(self, data):
        """Cuts for `split`: inside every letter of more than one byte, and elsewhere every few bytes."""
        start = 0
        for at in range(1, len(data)):
            if data[at] & 0xC0 == 0x80 or at - start >= 40:
                yield data[start:at]
                start = at
        yield data[start:]

    async def message(self, text):
        data = text.encode()
        if self.style == "binary":
            self.protocol.send_binary(data)
        elif self.style == "plain":
            self.protocol.send_text(data)
        elif self.style == "fragments":
            await self.fragments([data[at:at + 33] for at in range(0, len(data), 33)] or [b""], pings=False)
        else:
            await self.fragments(list(self.pieces(data)), pings=True)
        self.record["sent"].append(text)
        await self.flush()

    async def fragments(self, parts, pings):
        self.protocol.send_text(parts[0], fin=len(parts) == 1)
        for index, part in enumerate(parts[1:], 2):
            if pings and index % 3 == 0:
                self.protocol.send_ping(b"between")
            await self.flush()  # a write of its own
            self.protocol.send_continuation(part, fin=index == len(parts))

    # --- the script -------------------------------------------------------------------------------------------

    async def run(self):
        steps = [shlex.split(step) for step in self.script.split(";") if step.strip()]
        self.reading = asyncio.create_task(self.read())
        try:
            await self.until(lambda: self.request is not None)
            self.record["path"] = self.request.path
            self.record["headers"] = dict(self.request.headers.raw_items())
            self.server.report()
            while steps and steps[0][0] in ("http", "mute", "need"):
                if not await self.before(*steps.pop(0)):
                    return
            self.protocol.send_response(self.protocol.accept(self.request))
            await self.flush()
            for name, *arguments in steps:
                await getattr(self, "do_" + name)(*arguments)
            await self.until(lambda: self.gone)
        except Gone:
            pass
        finally:
            self.reading.cancel()
            self.writer.close()
            self.record["ended"] = time.time()
            self.server.report()

    async def before(self, name, *arguments):
        """A step before the upgrade; false when it was the last."""
        if name == "mute":
            await self.until(lambda: self.gone)
            return False
        if name == "need":
            header, value = arguments[0].split("=", 1)
            if self.request.headers.get(header) == value:
                return True
            arguments = ("401",)
        status, *headers = arguments
        head = f"HTTP/1.1 {status} No\r\nContent-Length: 3\r\nConnection: close\r\n"
        head += "".join("%s: %s\r\n" % tuple(header.split("=", 1)) for header in headers)
        self.writer.write(head.encode() + b"\r\nno\n")
        await self.flush()
        return False

    async def do_want(self, count):
        await self.until(lambda: len(self.record["received"]) >= int(count))

    async def do_style(self, style):
        self.style = style

    async def do_play(self, count):
        for _ in range(len(self.server.lines) if count == "rest" else int(count)):
            if self.server.at == len(self.server.lines):
                break
            line = self.server.lines[self.server.at]
            self.server.at += 1
            await self.message(line)
        self.server.report()

    async def do_again(self):
        self.server.at = 0

    async def do_text(self, text):
        await self.message(text)
        self.server.report()

    async def do_hex(self, digits):
        self.protocol.send_binary(bytes.fromhex(digits))
        self.record["sent"].append({"hex": digits})
        await self.flush()

    async def do_big(self, size):
        await self.message('"' + "x" * (int(size) - 2) + '"')
        self.server.report()

    async def do_bigfragments(self, size):
        data = ('"' + "x" * (int(size) - 2) + '"').encode()
        await self.fragments([data[at:at + 1000] for at in range(0, len(data), 1000)], pings=False)
        self.record["sent"].append(data.decode())
        await self.flush()

    async def do_ping(self):
        self.protocol.send_ping(b"ping")
        await self.flush()

    async def do_sync(self):
        seen = self.record["pongs"]
        await self.do_ping()
        await self.until(lambda: self.record["pongs"] > seen)

    async def do_raw(self, digits):
        self.writer.write(bytes.fromhex(digits))
        await self.flush()

    async def do_pause(self, seconds):
        await asyncio.sleep(float(seconds))

    async def do_close(self, code, reason=""):
        self.protocol.send_close(int(code), reason)
        await self.flush()
        await self.until(lambda: self.record["close"] is not None)
        raise Gone

    async def do_fin(self):
        raise Gone

    async def do_reset(self):
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise Gone

    async def do_deaf(self):
        self.reading.cancel()
        # Only the kernel reads from here on; a peer that left shows as a failed write or a reset.
        while self.protocol.state is State.OPEN:
            await asyncio.sleep(0.05)
            info = self.writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
            if info[0] != 1:  # no longer ESTABLISHED
                raise Gone


class Server:
    def __init__(self, options):
        self.options = options
        self.connections = []
        self.at = 0
        self.lines = []
        if options.feed:
            with open(options.feed, encoding="utf-8", newline="\n") as feed:
                self.lines = feed.read().removesuffix("\n").split("\n")

    async def connected(self, reader, writer):
        scripts = self.options.script
        connection = Connection(self, reader, writer, scripts[min(len(self.connections), len(scripts) - 1)])
        self.connections.append(connection)
        self.report()
        await connection.run()

    def report(self):
        text = json.dumps({"connections": [connection.record for connection in self.connections]})
        with open(self.options.report + ".new", "w", encoding="utf-8") as report:
            report.write(text + "\n")
        os.replace(self.options.report + ".new", self.options.report)

    async def run(self):
        tls = None
        if self.options.cert:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self.options.cert, self.options.key)
        self.report()
        server = await asyncio.start_server(self.connected, "127.0.0.1", 0, ssl=tls, limit=2**20)
        with open(self.options.ready, "w", encoding="utf-8") as ready:
            ready.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
        await server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--report", default="report.json")
    parser.add_argument("--feed")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("script", nargs="+")
    try:
        asyncio.run(Server(parser.parse_intermixed_args()).run())
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
