"""Graphs of blocks whose `forward` is written with functions of arrays, as in MXNet 2.

`forward` is traced for each kind of call: the shapes and dtypes of the arguments, and the mode. So Python code in it
can depend on them. Kinds of calls with equal graphs share a function, which has programs for all shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.caches import Cache
from ...runtime.function import SIGNATURES
from ...runtime.modes import modes
from .. import symbol
from ..base import MXNetError
from ..ndarray import NDArray
from ..symbol import Symbol
from .structure import flatten, has_numpy, is_numpy, regroup

if TYPE_CHECKING:
    from ..context import Context
    from .block_function import BlockFunction
    from .hybrid_block import HybridBlock
    from .plain_block import Block


class TracedGraph(NamedTuple):
    """The graph of a block: symbols of its inputs, its outputs as one symbol, the formats of both
    (`structure.flatten`), and the arrays of numbers that `forward` made, by the names of their variables."""

    inputs: list[Symbol]
    outputs: Symbol
    in_format: Any
    out_format: Any
    constants: dict[str, NDArray]

    def key(self) -> Any:
        """Equal for equal graphs, whatever the names of their nodes."""
        from ..symbol.node import depth_first

        nodes = depth_first(self.outputs._entries)
        numbers = {node: i for i, node in enumerate(nodes)}
        listed = [(n.op, tuple(n.attrs.items()), self._name(n), _inputs(n, numbers), str(n.subgraphs)) for n in nodes]
        heads = tuple([(numbers[e.node], e.index) for e in self.outputs._entries])
        return tuple(listed), heads, str(self.in_format), str(self.out_format)

    def _name(self, node: Any) -> Any:
        """The name of a variable, and the elements of a constant."""
        if not node.is_variable:
            return None
        constant = self.constants.get(node.name)
        if constant is None:
            return node.name
        return constant._memory().tobytes(), constant._shape, constant._dtype


def _inputs(node: Any, numbers: dict[Any, int]) -> tuple[tuple[int, int], ...]:
    return tuple([(numbers[e.node], e.index) for e in node.inputs])


class TracedConstant:
    """An array of numbers that `forward` made, in the place of a parameter of the graph."""

    def __init__(self, array: NDArray) -> None:
        self._array = array

    def data(self, ctx: Context | None = None) -> NDArray:
        """The array."""
        return self._array

    def _reduce(self) -> NDArray:
        return self._array


class TracedGraphs:
    """The graphs and functions of a block by kind of call."""

    def __init__(self) -> None:
        self._known: Cache[Any, tuple[TracedGraph, BlockFunction]] = Cache("traced calls", SIGNATURES)
        self._by_graph: Cache[Any, tuple[TracedGraph, BlockFunction]] = Cache("traced graphs", SIGNATURES)

    def find(self, block: HybridBlock, args: Sequence[Any]) -> tuple[TracedGraph, BlockFunction]:
        """The graph and the function for arguments like these in the mode of this thread."""
        flat, form = flatten(args, "input")
        types = [None if a is None else (a._shape, a._dtype, a._context, is_numpy(a)) for a in flat]
        key = (modes.training, str(form), *types)
        known = self._known.find(key)
        return self._known.add(key, self._traced(block, args)) if known is None else known

    def _traced(self, block: HybridBlock, args: Sequence[Any]) -> tuple[TracedGraph, BlockFunction]:
        graph = trace(block, args)
        return self._by_graph.get(graph.key(), lambda: (graph, block._function_of(graph)))


def trace(block: HybridBlock, args: Sequence[Any]) -> TracedGraph:
    """Run `forward` of a block on traced arrays. Deferred initializations of parameters are finished."""
    from ..symbol.tracer import SymbolTracer

    flat, in_format = flatten(args, "input")
    variables = block._input_symbols(flat)
    tracer = SymbolTracer()
    arrays = [None if s is None else tracer.input(s, a) for s, a in zip(variables, flat, strict=True)]
    context = next(a._context for a in flat if a is not None)
    with tracer.running(), context:
        out = block.forward(*regroup(arrays, in_format))
    results, out_format = flatten(out, "output")
    if any(r is None for r in results):
        raise MXNetError(f"{block.name}: a hybridized block cannot return None")
    outputs = symbol.Group([tracer.symbol_of(r) for r in results])
    inputs = [s.as_np_ndarray() if is_numpy(a) else s for s, a in zip(variables, flat, strict=True) if s is not None]
    chosen = outputs.as_np_ndarray() if has_numpy(results) else outputs
    return TracedGraph(inputs, chosen, in_format, out_format, tracer.constants)


def contains_written(block: Block) -> bool:
    """True if a block or a block in it has a `forward` that is written with functions of arrays."""
    return getattr(block, "_is_written", False) or any(map(contains_written, block._children.values()))


def unknown_parameters(block: HybridBlock) -> RuntimeError:
    """The error for parameters of unknown shape of a block that does not infer them."""
    unknown = ", ".join(f"{p.name} {p.shape}" for p in block._reg_params.values() if p._deferred_init)
    name = type(block).__name__
    return RuntimeError(
        f"{name} has parameters with unknown shape. You need to either specify the shape in __init__ or implement "
        f"{name}.infer_shape to set the parameter shapes based on the first input. Parameters with unknown shapes are "
        f"{unknown}"
    )
