"""Kernels that processes of their own compile: equal results, errors, crashes, and threads that compile together."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from contraction_kernels import gemm_kernel
from mxforge.codegen.driver import compile_steps
from mxforge.codegen.triton import parallel
from mxforge.codegen.triton.compile import compile_kernel
from mxforge.codegen.triton.emit import TritonSource, emit_triton
from mxforge.codegen.triton.parallel import Compilations
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.codegen.triton.worker import WorkerEnded, Workers
from mxforge.ir.code_store import MemoryStore
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.settings import settings
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from mxforge.runtime import compile as compilation
from mxforge.runtime.compile import executable_for
from mxforge.runtime.devices import open_device
from rewriting import tensor

TTIR = replace(SM90, form="ttir")


def source(n: int, **changes: object) -> TritonSource:
    kernel = gemm_kernel((), n, n, n, DType.BF16)
    return emit_triton(kernel, replace(schedule_triton(kernel, SM90), **changes))  # type: ignore[arg-type]


def named(n: int, name: str) -> TritonSource:
    """The kernel of `source` under another name."""
    kernel = source(n)
    return replace(kernel, name=name, text=kernel.text.replace(f"def {kernel.name}(", f"def {name}("))


def sums(count: int, first: int = 8) -> Graph:
    """Sums of the rows of `count` matrices, which are as many kernels."""
    b = CoreBuilder(f"sums_of_{first}")
    return b.build([b.sum(b.input(tensor(first + i, 3)), (1,)) for i in range(count)])


@pytest.fixture
def workers() -> Generator[Workers]:
    """Workers of one process, which ends with the test."""
    made = Workers(1)
    yield made
    made.stop()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Generator[Workers]:
    """Programs are compiled by two processes, which end with the test."""
    monkeypatch.setenv("MXFORGE_COMPILE_PROCESSES", "2")
    settings.cache_clear()
    made = Workers(2)
    monkeypatch.setattr(parallel, "_workers", lambda most: made)
    yield made
    made.stop()
    monkeypatch.undo()
    settings.cache_clear()


def test_a_worker_compiles_what_this_process_does(workers: Workers) -> None:
    for target in (TTIR, SM90):
        kernel = workers.compile(source(32), target)
        assert kernel == compile_kernel(source(32), target)
        assert kernel.form == target.form
    assert workers.is_warm


def test_errors_of_a_kernel_are_those_of_this_process(workers: Workers) -> None:
    large = source(4096)
    with pytest.raises(ValueError, match="bytes of shared memory, a block has 1024") as here:
        compile_kernel(large, replace(SM90, shared_bytes=1024))
    with pytest.raises(ValueError, match="bytes of shared memory") as there:
        workers.compile(large, replace(SM90, shared_bytes=1024))
    assert str(there.value) == str(here.value)
    with pytest.raises(Exception, match="no_such_function"):
        workers.compile(replace(large, text=large.text.replace("tl.dot", "tl.no_such_function")), TTIR)
    assert workers.compile(source(16), TTIR).name == source(16).name


def test_a_worker_that_ended_is_replaced(workers: Workers) -> None:
    workers.compile(source(16), TTIR)
    (worker,) = workers._idle
    worker.process.kill()
    worker.process.wait()
    assert not workers.is_warm
    assert workers.compile(source(16), TTIR) == compile_kernel(source(16), TTIR)
    assert workers.is_warm


def test_a_crash_of_the_compiler_is_an_error_with_the_name_of_the_kernel(workers: Workers) -> None:
    crash = f"import os\nos.abort()\n{source(16).text}"  # the text of a kernel is executed before it is compiled
    with pytest.raises(WorkerEnded, match=rf"kernel {source(16).name}: the process .* ended with status -6"):
        workers.compile(replace(source(16), text=crash), TTIR)
    assert workers.compile(source(16), TTIR).code


def test_what_a_compiler_prints_is_no_answer(workers: Workers) -> None:
    prints = f"print('a line')\nimport os\nos.write(1, b'and another')\n{source(16).text}"
    assert workers.compile(replace(source(16), text=prints), TTIR).name == source(16).name


def test_a_worker_without_work_ends() -> None:
    program = "from mxforge.codegen.triton import worker; worker.IDLE_SECONDS = 0.1; worker.serve()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert process.wait(60) == 0
    assert process.stdin is not None
    process.stdin.close()


def test_workers_end_with_the_process_that_started_them() -> None:
    program = f"import sys; sys.path[:] = {sys.path!r}\nfrom mxforge.codegen.triton.worker import Worker\n"
    program += "print(Worker().process.pid, flush=True)\nimport os\nos._exit(0)"
    pid = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.kill(pid, 0)
            threading.Event().wait(0.1)


def test_a_forked_process_starts_its_own_workers(workers: Workers) -> None:
    workers.compile(source(16), TTIR)
    child = os.fork()
    if child == 0:
        os._exit(int(workers.is_warm))
    assert os.waitpid(child, 0)[1] == 0
    assert workers.is_warm


def test_processes_compile_what_the_store_does_not_have(processes: Workers) -> None:
    store = MemoryStore()
    first = compile_steps(sums(5), TTIR, kernels=store).program
    assert len(processes._idle) == 2
    assert sorted(store.code.values()) == sorted(first.code) and len(first.code) == 5
    processes.stop()
    assert compile_steps(sums(5), TTIR, kernels=store).program.code == first.code
    assert not processes.is_warm, "all kernels are in the store"


def test_workers_compile_while_the_caller_emits(processes: Workers) -> None:
    compilations, sources = Compilations(TTIR), [named(16, f"kernel{i}") for i in range(6)]
    for source in sources:
        compilations.add(source)
    while len(compilations._tasks.kernels) < len(sources):
        threading.Event().wait(0.01)  # the test ends only if workers begin by themselves
    assert list(sorted(compilations.kernels())) == [source.name for source in sources]


def test_kernels_of_a_program_that_is_given_up_are_not_compiled(processes: Workers) -> None:
    compilations = Compilations(TTIR)
    for i in range(40):
        compilations.add(named(16, f"kernel{i}"))
    tasks = compilations._tasks
    del compilations
    assert not tasks.waiting
    tasks.join()
    assert len(tasks.kernels) < 40


def test_the_first_error_ends_the_compilation_of_a_program(processes: Workers) -> None:
    compilations = Compilations(TTIR)
    for i in range(6):
        compilations.add(replace(named(16, f"kernel{i}"), text="raise IndexError('at kernel')"))
    with pytest.raises(IndexError, match="at kernel"):
        compilations.kernels()
    assert not compilations._tasks.waiting


def test_few_kernels_are_compiled_here(processes: Workers) -> None:
    assert len(compile_steps(sums(2), TTIR).program.code) == 2
    assert not processes.is_warm


@pytest.mark.usefixtures("simulated_gpus")
def test_threads_compile_different_programs_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have begun to compile their kernels before one has finished."""
    together = threading.Barrier(2)

    def kernels(self: Any) -> Any:
        together.wait(60)
        return genuine(self)

    genuine = Compilations.kernels
    monkeypatch.setattr(Compilations, "kernels", kernels)
    found = in_threads([sums(1, 401), sums(1, 402)])
    assert [program.outputs[0].shape for program in found] == [(401,), (402,)]


@pytest.mark.usefixtures("simulated_gpus")
def test_threads_compile_equal_programs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    genuine = compilation.compile_program

    def compile_program(*arguments: Any) -> Any:
        compiled.append(arguments)
        return genuine(*arguments)

    monkeypatch.setattr(compilation, "compile_program", compile_program)
    first, second = in_threads([sums(3, 403), sums(3, 403)])
    assert first is second and len(compiled) == 1


def in_threads(graphs: list[Graph]) -> list[Any]:
    """The executables of graphs on a GPU, each compiled in a thread of its own."""
    found: list[Any] = [None] * len(graphs)

    def make(i: int) -> None:
        found[i] = executable_for(graphs[i], Options(), open_device("gpu", 0))

    threads = [threading.Thread(target=make, args=(i,)) for i in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
