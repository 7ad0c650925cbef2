"""Cases for sc-broker over real sockets: broker_cases.py URL CASE [ARG...]. Silent and 0 when all is as it should be."""
import asyncio
import os
import struct
import sys
import time

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from wsmsg_peer import LIMIT, Message, Peer, pack, uid

cases = {}


def case(function):
    cases[function.__name__] = function
    return function


# The exchanges of the specification's section 15.


@case
async def task_queue(url):
    async with Peer(url, "group1") as a, Peer(url, "group1") as b, Peer(url, "group1") as c, Peer(url, "p") as p:
        nodes = [a, b, c]
        for node in nodes:
            await node.subscribe("orders", "submitted")
        got = []
        for number in range(9):
            sent, count = await p.publish("orders", "submitted", number)
            assert count == 1
            node = nodes[number % 3]
            message = await node.next(ack=True)
            assert (message.uid, message.data, message.name) == (sent, number, "orders/submitted"), message
            got.append(message.data)
            await node.barrier()  # its ack is with the broker
        assert got == list(range(9))
        _, count = await p.publish("orders", "cancelled", 1)
        assert count == 0
        for node in nodes:
            await node.nothing()
        held, _ = await p.publish("orders", "submitted", "held")
        message = await a.next()
        assert message.uid == held
        taken = []
        for number in range(6):
            await p.publish("orders", "submitted", number)
            node = [b, c][number % 2]
            taken.append((await node.next(ack=True)).data)
            await node.barrier()
        assert taken == list(range(6))
        await a.nothing()
        await a.close()
        await p.publish("orders", "submitted", "last")
        assert (await b.next(ack=True)).data == "last"  # and not the one that went with its node
        await b.nothing()
        await c.nothing()


@case
async def fan_out(url):
    async with Peer(url, "a", auto=True) as a, Peer(url, "c", auto=True) as c, Peer(url, "p") as p:
        b = await Peer(url, "b", auto=True).__aenter__()
        for node in (a, b, c):
            await node.subscribe("orders", "submitted")
        data = {"id": 42, "total": 9.5, "raw": b"\x00\xff"}
        sent, count = await p.publish("orders", "submitted", data)
        assert count == 3
        got = [await node.next() for node in (a, b, c)]
        assert all(m.uid == sent and m.data == data for m in got)
        assert len({m.raw for m in got}) == 1
        await b.close()
        for number in (1, 2):
            await p.publish("orders", "submitted", number)
        for node in (a, c):
            assert [(await node.next()).data for _ in range(2)] == [1, 2]
        async with Peer(url, "b", auto=True) as b:
            assert [(await b.next()).data for _ in range(2)] == [1, 2]
            await c.command("unsubscribe.channel", ["c", "orders"])
            _, count = await p.publish("orders", "submitted", 3)
            assert count == 2
            assert (await a.next()).data == 3 and (await b.next()).data == 3
            await c.nothing()


@case
async def direct_delivery(url):
    async with Peer(url, "n7", auto=True) as n7, Peer(url, "n8", auto=True) as n8, Peer(url, "p") as p:
        for node in (n7, n8):
            await node.subscribe(f"node.{node.endpoint}")
            await node.subscribe("nodes")
        await p.publish("node.n7", "hello", 1)
        assert (await n7.next()).name == "node.n7/hello"
        await n8.nothing()
        await p.publish("nodes", "anything", 2)
        assert (await n7.next()).data == 2 and (await n8.next()).data == 2
        await n7.subscribe("node.*")
        _, count = await p.publish("node.n7", "hello", 3)
        assert count == 1
        assert (await n7.next()).data == 3
        await n7.nothing()
        _, count = await p.publish("node.n8", "hello", 4)
        assert count == 2
        assert (await n7.next()).data == 4 and (await n8.next()).data == 4


@case
async def rpc_by_subject(url):
    async with Peer(url, "c7", auto=True) as c, Peer(url, "w", auto=True) as w:
        await c.subscribe("order", "created")
        await c.subscribe("order", "exception")
        await w.subscribe("order", "submitted")
        call, _ = await c.publish("order", "submitted", {"id": 42})
        request = await w.next()
        assert request.uid == call and request.data == {"id": 42}
        await w.publish("order", "created", 4711, reference=request.uid)
        reply = await c.next()
        assert (reply.reference, reply.subject, reply.data) == (call, "created", 4711)
        await w.publish("order", "exception", "too late", reference=request.uid)
        reply = await c.next()
        assert (reply.reference, reply.subject) == (call, "exception")
        again, _ = await c.publish("order", "submitted", {"id": 42}, uid_=call)  # the same uid: another message
        assert (await w.next()).uid == again == call


