"""full.py: the disk fills up.

Goal    status 74 and the system's words, no signal; nothing acknowledged is lost; reading goes on; appending works again when space
        returns, and with --wait-space goes on by itself.
Method  a small tmpfs in a mount namespace of our own (full_test.sh), filled by a ballast file; and a limit on file sizes, which needs
        no rights.
"""

import os
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from lab import (BIN, Lab, Program, Skip, Wrong, check, check_acknowledged, check_contiguous, fill, good, has, read_all,  # noqa: E402
                 read_ready, run, small_disk, until, verify, whole_lines)

lab = Lab()
NO_SPACE = "No space left on device"


def rows(first, count):
    return b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"p" * 90) for n in range(first, first + count))


def check_log(log, acked):
    lines = read_all(log)
    check_contiguous(lines, 1)
    check_acknowledged(lines, acked)
    good("sc-log", "info", log)
    verify(log)
    return lines


@lab.test
def appending_until_it_is_full(folder):
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log)
    ballast = fill(disk, 3 << 20)
    done = run("sc-log", "append", log, input=rows(1, 60000))
    acked = whole_lines(done.out)
    check(done.status == 74, "status", done.status, done.err.decode()[-500:])
    check(NO_SPACE in done.err.decode(), "it says", done.err.decode())
    check(0 < len(acked) < 60000, len(acked), "rows were acknowledged")
    held = check_log(log, acked)
    # once more, with nothing to spare: refused again, nothing of it shows
    fill(disk)
    done = run("sc-log", "append", log, input=rows(100000, 40000))
    check(done.status == 74, "again: status", done.status)
    acked += whole_lines(done.out)
    held = check_log(log, acked)
    os.unlink(ballast)
    out = good("sc-log", "append", log, input=rows(200000, 100)).out
    acked += whole_lines(out)
    check(len(whole_lines(out)) == 100, "with space again", len(out), "bytes of lines")
    check(check_log(log, acked)[:len(held)] == held, "rows changed")


@lab.test
def two_appenders_when_it_gets_full(folder):
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log, "--journal-size", "256k")
    ballast = fill(disk, 3 << 20)
    acked = []
    writers = []
    for name in ("one", "two"):
        path = os.path.join(folder, name + ".in")
        with open(path, "wb") as f:
            f.write(rows(1, 40000))
        with open(path, "rb") as f:
            writers.append(Program(folder, name, "sc-log", "append", log, "--batch-rows", "200", stdin=f))
    for writer in writers:
        check(writer.wait() == 74, writer.name, "ended with", writer.process.returncode, writer.err())
        acked += whole_lines(writer.out())
    held = check_log(log, acked)
    os.unlink(ballast)
    acked += whole_lines(good("sc-log", "append", log, input=rows(1, 10)).out)
    check(check_log(log, acked)[:len(held)] == held, "rows changed")


@lab.test
def creating_on_a_full_disk(folder):
    disk = small_disk(folder, "1m")
    ballast = fill(disk)
    log = os.path.join(disk, "log")
    done = run("sc-log", "create", log)
    check(done.status in (73, 74), "status", done.status)
    check(NO_SPACE in done.err.decode(), "it says", done.err.decode())
    os.unlink(ballast)
    good("sc-log", "create", log)
    check(good("sc-log", "append", log, input=b"1\n").out == b"[1,1]\n", "it does not work afterwards")


@lab.test
def waiting_for_space(folder):
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log)
    ballast = fill(disk, 2 << 20)
    path = os.path.join(folder, "in")
    with open(path, "wb") as f:
        f.write(rows(1, 30000))
    with open(path, "rb") as f:
        writer = Program(folder, "writer", "sc-log", "append", log, "--wait-space", stdin=f)
    until(lambda: NO_SPACE in writer.err() or "space" in writer.err() or not writer.running(), "it says that it waits")
    check(writer.running(), "it ended:", writer.process.returncode, writer.err())
    before = whole_lines(writer.out())
    check_log(log, before)
    os.unlink(ballast)
    check(writer.wait() == 0, "it ended with", writer.process.returncode, writer.err())
    acked = whole_lines(writer.out())
    check(len(acked) == 30000 and acked[:len(before)] == before, len(acked), "rows were acknowledged")
    check(check_log(log, acked) == acked, "the log holds other rows")


