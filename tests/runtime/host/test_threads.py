"""The thread pool: every element is processed once for any split; nesting, concurrent callers, forks, exits, and idle
workers that sleep.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.pool import MOST_CHUNKS_OF_FEW
from mxforge.codegen.records import PIECES
from mxforge.runtime.host.loader import LoadedObject, load_object
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.host.threads import RECORD_BYTES, ThreadPool, get_num_threads, get_pool, set_num_threads
from mxforge.tools.profile.thread_model import chunk_sizes

pytestmark = pytest.mark.any_processor

# touch: a[i] += 1 for i in [begin, end), and the worker's cell of b counts its chunks.
# meet: returns when a second chunk has started, so two threads must take part.
# begins: stores the first index of each chunk at a[begin].
# order: stores 2 * (how many chunks began before) + the worker at a[begin], for chunks of one element.
# nest: runs the b records at a from inside a chunk.
# slow: some milliseconds of work for each chunk, then touch.
KERNELS = """
declare void @mxf_run(ptr, i64)
define void @touch(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %a = load ptr, ptr %arguments
  %p = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %p
  %cell = getelementptr i64, ptr %b, i32 %worker
  %old = atomicrmw add ptr %cell, i64 1 seq_cst
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %e = getelementptr i64, ptr %a, i64 %i
  %x = load i64, ptr %e
  %y = add i64 %x, 1
  store i64 %y, ptr %e
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}
define void @meet(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %a = load ptr, ptr %arguments
  %old = atomicrmw add ptr %a, i64 1 seq_cst
  %goal = or i64 %old, 1
  br label %wait
wait:
  %now = load atomic i64, ptr %a seq_cst, align 8
  %met = icmp ugt i64 %now, %goal
  br i1 %met, label %exit, label %wait
exit:
  ret void
}
define void @begins(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
  %a = load ptr, ptr %arguments
  %e = getelementptr i64, ptr %a, i64 %begin
  %size = sub i64 %end, %begin
  store i64 %size, ptr %e
  ret void
}
define void @order(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
  %a = load ptr, ptr %arguments
  %p = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %p
  %ticket = atomicrmw add ptr %b, i64 2 seq_cst
  %id = zext i32 %worker to i64
  %value = add i64 %ticket, %id
  %e = getelementptr i64, ptr %a, i64 %begin
  store i64 %value, ptr %e
  ret void
}
define void @nest(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
  %a = load ptr, ptr %arguments
  %p = getelementptr ptr, ptr %arguments, i64 1
  %b = load i64, ptr %p
  call void @mxf_run(ptr %a, i64 %b)
  ret void
}
define void @slow(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %place = alloca i64
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %head]
  %cell = phi i64 [0, %entry], [%mixed, %head]
  %mixed = add i64 %cell, %i
  store volatile i64 %mixed, ptr %place
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 3000000
  br i1 %more, label %head, label %exit
