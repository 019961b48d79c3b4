"""Storage types of gradients: which arrays `simple_bind` allocates for them, inferred as in MXNet.

A gradient is sparse if every operator on its way has a sparse gradient. Operators that are not named here have dense
results and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .node import Entry, depth_first

if TYPE_CHECKING:
    from .node import SymNode
    from .symbol import Symbol

DENSE, CSR, ROWS = "default", "csr", "row_sparse"

Forward = Callable[[Any, Sequence[str]], str]
"""rule(operator, types of the operands) -> the type of the result."""

Backward = Callable[[Any, Sequence[str], str], Sequence[str]]
"""rule(operator, types of the operands, type of the result's gradient) -> the types of the operands' gradients."""


def gradient_storage(symbol: Symbol, arguments: Mapping[str, str]) -> dict[str, str]:
    """The storage types of the sparse gradients by argument; `arguments` are the types of the sparse arguments."""
    nodes = list(depth_first(symbol._entries))
    if not arguments and not any(n.operator.name in _MAKE_SPARSE for n in nodes if not n.is_variable):
        return {}
    types = _results(nodes, arguments)
    storage: dict[Entry, str] = {}
    for entry in symbol._entries:
        _add(storage, entry, types.get(entry, DENSE))
    for node in reversed(nodes):
        if not node.is_variable:
            operands = [types.get(e, DENSE) for e in node.inputs]
            rule = _BACKWARD.get(node.operator.name)
            cotangent = storage.get(Entry(node, 0), DENSE)
            gradients = [DENSE] * len(operands) if rule is None else rule(node.operator, operands, cotangent)
            for entry, gradient in zip(node.inputs, gradients, strict=True):
                _add(storage, entry, gradient)
    return {e.node.name: t for e, t in storage.items() if e.node.is_variable and t != DENSE}


def _results(nodes: Sequence[SymNode], arguments: Mapping[str, str]) -> dict[Entry, str]:
    """The types of all results and variables that are not dense."""
    types: dict[Entry, str] = {}
    for node in nodes:
        if node.is_variable:
            storage = arguments.get(node.name, DENSE)
        else:
            rule = _FORWARD.get(node.operator.name)
            storage = DENSE if rule is None else rule(node.operator, [types.get(e, DENSE) for e in node.inputs])
        if storage != DENSE:
            types[Entry(node, 0)] = storage
    return types


def _add(storage: dict[Entry, str], entry: Entry, gradient: str) -> None:
    """Only sums of row-sparse gradients are sparse."""
    before = storage.get(entry)
    storage[entry] = gradient if before is None or before == gradient == ROWS else DENSE


# --- results --------------------------------------------------------------------------------------------------------


def _kept(operator: Any, types: Sequence[str]) -> str:
    return types[0]


def _equal(operator: Any, types: Sequence[str]) -> str:
    """The type that all operands have."""
    return types[0] if len(set(types)) == 1 else DENSE


def _all_rows(operator: Any, types: Sequence[str]) -> str:
    return ROWS if set(types) == {ROWS} else DENSE


def _product(operator: Any, types: Sequence[str]) -> str:
    """The one sparse type among the operands."""
    sparse = set(types) - {DENSE}
    return sparse.pop() if len(sparse) == 1 else DENSE


def _of_matrix(operator: Any, types: Sequence[str]) -> str:
    """csr if the first operand alone is csr."""
    return CSR if types[0] == CSR and types[1] == DENSE else DENSE


def _dot(operator: Any, types: Sequence[str]) -> str:
    if operator.forward_stype:
        return operator.forward_stype
    left, right = types
    if left == CSR and right != CSR and operator.transpose_a and not operator.transpose_b:
        return ROWS
    return CSR if left == DENSE and right == CSR and not operator.transpose_a else DENSE


def _square_sum(operator: Any, types: Sequence[str]) -> str:
    return ROWS if types[0] == ROWS and operator.axis == (1,) and operator.keepdims else DENSE


# --- gradients ------------------------------------------------------------------------------------------------------


def _passed_on(operator: Any, types: Sequence[str], gradient: str) -> Sequence[str]:
    return [gradient] * len(types)


def _where_stored(operator: Any, types: Sequence[str], gradient: str) -> Sequence[str]:
    """The gradient times a function of the operand, of which both are stored at the same places."""
    return [gradient if gradient == types[0] else DENSE]


def _embedding(operator: Any, types: Sequence[str], gradient: str) -> Sequence[str]:
    return [DENSE, ROWS if operator.sparse_grad else DENSE]


def _where(operator: Any, types: Sequence[str], gradient: str) -> Sequence[str]:
    """The condition has a gradient of zeros."""
    return [types[0], DENSE, DENSE]


def _of_dot(operator: Any, types: Sequence[str], gradient: str) -> Sequence[str]:
    is_rows = types[0] == CSR and not operator.transpose_a and not operator.transpose_b
    return [DENSE, ROWS if is_rows else DENSE]


_LINEAR = "_copy BlockGrad negative _mul_scalar _div_scalar".split()
_WITH_OPERAND = "abs relu sign square".split()
_KEEP_ZEROS = """arcsin arcsinh arctan arctanh cbrt ceil clip degrees expm1 fix floor log1p make_loss radians rint round
sin sinh sqrt tan tanh trunc zeros_like""".split()
_MAKE_SPARSE = {f"mx.{name}" for name in ("Embedding", "_contrib_SparseEmbedding", "cast_storage")}
"""Operators on dense operands that have sparse results or gradients."""


def _by_full_name(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {f"mx.{name}": rule for name, rule in rules.items()}


_FORWARD: Mapping[str, Forward] = _by_full_name(
    {
        **dict.fromkeys((*_LINEAR, *_WITH_OPERAND, *_KEEP_ZEROS), _kept),
        **dict.fromkeys(("elemwise_add", "elemwise_sub", "_maximum", "_minimum", "_hypot"), _equal),
        **dict.fromkeys(("broadcast_mul", "broadcast_div"), _of_matrix),
        "elemwise_mul": _product,
        "add_n": _all_rows,
        "_sparse_retain": _kept,
        "cast_storage": lambda operator, types: operator.stype,
        "_square_sum": _square_sum,
        "dot": _dot,
    }
)
_BACKWARD: Mapping[str, Backward] = _by_full_name(
    {
        **dict.fromkeys((*_LINEAR, "cast_storage", "elemwise_add", "elemwise_sub", "add_n"), _passed_on),
        **dict.fromkeys(_WITH_OPERAND, _where_stored),
        "Embedding": _embedding,
        "_contrib_SparseEmbedding": lambda operator, types, gradient: [DENSE, ROWS],
        "_sparse_retain": lambda operator, types, gradient: [ROWS, DENSE],
        "where": _where,
        "exp": _passed_on,
        "_square_sum": lambda operator, types, gradient: [types[0]],
        "dot": _of_dot,
    }
)
