"""Linked programs: the values that parts exchange, copies, shared memory, prepared values, threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from mxforge.ir.dialects.core.builder import CoreBuilder
from mxforge.ir.graph import Value
from mxforge.ir.types import DType, TensorType
from mxforge.runtime import executable as executables
from mxforge.runtime.compile import executable_for
from mxforge.runtime.executable import Executable
from mxforge.runtime.linked import LinkedProgram, Part, can_be_linked

SHAPE = (3, 5)
MATRIX = TensorType(SHAPE, DType.F32)


def made(builder: CoreBuilder, *outputs: Value) -> Executable:
    found = executable_for(builder.build(list(outputs)))
    assert isinstance(found, Executable) and can_be_linked(found)
    return found


@pytest.fixture(scope="module")
def add() -> Executable:
    b = CoreBuilder("add")
    return made(b, b.add(b.input(MATRIX, "x"), b.input(MATRIX, "y")))


@pytest.fixture(scope="module")
def twice() -> Executable:
    """x -> (x + x, x, x + x): two of the results are copies."""
    b = CoreBuilder("twice")
    x = b.input(MATRIX, "x")
    double = b.add(x, x)
    return made(b, double, x, double)


@pytest.fixture(scope="module")
def product() -> Executable:
    """x, y -> x y; the second operand is packed, so there is memory of its own."""
    b = CoreBuilder("product")
    x, y = b.input(TensorType((40, 60), DType.F32), "x"), b.input(TensorType((60, 40), DType.F32), "y")
    return made(b, b.matmul(x, y))


def run(linked: LinkedProgram, inputs: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    results = [np.full(shape, np.nan, np.float32) for shape in shapes]
    linked.run([a.ctypes.data for a in inputs], [r.ctypes.data for r in results])
    return results


def matrix(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape or SHAPE, np.float32)


def test_parts_exchange_values_and_copies_are_none(add: Executable, twice: Executable) -> None:
    parts = [Part(add, (0, 1), (2,)), Part(twice, (2,), (3, 4, 5)), Part(add, (3, 4), (6,)), Part(add, (5, 6), (7,))]
    linked = LinkedProgram(parts, 2, [7, 2, 4, 0, 7], [MATRIX.nbytes] * 8)
    for seed in (0, 2):
        x, y = matrix(seed), matrix(seed + 1)
        total = x + y
        last = (total + total) + ((total + total) + total)
        for array, expected in zip(run(linked, [x, y], [SHAPE] * 5), [last, total, total, x, last], strict=True):
            np.testing.assert_array_equal(array, expected)


def test_parts_share_scratch_memory() -> None:
    """Three products of different sizes, whose packed operands are in the arena."""
    parts: list[Part] = []
    for k, columns in enumerate((48, 96, 192)):
        b = CoreBuilder(f"product{k}")
        x, y = b.input(TensorType((40, 60), DType.F32), "x"), b.input(TensorType((60, columns), DType.F32), "y")
        parts.append(Part(made(b, b.matmul(x, y)), (0, k + 1), (k + 4,)))
    sizes = [4 * n for n in (40 * 60, 60 * 48, 60 * 96, 60 * 192, 40 * 48, 40 * 96, 40 * 192)]
    linked = LinkedProgram(parts, 4, [4, 5, 6], sizes)
    arenas = [part.executable.program.arena_bytes for part in parts]
    assert min(arenas) > 0
    x, *others = matrix(0, 40, 60), matrix(1, 60, 48), matrix(2, 60, 96), matrix(3, 60, 192)
    for _ in range(2):
        for found, y in zip(run(linked, [x, *others], [(40, 48), (40, 96), (40, 192)]), others, strict=True):
            np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)
    assert linked.idle_bytes() == max(arenas)
    assert [part.executable.idle_bytes() for part in parts] == [0, 0, 0]


def test_values_that_no_part_computes_are_zero(add: Executable) -> None:
    linked = LinkedProgram([Part(add, (0, 1), (2,)), Part(add, (2, 3), (4,))], 1, [4], [MATRIX.nbytes] * 5)
    for seed in (0, 1):
        np.testing.assert_array_equal(run(linked, [matrix(seed)], [SHAPE])[0], matrix(seed))


def test_parts_with_one_program_share_its_memory(product: Executable) -> None:
    """Their own memory is used one after another; results equal those of separate runs."""
    x, y, z = matrix(0, 40, 60), matrix(1, 60, 40), matrix(2, 60, 40)
    parts = [Part(product, (0, 1), (3,)), Part(product, (0, 2), (4,))]
    linked = LinkedProgram(parts, 3, [3, 4], [x.nbytes] * 3 + [6400] * 2)
    expected = [np.empty((40, 40), np.float32) for _ in range(2)]
    for result, right in zip(expected, (y, z), strict=True):
        product.run([x.ctypes.data, right.ctypes.data], [result.ctypes.data])
    for array, result in zip(run(linked, [x, y, z], [(40, 40)] * 2), expected, strict=True):
        np.testing.assert_array_equal(array, result)


def test_what_depends_on_parameters_is_computed_in_each_run() -> None:
    b = CoreBuilder("weighted")
    b_x, b_w = b.input(MATRIX, "x"), b.input(MATRIX, "w", parameter=True)
    weighted = made(b, b.mul(b_x, b.exp(b_w)))
    linked = LinkedProgram([Part(weighted, (0, 1), (2,))], 2, [2], [MATRIX.nbytes] * 3)
    x, w = matrix(0), matrix(1)
    for _ in range(2):
        np.testing.assert_allclose(run(linked, [x, w], [SHAPE])[0], x * np.exp(w), rtol=1e-6)
        w += 1


def test_observers_see_the_launches_of_the_parts(add: Executable, twice: Executable) -> None:
    linked = LinkedProgram([Part(add, (0, 1), (2,)), Part(twice, (2,), (3, 4, 5))], 2, [3], [MATRIX.nbytes] * 6)
    seen: list[str] = []
    executables.listen(lambda program, launch, start, end: seen.append(program.name))
    try:
        found = run(linked, [matrix(0), matrix(1)], [SHAPE])
    finally:
        executables.listen(None)
    assert seen == ["add", "twice"]
    np.testing.assert_array_equal(found[0], 2 * (matrix(0) + matrix(1)))


def test_threads_have_instances_of_their_own(add: Executable) -> None:
    linked = LinkedProgram([Part(add, (0, 1), (2,)), Part(add, (2, 2), (3,))], 2, [3], [MATRIX.nbytes] * 4)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, y = matrix(seed), matrix(seed + 10)
        for _ in range(50):
            if (run(linked, [x, y], [SHAPE])[0] != 2 * (x + y)).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert linked.idle_bytes() > 0
    linked.release()
    assert linked.idle_bytes() == 0
