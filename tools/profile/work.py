"""The work of a program's launches: operations, and bytes that are read and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from ...codegen.driver import Compilation
from ...codegen.emission import Packing
from ...codegen.lower import lower_region
from ...ir.dialects.core import (
    LQ,
    LU,
    Call,
    Cholesky,
    Cond,
    Conv,
    Cumulative,
    Fused,
    HostCallback,
    Pointwise,
    Reduce,
    ReduceWindow,
    Scan,
    SymmetricEigen,
    TriangularSolve,
    While,
    products_of,
)
from ...ir.graph import Graph, Node, Value
from ...ir.kernel import Affine, AxisValue, Contract, Extent, Kernel, Load, Ref, children, local, walk
from ...ir.kernel import Expr as Expression
from ...ir.lazy_dataclass import dataclass
from ...ir.program import LAYOUT
from ...ir.types import TensorType
from ...passes.plan_memory import Sharing, concat_of

_UNKNOWN = (While, Cond, HostCallback, Cholesky, TriangularSolve, LU, LQ, SymmetricEigen)
"""Operations of these depend on data, or are not counted."""


@dataclass(frozen=True)
class Work:
    """`multiply_adds` are those of convolutions and matrix products, `others` the operations on single elements.
    `saves_products`: a convolution does fewer multiply-adds than its definition, which is counted."""

    multiply_adds: int = 0
    others: int = 0
    nbytes: int = 0
    saves_products: bool = False

    @property
    def operations(self) -> int:
        """The floating point operations: a multiply-add is two."""
        return 2 * self.multiply_adds + self.others


@dataclass(frozen=True)
class Region:
    """Launches of a program that compute one region together, and their work. None: it cannot be known."""

    launches: tuple[int, ...]
    work: Work | None


def regions(compiled: Compilation) -> list[Region]:
    """The regions of a run, in order. Every launch of `Program.launches` is in one."""
    prepared = compiled.sharing.prepared
    count = 0
    all_regions: list[Region] = []
    launched: dict[Node, list[int]] = {}
    packed: dict[Node, dict[Value, Packing]] = {}
    copied: dict[Node, int] = {}
    moves: dict[tuple[Value, Packing], int] = {}
    for step in compiled.steps:
        for position, packing, _ in step.packs:
            value = step.operands[position]
            packed.setdefault(step.node, {})[value] = packing
            if value not in prepared and (value, packing) not in moves:
                moves[value, packing] = count
                count += 1
        if prepared.issuperset(step.node.outputs):
            continue
        numbers = launched.setdefault(step.node, [])
        cleared = [step.operands[position] for position in step.emission.cleared]
        for value in cleared:
            all_regions.append(Region((count,), Work(nbytes=_halo_bytes(compiled.sharing.resolve(value).base.type))))
            count += 1
        if step.control is not None or step.function is not None:
            numbers.append(count)
            count += 1
        for spec in step.emission.launches[len(cleared) :]:
            if spec.kind == LAYOUT:
                all_regions.append(Region((count,), Work(nbytes=2 * _windowed_bytes(step.node))))
            else:
                numbers.append(count)
            count += 1
        copied[step.node] = copied.get(step.node, 0) + 2 * step.operands[0].type.nbytes
    assert count == len(compiled.program.computations)
    all_regions += [Region((n,), Work(nbytes=v.type.nbytes + p.nbytes)) for (v, p), n in moves.items()]
    nodes = {step.node: step.nodes for step in compiled.steps}
    saving = {step.node for step in compiled.steps if step.emission.saves_products}
    for node, numbers in launched.items():
        joins = concat_of(node) is not None  # its steps copy the pieces that are not computed in place
        moved = Work(nbytes=copied[node]) if joins else None
        work = moved or _work(nodes[node], packed.get(node, {}), compiled.sharing)
        all_regions.append(Region(tuple(numbers), work and replace(work, saves_products=node in saving)))
    return sorted(all_regions, key=lambda region: region.launches)


def _halo_bytes(type: TensorType) -> int:
    assert type.layout is not None
    halo = ((0, 0),) * len(type.layout.halo)
    return type.nbytes - replace(type, layout=replace(type.layout, halo=halo)).nbytes


def _windowed_bytes(node: Node) -> int:
    """The bytes of the input of a region's convolution."""
    assert isinstance(node.op, Fused)
    return next(n.inputs[0].type.nbytes for n in node.op.body.nodes if isinstance(n.op, Conv))


