"""The published wsmsg client against a broker: wsmsg_client.py HOST PORT CASE. Silent and 0 when all is as it should be."""
import asyncio
import logging
import os
import sys
from datetime import datetime, timezone
from uuid import uuid4

from wsmsg.client import Client
from wsmsg.common import Message

LIMIT = float(os.environ.get("SC_WAIT_S", "60"))
logging.basicConfig(level=logging.CRITICAL)


async def client(endpoint, reconnect=False):
    c = Client(endpoint, sys.argv[1], int(sys.argv[2]), None, reconnect)
    await c.connect()
    return c


def message(channel, subject, data=None, reference=None, uid=None):
    return Message(uid or uuid4().bytes, reference, channel, subject, data)


async def soon(queue):
    return await asyncio.wait_for(queue.get(), LIMIT)


async def subscribed(c, channel, subject, taker):
    """Its subscribe does not wait; a message of its own, on a channel of its own, comes back when it has taken effect."""
    mark = asyncio.Queue()
    own = f"mark-{uuid4()}"

    async def marked(_, m):
        await mark.put(m)

    await c.subscribe(channel, subject, taker)
    await c.subscribe(own, "*", marked)
    await c.publish(message(own, "mark"))
    await soon(mark)


async def publish_subscribe():
    got = asyncio.Queue()

    async def take(_, m):
        await got.put(m)

    a, p = await client("a"), await client("p")
    await subscribed(a, "orders", "sub*", take)
    now, zoned = datetime(2026, 11, 30, 1, 2, 3, 4), datetime(2026, 11, 30, 1, 2, 3, 4, tzinfo=timezone.utc)
    data = {"id": 42, "total": 9.5, "at": now, "zoned": zoned, "raw": b"\x00\xff", "list": [1, None, True]}
    sent = message("orders", "submitted", data)
    await p.publish(sent)
    m = await soon(got)
    assert m == sent, m  # dates are maps with bin keys: nothing was re-spelled
    for number in range(50):
        await p.publish(message("orders", "submitted", number))
    assert [(await soon(got)).data for _ in range(50)] == list(range(50))
    await a.close()
    await p.close()


async def task_queue():
    got = asyncio.Queue()
    workers = []
    for _ in range(3):
        worker = await client("group")

        async def take(c, m):
            await got.put((c, m.data))

        await subscribed(worker, "work", "*", take)
        workers.append(worker)
    p = await client("p")
    for number in range(30):
        await p.publish(message("work", "x", number))
    taken = [await soon(got) for _ in range(30)]
    assert sorted(number for _, number in taken) == list(range(30))
    for worker in workers:
        assert [c for c, _ in taken].count(worker) >= 5, "a worker got nearly nothing"
        await worker.close()
    await p.close()


async def request():
    w, c = await client("api"), await client("caller")

    async def serve(me, m):
        if m.subject.endswith(".request"):
            await me.publish(message("rpc", "order.reply", m.data * 2, m.uid))

    await subscribed(w, "rpc", "*", serve)
    for number in range(20):
        reply = await c.request(message("rpc", "order.request", number), LIMIT)
        assert reply.data == number * 2
    await w.close()
    await c.close()


async def main():
    await asyncio.wait_for(globals()[sys.argv[3]](), LIMIT * 2)


asyncio.run(main())