@case
async def rpc_by_reference(url):
    async with Peer(url, "api") as w, Peer(url, "c7", auto=True) as c:
        await w.subscribe("rpc", "order.*")
        await w.command("channel.priority", ["rpc", 99])
        await w.command("endpoint.size", ["api", 10])
        call = uid()
        expires = time.time() + 3
        await c.command("subscribe.message", ["c7", call, expires])
        _, count = await c.publish("rpc", "order.get.request", 42, uid_=call)
        assert count == 1
        request = await w.next(ack=True)
        assert request.uid == call
        _, count = await w.publish("rpc", "order.get.reply", {"id": 42}, reference=call)
        assert count == 2
        assert (await w.next(ack=True)).subject == "order.get.reply"  # its own pattern matches
        reply = await c.next()
        assert reply.reference == call and reply.data == {"id": 42}
        await w.publish("elsewhere", "x", 2, reference=call)
        assert (await c.next()).data == 2
        while time.time() < expires:
            await asyncio.sleep(0.02)
        _, count = await w.publish("elsewhere", "x", 3, reference=call)
        assert count == 0
        await c.command("unsubscribe.message", ["c7", call])
        await c.publish("rpc", "order.busy", "held")
        held = await w.next()
        for number in range(12):
            await c.publish("rpc", "order.more", number)
        await w.ack(held)
        assert [(await w.next(ack=True)).data for _ in range(10)] == list(range(2, 12))
        await w.nothing()
        assert (await c.publish("nobody", "x"))[1] == 0


# The byte strings of section 19.

D = {
    "M1": "95c410019ad08e82005294a5294a5294a52941a673797374656db17375627363726962652e6368616e6e656cc093a667726f757031a66f7264657273"
          "a97375626d6974746564",
    "M3": "95c410019ad08e82005294a5294a5294a52942a66f7264657273a97375626d6974746564c082a269642aa5746f74616ccb4023000000000000",
    "M4": "95c410019ad08e82005294a5294a5294a52943a673797374656da361636bc410019ad08e82005294a5294a5294a52942c0",
    "M5": "95c410019ad08e82005294a5294a5294a52944a673797374656db17375627363726962652e6d657373616765c093a763616c6c657237c410019ad08e"
          "82005294a5294a5294a52945ce692b26c3",
    "M6": "95c410019ad08e82005294a5294a5294a52945a3727063b16f726465722e6765742e72657175657374c02a",
    "M7": "95c410019ad08e82005294a5294a5294a52946a3727063af6f726465722e6765742e7265706c79c410019ad08e82005294a5294a5294a5294582a269"
          "642aa57374617465a470616964",
    "M8": "95c410019ad08e82005294a5294a5294a52947a673797374656db06368616e6e656c2e7072696f72697479c092a372706363",
    "M9": "95c410019ad08e82005294a5294a5294a52948a673797374656dad656e64706f696e742e73697a65c092a36170690a",
    "M10": "95c410019ad08e82005294a5294a5294a52949a673797374656da57061757365c0c0",
    "M14": "95c410019ad08e82005294a5294a5294a52947a673797374656db3756e7375627363726962652e6368616e6e656cc092a667726f757031a46f72642a",
}
R = {
    "M1": "95c410019ad08e82005294a5294a5294a52941c0a673797374656db17375627363726962652e6368616e6e656c93a667726f757031a66f7264657273"
          "a97375626d6974746564",
    "M3": "95c410019ad08e82005294a5294a5294a52942c0a66f7264657273a97375626d697474656482a269642aa5746f74616ccb4023000000000000",
    "M4": "95c410019ad08e82005294a5294a5294a52943c410019ad08e82005294a5294a5294a52942a673797374656da361636bc0",
    "M5": "95c410019ad08e82005294a5294a5294a52944c0a673797374656db17375627363726962652e6d65737361676593a763616c6c657237c410019ad08e"
          "82005294a5294a5294a52945ce692b26c3",
    "M6": "95c410019ad08e82005294a5294a5294a52945c0a3727063b16f726465722e6765742e726571756573742a",
    "M7": "95c410019ad08e82005294a5294a5294a52946c410019ad08e82005294a5294a5294a52945a3727063af6f726465722e6765742e7265706c7982a269"
          "642aa57374617465a470616964",
    "M8": "95c410019ad08e82005294a5294a5294a52947c0a673797374656db06368616e6e656c2e7072696f7269747992a372706363",
    "M9": "95c410019ad08e82005294a5294a5294a52948c0a673797374656dad656e64706f696e742e73697a6592a36170690a",
    "M10": "95c410019ad08e82005294a5294a5294a52949c0a673797374656da57061757365c0",
    "M14": "95c410019ad08e82005294a5294a5294a52947c0a673797374656db3756e7375627363726962652e6368616e6e656c92a667726f757031a46f72642a",
}
MALFORMED = {
    "X1": ("94c410019ad08e82005294a5294a5294a52941a66f7264657273a97375626d6974746564c0", "need 5 elements, got 4"),
    "X5": ("95c410019ad08e82005294a5294a5294a52941a163a173c001c0", "1 bytes left over after the array"),
    "X6": ("81a3756964c410019ad08e82005294a5294a5294a52941", "need an array of 5 elements"),
    "X7": ("95c410019ad08e82005294a5294a5294a52941a66f7264657273a97375626d69747465", "the message ends inside a value"),
    "empty": ("", "the message is empty"),
}
WRONG = {
    "X2": ("95c0a66f7264657273a97375626d6974746564c001", "bad-uid", False),
    "X3": ("95a3616263a66f7264657273a97375626d6974746564c001", "bad-uid", False),
    "X4": ("95c410019ad08e82005294a5294a5294a52941a2fffea173c001", "bad-utf8", True),
}


