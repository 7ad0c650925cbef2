"""inject.py: each write, sync, rename, open and allocation of sc-log fails in turn.

Goal    no crash and no hang; the right exit status, with one line that says why; what was acknowledged is there, what was not is
        whole or absent; the log works again as soon as the failure is over.
Method  for each command and each kind of call fail the first, the second, ... until the command no longer reaches it. SC_FAULT fails
        calls in lib/; fail.so (preloaded) fails them below the libraries too. A few fail for ever from the Nth on.
"""

import errno
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from lab import (BIN, SHIMS, Lab, check, check_acknowledged, check_contiguous, good, message_of, offset_of, read_all,  # noqa: E402
                 run, sanitized, verify, whole_lines)

lab = Lab()
ROWS_BEFORE = 40
FAILURES = {"write": errno.ENOSPC, "sync": errno.EIO, "open": errno.EMFILE, "rename": errno.EIO, "unlink": errno.EIO,
            "mmap": errno.ENOMEM, "malloc": errno.ENOMEM}
OURS = {"write": "ENOSPC", "pwrite": "ENOSPC", "fdatasync": "EIO", "fsync": "EIO", "rename": "EIO", "unlink": "EIO",
        "malloc": "ENOMEM"}
# the n-th call does not fail and all went well: as often in a row before a sweep is over
QUIET = 6
N_MAX = 400


def rows(first, count, size=60):
    return b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * size) for n in range(first, first + count))


def asan_options():
    old = os.environ.get("ASAN_OPTIONS", "")
    return {"ASAN_OPTIONS": old + (":" if old else "") + "verify_asan_link_order=0"}


class Fault:
    """One way to make a call fail, and whether it did."""

    def __init__(self, kind, folder, log, call, n, plus=""):
        self.name = f"{kind} {call}:{n}{plus}"
        self.fired_path = None
        if kind == "lib":
            self.env = {"SC_FAULT": f"{call}:{n}{plus}:{OURS[call]}"}
        else:
            self.fired_path = os.path.join(folder, "fired")
            if os.path.exists(self.fired_path):
                os.unlink(self.fired_path)
            shim = "failmalloc.so" if call == "malloc" else "fail.so"
            self.env = {"LD_PRELOAD": os.path.join(SHIMS, shim), **asan_options(),
                        "SC_FAIL": f"{call}:{n}{plus}:{FAILURES[call]}:{log}:{self.fired_path}"}

    def fired(self, status):
        return os.path.exists(self.fired_path) if self.fired_path else status != 0


def check_words(done, fault):
    """One line that says what is wrong."""
    lines = done.err.decode().splitlines()
    check(len(lines) >= 1 and lines[-1].startswith("sc-log: "), fault.name, "status", done.status, "says", lines)


def check_after(log, before, acked, sent, fault, floor=1):
    """BEFORE and ACKED are there; the rest are rows of SENT, in order; the log goes on."""
    lines = read_all(log)
    last = check_contiguous(lines, floor)
    check_acknowledged(lines, [line for line in before + acked if offset_of(line) >= floor])
    check_sent(lines, before, sent, fault)
    verify(log)
    # a row on disk that was not acknowledged may still appear here, whole: the appender looks behind the index
    out = good("sc-log", "append", log, input=b'{"after":1}\n').out
    lines = read_all(log)
    check(check_contiguous(lines, floor) >= last + 1, fault.name, "then it does not go on")
    check([lines.pop()] == whole_lines(out), fault.name, "then it goes on with", out[:80])
    check_acknowledged(lines, [line for line in before + acked if offset_of(line) >= floor])
    check_sent(lines, before, sent, fault)
    verify(log)


def check_sent(lines, before, sent, fault):
    messages = [message_of(line) for line in lines if offset_of(line) > len(before)]
    check(messages == sent[:len(messages)], fault.name, "rows there are others than were sent:", messages[-1:])


def new_log(folder, name, *settings):
    log = os.path.join(folder, name)
    good("sc-log", "create", log, *settings)
    return log, whole_lines(good("sc-log", "append", log, input=rows(1, ROWS_BEFORE)).out)


def sweep(folder, calls, attempt, plus=("",)):
    """attempt(folder, name, make_fault) -> the Done and the Fault, after all checks."""
    made = 0
    for kind, call in calls:
        for more in plus:
            quiet = 0
            for n in range(1, N_MAX):
                done, fault = attempt(folder, f"log-{kind}-{call}-{n}{more}", kind, call, n, more)
                made += 1
                check(done.status in (0, 70, 73, 74, 75), fault.name, "ended with", done.status,
                      done.err.decode(errors="replace")[-2000:])
                if done.status != 0:
                    check_words(done, fault)
                if fault.fired(done.status):
                    quiet = 0
                elif fault.fired_path:
                    break
                else:
                    quiet += 1
                    if quiet == QUIET:
                        break
    return made


def all_calls():
    calls = [("lib", c) for c in OURS] + [("libc", c) for c in FAILURES]
    if sanitized():  # its allocator is the sanitizer's own
        calls.remove(("libc", "malloc"))
    return calls


def appending(input, *settings, more=()):
    sent = [line for line in input.split(b"\n") if line]

    def attempt(folder, name, kind, call, n, plus):
        log, before = new_log(folder, name, *settings)
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "append", log, *more, input=input, env=fault.env)
        acked = whole_lines(done.out)
        if done.status == 0:
            check(len(acked) == len(sent), fault.name, "status 0 and", len(acked), "of", len(sent), "acknowledged")
        check_after(log, before, acked, sent, fault)
        return done, fault

    return attempt


