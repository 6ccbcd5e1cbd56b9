"""A worker that writes what it sees to $PROBE_DIR and does what its arguments say.

An argument ACTION=VALUE, ACTION=VALUE@RANK,... or ACTION=VALUE@RANK#RESTART is done in
its turn, and only by these ranks and in this attempt. Other arguments mean nothing. The
actions from "meet" on wait until all workers of the attempt have come so far.
"""

import json
import os
import re
import signal
import sys
import time

RANK = os.environ["RANK"]
RESTART = os.environ["TORCHELASTIC_RESTART_COUNT"]
LIMIT = 180  # seconds; no worker outlives its test


def say(text):
    os.write(1, f"{text}\n".encode())  # in one piece, unlike print


def err(text):
    os.write(2, f"probe: {text}\n".encode())


def exit(code):
    sys.stdout.flush()
    os._exit(int(code))


def leave(text):
    """Leaves by sys.exit, which takes a text, too."""
    sys.exit(text)


def kill(number):
    os.kill(os.getpid(), int(number))
    time.sleep(LIMIT)


def killall(number):
    """Kills all workers while the launcher stands still, so that it sees them end at once."""
    pids = []
    for name in seen():
        with open(os.path.join(os.environ["PROBE_DIR"], name)) as f:
            pids.append(json.load(f)["pid"])
    launcher = os.getppid()
    if os.fork() == 0:
        os.setsid()
        os.kill(launcher, signal.SIGSTOP)
        for pid in sorted(pids):
            os.kill(pid, int(number))
            while alive(pid):
                time.sleep(0.001)
        os.kill(launcher, signal.SIGCONT)
        os._exit(0)
    time.sleep(LIMIT)


def alive(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] not in "ZX"


def fail(text):
    raise RuntimeError(text)


def record(text):
    from torch.distributed.elastic.multiprocessing.errors import record

    record(fail)(text)


def file(text):
    """Writes an error file as it is."""
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
        f.write(text)


def write(text):
    file(text)
    exit(1)


def sleep(seconds):
    time.sleep(min(float(seconds), LIMIT))


def trap(code):
    """Makes SIGTERM, SIGINT and SIGHUP end the worker with a code of its own."""
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, lambda *_: exit(code))


def ignore(number):
    signal.signal(int(number), signal.SIG_IGN)


def child(seconds):
    """Starts a process that is to end with the worker."""
    if os.fork() == 0:
        sleep(seconds)
        os._exit(0)


def bytes(text):
    """Writes bytes that are no text, and a line without an end."""
    os.write(1, text.encode() + b"\xff\x00\n" + text.encode())


def meet(_=None):
    deadline = time.monotonic() + LIMIT
    while len(seen()) < int(os.environ["WORLD_SIZE"]) and time.monotonic() < deadline:
        time.sleep(0.01)


EARLY = {f.__name__: f for f in (say, err, trap, ignore, child, bytes, file)}
LATE = {f.__name__: f for f in (meet, exit, leave, kill, killall, fail, record, write, sleep)}


def seen():
    """Lists the records of this attempt."""
    return [n for n in os.listdir(os.environ["PROBE_DIR"]) if n.endswith("." + RESTART + ".json")]


def note():
    """Writes what this worker sees, whole or not at all."""
    sees = {
        "pid": os.getpid(),
        "env": dict(os.environ),
        "argv": sys.argv,
        "command": getattr(sys, "orig_argv", sys.argv),
        "name": __name__,
        "cwd": os.getcwd(),
        "stdin": os.readlink("/proc/self/fd/0"),
        "mask": open("/proc/self/status").read().split("SigIgn:")[1].split()[0],
    }
    path = os.path.join(os.environ["PROBE_DIR"], f"{RANK}.{RESTART}.json")
    with open(path + ".new", "w") as f:
        json.dump(sees, f)
    os.rename(path + ".new", path)


def main():
    note()
    met = False
    for arg in sys.argv[1:]:
        m = re.fullmatch(r"([a-z]+)=(.*?)(?:@([\d,]+))?(?:#(\d+))?", arg, re.S)
        if not m or m[1] not in EARLY.keys() | LATE.keys():
            continue
        if m[1] in LATE and not met:
            met = True
            meet()
        if (m[3] is None or RANK in m[3].split(",")) and (m[4] is None or RESTART == m[4]):
            (EARLY.get(m[1]) or LATE[m[1]])(m[2])
    sys.stdout.flush()


if __name__ == "__main__":
    main()
