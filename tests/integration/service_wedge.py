# SPDX-License-Identifier: BSD-3-Clause
"""service_wedge.py -- what service.sh needs of ptrace and of datagrams

    service_wedge.py wedge PID          stop the thread that serves, and no other; until the process has ended
    service_wedge.py manager OUTLAST    be the manager of a server: it says ready, what it does, lives while its loop turns
"""
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
DEADLINE_S = float(os.environ.get("OUTLAST_TEST_DEADLINE_S", "60"))
ARGS = ["--model", "softmax", "--dataset", "synthetic:train=500,test=200"]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid):
    if libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def stop(pid):
    """The main thread of a server is its loop; the thread that looks after it goes on."""
    ptrace(PTRACE_SEIZE, pid)
    ptrace(PTRACE_INTERRUPT, pid)
    got, status = os.waitpid(pid, WALL)
    assert got == pid and os.WIFSTOPPED(status), status


def wedge(pid):
    stop(pid)
    print("stopped", flush=True)
    while True:
        try:
            _, status = os.waitpid(pid, WALL)
        except ChildProcessError:
            return
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            return


class Manager:
    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.end = time.monotonic() + DEADLINE_S

    def next(self, what):
        """The next datagram"""
        self.sock.settimeout(max(self.end - time.monotonic(), 0.001))
        try:
            return self.sock.recv(4096).decode()
        except TimeoutError:
            sys.exit(f"FAIL: {what}: nothing was said in {DEADLINE_S:.0f} s")

    def until(self, pattern):
        """Datagrams until one is like this; how many signs of life were among them"""
        beats = 0
        while True:
            said = self.next(pattern)
            if re.fullmatch(pattern, said):
                return beats
            beats += said == "WATCHDOG=1"


def manager(outlast):
    with tempfile.TemporaryDirectory() as folder:
        m = Manager(folder)
        address = f"@service-{os.getpid()}"
        env = dict(os.environ, NOTIFY_SOCKET=m.path, WATCHDOG_USEC="4000000")
        server = subprocess.Popen([outlast, "serve", "--listen", address, "--lease-ms", "1000", *ARGS], env=env,
                                  stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            said = m.next("ready")
            assert said == "READY=1\nSTATUS=shard 0, epoch 1, version 0, 0 workers", said
            subprocess.run([outlast, "work", "--connect", address, "--steps", "20", *ARGS], check=True,
                           stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)
            m.until("STATUS=shard 0, epoch 1, version 20, 0 workers")
            for _ in range(2):
                m.until("WATCHDOG=1")
            try:
                stop(server.pid)
            except PermissionError:
                print("no ptrace here: a loop that stands still is not tried")
                return
            # One sign a second is due; nothing but this time can show that none comes. More than one, which may tell of
            # a heartbeat before the stop, is a lie.
            time.sleep(4)
            server.send_signal(signal.SIGTERM)
            beats = m.until("STOPPING=1\nSTATUS=ends")
            assert beats <= 1, f"{beats} signs of life of a loop that stands still"
            ptrace(PTRACE_DETACH, server.pid)
            assert server.wait(DEADLINE_S) in (0, 9)
        finally:
            server.kill()


if __name__ == "__main__":
    if sys.argv[1] == "wedge":
        wedge(int(sys.argv[2]))
    else:
        manager(sys.argv[2])