@lab.test
def append_one_row(folder):
    sweep(folder, all_calls(), appending(rows(1000, 1)))


@lab.test
def append_with_all_later_calls_failing(folder):
    sweep(folder, [c for c in all_calls() if c[1] != "malloc"], appending(rows(1000, 3)), plus=("+",))


@lab.test
def append_a_commit_of_several_blocks(folder):
    calls = [c for c in all_calls() if c[1] in ("pwrite", "write", "fdatasync", "sync")]
    sweep(folder, calls, appending(rows(1000, 80, 8000)))


@lab.test
def append_into_new_journals(folder):
    calls = [c for c in all_calls() if c[1] not in ("malloc", "mmap")]
    sweep(folder, calls, appending(rows(1000, 60, 100), "--journal-size", "4k", more=("--batch-rows", "20")))


@lab.test
def append_from_a_source(folder):
    pairs = b"".join(b'[%d,{"s":%d}]\n' % (n, n) for n in range(7, 12))
    sent = [b'{"s":%d}' % n for n in range(7, 12)]

    def attempt(folder, name, kind, call, n, plus):
        log, before = new_log(folder, name)
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "append", log, "--source", "src", "--batch-rows", "2", input=pairs, env=fault.env)
        lines = read_all(log)
        check_contiguous(lines, 1)
        check_acknowledged(lines, before + whole_lines(done.out))
        kept = [message_of(line) for line in lines[ROWS_BEFORE:]]
        check(kept == sent[:len(kept)], fault.name, "kept", kept)
        stands = run("sc-log", "source", log, "src")
        at = int(stands.out) if stands.out.strip() else 0
        check(at == (6 + len(kept) if kept else 0), fault.name, "the source stands at", at, "with", len(kept), "rows")
        return done, fault

    sweep(folder, [c for c in all_calls() if c[1] in ("pwrite", "write", "fdatasync", "sync", "malloc")], attempt)


@lab.test
def create(folder):
    def attempt(folder, name, kind, call, n, plus):
        log = os.path.join(folder, name)
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "create", log, env=fault.env)
        if done.status != 0:
            again = run("sc-log", "create", log)
            made = run("sc-log", "info", log).status == 0
            check(made, fault.name, "then create says", again.status, again.err.decode()[-300:])
        out = good("sc-log", "append", log, input=b'{"a":1}\n').out
        check(out == b'[1,{"a":1}]\n', fault.name, "then the first row is", out)
        verify(log)
        return done, fault

    sweep(folder, all_calls(), attempt)


@lab.test
def trim(folder):
    def attempt(folder, name, kind, call, n, plus):
        log = os.path.join(folder, name)
        good("sc-log", "create", log, "--journal-size", "4k")
        before = []
        for i in range(6):
            before += whole_lines(good("sc-log", "append", log, input=rows(20 * i, 20, 150)).out)
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "trim", log, "--before", 70, env=fault.env)
        lines = read_all(log)
        first = offset_of(lines[0])
        check(first in (1, 70), fault.name, "it begins at", first)
        check(first == 70 or done.status != 0, fault.name, "status 0 and nothing trimmed")
        check_after(log, before, [], [], fault, first)
        good("sc-log", "trim", log, "--before", 75)
        check_contiguous(read_all(log), 75)
        verify(log)
        return done, fault

    sweep(folder, all_calls(), attempt)


@lab.test
def reindex(folder):
    def attempt(folder, name, kind, call, n, plus):
        log, before = new_log(folder, name, "--journal-size", "4k")
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "reindex", log, env=fault.env)
        check_after(log, before, [], [], fault)
        return done, fault

    sweep(folder, all_calls(), attempt)


@lab.test
def the_first_append_after_a_power_cut(folder):
    def attempt(folder, name, kind, call, n, plus):
        log, before = new_log(folder, name)
        fault = Fault(kind, folder, log, call, n, plus)
        done = run("sc-log", "append", log, input=rows(1000, 2), env={**fault.env, "SC_BOOT_ID": "another-boot"})
        check_after(log, before, whole_lines(done.out), [line for line in rows(1000, 2).split(b"\n") if line], fault)
        return done, fault

    sweep(folder, all_calls(), attempt)


@lab.test
def reading(folder):
    log, before = new_log(folder, "log")
    for command in (("read", log), ("info", log), ("verify", log)):
        def attempt(folder, _name, kind, call, n, plus, command=command):
            fault = Fault(kind, folder, log, call, n, plus)
            done = run("sc-log", *command, env=fault.env)
            if command[0] == "read":
                got = whole_lines(done.out)
                check(got == before[:len(got)], fault.name, "read", len(got), "lines, not all of them right")
                check(done.status != 0 or len(got) == len(before), fault.name, "status 0 and", len(got), "lines")
            return done, fault

        sweep(folder, all_calls(), attempt)
    check(read_all(log) == before, "reading changed the log")
    check_after(log, before, [], [], Fault("lib", folder, log, "write", 1))


if __name__ == "__main__":
    check(os.access(os.path.join(BIN, "sc-log"), os.X_OK), "sc-log is not built")
    lab.main("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
