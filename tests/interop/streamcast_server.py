#!/usr/bin/env python3
"""A real streamcast server, of 0.1.0 or of the newest release, whichever is imported.

    streamcast_server.py --ready FILE --root DIR [--port N] [--max-replay N] [--max-backlog N] [--archive URL] [--publish]

Serves `trades` (a log under DIR; columns event_ts, price, side) and `live` (no log). Each line on standard input is a
command; its answer is a line on standard output:

    rows N      append N rows to trades            -> the last offset
    flood N     append N rows to trades without letting anything else run, as a burst of a feed does
    live JSON   send a row to live
"""

import argparse
import asyncio
import json
import socket
import sqlite3
import sys

if sqlite3.sqlite_version_info < (3, 43):
    # The storage library of streamcast 0.1.0 calls a function that Debian 12's SQLite has not got yet.
    plain_connect = sqlite3.connect

    def connect(*arguments, **keywords):
        connection = plain_connect(*arguments, **keywords)
        connection.create_function(
            "octet_length", 1, lambda value: None if value is None else
            len(value if isinstance(value, bytes) else str(value).encode()), deterministic=True)
        return connection

    sqlite3.connect = connect

import streamcast  # noqa: E402

OLD = hasattr(streamcast, "serve")
SCHEMA = {
    "type": "object",
    "properties": {
        "event_ts": {"type": "integer"},
        "price": {"type": "number"},
        "side": {"type": ["string", "null"]},
    },
    "required": ["event_ts", "price"],
}


def row(number):
    # Quotes, a letter of two bytes, one of four, and a control character: what escaping is about.
    return {"event_ts": 1790000000000000 + number, "price": number + 0.25,
            "side": None if number % 3 else f'"é\\{number}𝄞\x01'}


async def commands(trades, live):
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    total = 0
    while line := await reader.readline():
        name, _, argument = line.decode().strip().partition(" ")
        offset = None
        if name in ("rows", "flood"):
            for _ in range(int(argument)):
                total += 1
                offset = await trades.send(row(total))
                if name == "rows":
                    await asyncio.sleep(0)
        elif name == "live":
            await live.send(json.loads(argument))
        print(offset, flush=True)
    await asyncio.Event().wait()


def tell(ready, port):
    with open(ready, "w", encoding="utf-8") as file:
        file.write(json.dumps({"port": port}) + "\n")


async def serve_old(options):
    trades = streamcast.Stream.new("trades", root=options.root, schema=SCHEMA, max_replay=options.max_replay,
                                   archive=options.archive, max_backlog=options.max_backlog)
    live = streamcast.Stream("live", max_backlog=options.max_backlog)
    # Releases that take publishers at all ask for it; from 0.14.0 on it goes without saying.
    publish = {"publish": True} if options.publish else {}
    async with streamcast.serve([trades, live], "127.0.0.1", options.port, maintain=False, **publish) as server:
        tell(options.ready, server.sockets[0].getsockname()[1])
        await commands(trades, live)


async def serve_new(options):
    import uvicorn

    published = {"published": options.archive} if options.archive else {}
    trades = streamcast.Stream.open("trades", create=True, root=options.root, schema=SCHEMA,
                                    max_replay=options.max_replay, **published)
    live = streamcast.Stream("live")
    config = streamcast.BrokerConfig(maintain=False, max_backlog=options.max_backlog)
    app = streamcast.create_app(config, streams=[trades, live])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.02)
    tell(options.ready, listener.getsockname()[1])
    talking = asyncio.create_task(commands(trades, live))
    await serving
    talking.cancel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--max-replay", type=int, default=100000)
    parser.add_argument("--max-backlog", type=int, default=8192)
    parser.add_argument("--archive")
    parser.add_argument("--publish", action="store_true")
    asyncio.run((serve_old if OLD else serve_new)(parser.parse_args()))


if __name__ == "__main__":
    main()
