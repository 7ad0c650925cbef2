"""hooks.py: what the tests of subscriptions need: a receiver of webhooks, signatures checked by hand, subscriptions as objects."""

import base64
import hashlib
import http.server
import json
import socket
import threading
import time
import urllib.parse

from lab import check
from web import PREFIX, until
from world import check_every

JSON = {"Content-Type": "application/json"}

# --- Ed25519 (RFC 8032), to verify only, without the library that signs ------------------------------------------

P = 2 ** 255 - 19
Q = 2 ** 252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    x = (a[1] - a[0]) * (b[1] - b[0]) % P
    y = (a[1] + a[0]) * (b[1] + b[0]) % P
    z, t = 2 * a[2] * b[2], 2 * a[3] * b[3] * D % P
    e, f, g, h = y - x, z - t, z + t, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, a):
    total = (0, 1, 1, 0)
    while n:
        if n & 1:
            total = add(total, a)
        a = add(a, a)
        n >>= 1
    return total


def point(raw):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    check((x * x - square) % P == 0, "no point of the curve")
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def verifies(public, text, signature):
    a, r, s = point(public), point(signature[:32]), int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % Q
    left, right = times(s, BASE), add(r, times(k, a))
    return s < Q and (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


def b64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# --- a receiver ---------------------------------------------------------------------------------------------------

class Hook:
    """A request that came."""

    def __init__(self, path, fields, body):
        self.path, self.fields, self.raw, self.at = path, fields, body, time.monotonic()
        self.body = json.loads(body)

    def tail(self, path):
        return next(s["tail_offset"] for s in self.body["streams"] if s["path"] == path)

    def check_signature(self, keys, limit_s=60):
        parts = dict(p.split("=", 1) for p in self.fields["Webhook-Signature"].split(","))
        check(list(parts) == ["t", "kid", "ed25519"], "a signature's parts:", parts)
        check(abs(time.time() - int(parts["t"])) < limit_s, "its time:", parts)
        key = next(k for k in keys if k["kid"] == parts["kid"])
        signature, public = b64(parts["ed25519"]), b64(key["x"])
        text = parts["t"].encode() + b"." + self.raw
        check(verifies(public, text, signature), "the signature is none of", key)
        check(not verifies(public, text + b" ", signature), "the check of a signature takes anything")


def gated(status, body):
    """A gate, and the answer that waits until it is set."""
    gate = threading.Event()

    def answer(_):
        gate.wait(30)
        return status, body

    return gate, answer


class Receiver:
    """Answers with what `answer` gives for each request: (status, body), or a function of the socket that does it all."""

    def __init__(self, answer=(200, b"{}")):
        self.hooks, self.answer, self.connections = [], answer, 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook = Hook(self.path, dict(self.headers), body)
                receiver.hooks.append(hook)
                answer = receiver.answer(hook) if callable(receiver.answer) else receiver.answer
                if callable(answer):
                    answer(self)
                    self.close_connection = True
                    return
                status, data, *fields = answer
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                receiver.connections += 1
                return super().get_request()

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?a=b"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def wait(self, count=1, limit_s=30):
        until(lambda: len(self.hooks) >= count, f"{count} hooks", limit_s)
        return self.hooks[count - 1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- subscriptions ------------------------------------------------------------------------------------------------

class Sub:
    """A subscription by its id."""

    def __init__(self, place, ident, token=None):
        self.place, self.id, self.token = place, ident, token
        self.target = PREFIX + "__ds/subscriptions/" + urllib.parse.quote(ident, safe="")

    def ask(self, method, more="", body=None, fields=(), status=None, code=None):
        fields = dict(fields)
        if self.token:
            fields.setdefault("Authorization", "Bearer " + self.token)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with self.place.wire() as w:
            r = w.ask(method, self.target + more, {**JSON, **fields}, data, host=f"127.0.0.1:{self.place.port}")
        check_every(r, self.target)
        r.json = json.loads(r.body) if r.body else None
        check(status is None or r.status == status, method, self.target + more, body, "gave", r.status, r.body[:300], "not", status)
        if r.status >= 400:
            check(r.get("Content-Type") == "application/json" and set(r.json["error"]) >= {"code", "message"}, "an error:", r)
        if code:
            check(r.json["error"]["code"] == code, "the code is", r.json, "not", code)
        return r

    def put(self, status=201, code=None, **config):
        return self.ask("PUT", body=config, status=status, code=code)

    def webhook(self, url, status=201, **config):
        return self.put(status, type="webhook", webhook={"url": url}, **config)

    def pull(self, wake, status=201, **config):
        return self.put(status, type="pull-wake", wake_stream=wake, **config)

    def get(self, status=200):
        return self.ask("GET", status=status).json

    def links(self):
        return {s["path"]: (s["link_type"], s["acked_offset"]) for s in self.get()["streams"]}

    def delete(self, status=204):
        return self.ask("DELETE", status=status)

    def claim(self, worker="w", status=200, code=None):
        return self.ask("POST", "/claim", {"worker": worker}, status=status, code=code).json

    def say(self, what, held, acks=None, status=200, code=None, **more):
        """ack, callback or release of a wake: HELD is a claim, or the body of a webhook."""
        body = {"wake_id": held["wake_id"], "generation": held["generation"], **more}
        if acks is not None:
            body["acks"] = [{"stream": s, "offset": o} for s, o in acks]
        token = held.get("token") or held["callback_token"]
        return self.ask("POST", "/" + what, body, {"Authorization": "Bearer " + token}, status, code).json


def events(stream):
    return [e for e in stream.all("json") if e["type"] == "wake"]
