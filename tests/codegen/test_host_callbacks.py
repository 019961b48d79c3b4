"""Python functions in programs: they are called in the order of the graph, and can write to inputs of the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.compile import executable_for
from mxforge.runtime.devices import HOST
from mxforge.runtime.reference import ReferenceExecutable
from mxforge.runtime.storage import wrap_numpy
from mxforge.runtime.writes import Watch

Array = np.ndarray
KIND = TensorType((4,), DType.F32)
TARGETS = {"cpu": lambda graph: executable_for(graph, None, HOST), "reference": ReferenceExecutable}


def run(graph: object, target: str, *arrays: Array) -> list[Array]:
    executable = TARGETS[target](graph)  # type: ignore[operator]
    results = [np.zeros(t.shape, t.dtype.numpy) for t in executable.outputs]
    executable.run([a.ctypes.data for a in arrays], [r.ctypes.data for r in results])
    return results


@pytest.mark.parametrize("target", TARGETS)
def test_functions_are_called_in_the_order_of_the_graph(target: str) -> None:
    calls: list[int] = []

    def function(number: int) -> Callable[[Array], list[Array]]:
        def call(x: Array) -> list[Array]:
            calls.append(number)
            return [x + number]

        return call

    b = CoreBuilder()
    x = b.input(KIND)
    found = [b.host_callback(function(i), [KIND], b.mul(x, float(i)))[0] for i in range(6)]
    total = found[5]
    for value in (found[3], found[0], found[4], found[1], found[2]):
        total = b.add(b.exp(value), total)
    run(b.build([total]), target, np.ones(4, np.float32))
    assert calls == list(range(6))


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_writes_to_an_input(target: str) -> None:
    def call(x: Array, y: Array) -> list[Array]:
        x += y
        y += 100
        return [x * 2]

    b = CoreBuilder()
    x, y = b.input(KIND), b.input(KIND)
    first = b.host_callback(call, [KIND], x, y, writes=[0])[0]
    second = b.host_callback(call, [KIND], x, b.add(first, y), writes=[0])[0]
    state, other = np.ones(4, np.float32), np.full(4, 2, np.float32)
    watch = Watch([wrap_numpy(state)])
    (result,) = run(b.build([second]), target, state, other)
    assert state.tolist() == [11] * 4  # 1 + 2, then 3 + (2 * 3 + 2)
    assert other.tolist() == [2] * 4
    assert result.tolist() == [22] * 4
    assert watch.versions() != (0,)


def test_an_input_that_is_not_written_is_not_reported() -> None:
    b = CoreBuilder()
    x = b.input(KIND)
    graph = b.build(b.host_callback(lambda x: [x * 2], [KIND], x, writes=[0]))
    state = np.full(4, np.nan, np.float32)
    watch = Watch([wrap_numpy(state)])
    run(graph, "cpu", state)
    assert watch.versions() == (0,)