def bytes_of(name, order):
    return bytes.fromhex((D if order == "D" else R)[name])


async def example_bytes(url, order):
    other = "R" if order == "D" else "D"
    async with Peer(url, "group1", order=order) as n, Peer(url, "p", order=other) as p:
        me = Message(bytes_of("M1", order)).uid

        async def acked(node, name, which):
            await node.raw(bytes_of(name, which))
            answer = await node.answer(Message(bytes_of(name, which)).uid)
            assert answer.order == which, answer
            return answer

        answer = await acked(n, "M1", order)
        # as M2: only the uid of the broker differs
        template = bytes.fromhex(
            "95c410019ad08e8200ce739ce739ce739ce721a673797374656da361636bc410019ad08e82005294a5294a5294a52941c0" if order == "D"
            else "95c410019ad08e8200ce739ce739ce739ce721c410019ad08e82005294a5294a5294a52941a673797374656da361636bc0")
        assert answer.subject == "ack" and answer.raw == template[:3] + answer.uid + template[19:], answer.raw.hex()
        assert answer.reference == me
        answer = await acked(p, "M3", other)
        assert answer.subject == "ack" and answer.data == 1
        message = await n.next()
        assert message.raw == bytes_of("M3", order)  # in the receiver's order, every other byte as it was
        await n.raw(bytes_of("M4", order))
        await n.nothing()
        answer = await acked(n, "M5", order)  # that time is over
        assert answer.subject == "error" and answer.data[0] == "expired"
        answer = await acked(p, "M6", other)
        assert answer.data == 0
        await n.subscribe("rpc", "*.reply")
        await acked(p, "M7", other)
        message = await n.next(ack=True)
        assert message.raw == bytes_of("M7", order)
        for name in ("M8", "M9", "M10", "M14"):
            answer = await acked(n, name, order)
            assert answer.subject == "ack" and answer.data is None, answer
        await n.command("resume")
        answer = await acked(p, "M3", other)
        assert answer.data == 0  # M14 took the subscription away


@case
async def bytes_document(url):
    await example_bytes(url, "D")


@case
async def bytes_reference(url):
    await example_bytes(url, "R")


@case
async def bytes_malformed(url):
    for name, (text, why) in MALFORMED.items():
        async with Peer(url, "x") as p:
            await p.raw(bytes.fromhex(text))
            code, reason = await p.closed()
            assert (code, reason) == (1007, why), (name, code, reason)
            assert p.controls.empty() and p.messages.empty()


