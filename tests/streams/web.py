"""web.py: HTTP/1.1 by hand, for the tests of sc-streams: bytes out, bytes in, nothing repaired on the way."""

import base64
import json
import os
import select
import socket
import time

from lab import LIMIT_S, Wrong, check

PREFIX = "/v1/stream/"
ZERO = "0000000000000000_0000000000000000"
NINES = "9999999999999999_9999999999999999"
FRAME = 5 if os.environ.get("SC_STREAMS_REFERENCE") == "1" else 4  # what a message takes besides its own bytes
METHODS = "GET, POST, PUT, DELETE, HEAD, OPTIONS"
ALLOWED = ("Content-Type, Stream-Seq, Stream-TTL, Stream-Expires-At, Stream-Closed, If-None-Match, Producer-Id, Producer-Epoch, "
           "Producer-Seq, Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset, Authorization").split(", ")
EXPOSED = ("Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, ETag, Location, Producer-Epoch, Producer-Seq, "
           "Producer-Expected-Seq, Producer-Received-Seq, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Expires-At, "
           "Retry-After").split(", ")


def off(position):
    """The offset of a byte position."""
    return "%016d_%016d" % (0, position)


def position(offset):
    check(len(offset) == 33 and offset[16] == "_" and offset.replace("_", "").isdigit(), "no offset:", offset)
    return int(offset[17:])


def after(*messages, start=0):
    """The offset after these messages."""
    return off(start + sum(FRAME + len(m) for m in messages))


def request(method, target, fields=(), body=None, host="h"):
    """One request. A body of bytes has a length, a list of bytes is sent in chunks, None is no body and no length."""
    if isinstance(fields, dict):
        fields = fields.items()
    head = [f"{method} {target} HTTP/1.1"] + ([f"Host: {host}"] if host is not None else [])
    head += [f"{name}: {value}" for name, value in fields]
    if isinstance(body, list):
        head.append("Transfer-Encoding: chunked")
        data = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in body if c) + b"0\r\n\r\n"
    else:
        data = body or b""
        if body is not None:
            head.append(f"Content-Length: {len(data)}")
    return "\r\n".join(head + ["", ""]).encode("latin-1") + data


class Reply:
    def __init__(self, status, fields, body, whole=True):
        self.status, self.fields, self.body, self.whole = status, fields, body, whole

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def get(self, name):
        got = self.all(name)
        check(len(got) < 2, name, "is there", len(got), "times:", got)
        return got[0] if got else None

    def names(self):
        return {n.lower() for n, _ in self.fields}

    @property
    def next(self):
        return self.get("Stream-Next-Offset")

    @property
    def closed(self):
        return self.get("Stream-Closed")

    @property
    def fresh(self):
        return self.get("Stream-Up-To-Date")

    @property
    def etag(self):
        return self.get("ETag")

    def __repr__(self):
        return f"<{self.status} {self.body[:80]!r} {dict(self.fields)}>"


class Gone(Exception):
    """The other side ended the connection before an answer."""


