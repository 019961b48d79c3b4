"""The operations of a module on tensors that are scheduled, and which of them are computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from ...ir.lazy_dataclass import dataclass
from ..stablehlo.upstream import Upstream, find_all

TAG = "mxforge.operation"
"""The attribute by which a script finds an operation."""


class Contraction(NamedTuple):
    """The loops over the rows and columns of a contraction's tiles. The reduced loops are over the axes of the second
    operand, without so many last ones; over the last axis of the first operand if that is None. It is `decomposed`: a
    tile of a window's operation has one tap along the first axis of space, so it is the operation along the other."""

    rows: int
    columns: int
    outer: int | None
    decomposed: bool = False


CONTRACTIONS = {
    "linalg.matmul": Contraction(0, 1, None),
    "linalg.batch_matmul": Contraction(1, 2, None),
    "linalg.conv_1d_nwc_wcf": Contraction(1, 2, 1),
    "linalg.conv_2d_nhwc_hwcf": Contraction(2, 3, 1, decomposed=True),
    "linalg.depthwise_conv_2d_nhwc_hwc": Contraction(2, 3, 1, decomposed=True),
    "linalg.pooling_nhwc_max": Contraction(2, 3, 0, decomposed=True),
    "linalg.pooling_nhwc_sum": Contraction(2, 3, 0, decomposed=True),
}
"""Named operations that have a schedule in registers. Their loops are those of the result and then the reduced ones."""

