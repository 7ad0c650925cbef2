#!/usr/bin/env python3
"""An HTTP proxy on loopback, before one server, that does what networks and servers do at their worst.

    faultproxy.py --ready FILE --to PORT --plan FILE --log FILE [--cert FILE --key FILE] [--secret TEXT]

The plan is read at each request: lines "TIMES METHOD PATTERN ACTION [ARGUMENT]", "#" for comments. The first line whose
METHOD (or "*") and PATTERN (searched in the target; "." for any) match, and which has been used fewer than TIMES times
("*": no end), says what happens; without one the request passes. The log has a line "METHOD TARGET ACTION SIGNED" for each:
SIGNED lists the signed headers when the AWS signature (version 4) is right for the secret, else says why not.

    pass                     as it is
    status CODE[:S3CODE[:RETRY_AFTER]]   answers so, without asking the server
    ok-error S3CODE          status 200 with an error in the body
    reset                    resets the connection when it has read the head
    lost                     the server does it, and the answer is lost
    hang                     never answers
    hold FILE                as it is, when FILE is there
    slow SECONDS             a byte of the answer at a time, SECONDS apart
    cut                      half of the answer's body, then the end
    say TEXT                 status 200 with that body
    spoil                    the request with another byte in the middle of its body
    strip HEADER             the request without that header
"""

import argparse
import asyncio
import hashlib
import hmac
import os
import re
import socket
import ssl
import struct

used = {}


def rule(options, method, target):
    with open(options.plan, encoding="utf-8") as plan:
        for line in plan:
            if line.startswith("#") or not line.strip():
                continue
            times, want, pattern, action = line.strip().split(" ", 3)
            if want not in ("*", method) or not re.search(pattern, target):
                continue
            if times != "*" and used.get(line, 0) >= int(times):
                continue
            used[line] = used.get(line, 0) + 1
            return (action + " ").split(" ", 1)
    return ("pass", "")


def reset(writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def error(code, words, extra=b""):
    body = b'<?xml version="1.0"?>\n<Error><Code>%s</Code><Message>said the proxy</Message></Error>' % words.encode()
    return b"HTTP/1.1 %d Said\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s" % (
        code, len(body), extra, body)


def signature(options, first, headers):
    """Worked out anew, as the SigV4 specification has it, from what has arrived."""
    method, target = first.decode().split(" ")[:2]
    values = {line.split(b":", 1)[0].lower().decode(): line.split(b":", 1)[1].strip().decode() for line in headers}
    given = re.match(r"AWS4-HMAC-SHA256 Credential=[^/]*/(.*), ?SignedHeaders=(.*), ?Signature=(.*)",
                     values.get("authorization", ""))
    if not given:
        return "unsigned"
    scope, names, want = given.groups()
    path, _, query = target.partition("?")
    query = "&".join(sorted(part if "=" in part else part + "=" for part in query.split("&"))) if query else ""
    lines = [f"{name}:{' '.join(values[name].split())}" for name in names.split(";")]
    canonical = "\n".join([method, path, query, *lines, "", names, values["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", values["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + (options.secret or "")).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return names if hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == want else "wrong"


async def read_request(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].split(b"\r\n")
    headers = [line for line in lines[1:] if not re.match(rb"(?i)(connection|expect):", line)]
    length = next((int(line.split(b":")[1]) for line in headers if line.lower().startswith(b"content-length:")), 0)
    return lines[0], headers, length, any(line.lower().startswith(b"expect:") for line in lines[1:])


async def ask(options, first, headers, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", options.to)
    writer.write(b"\r\n".join([first, *headers, b"Connection: close", b"", b""]) + body)
    await writer.drain()
    answer = await reader.read(-1)
    writer.close()
    while answer.startswith(b"HTTP/1.1 100"):
        answer = answer.split(b"\r\n\r\n", 1)[1]
    return answer


def other(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:] if data else data


async def handle(options, reader, writer):
    first, headers, length, expects = await read_request(reader, writer)
    method, target = first.decode().split(" ")[:2]
    action, argument = rule(options, method, target)
    argument = argument.strip()
    with open(options.log, "a", encoding="utf-8") as log:
        log.write(f"{method} {target} {action} {signature(options, first, headers)}\n")
    if action == "reset":
        reset(writer)
        return
    if expects:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(length)
    if action == "status":
        code, words, after = (argument + "::").split(":")[:3]
        writer.write(error(int(code), words or "Said", b"Retry-After: %s\r\n" % after.encode() if after else b""))
        return
    if action == "ok-error":
        writer.write(error(200, argument))
        return
    if action == "say":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(argument), argument.encode()))
        return
    if action == "hang":
        await reader.read(-1)
        return
    while action == "hold" and not os.path.exists(argument):
        await asyncio.sleep(0.01)
    if action == "spoil":
        body = other(body)
    if action == "strip":
        headers = [line for line in headers if not line.lower().startswith(argument.lower().encode() + b":")]
    answer = await ask(options, first, headers, body)
    if action == "lost":
        reset(writer)
        return
    head, rest = answer.split(b"\r\n\r\n", 1)
    head += b"\r\n\r\n"
    if action == "cut":
        rest = rest[: len(rest) // 2]
    if action == "slow":
        for at in range(len(rest)):
            writer.write(head + rest[:1] if at == 0 else rest[at: at + 1])
            await writer.drain()
            await asyncio.sleep(float(argument))
        return
    writer.write(head + rest)


async def serve_one(options, reader, writer):
    try:
        await handle(options, reader, writer)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    writer.close()


async def main():
    parser = argparse.ArgumentParser()
    for name in ("ready", "plan", "log", "cert", "key", "secret"):
        parser.add_argument("--" + name)
    parser.add_argument("--to", type=int)
    options = parser.parse_args()
    context = None
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert, options.key)
    server = await asyncio.start_server(lambda r, w: serve_one(options, r, w), "127.0.0.1", 0, ssl=context)
    with open(options.ready + ".new", "w", encoding="utf-8") as ready:
        ready.write('{"port": %d}' % server.sockets[0].getsockname()[1])
    os.replace(options.ready + ".new", options.ready)
    await server.serve_forever()


asyncio.run(main())
