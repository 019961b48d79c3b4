"""The table of routines: primitives that need a specific order of computation."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.dialects.core import (
    LQ,
    LU,
    ArgReduce,
    ArgSort,
    Cholesky,
    CsrDot,
    Cumulative,
    Scatter,
    SelectAndScatter,
    Sort,
    SymmetricEigen,
    TriangularSolve,
)
from ....ir.graph import Node, Op
from ....ir.types import TensorType
from ...emission import Emission
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from .arg_reduce import arg_reduce_launches
from .csr_dot import csr_dot_launches
from .cumulative import cumulative_launches
from .eigen import emit_symmetric_eigen
from .factorization import emit_cholesky, emit_lq, emit_lu, emit_triangular_solve
from .rows import Functions
from .scatter import emit_scatter, scatter_launches
from .select_and_scatter import emit_select_and_scatter
from .sort import sort_launches

Types = tuple[TensorType, ...]
Emitter = Callable[[Op, Types, Types, ModuleBuilder, str], Emission]


def has_routine(op: Op) -> bool:
    """True if `op` is emitted by a routine and not through a Kernel."""
    return type(op) in _ROUTINES or type(op) in _SHAPE_FREE


def emit_routine(node: Node, module: ModuleBuilder, symbol: str) -> Emission:
    """Emit the functions of a node's primitive. Their arguments are the addresses of the operands, then of the results,
    then of the workspace. ValueError for a blocked layout that the routine does not support."""
    inputs, outputs = _types(node)
    return _ROUTINES[type(node.op)](node.op, inputs, outputs, module, symbol)


def shape_free_routine(node: Node, target: Cpu) -> tuple[Emission, Functions] | None:
    """The emission of a primitive whose functions are the same for all shapes, and what emits them; None if its
    functions are those of `emit_routine`. ValueError for a blocked layout."""
    launches = _SHAPE_FREE.get(type(node.op))
    inputs, outputs = _types(node)
    return None if launches is None else launches(node.op, inputs, outputs, target)


def _types(node: Node) -> tuple[Types, Types]:
    """The types of the operands and the results."""
    inputs = tuple(v.type for v in node.inputs)
    outputs = tuple(v.type for v in node.outputs)
    for tensor in () if isinstance(node.op, SelectAndScatter) else (*inputs, *outputs):
        if tensor.layout is not None:
            raise ValueError(f"{node.op.name} requires row-major tensors, got {tensor}")
    return inputs, outputs


_ROUTINES: dict[type[Op], Emitter] = {
    Cholesky: emit_cholesky,
    LQ: emit_lq,
    LU: emit_lu,
    Scatter: emit_scatter,
    SelectAndScatter: emit_select_and_scatter,
    SymmetricEigen: emit_symmetric_eigen,
    TriangularSolve: emit_triangular_solve,
}

_SHAPE_FREE: dict[type[Op], Callable[[Op, Types, Types, Cpu], tuple[Emission, Functions] | None]] = {
    ArgReduce: arg_reduce_launches,
    ArgSort: sort_launches,
    CsrDot: csr_dot_launches,
    Cumulative: cumulative_launches,
    Scatter: scatter_launches,
    Sort: sort_launches,
}
