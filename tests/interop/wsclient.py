#!/usr/bin/env python3
"""Print what a WebSocket server sends, with `websockets`: each data message as one line, its bytes unchanged.

    wsclient.py [--count N] [--greeting FILE] [--compress] [--header NAME=VALUE] [--origin O] [--ca FILE] URL

The first message (the greeting) goes to FILE. Ends after N data messages, or when the server closes: then one JSON
line {"code", "reason"} on stderr and status 1, or {"status"} when it refused the upgrade.
"""

import argparse
import asyncio
import json
import ssl
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus


async def run(options):
    tls = None
    if options.ca:
        tls = ssl.create_default_context(cafile=options.ca)
    async with connect(options.url, compression="deflate" if options.compress else None, ssl=tls, max_size=None,
                       origin=options.origin, proxy=None,
                       additional_headers=[header.split("=", 1) for header in options.header]) as server:
        greeting = await server.recv()
        if options.greeting:
            with open(options.greeting, "w", encoding="utf-8") as file:
                file.write(greeting + "\n")
        for _ in range(options.count):
            message = await server.recv(decode=False)
            sys.stdout.buffer.write(message + b"\n")
            sys.stdout.buffer.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2**62)
    parser.add_argument("--greeting")
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--origin")
    parser.add_argument("--ca")
    parser.add_argument("url")
    try:
        asyncio.run(run(parser.parse_args()))
    except ConnectionClosed as error:
        close = error.rcvd
        print(json.dumps({"code": close and close.code, "reason": close and close.reason}), file=sys.stderr)
        sys.exit(1)
    except InvalidStatus as error:
        print(json.dumps({"status": error.response.status_code}), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