def _work(nodes: Sequence[Node], packed: dict[Value, Packing], sharing: Sharing) -> Work | None:
    products, others = _operations(nodes, 1)
    if others is None:
        return None
    return Work(products, others, _bytes(nodes, packed, sharing))


# --- operations -------------------------------------------------------------------------------------------------------


def _operations(nodes: Iterable[Node], times: int) -> tuple[int, int | None]:
    """(products that are added up, operations on single elements) of `times` runs; None if they cannot be counted."""
    products, others = 0, 0
    for node in nodes:
        if isinstance(node.op, _UNKNOWN):
            return 0, None
        body, steps = _nested(node)
        if body is None:
            products += times * products_of(node)
            others += times * _single(node)
            continue
        inner_products, inner = _operations(body.nodes, times * steps)
        if inner is None:
            return 0, None
        products, others = products + inner_products, others + inner
    return products, others


def _nested(node: Node) -> tuple[Graph | None, int]:
    """The graph that a node runs and how often; None if it runs none."""
    if isinstance(node.op, Scan):
        return node.op.body, node.op.length
    return (node.op.body, 1) if isinstance(node.op, Fused | Call) else (None, 1)


def _single(node: Node) -> int:
    """The operations on single elements: one for each element of a pointwise result, of a sum's or an extremum's
    operand, and of a window; conversions and moves have none."""
    if isinstance(node.op, Reduce | Cumulative):
        return node.inputs[0].type.size
    if isinstance(node.op, ReduceWindow):
        return node.outputs[0].type.size * prod(node.op.window)
    return node.outputs[0].type.size if isinstance(node.op, Pointwise) else 0


# --- bytes ------------------------------------------------------------------------------------------------------------


def _bytes(nodes: Sequence[Node], packed: dict[Value, Packing], sharing: Sharing) -> int:
    """Each operand is read once, as far as it is read, and each result is written once. Values between the nodes of a
    chain are not in memory as a whole."""
    between = {v for node in nodes[:-1] for v in node.outputs}
    reads: dict[Value, int] = {}
    for node in nodes:
        region_reads = _region_reads(node) if isinstance(node.op, Fused) else {v: v.type.nbytes for v in node.inputs}
        reads |= {v: max(n, reads.get(v, 0)) for v, n in region_reads.items() if sharing.resolve(v).base not in between}
    reads |= {value: packing.nbytes for value, packing in packed.items()}
    return sum(reads.values()) + sum(v.type.nbytes for v in nodes[-1].outputs)


def _region_reads(node: Node) -> dict[Value, int]:
    assert isinstance(node.op, Fused)
    kernel = lower_region(node.op)
    loads: dict[str, set[Load]] = {}
    for stage in kernel.stages:
        for expr in walk(stage.value):
            if isinstance(expr, Load):
                loads.setdefault(expr.buffer, set()).add(expr)
    windows = {
        w.name: w.extent for s in kernel.stages for e in walk(s.value) if isinstance(e, Contract) for w in e.windows
    }
    reads: dict[Value, int] = {}
    for value, buffer in zip(node.inputs, kernel.buffers, strict=False):
        elements = sum(_points(kernel, load, windows) for load in loads.get(buffer.name, ()))
        read = min(elements * value.type.dtype.itemsize, value.type.nbytes)
        reads[value] = max(read, reads.get(value, 0))
    return reads


def _points(kernel: Kernel, load: Load, windows: dict[str, Extent]) -> int:
    """The number of index values of a load: not more elements than that are read."""
    sizes = {a.name: a.extent for a in kernel.axes} | windows
    extents = [sizes[name] for name in _axes(kernel, load.index)]
    return prod(n for n in extents if isinstance(n, int))


def _axes(kernel: Kernel, index: Sequence[Affine | Expression]) -> set[str]:
    """The axes on which an index depends."""
    axes: set[str] = set()
    for part in index:
        if isinstance(part, Affine):
            axes |= {name for name, _ in part.terms}
        elif isinstance(part, AxisValue):
            axes.add(part.axis)
        elif isinstance(part, Ref):
            axes |= set(local(kernel, part.local).axes)
        elif isinstance(part, Load):
            axes |= _axes(kernel, part.index)
        else:
            axes |= _axes(kernel, children(part))
    return axes
