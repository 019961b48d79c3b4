"""Locks and forks: in a child locks are free, except those that the forking thread holds; forks wait where needed."""

from __future__ import annotations

import subprocess
import sys


def in_a_child(work: str) -> int:
    """The exit status of a fresh interpreter that runs `work`; it is killed if it hangs."""
    return subprocess.run([sys.executable, "-W", "ignore", "-c", work], timeout=60, check=False).returncode


ACQUIRE = """
import os, signal, threading
from mxforge.ir.locks import ForkSafeLock
lock, has = ForkSafeLock(), threading.Event()
def hold():
    with lock:
        has.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
has.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    with lock:
        os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


def test_a_child_finds_the_lock_free() -> None:
    assert in_a_child(ACQUIRE) == 0


KEEP = """
import os, threading
from mxforge.ir.locks import ForkSafeLock
lock = ForkSafeLock()
with lock:
    child = os.fork()
    if not child:
        free = []
        thread = threading.Thread(target=lambda: free.append(lock._lock.acquire(blocking=False)))
        thread.start()
        thread.join()
if not child:
    with lock:
        os._exit(free[0])
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


def test_a_child_keeps_the_locks_of_the_thread_that_forked() -> None:
    assert in_a_child(KEEP) == 0


WAIT = """
import os, threading
from mxforge.ir.locks import ForkSafeLock, await_at_fork
class Noting(ForkSafeLock):
    def __enter__(self):
        requested.set()
        super().__enter__()
requested, has, done = threading.Event(), threading.Event(), []
lock = await_at_fork(Noting())
def hold():
    with lock:
        requested.clear()
        has.set()
        requested.wait()  # until the fork requests the lock
        done.append(True)
threading.Thread(target=hold).start()
has.wait()
child = os.fork()
if not child:
    with lock:
        os._exit(0 if done else 1)
with lock:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


def test_a_fork_waits_for_a_lock_that_a_child_cannot_repair() -> None:
    assert in_a_child(WAIT) == 0
