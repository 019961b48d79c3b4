"""The symbol of calls that were recorded for gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...ir.dialects.mx.parameters import attribute_text
from ..base import MXNetError
from ..ndarray import tape
from ..ndarray.array_classes import number_class
from ..ndarray.sparse_arithmetic import OF_NUMBERS
from ..ndarray.tape import Origin, Recorded, Variable, entry_of
from .node import Entry, SymNode, copy_nodes
from .symbol import Symbol

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from ..ndarray import NDArray

_known: WeakKeyDictionary[Recorded | Variable, list[Entry]] = WeakKeyDictionary()
"""The entries of calls and variables that had a symbol before: symbols of one tape share nodes, as in MXNet."""
_numbers = itertools.count()


def symbol_of_recorded(array: NDArray) -> Symbol:
    """The symbol of an array on the tape, whose variables are named `varN` and constants `nullN`."""
    head = entry_of(array)
    if head is None:
        raise MXNetError("get_symbol: NDArray is not part of a computation graph. Did you forget to turn on recording?")
    constants: dict[int, Entry] = {}
    for node, operands, origin in _in_order(head):
        function, attributes, operands = _with_numbers(origin, operands)
        inputs = [_constant(a, constants) if entry is None else _entry(entry) for entry, a in operands]
        _known[node] = _called(node, function, attributes, inputs)
    return Symbol([_entry(head)])


Operand = tuple[tape.Entry | None, "NDArray | None"]
"""An operand's place on the tape, or None, and the array."""


def _in_order(head: tape.Entry) -> Iterator[tuple[Recorded, Sequence[Operand], Origin]]:
    """The calls that an array depends on and that have no symbol yet, in the order in which they were recorded."""
    nodes: dict[Recorded, tuple[Sequence[Operand], Origin]] = {}
    stack = [head.node]
    while stack:
        node = stack.pop()
        if isinstance(node, Variable) or node in nodes or node in _known:
            continue
        nodes[node] = operands, _ = _operands(node)
        stack += [entry.node for entry, _ in operands if entry is not None]
    for node in sorted(nodes, key=lambda n: n.number):
        yield node, *nodes[node]


def _operands(node: Recorded) -> tuple[Sequence[Operand], Origin]:
    if node.pull is None:
        raise MXNetError(tape.NOT_RECORDED)
    origin = node.pull.origin()
    if origin is None:
        raise MXNetError("get_symbol: gradients that were recorded with create_graph have no symbol")
    entries = dict(zip(origin.wrt, node.operands, strict=True))
    return [(entries.get(i, entry_of(a)), a) for i, a in enumerate(origin.operands)], origin


def _entry(place: tape.Entry) -> Entry:
    if isinstance(place.node, Variable) and place.node not in _known:
        _known[place.node] = [_variable("var")]
    return _known[place.node][place.position]


def _variable(prefix: str) -> Entry:
    return Entry(SymNode("null", f"{prefix}{next(_numbers)}", {}))


def _constant(array: NDArray | None, known: dict[int, Entry]) -> Entry:
    """The variable of an array that is not on the tape: one for all its uses in a symbol."""
    variable = known.get(id(array))
    if variable is None:
        variable = known[id(array)] = _variable("null")
    return variable


def _with_numbers(
    origin: Origin, operands: Sequence[Operand]
) -> tuple[str | Symbol, dict[str, str], Sequence[Operand]]:
    """The name of an operator with all its parameters, or a symbol; and the operands that are arrays.

    `x + 1` is recorded as an addition of an array of shape (), and is MXNet's operator on an array and a number here.
    """
    function: Operator | Symbol = origin.function
    if isinstance(function, Symbol):
        return function, {}, operands
    name, attributes = function.mx_name(), _attributes(function, origin.numbers)
    numbers = [i for i, (_, a) in enumerate(operands) if isinstance(a, number_class())]
    if not numbers or name not in OF_NUMBERS:
        return name, attributes, operands
    (position,) = numbers
    value = operands[position][1]
    assert value is not None
    right, left = OF_NUMBERS[name]
    return right if position else left, {"scalar": str(float(_number(value)))}, [operands[1 - position]]


def _called(
    node: Recorded, function: str | Symbol, attributes: dict[str, str], operands: Sequence[Entry]
) -> list[Entry]:
    """The results of a call: of a new node for an operator, of copies of a symbol's nodes."""
    if isinstance(function, Symbol):
        variables = function._variables()[0]
        return copy_nodes(function._entries, dict(zip(variables, operands, strict=True)))
    called = SymNode(function, f"node_{node.number}", attributes)
    called.inputs = list(operands)
    return [Entry(called, i) for i in range(node.results)]


def _attributes(operator: Operator, numbers: Sequence[NDArray]) -> dict[str, str]:
    """The parameters of an operator; `numbers` are the values of its scalar ones."""
    from ...ir.dialects.mx.builder import scalar_values

    numbers_of: dict[str, list[Any]] = {}
    for (name, _), number in zip(scalar_values(operator), numbers, strict=False):
        numbers_of.setdefault(name, []).append(_number(number))
    tuples = {name for name in numbers_of if isinstance(getattr(operator, name), tuple)}
    return operator.attrs() | {n: attribute_text(tuple(v) if n in tuples else v[0]) for n, v in numbers_of.items()}


def _number(array: NDArray) -> float | int:
    """A scalar parameter, with as few digits as its dtype needs."""
    value = array.asnumpy()[()]
    return int(value) if value.dtype.kind in "iu" else float(str(value))
