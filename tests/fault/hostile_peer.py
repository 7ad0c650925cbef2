"""hostile_peer.py: the two sides of hostile.py: sockets that may send any bytes, and a server with one good subscriber."""

import base64
import json
import os
import resource
import select
import signal
import socket
import struct
import threading
import time

from lab import LIMIT_S, Program, Wrong, check, good, read_ready, sanitized, until, verify, whole_lines

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = base64.b64encode(b"sixteen bytes ok").decode()
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": ["string", "null"]}}, "required": ["n"]}


class Peer:
    """A socket to the server. WINDOW: a small receive buffer, so that what it does not take stays with the server."""

    def __init__(self, port, window=0):
        self.socket = socket.socket()
        self.socket.settimeout(LIMIT_S)
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = bytearray()

    def fileno(self):
        return self.socket.fileno()

    def send(self, data):
        """All of it, or False when the server has ended the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def pour(self, data, total, limit_s):
        """Send DATA over and over without reading, until TOTAL bytes, or until nothing was taken for LIMIT_S. How much went."""
        sent, at, view = 0, 0, memoryview(data)
        self.socket.setblocking(False)
        while sent < total and select.select([], [self.socket], [], limit_s)[1]:
            try:
                n = self.socket.send(view[at:])
            except OSError:
                break
            sent, at = sent + n, (at + n) % len(data)
        self.socket.settimeout(LIMIT_S)
        return sent

    def widen(self):
        """From now on it takes what comes at full speed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def more(self):
        """Take what comes. False: the end."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            return False
        except socket.timeout as e:
            raise Wrong("the server says nothing and does not close; so far:", bytes(self.inbox[:200])) from e
        self.inbox += data
        return bool(data)

    def rest(self):
        """Everything until the end."""
        while self.more():
            pass
        return bytes(self.inbox)

    def cut(self):
        """Leave with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


def answer(port, data, shut=False):
    """What the server answers to these bytes, until it closes: (status, head in lower case, body)."""
    peer = Peer(port)
    peer.send(data)
    if shut:
        peer.socket.shutdown(socket.SHUT_WR)
    text = peer.rest()
    peer.close()
    if not text:
        return 0, "", b""
    head, _, body = text.partition(b"\r\n\r\n")
    check(head.startswith(b"HTTP/1.1 "), "answered with", head[:100])
    return int(head[9:12]), head.decode("latin-1").lower(), body


def upgrade(target, *fields, method="GET", version="13", key=KEY):
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
    if version is not None:
        lines.append(f"Sec-WebSocket-Version: {version}")
    if key is not None:
        lines.append(f"Sec-WebSocket-Key: {key}")
    return "\r\n".join(lines + list(fields) + ["", ""]).encode()


def head_of(kind, length, final=True, rsv=0, masked=True, form=None):
    """The head of a frame; FORM 16 or 64 for a length in a longer form than it needs."""
    first = (0x80 if final else 0) | rsv << 4 | kind
    bit = 0x80 if masked else 0
    if form == 64 or (form is None and length > 65535):
        return bytes([first, bit | 127]) + length.to_bytes(8, "big")
    if form == 16 or length > 125:
        return bytes([first, bit | 126]) + length.to_bytes(2, "big")
    return bytes([first, bit | length])


