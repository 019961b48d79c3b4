"""The operations of a module on tensors that are scheduled, and how their loops run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...ir.lazy_dataclass import dataclass
from ..stablehlo.upstream import Upstream
from .memory import walk

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


_CONTRACTIONS = {
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
_SCHEDULED = frozenset((*_CONTRACTIONS, _GENERIC, _FILL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation: the extents of its loops, and those that can run in parallel, the best one first. `bits` are those
    of an element of the result.

    `reader` is the elementwise operation that alone reads the result, and `initial` the tag of the operation that fills
    the result before.
    """

    tag: str
    extents: tuple[int, ...]
    parallel: tuple[int, ...]
    bits: int
    contraction: Contraction | None = None
    reader: str | None = None
    initial: str | None = None


def find_operations(upstream: Upstream, module: Any) -> list[Operation]:
    """The operations of a module in order, each of which gets a tag, as does what fills its result."""
    finder = _Finder(upstream.ir)
    operations: list[Any] = []
    walk(
        module.operation,
        lambda op: operations.append(op.operation) if op.operation.name.startswith("linalg.") else None,
    )
    for op in operations:
        finder.tag(op)
    described = [op for each in reversed(operations) if (op := finder.operation(each)) is not None]
    return [op for op in reversed(described) if op.tag not in finder.taken]


class _Finder:
    """Describes operations, the last one first: an elementwise operation is computed with the last contraction that it
    reads."""

    def __init__(self, ir: Any) -> None:
        self.ir = ir
        self.tags = 0
        self.taken: set[str] = set()

    def tag(self, op: Any) -> str:
        """The tag of an operation, which gets a new one."""
        self.tags += 1
        op.attributes[TAG] = self.ir.StringAttr.get(str(self.tags))
        return str(self.tags)

    def operation(self, op: Any) -> Operation | None:
        """An operation that can be scheduled; None for any other."""
        types = [v.type for v in op.operands]
        if not all(isinstance(t, self.ir.RankedTensorType) and t.has_static_shape and 0 not in t.shape for t in types):
            return None
        if op.name in _CONTRACTIONS:
            return self._contraction(op, types, _CONTRACTIONS[op.name])
        return self._generic(op, types) if op.name == _GENERIC else None

    def _contraction(self, op: Any, types: Sequence[Any], known: Contraction) -> Operation | None:
        element = types[-1].element_type
        if any(t.element_type != element for t in types) or str(element) not in ("f32", "f64"):
            return None
        x, w, out = (tuple(t.shape) for t in types)
        reduced = x[-1:] if known.outer is None else w[: len(w) - known.outer]
        rows = [k for k in range(len(out)) if k != known.columns and not (known.decomposed and k == known.rows)]
        return Operation(
            tag=op.attributes[TAG].value,
            extents=(*out, *reduced),
            parallel=(known.columns, *rows) if prod(w) > prod(x) else (*rows, known.columns),
            bits=element.width,
            contraction=known,
            reader=self._reader(op),
            initial=self._initial(op),
        )

    def _generic(self, op: Any, types: Sequence[Any]) -> Operation | None:
        """The loops of an operation along axes of its operands."""
        extents: dict[int, int] = {}
        for map, type in zip(op.attributes["indexing_maps"], types, strict=True):
            for axis, extent in zip(map.value.results, type.shape, strict=True):
                if isinstance(axis, self.ir.AffineDimExpr):
                    extents[axis.position] = extent
        kinds = [str(kind) for kind in op.attributes["iterator_types"]]
        if len(extents) < len(kinds):
            return None
        return Operation(
            tag=op.attributes[TAG].value,
            extents=tuple(extents[k] for k in range(len(kinds))),
            parallel=tuple(k for k, kind in enumerate(kinds) if "parallel" in kind),
            bits=32,
        )

    def _reader(self, op: Any) -> str | None:
        """The tag of the elementwise operation that alone reads the result of `op`, in its order."""
        uses = list(op.results[0].uses)
        if len(uses) != 1 or uses[0].owner.operation.name != _GENERIC:
            return None
        reader, number = uses[0].owner, uses[0].operand_number
        tag, maps = reader.attributes[TAG].value, reader.attributes["indexing_maps"]
        same = [maps[number].value, *(m.value for m in list(maps)[len(reader.operands) - len(reader.results) :])]
        is_elementwise = all("parallel" in str(kind) for kind in reader.attributes["iterator_types"])
        identity = self.ir.AffineMap.get_identity(maps[number].value.n_dims)
        if tag in self.taken or not is_elementwise or any(m != identity for m in same):
            return None
        self.taken.add(tag)
        return tag

    def _initial(self, op: Any) -> str | None:
        """The tag of the operation that fills the result of `op`, which gets one of its own."""
        operand = op.operands[len(op.operands) - 1]
        fill = operand.owner
        if isinstance(fill, self.ir.Block) or fill.name != _FILL:
            return None
        with self.ir.InsertionPoint(op):
            copy = fill.operation.clone()
        op.operands[len(op.operands) - 1] = copy.results[0]
        return self.tag(copy)
