"""The probes compute what they measure, and the times of launches fit the run."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.llvm.compile import emit_assembly
from mxforge.codegen.llvm.probes import FMA, LINE, READ, READ_PAGE, probe_accumulators, probe_module
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.host import probes
from mxforge.runtime.host.executable import Executable
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.host.threads import get_pool


def _run(kernel: str, first: int, count: int) -> np.ndarray:
    """Run a probe on this thread alone; returns what it stores in the sink."""
    sink = np.zeros(LINE // 4 * get_pool().threads, np.int32)
    arguments = (ctypes.c_int64 * 2)(first, sink.ctypes.data)
    record = (ctypes.c_int64 * 4)(probes._address(kernel), ctypes.addressof(arguments), count, count)
    get_pool().run(ctypes.addressof(record), 1)
    return sink[: host_target().lanes()]


def test_the_arithmetic_is_done() -> None:
    half_and_one = int(np.array([0.5, 1.0], np.float32).view(np.int64)[0])
    stored = _run(FMA, half_and_one, 1).view(np.float32)
    assert (stored == 2 * probe_accumulators(host_target())).all()  # x = x / 2 + 1 converges to 2


def test_every_page_is_read() -> None:
    buffer = np.zeros(3 * READ_PAGE // 4, np.int32)
    lanes = host_target().lanes()
    buffer[[0, READ_PAGE // 4 + 1, len(buffer) - 1]] = 1, 2, 4
    expected = np.zeros(lanes, np.int32)
    expected[[0, 1, lanes - 1]] = 1, 2, 4
    assert (_run(READ, buffer.ctypes.data, 3) == expected).all()


@pytest.mark.parametrize(("target", "instruction"), [(AVX2, "vfmadd"), (AVX512, "zmm"), (NEON, "fmla")])
def test_multiply_adds_are_vector_instructions_on_registers(target: CpuTarget, instruction: str) -> None:
    body = emit_assembly(probe_module(target), target).partition("mxf_fma:")[2].partition("mxf_read:")[0]
    steps = [line for line in body.splitlines() if "fmadd" in line or "fmla" in line]
    assert len(steps) == probe_accumulators(target)
    assert all(instruction in step and "(" not in step for step in steps)


def test_the_peaks_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_SECONDS", 0.01)
    assert probes.peak_operations() > 1e8
    assert probes.read_bandwidth(1 << 20) > 1e7


def test_launches_are_timed_within_the_run() -> None:
    b = CoreBuilder()
    x, y = (b.input(TensorType((256, 256), DType.F32)) for _ in range(2))
    program = compile_graph(b.build([b.exp(b.dot(b.exp(x), y, (), (), (1,), (0,)))]), host_target())
    arrays = [np.ones((256, 256), np.float32) for _ in range(3)]
    addresses = [a.ctypes.data for a in arrays]
    runs = probes.TimedRuns(Executable(program), addresses[:2], addresses[2:])
    assert runs.plain() > 0
    expected = arrays[2].copy()
    arrays[2][:] = 0
    start = time.perf_counter_ns()
    times = runs.timed()
    stop = time.perf_counter_ns()
    assert (arrays[2] == expected).all()  # it is a whole run
    begin, end = times.launches()
    assert len(begin) == len(program.computations) > 1
    assert start <= begin[0] and end[-1] <= stop
    assert (begin < end).all() and (end[:-1] <= begin[1:]).all()
    worked = times.begin > 0
    assert worked.any(axis=1).all()
    assert (times.busy[worked] > 0).all() and (times.busy <= times.end - times.begin).all()


def test_a_program_without_launches_has_no_times() -> None:
    b = CoreBuilder()
    program = compile_graph(b.build([b.input(TensorType((4,), DType.F32))]), host_target())
    source, result = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    runs = probes.TimedRuns(Executable(program), [source.ctypes.data], [result.ctypes.data])
    begin, end = runs.timed().launches()
    assert len(begin) == len(end) == 0
    assert (result == source).all()


def test_a_launch_without_work_has_no_duration() -> None:
    begin, end = np.array([[0, 0], [5, 7], [0, 0], [9, 0]]), np.array([[0, 0], [8, 6], [0, 0], [12, 0]])
    starts, stops = probes.RunTimes(begin, end, end - begin).launches()
    assert starts.tolist() == [5, 5, 8, 9]
    assert stops.tolist() == [5, 8, 8, 12]
