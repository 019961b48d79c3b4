"""Finds chains: products and functions of rows in sequence, each of which reads only rows that the one before computes.

    scores  = dot(queries, keys) * scale + mask     a product; scores have one reader
    weights = softmax(scores)                       any number of functions of rows
    result  = dot(weights, values)                  a product, whose rows are those of the scores

A target can compute a chain in blocks of rows, so that scores and weights never exist as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dialects.core import Dot, Fused
from ..ir.graph import Graph, Node, Value
from ..ir.kernel import Kernel
from ..ir.lazy_dataclass import dataclass
from ..passes.kinds import Kind
from ..passes.plan_memory import Sharing, view_of


@dataclass(frozen=True, slots=True)
class ChainedKernel:
    """One kernel of a chain. `source` is the position of the buffer that holds the result of the kernel before it; None
    for the first. `parameters` names the buffers that rarely change."""

    kernel: Kernel
    source: int | None
    parameters: frozenset[str]

    @property
    def result(self) -> int:
        """The position of the buffer that the kernel writes."""
        return next(i for i, b in enumerate(self.kernel.buffers) if b.written)


def outer_buffers(chain: Sequence[ChainedKernel]) -> list[tuple[int, int]]:
    """The (kernel, buffer) positions of a chain's operands and then of its result: all buffers but those between two
    kernels."""
    last = len(chain) - 1
    between = {(k, link.source) for k, link in enumerate(chain)} | {(k, chain[k].result) for k in range(last)}
    return [(k, i) for k, link in enumerate(chain) for i in range(len(link.kernel.buffers)) if (k, i) not in between]


def find_chains(graph: Graph, sharing: Sharing, least: int) -> list[tuple[Node, ...]]:
    """The regions of each chain in order, in which values of at least `least` bytes are passed on. No region is in two
    chains."""
    finder = _Finder(graph, sharing, least)
    chains: list[tuple[Node, ...]] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        chain = finder.chain_from(node) if node not in taken else ()
        chains += [chain] if chain else []
        taken.update(chain)
    return chains


class _Finder:
    def __init__(self, graph: Graph, sharing: Sharing, least: int) -> None:
        self.sharing, self.least = sharing, least
        self.kept = {sharing.resolve(v).base for v in graph.outputs} | sharing.prepared
        self.reads: dict[Value, list[tuple[Node, Value]]] = {}
        for node in graph.nodes:
            for value in node.inputs if view_of(node) is None else ():
                self.reads.setdefault(sharing.resolve(value).base, []).append((node, value))

    def chain_from(self, node: Node) -> tuple[Node, ...]:
        """The chain that begins with `node`; empty if none does."""
        chain = [node]
        if not _is_product(node):
            return ()
        while (reader := self._reader(chain[-1])) is not None:
            chain.append(reader)
            if _is_product(reader):
                return tuple(chain) if len(chain) > 2 else ()
            if not isinstance(reader.op, Fused) or reader.op.kind != Kind.ROW.value:
                break
        return ()

    def _reader(self, node: Node) -> Node | None:
        """The only reader of the only result of `node`, if it reads all of it as rows of the same length."""
        result, *more = node.outputs
        reads = self.reads.get(result, ())
        if more or len(reads) != 1 or result in self.kept or result in self.sharing.views:
            return None
        ((reader, value),) = reads
        return reader if result.type.nbytes >= self.least and self._has_rows_of(value, result) else None

    def _has_rows_of(self, value: Value, result: Value) -> bool:
        """True if `value` is `result`, or the same rows with other leading axes."""
        view = self.sharing.resolve(value)
        whole = view.offset == 0 and view.strides is None and value.type.size == result.type.size
        return whole and result.type.layout is None and value.type.shape[-1:] == result.type.shape[-1:]


def _is_product(node: Node) -> bool:
    return (
        isinstance(node.op, Fused)
        and node.op.kind == Kind.CONTRACT.value
        and any(isinstance(n.op, Dot) for n in node.op.body.nodes)
    )