@case
async def bytes_wrong(url):
    async with Peer(url, "x") as p:
        for name, (text, code, known) in WRONG.items():
            await p.raw(bytes.fromhex(text))
            error = await p.control("error")
            assert error.data[0] == code and isinstance(error.data[1], str), (name, error)
            assert error.reference == (bytes.fromhex("019ad08e82005294a5294a5294a52941") if known else None)
        await p.raw(bytes.fromhex("dc0005c410019ad08e82005294a5294a5294a52941a163a173c001"))  # X8
        assert (await p.control("ack")).reference.hex() == "019ad08e82005294a5294a5294a52941"
        await p.command("channel.create", "rpc")
        message = await p.answer(await p.send("system", "channel.priority", ["rpc", 100]))
        assert message.data[0] == "bad-args" and "priority must be 0..99" in message.data[1]  # as M13


@case
async def bytes_event(url):
    async with Peer(url, "watch", auto=True) as w:
        await w.subscribe("system", "node.*")
        async with Peer(url, "group1") as n:
            event = await w.next()
            assert (event.name, event.reference) == ("system/node.joined", None)
            assert event.data[0] == "group1" and len(event.data[1]) == 16
            assert event.raw[19:] == bytes.fromhex("a673797374656dab6e6f64652e6a6f696e6564c092a667726f757031c410") + event.data[1]
            joined = event.data[1]
            await n.drop()
            event = await w.next()
            assert event.name == "system/node.left" and event.data == ["group1", joined]
            await w.nothing()


@case
async def order_before_the_first_message(url, want):
    async with Peer(url, "p") as p:
        await p.command("subscribe.channel", ["quiet", "c", "*"])
        async with Peer(url, "quiet") as q:
            await p.publish("c", "s", 1)
            assert (await q.next()).order == want


# The connection.


async def status_of(url, path, **more):
    try:
        async with connect(url + path, open_timeout=LIMIT, compression=None, **more) as ws:
            return 101, ws.response.headers
    except InvalidStatus as failed:
        return failed.response.status_code, failed.response.headers


@case
async def paths(url, root=""):
    for path, want in {
        "/name": 101, "/name?x=/y": 101, "/caf%C3%A9": 101, "/" + "x" * 255: 101, "/a.b*c": 101, "/metrics": 101,
        "/": 404, "": 404, "/a/b": 404, "/a%2Fb": 404, "/" + "x" * 256: 404, "/a/": 404, "//a": 404, "/%ff": 404, "/%zz": 404,
        "/a%": 404,
    }.items():
        code, _ = await status_of(url, root + path)
        assert code == want, (path, code)
    if root:
        assert (await status_of(url, "/name"))[0] == 404
        assert (await status_of(url, root + "x/name"))[0] == 404


@case
async def handshake(url):
    async with Peer(url, "watch", auto=True) as w:
        await w.subscribe("system", "node.joined")
        async with Peer(url, "n") as n:
            event = await w.next()
            value = 0
            for letter in n.node_uid:
                value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
            assert value.to_bytes(16, "big") == event.data[1]
            assert n.ws.subprotocol is None
    async with Peer(url, "n", subprotocols=["x", "wsmsg"]) as n:
        assert n.ws.subprotocol == "wsmsg"
    async with Peer(url, "n", subprotocols=["x"]) as n:
        assert n.ws.subprotocol is None


@case
async def tokens(url, good):
    for header, want, challenge in (
        (None, 401, "Bearer"), (f"Bearer {good}x", 401, 'Bearer error="invalid_token"'), (f"Bearer {good}", 101, None),
        (f"bEARER {good}", 101, None), (good, 401, 'Bearer error="invalid_token"'), ("Bearer", 401, 'Bearer error="invalid_token"'),
    ):
        for path in ("/n", "/a/b"):  # a path tells nothing to those who may not know
            code, headers = await status_of(url, path, additional_headers={"Authorization": header} if header else {})
            if want == 401:
                assert code == 401 and headers["WWW-Authenticate"] == challenge, (header, code, headers)
                assert headers["Content-Length"] == "0"
            else:
                assert code == (101 if path == "/n" else 404)


@case
async def admin(url, plain, chief):
    async with Peer(url, "p", token=plain) as p, Peer(url, "c", token=chief) as c:
        for subject, data in (("pause", None), ("stop", None), ("channel.create", "x"), ("endpoint.size", ["p", 5]),
                              ("subscribe.channel", ["c", "x", "*"])):
            await p.refused("denied", subject, data)
        await p.subscribe("x")
        await c.command("channel.create", "x")
        await c.command("subscribe.channel", ["p", "y", "*"])


