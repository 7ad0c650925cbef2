#!/usr/bin/env python3
"""hookpeer.py: a receiver of webhooks that answers as it is told.

hookpeer.py [--host ADDRESS] [--cert PEM --key PEM] [--wait SECONDS] [--answer JSON]: prints its port first, then each request as a line
[path, signature, body]. It waits before it answers, with {"done":true} if nothing else is said.
"""

import argparse
import http.server
import json
import ssl
import time

parser = argparse.ArgumentParser()
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--cert")
parser.add_argument("--key")
parser.add_argument("--wait", type=float, default=0)
parser.add_argument("--answer", default='{"done":true}')
options = parser.parse_args()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(json.dumps([self.path, self.headers["Webhook-Signature"], body]), flush=True)
        time.sleep(options.wait)
        answer = options.answer.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # whoever trusts us not, or waits no longer
        pass


server = Server((options.host, 0), Handler)
if options.cert:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever(0.05)