class Wire:
    """A connection. Every wait has a limit."""

    def __init__(self, port, limit_s=LIMIT_S, window=None, tls=None):
        self.limit_s = limit_s
        self.sock = socket.socket()
        if window:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.sock.settimeout(limit_s)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.sock = tls.wrap_socket(self.sock)
        self.held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def cut(self):
        """End with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise Gone(f"while sending: {e}") from e

    def more(self):
        try:
            data = self.sock.recv(1 << 18)
        except socket.timeout as e:
            raise Wrong("nothing came for", self.limit_s, "s; so far:", self.held[-200:]) from e
        except OSError as e:
            raise Gone(str(e)) from e
        if not data:
            raise Gone("closed")
        self.held += data

    def quiet(self, for_s):
        """True when nothing comes, and nobody hangs up, for that long."""
        return not self.held and not select.select([self.sock], [], [], for_s)[0]

    def line(self):
        while b"\n" not in self.held:
            self.more()
        line, self.held = self.held.split(b"\n", 1)
        check(line.endswith(b"\r"), "a line of the head ends without CR:", line[:100])
        return line[:-1]

    def exactly(self, size):
        parts, have = [self.held], len(self.held)
        self.held = b""
        while have < size:
            self.more()
            parts.append(self.held)
            have += len(self.held)
            self.held = b""
        data = b"".join(parts)
        self.held = data[size:]
        return data[:size]

    def head(self):
        """Status and fields of the next reply."""
        first = self.line().decode("latin-1")
        check(first.startswith("HTTP/1.1 ") and first[9:12].isdigit(), "no status line:", first[:100])
        check(first[13:] not in ("", "Status"), "a status without its words:", first[:100])
        fields = []
        while line := self.line():
            name, colon, value = line.decode("latin-1").partition(":")
            check(colon and name and name == name.strip(), "no field:", line[:100])
            fields.append((name, value.strip(" \t")))
        return int(first[9:12]), fields

    def chunk(self):
        """The next chunk of a body; empty at its end."""
        size = int(self.line().split(b";")[0], 16)
        data = self.exactly(size)
        check(self.line() == b"", "a chunk does not end")
        return data

    def reply(self, method="GET"):
        """The next whole reply; interim ones are passed over."""
        while True:
            status, fields = self.head()
            if status >= 200:
                break
        r = Reply(status, fields, b"")
        coded, length = r.get("Transfer-Encoding"), r.get("Content-Length")
        check(coded is None or length is None, "both lengths in a reply:", r)
        if method == "HEAD" or status in (204, 304):
            check(status not in (204, 304) or (coded is None and length is None), status, "with a length:", r)
        elif coded is not None:
            check(coded.lower() == "chunked", "coding", coded)
            parts = []
            while part := self.chunk():
                parts.append(part)
            r.body = b"".join(parts)
        elif length is not None:
            r.body = self.exactly(int(length))
        else:
            try:
                while True:
                    self.more()
            except Gone:
                r.body, self.held = self.held, b""
        return r

    def ended(self):
        """Wait for the other side to hang up; what came before."""
        try:
            while True:
                self.more()
        except Gone:
            data, self.held = self.held, b""
            return data

    def ask(self, method, target, fields=(), body=None, **kw):
        self.send(request(method, target, fields, body, **kw))
        return self.reply(method)


class Event:
    def __init__(self, kind, data, raw):
        self.kind, self.data, self.raw = kind, data, raw

    @property
    def control(self):
        check(self.kind == "control", "no control event:", self.raw)
        return json.loads(self.data)

    def __repr__(self):
        return repr(self.raw[:300])


class Sse:
    """A reader of one event stream. event() is the next one, or None after a clean end."""

    def __init__(self, port, target, fields=(), limit_s=LIMIT_S, window=None):
        self.wire = Wire(port, limit_s, window)
        self.wire.send(request("GET", target, fields))
        self.status, self.fields = self.wire.head()
        self.reply = Reply(self.status, self.fields, b"")
        self.raw, self.over = b"", False
        if self.status != 200:
            self.reply.body = self.wire.exactly(int(self.reply.get("Content-Length") or 0))
            return
        check(self.reply.get("Content-Length") is None, "an event stream with a length")
        self.coded = self.reply.get("Transfer-Encoding") == "chunked"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.wire.close()

    def feed(self):
        if self.coded:
            part = self.wire.chunk()
            if not part:
                self.over = True
            self.raw += part
            return
        try:
            if not self.wire.held:
                self.wire.more()
            self.raw += self.wire.held
            self.wire.held = b""
        except Gone:
            self.over = True

    def event(self):
        while True:
            while b"\n\n" not in self.raw and not self.over:
                self.feed()
            if self.over and b"\n\n" not in self.raw:
                check(self.raw == b"", "the event stream ends inside an event:", self.raw[-200:])
                return None
            block, self.raw = self.raw.split(b"\n\n", 1)
            lines = block.split(b"\n")
            check(b"\r" not in block, "a CR in an event:", block[:200])
            if all(line.startswith(b":") for line in lines):
                continue  # a comment
            check(lines[0] in (b"event: data", b"event: control"), "no event of ours:", block[:200])
            # as every parser does: one blank after the colon is taken away
            check(all(line.startswith(b"data:") for line in lines[1:]), "a line of user data starts a line:", block[:300])
            data = [line[5:] for line in lines[1:]]
            data = b"\n".join(d[1:] if d.startswith(b" ") else d for d in data)
            return Event(lines[0][7:].decode(), data, block + b"\n\n")

    def pair(self):
        """One data event and its control event; (None, control) when there is no data."""
        first = self.event()
        check(first is not None, "the event stream ended")
        if first.kind == "control":
            return None, self.check_control(first)
        second = self.event()
        check(second is not None and second.kind == "control", "a data event is followed by", second)
        return first.data, self.check_control(second)

    @staticmethod
    def check_control(event):
        check(event.raw.startswith(b"event: control\ndata:{") and event.raw.count(b"\n") == 3, "control event:", event)
        control = event.control
        check(set(control) <= {"streamNextOffset", "streamCursor", "upToDate", "streamClosed"}, "control event:", event)
        position(control["streamNextOffset"])
        if "streamClosed" in control:
            check(control["streamClosed"] is True and control.get("upToDate") is True and "streamCursor" not in control,
                  "control event of a closed stream:", event)
        else:
            check(control.get("streamCursor", "").isdigit() and control.get("upToDate", True) is True, "control event:", event)
        return control

    def until(self, offset):
        """All data to that offset, and the last control event; offsets of control events rise."""
        data, seen = [], None
        while True:
            part, control = self.pair()
            check(seen is None or control["streamNextOffset"] > seen, "control events do not rise:", control)
            seen = control["streamNextOffset"]
            if part is not None:
                data.append(part)
            if seen >= offset:
                check(seen == offset, "read past", offset, "to", seen)
                return data, control


def unbase64(text):
    return base64.b64decode(text.replace(b"\n", b""), validate=True)


def until(condition, what, limit_s=LIMIT_S):
    """The first true value of condition."""
    end = time.monotonic() + limit_s
    while not (got := condition()):
        if time.monotonic() > end:
            raise Wrong("not so within", limit_s, "s:", what)
        time.sleep(0.02)
    return got
