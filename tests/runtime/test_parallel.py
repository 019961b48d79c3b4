"""Programs in parallel: their steps run in groups, each program on memory of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mxforge.codegen.dynamic import compile_dynamic
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.graph import Graph, GraphBuilder
from mxforge.ir.program import HostFunction, Program
from mxforge.ir.program_combination import Use, parallel
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_program
from mxforge.passes.manager import Options
from mxforge.runtime.devices import HOST
from mxforge.runtime.host.executable import Executable


def centred(size: int) -> Graph:
    """Replaces its first input by its second, minus the mean, times 2: several launches and constants."""
    b = GraphBuilder("centred")
    x, y = (b.input(TensorType((size,), DType.F32)) for _ in range(2))
    mean = b.node(lookup("mean").parse({"keepdims": True}), y).outputs[0]
    apart = b.node(lookup("broadcast_sub").parse({}), y, mean).outputs[0]
    made = b.build([b.node(lookup("_mul_scalar").parse({"scalar": 2}), apart).outputs[0]])
    assert x in made.inputs
    return replace(made, updates=(0,))


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    few, many = (compile_dynamic(centred(n), HOST.target, Options(dynamic=True)) for n in (9, 50_000))
    found = [kind.at([TensorType((n,), DType.F32)] * 2) for kind, n in ((few, 9), (few, 200), (many, 50_000))]
    return [p for p in found if p is not None]


def test_programs_run_on_their_own_operands(programs: list[Program]) -> None:
    assert len(programs) == 3
    types = [t for p in programs for t in p.inputs]
    made = parallel("all", types, [Use(p, (2 * i, 2 * i + 1)) for i, p in enumerate(programs)])
    verify_program(made)
    assert set(made.code) == {code for p in programs for code in p.code}
    assert len(made.groups) == max(len(p.steps) for p in programs)
    assert made.state == (0, 2, 4)
    arrays = [np.random.default_rng(i).standard_normal(t.shape, np.float32) for i, t in enumerate(types)]
    executable = Executable(made)
    for _ in range(3):
        executable.run([a.ctypes.data for a in arrays], [])
        for x, y in zip(arrays[::2], arrays[1::2], strict=True):
            np.testing.assert_allclose(x, 2 * (y - y.mean()), 1e-4, 1e-5)
        arrays = [a.copy() for a in arrays]


def test_programs_share_inputs(programs: list[Program]) -> None:
    small = programs[0]
    made = parallel("two", [small.inputs[0]] * 3, [Use(small, (0, 2)), Use(small, (1, 2))])
    first, second, given = (np.arange(9, dtype=np.float32) * i for i in range(3))
    Executable(made).run([a.ctypes.data for a in (first, second, given)], [])
    assert (first == 2 * (given - given.mean())).all() and (second == first).all()


def test_programs_that_cannot_be_combined(programs: list[Program]) -> None:
    small = programs[0]
    with pytest.raises(ValueError, match="has outputs"):
        parallel("none", small.inputs, [Use(replace(small, outputs=small.inputs[:1]), (0, 1))])
    function = HostFunction(lambda x: [x], small.inputs[:1], small.inputs[:1])
    with pytest.raises(ValueError, match="calls Python functions"):
        parallel("none", small.inputs, [Use(replace(small, functions=(function,)), (0, 1))])
