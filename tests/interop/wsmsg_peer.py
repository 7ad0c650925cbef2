"""A wsmsg peer for tests, over python websockets and msgpack: bytes as they are, both orders."""
import asyncio
import itertools
import os
import struct
import time

import msgpack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

LIMIT = float(os.environ.get("SC_WAIT_S", "60"))
counter = itertools.count(1)


def uid():
    """16 bytes that no other has, with the time in front as a ULID has it."""
    return struct.pack(">Q", int(time.time() * 1000) << 16)[:6] + struct.pack(">HQ", os.getpid() & 0xFFFF, next(counter))


class Message:
    def __init__(self, raw):
        self.raw = raw
        parts = msgpack.unpackb(raw, raw=False, strict_map_key=False, unicode_errors="surrogateescape")
        assert isinstance(parts, list) and len(parts) == 5, parts
        self.order = "D" if isinstance(parts[1], str) else "R"
        if self.order == "D":
            self.uid, self.channel, self.subject, self.reference, self.data = parts
        else:
            self.uid, self.reference, self.channel, self.subject, self.data = parts

    @property
    def name(self):
        return f"{self.channel}/{self.subject}"

    @property
    def control(self):
        return self.channel == "system" and self.subject in ("ack", "error", "stopping", "stats")

    def __repr__(self):
        return f"<{self.name} {self.uid.hex()} ref {self.reference and self.reference.hex()} {self.data!r}>"


def pack(uid_, channel, subject, reference=None, data=None, order="D"):
    parts = [uid_, channel, subject, reference, data] if order == "D" else [uid_, reference, channel, subject, data]
    return msgpack.packb(parts)


class Peer:
    """One node. Control messages and deliveries are kept apart; nothing is acknowledged by itself unless AUTO."""

    def __init__(self, url, endpoint, order="D", auto=False, token=None, **more):
        self.url, self.endpoint, self.order, self.auto = url, endpoint, order, auto
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.more = more
        self.controls, self.messages = asyncio.Queue(), asyncio.Queue()
        self.kept = []

    async def __aenter__(self):
        self.ws = await connect(
            f"{self.url}/{self.endpoint}", additional_headers=self.headers, max_size=None, compression=None,
            open_timeout=LIMIT, **self.more)
        self.node_uid = self.ws.response.headers.get("x-wsmsg-node")
        self.task = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        await self.ws.close()
        await self.task

    async def drop(self):
        """End without a word."""
        self.ws.transport.abort()
        await self.task

    async def read(self):
        try:
            async for raw in self.ws:
                message = Message(raw)
                if message.control:
                    await self.controls.put(message)
                    continue
                if self.auto:
                    await self.ack(message)
                await self.messages.put(message)
        except ConnectionClosed:
            pass

    async def raw(self, data):
        await self.ws.send(data)

    async def send(self, channel, subject, data=None, reference=None, uid_=None, order=None):
        uid_ = uid_ or uid()
        await self.raw(pack(uid_, channel, subject, reference, data, order or self.order))
        return uid_

    async def ack(self, message):
        await self.send("system", "ack", None, message.uid)

    async def answer(self, uid_):
        """The ack or error for what was sent as UID."""
        for message in self.kept:
            if message.reference == uid_:
                self.kept.remove(message)
                return message
        while True:
            message = await asyncio.wait_for(self.controls.get(), LIMIT)
            if message.reference == uid_ and message.subject in ("ack", "error"):
                return message
            self.kept.append(message)

    async def control(self, subject):
        for message in self.kept:
            if message.subject == subject:
                self.kept.remove(message)
                return message
        while True:
            message = await asyncio.wait_for(self.controls.get(), LIMIT)
            if message.subject == subject:
                return message
            self.kept.append(message)

    async def publish(self, channel, subject, data=None, reference=None, uid_=None):
        """Sends, and waits for the ack: the uid, and the number in it."""
        uid_ = await self.send(channel, subject, data, reference, uid_)
        message = await self.answer(uid_)
        assert message.subject == "ack", message
        return uid_, message.data

    async def command(self, subject, data=None):
        message = await self.answer(await self.send("system", subject, data))
        assert message.subject == "ack" and message.data is None, message

    async def refused(self, code, subject, data=None):
        message = await self.answer(await self.send("system", subject, data))
        assert message.subject == "error" and message.data[0] == code, message

    async def subscribe(self, channel, subject="*", endpoint=None):
        await self.command("subscribe.channel", [endpoint or self.endpoint, channel, subject])

    async def next(self, ack=False):
        message = await asyncio.wait_for(self.messages.get(), LIMIT)
        if ack:
            await self.ack(message)
        return message

    async def barrier(self):
        """What the broker had for this connection before now has come when this is over."""
        await self.publish("barrier", "barrier")

    async def nothing(self):
        await self.barrier()
        assert self.messages.empty(), self.messages.get_nowait()

    async def closed(self):
        await asyncio.wait_for(self.ws.wait_closed(), LIMIT)
        return self.ws.close_code, self.ws.close_reason
