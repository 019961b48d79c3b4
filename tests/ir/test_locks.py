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
        thread = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False)))
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
import os, threading, time
from mxforge.ir.locks import Section
section, has, done = Section(), threading.Event(), []
def hold():
    with section.run(), section.run():
        has.set()
        time.sleep(0.3)
        done.append(True)
threading.Thread(target=hold).start()
has.wait()
child = os.fork()
if not child:
    with section.run():
        os._exit(0 if done else 1)
with section.run():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


def test_a_fork_waits_for_code_that_a_child_could_not_finish() -> None:
    assert in_a_child(WAIT) == 0


CROWD = """
import os, threading, time
from mxforge.ir.locks import Section
section = Section()
def work():
    while True:
        with section.run():
            time.sleep(0.01)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.003)
for _ in range(20):
    begin = time.monotonic()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert time.monotonic() - begin < 2
os._exit(0)
"""


def test_a_fork_does_not_wait_forever_for_threads_that_take_turns() -> None:
    assert in_a_child(CROWD) == 0


CYCLE = """
import os, threading
from mxforge.ir.locks import Section, await_while
section, waits, ended = Section(), threading.Event(), threading.Event()
def busy():
    waits.set()
    return not ended.is_set()
def run():  # the code that the fork waits for ends after this
    waits.wait()
    with section.run():
        ended.set()
await_while(busy)
threading.Thread(target=run).start()
if not os.fork():
    os._exit(0)
os._exit(0 if ended.is_set() else 1)
"""


def test_code_that_waits_for_another_thread_to_begin() -> None:
    assert in_a_child(CYCLE) == 0


# Ctrl-C while a fork waits for another thread.
INTERRUPT = """
import os, signal, threading, time
from mxforge.ir.locks import Section
section, has = Section(), threading.Event()
def hold():
    with section.run():
        has.set()
        time.sleep(0.2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
threading.Thread(target=hold).start()
has.wait()
parent, interrupted = os.getpid(), False
try:
    child = os.fork()
    if not child:
        time.sleep(0.5)
        os._exit(3)
    time.sleep(5)
except KeyboardInterrupt:
    interrupted = True
assert interrupted and os.getpid() == parent
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
def fork():
    with section.run():
        if not os.fork():
            os._exit(0)
    forked.set()
forked = threading.Event()
threading.Thread(target=fork, daemon=True).start()
os._exit(0 if forked.wait(10) else 1)
"""


def test_ctrl_c_during_a_fork_is_raised_after_it() -> None:
    assert in_a_child(INTERRUPT) == 0


ACQUIRED = """
import signal, sys, threading
from mxforge.ir.locks import ForkSafeLock
lock, free = ForkSafeLock(), []
signal.signal(signal.SIGALRM, signal.default_int_handler)
interrupted = 0
for number in range(3000):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 60))
        for _ in range(400):
            with lock:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    thread = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False) and not lock.release()))
    thread.start()
    thread.join()
sys.exit(0 if all(free) and interrupted > 100 else 1)
"""


def test_ctrl_c_does_not_leave_a_lock_held() -> None:
    assert in_a_child(ACQUIRED) == 0


# A thread imports without pause, and forks must find no import begun.
IMPORTS = """
import os, signal, sys, tempfile, threading, time
import mxforge
from mxforge.frontend.namespace import atomic_imports
atomic_imports._awaited.add("endless")
folder = tempfile.mkdtemp()
sys.path.insert(0, folder)
for number in range(40):
    with open(f"{folder}/endless{number}.py", "w") as file:
        file.write("value = 1")
    atomic_imports._awaited.add(f"endless{number}")
def work():
    while True:
        for number in range(40):
            __import__(f"endless{number}")
            del sys.modules[f"endless{number}"]
threading.Thread(target=work, daemon=True).start()
sys.setswitchinterval(1e-6)
for _ in range(150):
    child = os.fork()
    if not child:
        signal.alarm(10)
        for number in range(40):
            __import__(f"endless{number}")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


def test_no_import_begins_while_a_process_forks() -> None:
    assert in_a_child(IMPORTS) == 0


# A thread imports and pauses at each line where Python acquires or releases a module's lock.
SLOW_IMPORTS = """
import os, signal, sys, tempfile, threading, time
import mxforge
from mxforge.frontend.namespace import atomic_imports
atomic_imports._awaited.add("slow")
folder = tempfile.mkdtemp()
sys.path.insert(0, folder)
with open(f"{folder}/slow.py", "w") as file:
    file.write("value = 1")
def pause(frame, event, argument):
    code = frame.f_code
    if code.co_filename != "<frozen importlib._bootstrap>" or code.co_name not in ("acquire", "release"):
        return None
    time.sleep(0.001)
    return pause
def work():
    sys.settrace(pause)
    while True:
        __import__("slow")
        del sys.modules["slow"]
threading.Thread(target=work, daemon=True).start()
for _ in range(25):
    child = os.fork()
    if not child:
        signal.alarm(5)
        __import__("slow")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.001)
os._exit(0)
"""


def test_a_fork_waits_while_a_module_lock_changes_hands() -> None:
    assert in_a_child(SLOW_IMPORTS) == 0


# The main thread delays Ctrl-C while it waits for the fork of another thread, which must leave that alone.
TWO_THREADS = """
import os, signal, threading, time
from mxforge.ir.locks import await_while
def busy():
    time.sleep(0.002)
    return False
await_while(busy)
def fork():
    for _ in range(30):
        if not os.fork():
            os._exit(0)
threads = [threading.Thread(target=fork) for _ in range(2)]
for thread in threads:
    thread.start()
fork()
for thread in threads:
    thread.join()
os._exit(0 if signal.getsignal(signal.SIGINT) is signal.default_int_handler else 1)
"""


def test_several_threads_fork() -> None:
    assert in_a_child(TWO_THREADS) == 0


# Ctrl-C has left the lock of imports locked by the main thread, and another thread forks.
LEFT_LOCKED = """
import _imp, os, threading, time
from mxforge.ir.locks import Section
section, forks = Section(), threading.Event()
def fork():
    forks.set()
    if not os.fork():
        os._exit(0)
_imp.acquire_lock()
thread = threading.Thread(target=fork)
thread.start()
forks.wait()
time.sleep(0.2)
with section.run():
    pass
thread.join()
os._exit(_imp.lock_held())
"""


def test_a_section_begins_while_another_thread_waits_for_the_lock_of_imports() -> None:
    assert in_a_child(LEFT_LOCKED) == 0