@lab.test
def waiting_for_space_can_be_ended(folder):
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log)
    fill(disk)
    path = os.path.join(folder, "in")
    with open(path, "wb") as f:
        f.write(rows(1, 30000))
    with open(path, "rb") as f:
        writer = Program(folder, "writer", "sc-log", "append", log, "--wait-space", stdin=f)
    until(lambda: writer.err() != "" or not writer.running(), "it says that it waits")
    check(writer.running(), "it ended:", writer.process.returncode, writer.err())
    began = time.monotonic()
    status = writer.end()
    check(time.monotonic() - began < 2, "it took", time.monotonic() - began, "s to end")
    check(status in (0, 74, 128 + signal.SIGTERM), "it ended with", status)
    check_log(log, whole_lines(writer.out()))


@lab.test
def reading_without_an_index_on_a_full_disk(folder):
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log)
    acked = whole_lines(good("sc-log", "append", log, input=rows(1, 3000)).out)
    ballast = fill(disk)
    boot = {"SC_BOOT_ID": "another-boot"}
    done = run("sc-log", "read", log, env=boot)
    check(done.status in (0, 74), "status", done.status, done.err.decode())
    check(whole_lines(done.out) == (acked if done.status == 0 else []), "it read other rows")
    os.unlink(ballast)
    check(read_all(log, env=boot) == acked, "afterwards it reads other rows")
    check(check_log(log, acked) == acked, "the log holds other rows")


@lab.test
def a_limit_on_file_sizes(folder):
    log = os.path.join(folder, "log")
    good("sc-log", "create", log)

    def limit():
        # Python ignores the signal and so would what it starts: a shell would not
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run([os.path.join(BIN, "sc-log"), "append", log], input=rows(1, 30000), capture_output=True,
                          preexec_fn=limit, timeout=60, check=False)
    acked = whole_lines(done.stdout)
    check(done.returncode == 74, "it ended with", done.returncode, done.stderr.decode()[-300:])
    check(acked, "nothing was acknowledged")
    held = check_log(log, acked)
    good("sc-log", "append", log, input=rows(1, 10))
    check(check_log(log, acked)[:len(held)] == held, "rows changed")


@lab.test
def a_server_goes_on_when_it_is_full(folder):
    if not has("sc-serve"):
        raise Skip("sc-serve is not built")
    disk = small_disk(folder)
    log = os.path.join(disk, "log")
    good("sc-log", "create", log)
    acked = whole_lines(good("sc-log", "append", log, input=rows(1, 100)).out)
    ballast = fill(disk)
    ready, ready_in = os.pipe()
    server = Program(folder, "server", "sc-serve", "--listen", "127.0.0.1:0", "--ready-fd", str(ready_in), log,
                     pass_fds=(ready_in,))
    os.close(ready_in)
    try:
        word = read_ready(ready)
        check(word, "it ended:", server.err())
        url = f"ws://127.0.0.1:{word['port']}/log"
        if has("sc-sub"):
            got = whole_lines(good("sc-sub", url, "--offset", "earliest", "--count", 100).out)
            check(got == acked, "a subscriber got other rows")
        os.unlink(ballast)
        acked += whole_lines(good("sc-log", "append", log, input=rows(1, 5)).out)
        if has("sc-sub"):
            got = whole_lines(good("sc-sub", url, "--offset", "earliest", "--count", 105).out)
            check(got == acked, "afterwards a subscriber got other rows")
        check(server.end() == 0, "it ended with", server.process.returncode, server.err())
    finally:
        os.close(ready)
        server.kill()


if __name__ == "__main__":
    if not has("sc-log"):
        raise Wrong("sc-log is not built")
    lab.main()
