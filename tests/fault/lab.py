"""lab.py: what the fault tests in python share: folders, programs, what a log must be afterwards."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.realpath(os.environ.get("SC_BUILD", os.path.join(ROOT, "build")))
BIN = os.path.join(BUILD, "bin")
SHIMS = os.path.join(BUILD, "fault")
LIMIT_S = float(os.environ.get("SC_WAIT_S", "60"))


def has(program):
    return os.access(os.path.join(BIN, program), os.X_OK)


def sanitized():
    if not has("sc-log"):
        return False
    with open(os.path.join(BIN, "sc-log"), "rb") as f:
        return b"__asan_init" in f.read()


class Wrong(Exception):
    """A check that failed."""


class Skip(Exception):
    """A test that cannot be made here."""


def check(good, *words):
    if not good:
        raise Wrong(" ".join(str(w) for w in words))


def environment(more=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SC_")}
    env["PATH"] = BIN + ":" + env.get("PATH", "/usr/bin:/bin")
    env.update(more or {})
    return env


class Done:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


def run(*argv, input=b"", env=None, limit_s=LIMIT_S, ok=None):
    """Run a program of ours to its end. ok: the statuses that are good."""
    argv = [os.path.join(BIN, argv[0])] + [str(a) for a in argv[1:]]
    try:
        done = subprocess.run(argv, input=input, env=environment(env), timeout=limit_s, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
    except subprocess.TimeoutExpired as e:
        raise Wrong("hung:", " ".join(argv[:3]), env or "") from e
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    if ok is not None:
        check(status in ok, os.path.basename(argv[0]), " ".join(argv[1:]), "ended with", status,
              done.stderr.decode(errors="replace").strip()[-1500:])
    return Done(status, done.stdout, done.stderr)


def good(*argv, **kw):
    return run(*argv, ok=(0,), **kw)


def whole_lines(data):
    """The lines that ended; what a killed program had begun is no line."""
    lines = data.split(b"\n")
    lines.pop()
    return lines


def offset_of(line):
    check(line.startswith(b"[") and line.endswith(b"]"), "no line:", line[:80])
    return int(line[1:line.index(b",")])


def message_of(line):
    return line[line.index(b",") + 1:-1]


def read_all(log, *more, env=None):
    return whole_lines(good("sc-log", "read", log, *more, env=env).out)


def check_contiguous(lines, first=None):
    """Offsets rise by one; the first is FIRST."""
    last = None
    for line in lines:
        offset = offset_of(line)
        if last is None:
            check(first is None or offset == first, "it begins at", offset, "not", first)
        else:
            check(offset == last + 1, "offset", offset, "follows", last)
        last = offset
    return last


def check_acknowledged(lines, acked):
    """Each acknowledged line is there, at its offset, with its bytes."""
    held = {offset_of(line): line for line in lines}
    check(len(held) == len(lines), "an offset is there twice")
    for line in acked:
        offset = offset_of(line)
        check(offset in held, "offset", offset, "was acknowledged and is not there")
        check(held[offset] == line, "offset", offset, "reads", held[offset][:100], "but was acknowledged as", line[:100])


def verify(log, env=None):
    return good("sc-log", "verify", log, env=env)


def until(condition, what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise Wrong("not so within", limit_s, "s:", what)
        time.sleep(0.01)


def small_disk(folder, size="8m", name="disk"):
    path = os.path.join(folder, name)
    os.mkdir(path)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "sc-test", path], capture_output=True, check=False)
    if done.returncode:
        raise Skip("cannot mount a tmpfs: " + done.stderr.decode().strip())
    return path


def free(disk):
    st = os.statvfs(disk)
    return st.f_bavail * st.f_frsize


def fill(disk, leave=0):
    """A file that leaves so many bytes free."""
    path = os.path.join(disk, "ballast")
    with open(path, "ab") as f:
        while free(disk) > leave:
            try:
                os.write(f.fileno(), b"\0" * min(65536, free(disk) - leave))
            except OSError:
                break
    return path


def remove(folder):
    """A test's folder, with what the test mounted in it."""
    for name in os.listdir(folder):
        if os.path.ismount(os.path.join(folder, name)):
            subprocess.run(["umount", "-l", os.path.join(folder, name)], check=False)
    shutil.rmtree(folder, ignore_errors=True)


class Program:
    """A program in the background; its output goes to files, so that nothing of it is lost when it is killed."""

    def __init__(self, folder, name, *argv, stdin=None, env=None, pass_fds=(), preexec_fn=None):
        self.name = name
        self.out_path = os.path.join(folder, name + ".out")
        self.err_path = os.path.join(folder, name + ".err")
        argv = [os.path.join(BIN, argv[0])] + [str(a) for a in argv[1:]]
        with open(self.out_path, "ab") as out, open(self.err_path, "ab") as err:
            self.process = subprocess.Popen(argv, stdin=stdin if stdin is not None else subprocess.DEVNULL, stdout=out,
                                            stderr=err, env=environment(env), pass_fds=pass_fds, preexec_fn=preexec_fn)

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process.poll() is None

    def out(self):
        with open(self.out_path, "rb") as f:
            return f.read()

    def err(self):
        with open(self.err_path, "rb") as f:
            return f.read().decode(errors="replace")

    def signal(self, number):
        if self.running():
            self.process.send_signal(number)

    def kill(self):
        if self.running():
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def wait(self, limit_s=LIMIT_S):
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired as e:
            self.kill()
            raise Wrong(self.name, "did not end:", self.err()[-500:]) from e
        return status if status >= 0 else 128 - status

    def end(self, limit_s=LIMIT_S):
        self.signal(signal.SIGTERM)
        return self.wait(limit_s)


def read_ready(fd, limit_s=LIMIT_S):
    """The ready line of a server, as a dict; None when it ended without."""
    text = b""
    end = time.monotonic() + limit_s
    while not text.endswith(b"\n"):
        wait = end - time.monotonic()
        check(wait > 0, "a server did not become ready")
        if select.select([fd], [], [], wait)[0]:
            part = os.read(fd, 4096)
            if not part:
                return None
            text += part
    return json.loads(text)


class Lab:
    """Tests, run in order; each in an empty folder. Prints the count that tests/run.sh reads."""

    def __init__(self):
        self.tests = []

    def test(self, function):
        self.tests.append(function)
        return function

    def main(self, base=None):
        passed = failed = skipped = 0
        wanted = sys.argv[1:]
        top = tempfile.mkdtemp(prefix="sc-fault.", dir=base)
        top = os.path.realpath(top)
        for number, function in enumerate(self.tests):
            name = function.__name__
            if wanted and not any(w in name for w in wanted):
                continue
            folder = os.path.join(top, str(number))
            os.mkdir(folder)
            began = time.monotonic()
            try:
                function(folder)
                passed += 1
                print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
            except Skip as e:
                skipped += 1
                print(f"SKIP {name}: {e}", flush=True)
            except Wrong as e:
                failed += 1
                print(f"FAILED {name}: {e}", flush=True)
            except Exception:  # a fault of the test itself counts as one
                failed += 1
                print(f"FAILED {name}:", flush=True)
                traceback.print_exc(file=sys.stdout)
            if not os.environ.get("SC_KEEP"):
                remove(folder)
        if os.environ.get("SC_KEEP"):
            print("kept in", top)
        else:
            shutil.rmtree(top, ignore_errors=True)
        print(f"{os.path.basename(sys.argv[0])}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
        sys.exit(failed != 0)
