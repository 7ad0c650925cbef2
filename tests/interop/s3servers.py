#!/usr/bin/env python3
"""Two S3 servers of other people on loopback, each with a bucket "prod": SeaweedFS (weed) and moto.

    s3servers.py --ready FILE --dir FOLDER

The ready file is JSON: {"port": weed's, "weed": ..., "moto": ..., "filer": weed's plain HTTP server of the same files}.
Ends both when it is ended. The credentials are KEY_ID and SECRET below; moto takes any.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time

import boto3
import botocore.exceptions
from botocore.config import Config

KEY_ID, SECRET = "AKIDTEST", "secret/with+chars"
running = []


def free_ports(count):
    """Ports that are free now, and so are those 10,000 above, which weed takes for itself."""
    found, held = [], []
    while len(found) < count:
        low, high = socket.socket(), socket.socket()
        held += [low, high]
        low.bind(("127.0.0.1", 0))
        port = low.getsockname()[1]
        if port > 55000:
            port -= 20000
            low.close()
            low = socket.socket()
            held.append(low)
        try:
            if low.getsockname()[1] != port:
                low.bind(("127.0.0.1", port))
            high.bind(("127.0.0.1", port + 10000))
        except OSError:
            continue
        found.append(port)
    for sock in held:
        sock.close()
    return found


def spawn(name, folder, *command):
    with open(os.path.join(folder, name + ".log"), "ab") as log:
        running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder))
    return running[-1]


def bucket(port, process):
    """Make the bucket; False when the server has ended."""
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=KEY_ID,
                          aws_secret_access_key=SECRET, region_name="us-east-1",
                          config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}))
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        try:
            client.create_bucket(Bucket="prod")
            client.put_object(Bucket="prod", Key="begun", Body=b"1")
            client.delete_object(Bucket="prod", Key="begun")
            return True
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
            time.sleep(0.1)
    return False


def weed(folder):
    binary = os.path.join(os.path.dirname(sys.executable), "weed")
    identities = os.path.join(folder, "identities.json")
    with open(identities, "w", encoding="utf-8") as file:
        json.dump({"identities": [{"name": "tester", "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
                                   "actions": ["Admin", "Read", "Write", "List"]}]}, file)
    for _ in range(5):
        s3, master, volume, filer = free_ports(4)
        data = os.path.join(folder, f"weed-{s3}")
        os.mkdir(data)
        process = spawn("weed", folder, binary, "-logtostderr", "server", "-master.telemetry=false", f"-dir={data}",
                        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}",
                        "-volume.max=100", "-master.volumeSizeLimitMB=64", f"-filer.port={filer}", "-iam=false", "-s3",
                        f"-s3.port={s3}", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
                        f"-s3.config={identities}")
        if bucket(s3, process):
            return s3, filer
        process.kill()
    sys.exit("weed did not begin")


def moto(folder):
    binary = os.path.join(os.path.dirname(sys.executable), "moto_server")
    for _ in range(5):
        port = free_ports(1)[0]
        process = spawn("moto", folder, sys.executable, binary, "-H", "127.0.0.1", "-p", str(port))
        if bucket(port, process):
            return port
        process.kill()
    sys.exit("moto did not begin")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready", required=True)
    parser.add_argument("--dir", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        ports = dict(zip(("weed", "filer"), weed(options.dir)))
        ports["moto"] = moto(options.dir)
        ports["port"] = ports["weed"]
        with open(options.ready + ".new", "w", encoding="utf-8") as ready:
            json.dump(ports, ready)
        os.replace(options.ready + ".new", options.ready)
        while True:
            signal.pause()
    finally:
        for process in running:
            process.kill()
            process.wait()


main()