exit:
  call void @touch(ptr %arguments, i64 %begin, i64 %end, i32 %worker)
  ret void
}
"""

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
Launch = tuple[int, int, int, int]


class Records:
    """Launch records in memory."""

    def __init__(self, *launches: Launch) -> None:
        self.slots = np.array(launches, np.int64)
        self.address, self.count = int(self.slots.ctypes.data), len(launches)

    def run(self, pool: ThreadPool) -> None:
        pool.run(self.address, self.count)


class Cells:
    """Two arrays of i64 and the arguments of a kernel that point to them."""

    def __init__(self, size: int) -> None:
        self.a, self.b = np.zeros(size, np.int64), np.zeros(2048, np.int64)
        self.slots = np.array([self.a.ctypes.data, self.b.ctypes.data], np.int64)
        self.address = int(self.slots.ctypes.data)


@pytest.fixture(scope="module")
def pool() -> ThreadPool:
    return get_pool()


@pytest.fixture(autouse=True)
def two_threads(pool: ThreadPool) -> Iterator[None]:
    """Two threads in each test, also on a machine with one core."""
    before = pool.threads
    pool.resize(2)
    yield
    pool.resize(before)


@pytest.fixture(scope="module")
def kernels(pool: ThreadPool) -> LoadedObject:
    known = {"mxf_run": pool.run_address}
    return load_object(compile_object(KERNELS, host_target(), optimize=0), lambda name: known.get(name, 0))


SPLITS = [(0, 1), (1, 1), (2, 1), (3, 1), (17, 5), (64, 64), (1000, 1), (5000, 7), (99_991, 1)]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(("count", "grain"), SPLITS)
def test_every_element_is_processed_once(
    pool: ThreadPool, kernels: LoadedObject, threads: int, count: int, grain: int
) -> None:
    pool.resize(threads)
    cells = Cells(count + 1)
    Records((kernels.address("touch"), cells.address, count, grain)).run(pool)
    assert (cells.a[:count] == 1).all()
    assert cells.a[count] == 0
    assert cells.b[threads:].sum() == 0


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize(("count", "grain"), [(2, 1), (7, 3), (100, 1), (30_000, 1000), (1_000_003, 4096)])
def test_chunks_are_balanced_and_not_below_the_share_of_few_threads(
    pool: ThreadPool, kernels: LoadedObject, threads: int, count: int, grain: int
) -> None:
    pool.resize(threads)
    cells = Cells(count)
    Records((kernels.address("begins"), cells.address, count, grain)).run(pool)
    starts = np.flatnonzero(cells.a)
    sizes = cells.a[starts]
    assert sizes.sum() == count
    assert sizes.tolist() == chunk_sizes(count, grain, threads)
    assert (starts == np.cumsum(sizes) - sizes).all()
    assert len(sizes) <= max(8 * threads, 32)
    assert len(sizes) < threads or len(sizes) % threads == 0
    unit = 64 if count // len(sizes) >= 1024 else 1
    assert int(sizes[:-1].min(initial=count)) > grain * threads / 8 - unit
    assert int(sizes[:-1].max(initial=0) - sizes[:-1].min(initial=1 << 40)) <= unit
    assert (starts % unit == 0).all()


def test_threads_take_their_half_and_then_the_end_of_the_other(pool: ThreadPool, kernels: LoadedObject) -> None:
    """A repeated launch takes the chunks in the opposite order."""
    count = MOST_CHUNKS_OF_FEW
    other, first, again = Cells(count), Cells(count), Cells(count)
    Records((kernels.address("touch"), other.address, count, 1)).run(pool)
    order = kernels.address("order")
    Records((order, first.address, count, 1), (order, again.address, count, 1)).run(pool)
    halves = list(range(count // 2)), list(range(count // 2, count))
    for cells, step in ((first, 1), (again, -1)):
        taken: list[list[int]] = [[], []]
        for chunk in np.argsort(cells.a).tolist():
            taken[cells.a[chunk] % 2].append(chunk)
        for worker, chunks in enumerate(taken):
            home, away = halves[worker][::step], halves[1 - worker][::step]
            own = [c for c in chunks if c in home]
            assert own == home[: len(own)]
            assert chunks == own + away[::-1][: len(chunks) - len(own)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_pieces_of_several_launches_run_once(pool: ThreadPool, kernels: LoadedObject, threads: int) -> None:
    pool.resize(threads)
    tables = [Cells(n) for n in (1, 50, 700, 3)]
    parts = [(t, i, min(i + 7, len(t.a))) for t in tables for i in range(0, len(t.a), 7)]
    pieces = Records(*[(kernels.address("touch"), t.address, begin, end) for t, begin, end in parts])
    Records((pool.kernels[PIECES], pieces.address, pieces.count, 1)).run(pool)
    assert all((t.a == 1).all() for t in tables)
    assert sum(int(t.b.sum()) for t in tables) == len(parts)


@pytest.mark.parametrize("nbytes", [0, 1, 70_000, 3_000_001])
def test_memory_is_copied_by_all_threads(pool: ThreadPool, nbytes: int) -> None:
    source = np.random.default_rng(nbytes).integers(0, 256, nbytes + 1, np.uint8)
    target = np.zeros(nbytes + 1, np.uint8)
    pool.copy(target.ctypes.data, source.ctypes.data, nbytes)
    assert (target[:nbytes] == source[:nbytes]).all() and target[nbytes] == 0


def test_small_launch_is_one_call_on_the_caller(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = Cells(100)
    Records((kernels.address("touch"), cells.address, 100, 100)).run(pool)
    assert (cells.b[0], cells.b[1:].sum()) == (1, 0)


def test_launches_run_in_order(pool: ThreadPool, kernels: LoadedObject) -> None:
    """Launches on the same elements: without a join between them, increments would be lost."""
    cells = Cells(4000)
    Records(*[(kernels.address("touch"), cells.address, 4000, 10)] * 300).run(pool)
    assert (cells.a == 300).all()


def test_two_threads_take_part(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = Cells(1)
    Records(*[(kernels.address("meet"), cells.address, 2, 1)] * 200).run(pool)
    once = Records((kernels.address("meet"), cells.address, 2, 1))
    pool.run_holding_gil(once.address, once.count)
    assert cells.a[0] == 402


def test_sleeping_worker_is_woken(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = Cells(1)
    for _ in range(5):
        time.sleep(0.005)
        Records((kernels.address("meet"), cells.address, 2, 1)).run(pool)
    assert cells.a[0] == 10


def test_caller_that_sleeps_is_woken(pool: ThreadPool, kernels: LoadedObject) -> None:
    """Chunks take far longer than the caller spins."""
    cells = Cells(3)
    Records((kernels.address("slow"), cells.address, 3, 1)).run(pool)
    assert (cells.a == 1).all()


def test_nested_run_is_serial(pool: ThreadPool, kernels: LoadedObject) -> None:
    inner_cells = [Cells(1000) for _ in range(8)]
    inner = [Records((kernels.address("touch"), cells.address, 1000, 1)) for cells in inner_cells]
    for records, cells in zip(inner, inner_cells, strict=True):
        arguments = np.array([records.address, records.count], np.int64)
        outer = Records((kernels.address("nest"), int(arguments.ctypes.data), 2, 1))
        outer.run(pool)
        assert (cells.a >= 1).all()  # two chunks run at once: increments may be lost
        assert cells.b.sum() == 2
        assert cells.b[0] == 2


def test_concurrent_callers(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = [Cells(3000) for _ in range(4)]

    def work(mine: Cells) -> None:
        records = Records((kernels.address("touch"), mine.address, 3000, 100))
        for _ in range(500):
            records.run(pool)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in cells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((mine.a == 500).all() for mine in cells)


@pytest.mark.parametrize(("threads", "chunks"), [(2, 1), (3, 6)])
def test_launches_are_shared_only_with_cores_that_no_caller_uses(pool: ThreadPool, threads: int, chunks: int) -> None:
    """A second caller runs a launch alone during the second of three launches."""
    pool.resize(threads)
    holding, release = threading.Event(), threading.Event()
    taken: list[tuple[int, int]] = []

    @KERNEL
    def hold(arguments: int, begin: int, end: int, worker: int) -> None:
        assert (begin, end) == (0, 8)
        holding.set()
        release.wait(10)

    @KERNEL
    def await_second(arguments: int, begin: int, end: int, worker: int) -> None:
        if begin == 0:
            second.start()
        assert holding.wait(10)

    @KERNEL
    def take(arguments: int, begin: int, end: int, worker: int) -> None:
        taken.append((begin, end))

    def launch(kernel: Any) -> None:
        Records((ctypes.cast(kernel, ctypes.c_void_p).value or 0, 0, 8, 1)).run(pool)

    second = threading.Thread(target=launch, args=(hold,))
    launch(await_second)
    launch(take)
    found = sorted(taken)
    release.set()
    second.join()
    taken.clear()
    launch(take)
    assert len(found) == chunks
    assert (found[0][0], found[-1][1]) == (0, 8)
    assert len(taken) > 1


def test_resize_while_others_run(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = Cells(3000)
    records = Records((kernels.address("touch"), cells.address, 3000, 10))
    done = threading.Event()

    def resize() -> None:
        while not done.is_set():
            for threads in (1, 3, 2):
                pool.resize(threads)

    other = threading.Thread(target=resize)
    other.start()
    for _ in range(500):
        records.run(pool)
    done.set()
    other.join()
    assert (cells.a == 500).all()


def test_forked_children_start_their_own_workers(pool: ThreadPool, kernels: LoadedObject) -> None:
    """Also when another thread is in a launch at the time of the fork."""
    busy_cells, done = Cells(3000), threading.Event()

    def work() -> None:
        records = Records((kernels.address("touch"), busy_cells.address, 3000, 10))
        while not done.is_set():
            records.run(pool)

    other = threading.Thread(target=work)
    other.start()
    statuses = [_fork_and_run(pool, kernels) for _ in range(8)]
    done.set()
    other.join()
    assert statuses == [0] * 8


def _fork_and_run(pool: ThreadPool, kernels: LoadedObject) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        cells = Cells(1)
        Records(*[(kernels.address("meet"), cells.address, 2, 1)] * 10).run(pool)
        code = int(cells.a[0] != 20)
    finally:
        os._exit(code)


def test_idle_workers_sleep(pool: ThreadPool, kernels: LoadedObject) -> None:
    cells = Cells(1)
    Records((kernels.address("meet"), cells.address, 2, 1)).run(pool)
    deadline = time.monotonic() + 20
    while states_of_other_threads() != {"S"}:
        assert time.monotonic() < deadline


def states_of_other_threads() -> set[str]:
    """The states of the process's threads in /proc except the caller's: S sleeps, R runs or waits for a processor.
    Threads of earlier tests can end meanwhile."""
    own = str(threading.get_native_id())
    states: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if task.name != own:
                states.add((task / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def test_thread_numbers() -> None:
    most = host_target().threads
    set_num_threads(1)
    assert get_num_threads() == 1
    set_num_threads(most)
    assert get_num_threads() == most
    with pytest.raises(ValueError, match=f"compiled for {most}"):
        set_num_threads(most + 1)
    for wrong in (0, -1, 5000):
        with pytest.raises(ValueError, match="1 to 1024"):
            set_num_threads(wrong)


def test_record_size() -> None:
    assert Records((0, 0, 0, 0)).slots.nbytes == RECORD_BYTES


EXITING = """
import sys, threading
import numpy as np
from mxforge.runtime.host import threads
from mxforge.runtime.host.threads import get_pool
pool = get_pool()
assert "llvmlite" not in sys.modules, "the pool needs no compiler"
print(pool.threads)
{body}
"""

# The kernel of these processes is libc's labs, which has no effect.
USE = """
import ctypes
from mxforge.runtime.host.loader import resolve_libc
slots = np.array([resolve_libc("labs"), 0, 1000, 1] * 50, np.int64)
for _ in range(20):
    pool.run(int(slots.ctypes.data), 50)
"""
DAEMON = (
    USE
    + """
def forever():
    while True:
        pool.run(int(slots.ctypes.data), 50)
for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
"""
)


def run_process(body: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", "-c", EXITING.format(body=body)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("body", [USE, DAEMON, "pool.close(); pool.close()" + USE], ids=["used", "daemon", "closed"])
def test_process_exits_cleanly(body: str) -> None:
    assert run_process(body, MXFORGE_NUM_THREADS="2") == "2"


def test_one_thread_starts_no_worker() -> None:
    count = "import os\nprint(len(os.listdir('/proc/self/task')))"
    assert run_process(USE + count, MXFORGE_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") == "1\n1"
    assert run_process(USE + count, MXFORGE_NUM_THREADS="3", OPENBLAS_NUM_THREADS="1") == "3\n3"
