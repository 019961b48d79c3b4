"""Forks while other threads compile or import: the child processes can compute."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import run_apart

# A thread is stopped during a call of LLVM or an import, until the fork waits for it, for at most two seconds. If forks
# did not wait, the child would start then and hang.
PREPARE = """
import os, signal, sys, threading
import mxforge as mx
amid, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)
def stop(*_):
    if threading.current_thread() is not threading.main_thread():
        amid.set()
        forking.wait(2)
"""
COMPILING = """
from llvmlite.binding import ffi
def work():
    mx.nd.ones((2, 3), dtype="float16").sum()  # the libraries of the package have no kernels of float16
ffi.register_lock_callback(stop, lambda: None)
"""
COMPILING_MODULES = """
from llvmlite.binding import ffi
def work():
    net = mx.gluon.nn.Conv2D(3, 3, in_channels=8)
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 8, 9, 9)))
ffi.register_lock_callback(stop, lambda: None)
"""
IMPORTING = """
class Stop:
    def find_spec(self, fullname, path=None, target=None):
        if fullname == {module!r}:
            stop()
sys.meta_path.insert(0, Stop())
def work():
    mx.nd.ones((2, 3), dtype="float16").sum()
"""
TRACING = """
net = mx.gluon.nn.Dense(3, in_units=4)
net.initialize()
net.hybridize()
from mxforge.passes import fuse
fuse_all = fuse.Fuse.run
def run(self, *args):
    stop()
    return fuse_all(self, *args)
fuse.Fuse.run = run
def work():
    net(mx.nd.ones((2, 4)))
"""
RECORDING = TRACING.replace("    net(", "    with mx.autograd.record():\n        net(")
FORK = """
thread = threading.Thread(target=work)
thread.start()
assert amid.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    work()
    mx.nd.ones((4, 3)).max(axis=1)
    os._exit(0)
work()
thread.join()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 0, status
"""
AMID = {
    "compiling": COMPILING,
    "compiling several modules": COMPILING_MODULES,
    "llvm's import": IMPORTING.format(module="llvmlite.binding"),
    "numpy's import": IMPORTING.format(module="numpy.linalg"),
    "an import of ours": IMPORTING.format(module="mxforge.codegen.assemble"),
    "tracing": TRACING,
    "a first recorded call": RECORDING,
}


@pytest.mark.parametrize("work", AMID)
def test_a_child_forked_while_another_thread_works_computes_too(work: str, tmp_path: Path) -> None:
    code = PREPARE + AMID[work] + FORK
    run_apart(code, tmp_path, warnings="ignore")


CROWD = """
import os, signal, threading
import mxforge as mx
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(3, in_units=4, activation="relu"), mx.gluon.nn.Dense(2, in_units=3))
net.initialize(mx.init.One())
net.hybridize()
def check(rows):
    assert (net(mx.nd.ones((rows, 4))).asnumpy() == 12).all()
def work(first):
    for rows in range(first, first + 8):
        check(rows)
        begun.set()
begun = threading.Event()
threads = [threading.Thread(target=work, args=(first,)) for first in (1, 1, 5)]
for thread in threads:
    thread.start()
assert begun.wait(60)
children = []
for number in range(8):
    child = os.fork()
    if not child:
        signal.alarm(60)
        check(number + 1)
        check(100 + number)
        os._exit(0)
    children.append(child)
for thread in threads:
    thread.join()
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
"""


def test_forks_while_threads_call_one_block_with_new_shapes(tmp_path: Path) -> None:
    run_apart(CROWD, tmp_path, warnings="ignore")


# Threads make the first recorded calls of their own networks, the process forks meanwhile, and so do the children.
TRAINING = """
import os, random, signal, threading
import mxforge as mx
def step(width, rows):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(width, in_units=4, activation="tanh"), mx.gluon.nn.Dense(1, in_units=width))
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.ones((rows, 4))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert x.grad.shape == (rows, 4) and (y.asnumpy() > 0).all()
def work(seed):
    draw = random.Random(seed)
    while not ended.is_set():
        step(draw.randrange(1, 40), draw.randrange(1, 9))
        begun.set()
begun, ended = threading.Event(), threading.Event()
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
assert begun.wait(60)
children = []
for number in range({forks}):
    child = os.fork()
    if not child:
        signal.alarm(30)
        step(40 + number, 3)
        os._exit(0)
    children.append(child)
    step(100 + number, 2)
ended.set()
for thread in threads:
    thread.join()
assert [os.waitpid(child, 0)[1] for child in children] == [0] * {forks}
"""


def test_forks_amid_first_recorded_calls(tmp_path: Path) -> None:
    run_apart(TRAINING.format(forks=6), tmp_path, warnings="ignore")


TOGETHER = """
import threading, time
import mxforge as mx
from mxforge.codegen import driver
from mxforge.runtime import derivative
from mxforge.runtime.compile import hash_of
noted = []
def noting(function):
    def run(graph, *args):
        noted.append((function.__name__, hash_of(graph)))
        time.sleep(0.02)  # other threads run
        return function(graph, *args)
    return run
driver.compile_graph = noting(driver.compile_graph)
derivative.training_graphs = noting(derivative.training_graphs)
net = mx.gluon.nn.Dense(3, in_units=4)
net.initialize()
net.hybridize()
gate = threading.Barrier(6)
def work():
    gate.wait()
    with mx.autograd.record():
        y = net(mx.nd.ones((2, 4))).sum()
    y.backward()
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(noted) == len(set(noted)) and {name for name, _ in noted} == {"compile_graph", "training_graphs"}, noted
"""


def test_first_recorded_calls_of_threads_compile_once(tmp_path: Path) -> None:
    run_apart(TOGETHER, tmp_path)


# What Ctrl-C leaves behind if it is pressed while the main thread waits for a lock of Python's imports.
LEFT_LOCKED = """
import _imp, os, signal, threading, time
import mxforge as mx
_imp.acquire_lock()
thread = threading.Thread(target=lambda: mx.nd.ones((2, 3)).sum())
thread.start()
time.sleep(0.3)  # the thread waits for the lock
child = os.fork()
if not child:
    signal.alarm(20)
    thread = threading.Thread(target=lambda: mx.nd.ones((2, 3)).max())
    thread.start()
    thread.join()
    os._exit(0)
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_fork_releases_the_lock_of_imports_that_ctrl_c_left_locked(tmp_path: Path) -> None:
    run_apart(LEFT_LOCKED, tmp_path, warnings="ignore")


OF_A_MODULE = """
import os, threading
from importlib import _bootstrap
import mxforge
lock = _bootstrap._get_module_lock("mxforge.unknown")
lock.acquire()
def fork():
    if not os.fork():
        os._exit(0)
    os.wait()
    forked.set()
forked = threading.Event()
threading.Thread(target=fork, daemon=True).start()
os._exit(0 if forked.wait(10) else 1)
"""


def test_a_fork_does_not_wait_for_an_import_that_ctrl_c_ended(tmp_path: Path) -> None:
    run_apart(OF_A_MODULE, tmp_path, warnings="ignore")
