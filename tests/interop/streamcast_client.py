#!/usr/bin/env python3
"""A real streamcast subscriber, of 0.1.0 or of the newest release, whichever is imported.

    streamcast_client.py [--offset N] [--cursor FILE] [--count N] [--pause-after N --resume FILE] URL
    streamcast_client.py --each

Prints {"info": ...} (what it made of the greeting), then every item it was given as a JSON line. A refusal is one JSON
line on stderr, {"exception", "why", ...}, and status 1; the server's ordinary end is status 0. With --pause-after it
stops reading after N messages until the file of --resume exists. With --each it subscribes as each line of standard
input says, "URL OFFSET" or "URL -", and prints for each what came of it: the info, or the refusal.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import sys

import streamcast


async def run(options):
    keywords = {}
    if options.offset is not None:
        keywords["offset"] = options.offset
    if options.cursor:
        keywords["cursor"] = options.cursor
    if options.pause_after is not None:
        keywords["max_queue"] = 1  # else websockets itself reads ahead
    seen = 0
    async with streamcast.connect(options.url, **keywords) as subscription:
        print(json.dumps({"info": dataclasses.asdict(subscription.info)}), flush=True)
        if options.count == 0:
            return
        async for item in subscription:
            print(json.dumps(item, separators=(",", ":"), ensure_ascii=False), flush=True)
            seen += 1
            if seen == options.count:
                return
            if seen == options.pause_after:
                while not os.path.exists(options.resume):
                    await asyncio.sleep(0.02)


def refusal(error):
    """What a user would see, as data."""
    known = {name: getattr(error, name) for name in ("why", "fields", "requested", "serves", "backlog", "offset")
             if hasattr(error, name)}
    return json.dumps({"exception": type(error).__name__, "text": str(error), **known}, default=str)


async def each():
    for line in sys.stdin:
        url, offset = line.split()
        keywords = {} if offset == "-" else {"offset": int(offset)}
        try:
            async with streamcast.connect(url, **keywords) as subscription:
                print(json.dumps({"info": dataclasses.asdict(subscription.info)}), flush=True)
        except Exception as error:
            print(refusal(error), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offset", type=int)
    parser.add_argument("--cursor")
    parser.add_argument("--count", type=int)
    parser.add_argument("--pause-after", type=int)
    parser.add_argument("--resume")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("url", nargs="?")
    options = parser.parse_args()
    try:
        asyncio.run(each() if options.each else run(options))
    except Exception as error:
        print(refusal(error), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
