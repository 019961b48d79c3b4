"""Calls that MXNet refuses raise on arrays, symbols and hybridized blocks, with a text that names the problem."""

from __future__ import annotations

import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from differences import ACCEPTED_HERE, accepted_here
from forms import Calls, function
from goldens import Refusal, refusals
from grouped import grouped, module_of
from mistakes import COMPILER_WORDS
from mxforge.frontend.ndarray.eager import invoke, operator_named
from mxforge.ir.dialects.mx.operator import Operator, all_operators

HERE = Path(__file__).name
BY_OPERATOR = {op: list(calls) for op, calls in groupby(sorted(refusals(), key=lambda r: r.op), key=lambda r: r.op)}


def public_name(operator: Any) -> str:
    """The name of an operator in errors: functions of `mx.np` have names of their own."""
    return operator.mx_name().removeprefix("_np_")


def arrays_of(refusal: Refusal) -> list[mx.nd.NDArray]:
    return [mx.nd.array(np.ones(shape), dtype=dtype) for dtype, shape in refusal.types]


def at_once(refusal: Refusal) -> str:
    """The error text of the eager call, or "" without an error."""
    operator = operator_named(refusal.op)
    try:
        invoke(operator, arrays_of(refusal), refusal.attributes)
    except (mx.MXNetError, TypeError) as error:
        assert public_name(operator) in str(error) or names_no_dtype(error, refusal), str(error)
        assert error.__cause__ is None and COMPILER_WORDS.search(str(error)) is None, str(error)
        return str(error)
    return ""


def names_no_dtype(error: Exception, refusal: Refusal) -> bool:
    """True if MXNet's function refuses an invalid dtype name before it calls the operator."""
    return str(error) == f"data type {refusal.attributes.get('dtype')!r} not understood"


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_calls_that_mxnet_refuses_are_refused(op: str) -> None:
    assert [str(r) for r in BY_OPERATOR[op] if not accepted_here(r) and not at_once(r)] == []


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in ACCEPTED_HERE])
def test_each_listed_acceptance_still_occurs(pattern: str) -> None:
    assert any(not at_once(r) for r in refusals() if re.match(pattern, str(r)))


def as_symbol(refusal: Refusal) -> str:
    """The error text of creating, binding and running a symbol, or "" without an error."""
    names = [f"x{i}" for i in range(len(refusal.types))]
    try:
        symbol = function(mx.sym, refusal.op)(*map(mx.sym.var, names), **refusal.attributes)
        arrays = dict(zip(names, arrays_of(refusal), strict=True))
        states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states() if name in arrays}
        symbol.bind(mx.cpu(), arrays, aux_states=states).forward()
    except (mx.MXNetError, TypeError, ValueError) as error:
        assert not isinstance(error, TypeError) or names_no_dtype(error, refusal), str(error)
        assert error.__cause__ is None and COMPILER_WORDS.search(str(error)) is None, str(error)
        return str(error)
    return ""


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_symbols_that_mxnet_refuses_are_refused(op: str) -> None:
    assert [str(r) for r in BY_OPERATOR[op] if not accepted_here(r) and not as_symbol(r)] == []


@pytest.mark.parametrize("op", [op for op, calls in BY_OPERATOR.items() if not accepted_here(calls[0])])
def test_errors_of_hybridized_blocks_name_the_operator(op: str) -> None:
    refusal = BY_OPERATOR[op][0]
    block = Calls([(op, refusal.attributes, len(refusal.types))])
    block.hybridize()
    with pytest.raises(mx.MXNetError, match=re.escape(operator_named(op).mx_name())):
        block(mx.nd.ones((1,)), *arrays_of(refusal))


def described(op: type[Operator]) -> tuple[Any, Any]:
    """The operator's functions in nd and sym."""
    name = op.mx_name()
    nd, sym = (m._internal if name.startswith("_") else m for m in (mx.nd, mx.sym))
    return getattr(nd, name), getattr(sym, name)


# Control flow takes functions, Custom accepts any parameter, and _set_value writes into its argument.
OWN_SIGNATURE = ("_foreach", "_while_loop", "_cond", "Custom", "_set_value")
DECLARED = [op for op in all_operators() if op.mx_name() not in OWN_SIGNATURE]


# As in MXNet, an operator without parameters ignores parameters.
@grouped("op", [op for op in DECLARED if op.parameters()], by=module_of, ids=lambda op: op.mx_name())
def test_an_unknown_parameter_is_named(op: type[Operator]) -> None:
    for call in described(op):
        with pytest.raises(mx.MXNetError, match=f"{re.escape(public_name(op))}.*'unknown'"):
            call(unknown=1)


@grouped("op", DECLARED, by=module_of, ids=lambda op: op.mx_name())
def test_a_missing_parameter_is_named(op: type[Operator]) -> None:
    required = [name for name, info in op.parameters().items() if info.is_required]
    counted = [name for name in required if name != op.variadic]
    for call in described(op) if counted else ():
        with pytest.raises(mx.MXNetError, match=rf"{re.escape(op.mx_name())}.*'{counted[0]}'"):
            call()


@grouped("op", DECLARED, by=module_of, ids=lambda op: op.mx_name())
def test_missing_arrays_are_named(op: type[Operator]) -> None:
    inputs = [name for name in op.inputs if not name.endswith(("*", "?"))]
    if not inputs or any(info.is_required for info in op.parameters().values()):
        return
    with pytest.raises(mx.MXNetError, match=rf"{re.escape(op.mx_name())}.*\b{inputs[0].rstrip('!')}\b"):
        described(op)[0]()


def test_a_graph_names_the_line_that_made_the_node() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    total = mx.sym.broadcast_add(mx.sym.var("x"), mx.sym.var("y"), name="total")
    with pytest.raises(mx.MXNetError, match=rf"total \(broadcast_add, made at .*{HERE}:{line}\): .*\(2, 3\).*\(4,\)"):
        total.infer_shape(x=(2, 3), y=(4,))
