"""Every operator against real MXNet: declaration, names, shapes and results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from differences import WRONG_IN_MXNET
from goldens import Golden, operator_goldens, signatures
from grouped import grouped, module_of
from mxforge.ir.dialects.core import interpret
from mxforge.ir.dialects.mx import describe
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import Operator, all_operators, lookup
from mxforge.ir.dialects.mx.shapes import UNKNOWN
from mxforge.ir.types import DType, TensorType
from sweeps import tolerance

# MXNet's listing has another operator's parameters, or lacks some.
MISDOCUMENTED = {
    "IdentityAttachKLSparseReg",
    "_linspace",
    "add_n",
    "khatri_rao",
    "BatchNorm_v1",
    "_linalg_potrf",
    "_linalg_potri",
    "smooth_l1",
    "_contrib_SparseEmbedding",  # it reads `deterministic`, which MXNet does not list
}

# MXNet uses one name for several inputs of these: op_weight_0, op_weight_0, op_grad_1, ...
MISNAMED = {"_multi_lamb_update", "_multi_mp_lamb_update"}


def run(golden: Golden) -> tuple[dict[int, np.ndarray], list[np.ndarray]]:
    """The decomposition on the recorded inputs: the new states by the position of the input, and the visible
    outputs."""
    op = lookup(golden.op).parse(golden.attributes)
    b = MxBuilder(golden.op, training=golden.train)
    types = [TensorType(x.shape, DType.from_numpy(x.dtype)) for x in golden.inputs]
    results = op.results(b, *(b.input(t) for t in types))
    assert tuple(v.type for v in results) == op.infer(*types)
    assert len(results) == op.num_outputs
    graph = b.build(results[: op.visible_outputs])
    keys = [np.zeros(4, np.uint32)] * (len(graph.inputs) - len(types))
    found = interpret(graph, [*golden.inputs, *keys])
    return dict(zip(graph.updates, found[op.visible_outputs :], strict=True)), found[: op.visible_outputs]


def known() -> list[Golden]:
    return [g for g in operator_goldens() if str(g) not in WRONG_IN_MXNET]


def by_operator(golden: Golden) -> str:
    return golden.op


def has_symbol(golden: Golden) -> bool:
    """False if MXNet makes no symbol of the call."""
    return bool(golden.names[2])


@grouped("golden", known(), by=by_operator)
def test_forward_agrees_with_mxnet(golden: Golden) -> None:
    states, results = run(golden)
    assert len(results) == len(golden.outputs)
    written = [(states[i], expected) for i, expected in golden.states.items()]
    for result, expected in (*zip(results, golden.outputs, strict=True), *written):
        assert result.shape == expected.shape
        assert result.dtype == expected.dtype
        limit = tolerance(golden, 2e-5)
        np.testing.assert_allclose(result, expected, limit, limit, equal_nan=True)


@grouped("golden", [g for g in known() if g.op not in MISNAMED and has_symbol(g)], by=by_operator)
def test_names_agree_with_mxnet(golden: Golden) -> None:
    op = lookup(golden.op).parse(golden.attributes)
    arguments, auxiliary, outputs = golden.names
    names = op.input_names()
    assert [f"op_{n}" for n in names if n not in op.auxiliary] == list(arguments)
    assert [f"op_{n}" for n in op.auxiliary] == list(auxiliary)
    assert [f"op_{n}" for n in op.output_names()[: op.visible_outputs]] == list(outputs)


@grouped("op", all_operators(), by=module_of, ids=lambda op: op.mx_name())
def test_declaration_agrees_with_mxnet(op: type[Operator]) -> None:
    record = signatures()[op.mx_name()]
    assert op.mx_name() == record["op"]
    assert set(op.aliases) == set(record["aliases"])
    if op.mx_name() in MISDOCUMENTED or "subgraphs" in op.parameters():  # which MXNet counts among the inputs
        return
    assert [n.rstrip("?*!") for n in op.inputs] == record["inputs"]
    assert list(op.parameters()) == list(record["parameters"])
    for parameter in describe.parameters(op):
        expected = record["parameters"][parameter.name]
        assert parameter.required == ("default" not in expected), parameter.name
        if not parameter.required:
            assert same_default(parameter.default, expected["default"]), parameter.name
        choices = re.findall(r"'([^']*)'", expected["type"]) if expected["type"].startswith("{") else []
        shown = re.findall(r"'([^']*)'", parameter.type)
        assert set(shown) == set(choices) - {"None"}, parameter.name


def same_default(ours: Any, text: str) -> bool:
    """True if a default is equivalent to the one that MXNet prints."""
    if isinstance(ours, bool):
        return text == str(int(ours))
    if isinstance(ours, float):
        return float(text) == pytest.approx(ours, rel=1e-6)
    if isinstance(ours, tuple):
        shown = () if text == "None" else tuple(float(n) for n in re.findall(r"[-+.\de]+", text))
        return shown == pytest.approx(ours, rel=1e-6)
    return text == str(ours)


# Calls whose second input can have one of several shapes; MXNet infers another one.
AMBIGUOUS = {
    "LeakyReLU(2x3x4:float32, 1:float32, act_type=prelu)",
    "pick(4x3x2:float32, 4x1x2:int32, axis=1, keepdims=True)",
}


@grouped("golden", [g for g in known() if str(g) not in AMBIGUOUS], by=by_operator)
def test_whatever_shapes_are_inferred_are_the_recorded_ones(golden: Golden) -> None:
    """From only the first input, and from only the outputs."""
    op = lookup(golden.op).parse(golden.attributes)
    inputs = [x.shape for x in golden.inputs]
    outputs: list[Any] = [y.shape for y in golden.outputs] + [None] * (op.num_outputs - len(golden.outputs))
    for given in ([*inputs[:1], *[None] * (len(inputs) - 1)], [None] * len(inputs)):
        found: list[Any] = list(given)
        results: list[Any] = list(outputs) if given[:1] == [None] else [None] * len(outputs)
        op.complete(found, results)
        for guess, true in zip((*found, *results), (*inputs, *outputs), strict=True):
            assert guess is None or true is None or len(guess) == len(true), (found, results)
            assert guess is None or true is None or all(m in (UNKNOWN, n) for m, n in zip(guess, true, strict=True))