_GENERIC, _FILL = "linalg.generic", "linalg.fill"
_MOVES = ("linalg.copy", _FILL, "linalg.map")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation: the extents of its loops, and those that can run in parallel, the best one first. `bits` are those
    of an element of the result. It is a contraction, or `is_vector`: its innermost loop, which is parallel or the only
    reduced one, runs over neighbours in memory and computes with numbers alone.

    `reader` is the elementwise operation that alone reads the result. `producers` are computed together with this
    operation row by row, the last one first: a row along the first `rows` loops reads only the same row of their
    results.
    """

    tag: str
    extents: tuple[int, ...]
    parallel: tuple[int, ...]
    bits: int
    contraction: Contraction | None = None
    is_vector: bool = False
    reader: Operation | None = None
    producers: tuple[Operation, ...] = ()
    rows: int = 0

    @property
    def reduces(self) -> bool:
        """True if some loop is reduced."""
        return len(self.parallel) < len(self.extents)


def find_operations(upstream: Upstream, module: Any) -> list[Operation]:
    """The operations of a module that are computed alone, or with others that they have; all get tags."""
    finder = _Finder(upstream.ir, "operation")
    operations = find_all(module.operation, (*CONTRACTIONS, _GENERIC, _FILL))
    for op in operations:
        finder.tag(op)
    contractions, others = (
        [op for op in operations if (op.name in CONTRACTIONS) is chosen] for chosen in (True, False)
    )
    described = [finder.operation(op) for op in (*reversed(contractions), *reversed(others))]
    return [op for op in described if op is not None]


def find_moves(upstream: Upstream, module: Any) -> list[Operation]:
    """The copies and fills outside of loops of a module on buffers; all get tags."""
    finder = _Finder(upstream.ir, "move")
    moves: list[Operation] = []
    for function in module.body.operations:
        for block in [block for region in function.operation.regions for block in region]:
            for op in block.operations:
                type = op.operands[len(op.operands) - 1].type if op.operation.name in _MOVES else None
                if type is not None and type.has_static_shape and 0 not in type.shape:
                    axes = tuple(range(len(type.shape)))
                    bits = _bits(type.element_type)
                    moves.append(Operation(tag=finder.tag(op), extents=tuple(type.shape), parallel=axes, bits=bits))
    return moves


class _Finder:
    """Describes operations, contractions first, and the last ones first: an elementwise operation is computed with the
    last contraction that it reads, a producer with the last operation that reads it. `taken` are the tags of both."""

    def __init__(self, ir: Any, prefix: str) -> None:
        self.ir, self.prefix = ir, prefix
        self.tags = 0
        self.taken: set[str] = set()

    def tag(self, op: Any) -> str:
        """A new tag for an operation."""
        self.tags += 1
        tag = f"{self.prefix}{self.tags}"
        op.attributes[TAG] = self.ir.StringAttr.get(tag)
        return tag

    def operation(self, op: Any) -> Operation | None:
        """An operation that is computed alone or with others that it has; None for any other."""
        if op.name in CONTRACTIONS:
            return self._contraction(op, CONTRACTIONS[op.name])
        return self._generic(op) if op.name == _GENERIC and _tag(op) not in self.taken else None

    def _contraction(self, op: Any, known: Contraction) -> Operation | None:
        types = [v.type for v in op.operands]
        element = types[-1].element_type
        is_number = all(t.element_type == element for t in types) and str(element) in ("f32", "f64")
        if not is_number or not all(t.has_static_shape and 0 not in t.shape for t in types):
            return None
        x, w, out = (tuple(t.shape) for t in types)
        reduced = x[-1:] if known.outer is None else w[: len(w) - known.outer]
        rows = [k for k in range(len(out)) if k != known.columns and not (known.decomposed and k == known.rows)]
        return Operation(
            tag=_tag(op),
            extents=(*out, *reduced),
            parallel=(known.columns, *rows) if prod(w) > prod(x) else (*rows, known.columns),
            bits=element.width,
            contraction=known,
            reader=self._reader(op),
        )

    def _generic(self, op: Any) -> Operation | None:
        described = self._loops(op)
        if described is None or described.reduces:
            return described
        producers, rows = self._producers(op)
        return replace(described, producers=producers, rows=rows)

    def _loops(self, op: Any) -> Operation | None:
        """The loops of a generic operation along axes of its operands; None if an extent is not known, or an operand is
        read backwards, which upstream cannot tile."""
        types, maps = [v.type for v in op.operands], _maps(op)
        if any("-" in str(axis) for map in maps for axis in map.results):
            return None
        if not all(isinstance(t, self.ir.RankedTensorType) and t.has_static_shape and 0 not in t.shape for t in types):
            return None
        extents: dict[int, int] = {}
        for map, type in zip(maps, types, strict=True):
            for axis, extent in zip(map.results, type.shape, strict=True):
                if isinstance(axis, self.ir.AffineDimExpr):
                    extents[axis.position] = extent
        parallel = _parallel(op)
        if len(extents) < len(parallel):
            return None
        return Operation(
            tag=_tag(op),
            extents=tuple(extents[k] for k in range(len(parallel))),
            parallel=tuple(k for k, is_parallel in enumerate(parallel) if is_parallel),
            bits=max(_bits(t.element_type) for t in types),
            is_vector=self._is_vector(op, types, maps, parallel),
        )

    def _is_vector(self, op: Any, types: Sequence[Any], maps: Sequence[Any], parallel: Sequence[bool]) -> bool:
        """See `Operation`. Truth values are bytes in memory, but bits of a vector."""
        last = len(parallel) - 1
        if last < 0 or not all(parallel[:last]) or any(_bits(t.element_type) < 8 for t in types):
            return False
        axes = [[a.position if isinstance(a, self.ir.AffineDimExpr) else None for a in map.results] for map in maps]
        if any(None in of or last in of[:-1] for of in axes):
            return False
        results = axes[len(axes) - len(op.results) :]
        written = [bool(of) and of[-1] == last for of in results]
        if parallel[last] is not all(written) or (not parallel[last] and (any(written) or len(results) > 1)):
            return False
        body = [inner.operation for inner in op.regions[0].blocks[0].operations]
        return all(inner.name.startswith(("arith.", "math.")) for inner in body[:-1])

    # -- operations that are computed together

    def _producers(self, last: Any) -> tuple[tuple[Operation, ...], int]:
        """The producers of an elementwise operation, if one of them reduces rows, and the loops of rows."""
        members, rows = [last], len(_parallel(last))
        for op in members:
            for operand in op.operands:
                producer = operand.owner
                if self._is_free(producer) and producer not in members:
                    uses = [(use.owner.operation, use.operand_number) for use in operand.uses]
                    common = min(self._common_rows(producer, user, number) for user, number in uses)
                    if common and all(user in members for user, _ in uses):
                        members.append(producer)
                        rows = min(rows, common)
        described = [self._loops(op) for op in members[1:]]
        if not any(op is None or op.reduces for op in described) or None in described:
            return (), 0
        for op in members[1:]:
            self._own_buffer(op)
        producers = tuple([op for op in described if op is not None])
        self.taken.update(op.tag for op in producers)
        return producers, rows

    def _own_buffer(self, op: Any) -> None:
        """Let an operation write into a tensor of its own, so that another one that has its buffer cannot overwrite a
        result that is still read."""
        last = len(op.operands) - 1
        empty = op.operands[last].owner
        if not isinstance(empty, self.ir.Block) and empty.name == "tensor.empty":
            with self.ir.InsertionPoint(op):
                op.operands[last] = empty.operation.clone().results[0]

    def _is_free(self, op: Any) -> bool:
        if isinstance(op, self.ir.Block) or op.name != _GENERIC or len(op.results) != 1:
            return False
        return _tag(op) not in self.taken

    def _common_rows(self, producer: Any, user: Any, number: int) -> int:
        """The first loops of a producer and of a user that run over the same axes of the value between them."""
        if user.name != _GENERIC:
            return 0
        written, read = _maps(producer)[-1].results, _maps(user)[number].results
        kinds = zip(_parallel(producer), _parallel(user), strict=False)
        common = 0
        for axes, are_parallel in zip(zip(written, read, strict=True), kinds, strict=False):
            expected = self.ir.AffineDimExpr.get(common)
            if axes != (expected, expected) or not all(are_parallel):
                break
            common += 1
        return common

    def _reader(self, op: Any) -> Operation | None:
        """The elementwise operation that alone reads the result of `op`, in its order."""
        uses = list(op.results[0].uses)
        reader = uses[0].owner.operation if len(uses) == 1 else None
        if reader is None or not self._is_free(reader) or not all(_parallel(reader)):
            return None
        maps = _maps(reader)
        identity = self.ir.AffineMap.get_identity(len(_parallel(reader)))
        if maps[uses[0].operand_number] != identity or maps[-1] != identity:
            return None
        described = self._loops(reader)
        if described is not None:
            self.taken.add(described.tag)
        return described


def _tag(op: Any) -> str:
    return op.attributes[TAG].value


def _maps(op: Any) -> list[Any]:
    """The maps from the loops of an operation to the axes of its operands."""
    return [attribute.value for attribute in op.attributes["indexing_maps"]]


def _parallel(op: Any) -> list[bool]:
    """Which loops of an operation are parallel."""
    return ["parallel" in str(kind) for kind in op.attributes["iterator_types"]]


def _bits(element: Any) -> int:
    """The bits of an element; 0 for an index, which vectors do not compute with."""
    return getattr(element, "width", 0)