@case
async def frames(url, most):
    most = int(most)
    async with Peer(url, "n", auto=True) as n:
        await n.subscribe("c")
        # in pieces
        whole = pack(uid(), "c", "s", None, b"x" * 5000)
        await n.ws.send([whole[:1], whole[1:3000], whole[3000:]])
        assert (await n.next()).raw == whole
        # one letter below the limit, and at it
        for size in (most - 1, most):
            body = pack(uid(), "c", "s", None, b"x" * (size - 100))
            body = pack(uid(), "c", "s", None, b"x" * (size - 100 + size - len(body)))
            assert len(body) == size
            await n.raw(body)
            assert (await n.next()).raw == body
        # every layout of a large message arrives as one
        await n.publish("c", "s", b"y" * (most // 2))
        assert (await n.next()).data == b"y" * (most // 2)
    async with Peer(url, "n2") as n:
        await n.ws.send("text")
        assert await n.closed() == (1003, "binary frames only")
    async with Peer(url, "n2") as n:
        await n.raw(b"\x95" + b"x" * most)
        assert (await n.closed())[0] == 1009
    # the limit counts before the end has come
    n = await Peer(url, "n3").__aenter__()
    head = b"\x82\xff" + struct.pack(">Q", most * 100) + b"\0\0\0\0"
    n.ws.transport.write(head + b"\x95" * 100)
    assert (await n.closed())[0] == 1009
    await n.task


@case
async def ack_timeout(url):
    async with Peer(url, "n") as n, Peer(url, "p") as p:
        await n.subscribe("c")
        await p.publish("c", "s", 1)
        await n.next()
        assert await n.closed() == (1008, "ack timeout")
        assert (await p.publish("c", "s", 2))[1] == 1


@case
async def plain_acks(url):
    async with Peer(url, "p") as p:
        assert (await p.publish("c", "s", 1))[1] is None


@case
async def stop(url):
    """Leaves messages, subscriptions and sizes behind; `restored` looks for them."""
    async with Peer(url, "n") as n, Peer(url, "p") as p:
        await n.subscribe("c")
        await n.command("subscribe.message", ["later", b"R" * 16, time.time() + 1000])
        await p.command("channel.priority", ["hi", 7])
        await p.command("endpoint.size", ["sized", 3])
        await p.command("subscribe.channel", ["sized", "c", "*"])
        for number in range(5):
            await p.publish("c", "s", number)
        assert (await n.next()).data == 0  # held when it stops: it is not delivered again
        begun = time.monotonic()
        asked = await p.send("system", "stop")
        assert (await p.answer(asked)).subject == "ack"
        for node in (n, p):
            notice = await node.control("stopping")
            assert notice.reference is None and notice.data is None
        await n.send("system", "ack", None, None)
        sent = await p.send("c", "s", "late")
        answer = await p.answer(sent)
        assert answer.subject == "ack" and answer.data is None
        await p.refused("stopping", "channel.create", "x")
        assert (await p.answer(await p.send("system", "stop"))).subject == "ack"
        assert (await status_of(url, "/new"))[0] == 503
        for node in (n, p):
            assert await node.closed() == (1001, "broker stopping")
        assert time.monotonic() - begun >= 0.9
        assert n.messages.empty()


@case
async def restored(url):
    async with Peer(url, "n") as n, Peer(url, "sized") as s, Peer(url, "later", auto=True) as later, Peer(url, "p") as p:
        assert [(await n.next(ack=True)).data for _ in range(5)] == [1, 2, 3, 4, "late"]
        await n.nothing()
        assert [(await s.next(ack=True)).data for _ in range(3)] == [3, 4, "late"]
        await s.nothing()
        await p.publish("any", "s", 9, reference=b"R" * 16)
        assert (await later.next()).data == 9
        # the priority of `hi` is still there
        await s.subscribe("hi")
        await p.publish("c", "s", "held")
        held = await s.next()
        await p.publish("c", "s", "low")
        await p.publish("hi", "s", "high")
        await s.ack(held)
        assert [(await s.next(ack=True)).data for _ in range(2)] == ["high", "low"]


async def main():
    name = sys.argv[2]
    if name == "list":
        print("\n".join(cases))
        return
    await asyncio.wait_for(cases[name](sys.argv[1], *sys.argv[3:]), float(os.environ.get("SC_WAIT_S", "60")) * 2)


if __name__ == "__main__":
    asyncio.run(main())