def frame(kind, payload=b"", **how):
    """A frame as a client sends it: masked, with a mask of zeros unless MASK."""
    mask = how.pop("mask", b"\0\0\0\0") if how.get("masked", True) else b""
    if any(mask):
        key = (mask * (len(payload) // 4 + 1))[:len(payload)]
        payload = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")
    return head_of(kind, len(payload), **how) + mask + payload


def close_frame(code, reason=b""):
    return frame(CLOSE, struct.pack(">H", code) + reason)


class WebSocket(Peer):
    """After a good handshake; frames come out of next()."""

    def __init__(self, port, target, *fields, window=0):
        super().__init__(port, window)
        self.send(upgrade(target, *fields))
        while b"\r\n\r\n" not in self.inbox:
            check(self.more(), "no upgrade:", bytes(self.inbox[:200]))
        head, _, self.inbox = self.inbox.partition(b"\r\n\r\n")
        check(head.startswith(b"HTTP/1.1 101"), "no upgrade:", bytes(head[:200]))

    def cut_frame(self):
        """The frame at the front, or None."""
        box = self.inbox
        if len(box) < 2:
            return None
        length, at = box[1], 2
        check(length < 128 and not box[0] & 0x70, "the server sent a malformed frame", bytes(box[:20]))
        if length == 126:
            length, at = int.from_bytes(box[2:4], "big"), 4
        elif length == 127:
            length, at = int.from_bytes(box[2:10], "big"), 10
        if len(box) < at + length:
            return None
        kind, payload = box[0] & 15, bytes(box[at:at + length])
        del box[:at + length]
        return kind, payload

    def next(self, skip=()):
        """(kind, payload), or None at the end; pings are answered."""
        while True:
            got = self.cut_frame()
            if got is None:
                if not self.more():
                    return None
                continue
            if got[0] == PING:
                self.send(frame(PONG, got[1]))
            if got[0] not in skip:
                return got

    def message(self):
        got = self.next(skip=(PING, PONG))
        check(got, "the connection ended")
        check(got[0] != CLOSE, "the server closed:", got)
        return got[1]

    def ending(self):
        """(code, reason) of the server's Close; (0, b'') when it ended without one. Messages before it are passed over."""
        end = time.monotonic() + LIMIT_S
        while True:
            check(time.monotonic() < end, "the server goes on and does not close")
            got = self.next()
            if got is None:
                return 0, b""
            if got[0] == CLOSE:
                return int.from_bytes(got[1][:2], "big") if got[1] else 1005, got[1][2:]

    def rows(self, upto, first=None):
        """Rows until offset UPTO, which follow each other."""
        lines = []
        while not lines or first <= upto:
            payload = self.message()
            if payload.startswith(b"{"):
                continue
            offset = int(payload[1:payload.index(b",")])
            check(first is None or offset == first, "offset", offset, "comes where", first, "is due")
            first = offset + 1
            lines.append(payload)
        return lines

    def publish(self, text):
        self.send(frame(TEXT, text if isinstance(text, bytes) else json.dumps(text).encode()))

    def reply(self):
        return json.loads(self.message())


class Good(threading.Thread):
    """The subscriber that is to notice nothing of it all."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.peer = WebSocket(port, "/s?offset=0")
        self.lines, self.fault, self.done = [], None, False
        self.longest, self.last = 0.0, time.monotonic()
        self.start()

    def run(self):
        try:
            while True:
                got = self.peer.next(skip=(PING, PONG))
                if got is None or got[0] == CLOSE:
                    raise Wrong("the good subscriber was cut off:", got)
                if got[1].startswith(b"["):
                    now = time.monotonic()
                    self.longest, self.last = max(self.longest, now - self.last), now
                    self.lines.append(got[1])
        except (Wrong, OSError) as e:
            if not self.done:
                self.fault = e
        self.peer.close()


class World:
    """A server of one log "s" with rows coming all the time, and a subscriber that must get each of them."""

    def __init__(self, folder, *options, files=None, log=None, pause_s=0.004):
        self.folder, self.options, self.files, self.pause_s = folder, options, files, pause_s
        self.log = log or os.path.join(folder, "s")
        self.stop, self.fed, self.lock = False, 0, threading.Lock()

    def __enter__(self):
        schema = os.path.join(self.folder, "schema.json")
        with open(schema, "w") as f:
            json.dump(SCHEMA, f)
        if not os.path.exists(self.log):
            good("sc-log", "create", self.log, "--schema", schema)
        ready, ready_in = os.pipe()
        limit = None
        if self.files:
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))
        self.server = Program(self.folder, "server", "sc-serve", "--listen", "127.0.0.1:0", "--ready-fd", ready_in,
                              "--ring", "1MiB", *self.options, self.log, pass_fds=(ready_in,), preexec_fn=limit)
        os.close(ready_in)
        line = read_ready(ready)
        os.close(ready)
        check(line, "the server did not start:", self.server.err())
        self.port = line["port"]
        pipe, self.pipe = os.pipe()
        self.appender = Program(self.folder, "appender", "sc-log", "append", "--quiet", self.log, stdin=pipe)
        os.close(pipe)
        self.good = Good(self.port)
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()
        if "--publish" in self.options:   # the first commit opens files that stay open
            p = WebSocket(self.port, "/s?publish")
            p.message()
            p.publish({"n": -500000})
            p.reply()
            p.close()
        self.others_served()
        return self

    def feed(self):
        while not self.stop:
            self.append(1, 20)
            time.sleep(self.pause_s)

    def append(self, rows, size):
        """ROWS rows of about SIZE bytes into the log, in order with all others."""
        with self.lock:
            while rows > 0:
                part = min(rows, 200)
                text = b"".join(b'{"n":%d,"s":"%s"}\n' % (self.fed + i, b"x" * size) for i in range(part))
                while text:
                    text = text[os.write(self.pipe, text):]
                self.fed += part
                rows -= part

    def stats(self):
        status, _, body = answer(self.port, b"GET /stats HTTP/1.1\r\nHost: h\r\n\r\n")
        check(status == 200, "/stats answers", status)
        return json.loads(body)["streams"][0]

    def end_offset(self):
        return self.stats()["end_offset"]

    def others_served(self):
        """Rows that are appended now reach the good subscriber."""
        seen = len(self.good.lines)
        until(lambda: len(self.good.lines) > seen + 20 or self.good.fault or not self.server.running(),
              "the good subscriber goes on")
        check(self.server.running(), "the server ended:", self.server.process.returncode, self.server.err()[-3000:])
        check(not self.good.fault, self.good.fault)

    def memory(self):
        """Of its own, in KiB: what it allocated, without the ring and files."""
        with open(f"/proc/{self.server.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))

    def files_open(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def cpu_s(self):
        with open(f"/proc/{self.server.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_below(self, before, more_kib, what):
        """A sanitizer keeps what was freed, so its memory tells nothing."""
        if not sanitized():
            until(lambda: self.memory() <= before + more_kib,
                  f"memory is back after {what}: {before} KiB before, at most {more_kib} more, now {self.memory()}", 10)

    def files_back(self, before):
        until(lambda: self.files_open() <= before, f"descriptors are back at {before}, now {self.files_open()}", 15)

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.others_served()
        finally:
            self.stop = True
            self.feeder.join()
            os.close(self.pipe)
            if kind is not None:
                self.appender.kill()
                self.server.signal(signal.SIGTERM)
                try:
                    self.server.wait()
                except Wrong as e:
                    print("and then:", e)
        if kind is None:
            self.finish()
        elif "Sanitizer" in self.server.err() or "runtime error" in self.server.err():
            print(self.server.err()[-6000:])

    def finish(self):
        status = self.appender.wait()
        check(status == 0, "the appender ended with", status, self.appender.err())
        held = whole_lines(good("sc-log", "read", self.log).out)
        until(lambda: len(self.good.lines) >= len(held) or self.good.fault, "the good subscriber has all rows")
        check(not self.good.fault, self.good.fault)
        self.good.done = True
        status = self.server.end()
        check(status == 0, "the server ended with", status, self.server.err()[-6000:])
        check("Sanitizer" not in self.server.err() and "runtime error" not in self.server.err(), self.server.err()[-6000:])
        self.good.join(LIMIT_S)
        check(self.good.lines == held, "the good subscriber has other rows than the log:", len(self.good.lines), len(held))
        check(self.good.longest < (20 if sanitized() else 6), "the good subscriber waited for", self.good.longest, "s")
        verify(self.log)
