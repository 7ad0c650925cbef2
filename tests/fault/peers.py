"""peers.py: subscribers without a library: a WebSocket client small enough to stall, leave and come back at any moment."""

import base64
import os
import socket
import struct

from lab import check

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Subscriber:
    """One subscriber: what it got so far is one unbroken run of lines, over all its connections.

    feed(line) is called for each line. Non-blocking: call step() when its socket is readable; a stalled one is simply not stepped.
    """

    def __init__(self, name, port, stream, next_offset):
        self.name, self.port, self.stream = name, port, stream
        self.next = next_offset   # None: whatever comes live, the first time
        self.socket = None
        self.inbox = b""
        self.greeted = False
        self.upgraded = False
        self.stalled_until = 0.0
        self.narrow = False       # a small window: what it does not take stays with the server
        self.starved = False      # the server's allocations fail on purpose: it may answer 503, and is asked again
        self.refusals = []
        self.lines = []           # since they were last taken

    def connect(self):
        self.close()
        s = socket.socket()
        s.settimeout(10)
        if self.narrow:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            s.connect(("127.0.0.1", self.port))
            query = "" if self.next is None else f"?offset={self.next}"
            key = base64.b64encode(os.urandom(16)).decode()
            s.sendall((f"GET /{self.stream}{query} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\n"
                       f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        except OSError:
            s.close()
            return False
        s.setblocking(False)
        self.socket, self.inbox, self.greeted, self.upgraded = s, b"", False, False
        return True

    def close(self, reset=False):
        if self.socket is None:
            return
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        self.socket = None

    def step(self):
        """Take what is there. False: the connection is over."""
        if self.socket is None:
            return False
        try:
            data = self.socket.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self.inbox += data
        if not self.upgraded:
            end = self.inbox.find(b"\r\n\r\n")
            if end < 0:
                return True
            if self.starved and self.inbox.startswith(b"HTTP/1.1 503"):
                self.close()
                return False
            check(self.inbox.startswith(b"HTTP/1.1 101"), self.name, "was answered", self.inbox[:100])
            self.inbox = self.inbox[end + 4:]
            self.upgraded = True
        return self.frames()

    def frames(self):
        data, pos, size = self.inbox, 0, len(self.inbox)
        while size - pos >= 2:
            first, length = data[pos], data[pos + 1]
            head = 2
            check(first & 0x70 == 0 and length < 128, self.name, "got a malformed frame")
            if length == 126:
                if size - pos < 4:
                    break
                length, head = int.from_bytes(data[pos + 2:pos + 4], "big"), 4
            elif length == 127:
                if size - pos < 10:
                    break
                length, head = int.from_bytes(data[pos + 2:pos + 10], "big"), 10
            if size - pos - head < length:
                break
            payload = data[pos + head:pos + head + length]
            pos += head + length
            if not self.frame(first, payload):
                self.close()
                return False
        self.inbox = data[pos:]
        return True

    def frame(self, first, payload):
        kind = first & 15
        if kind == PING:
            mask = os.urandom(4)
            body = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
            try:
                self.socket.send(bytes([0x80 | PONG, 0x80 | len(payload)]) + mask + body)
            except OSError:
                pass
            return True
        if kind == CLOSE:
            if len(payload) >= 2 and int.from_bytes(payload[:2], "big") not in (1000, 1001):
                self.refusals.append(payload)
            return False
        check(first in (0x80 | TEXT, 0x80 | BINARY), self.name, "got a frame of kind", first)
        if not self.greeted:
            check(payload.startswith(b'{"streamcast"'), self.name, "was greeted with", payload[:100])
            self.greeted = True
            return True
        offset = int(payload[1:payload.index(b",")])
        check(self.next is None or offset == self.next, self.name, "got offset", offset, "where", self.next, "comes")
        self.next = offset + 1
        self.lines.append(payload)
        return True

    def take(self):
        lines, self.lines = self.lines, []
        return lines
