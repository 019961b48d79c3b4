"""Operators that concatenate arrays and split them along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from ...graph import Value
from ...types import DType
from .cast_ops import MIXED
from .declared import Named
from .operator import Operator, operator
from .parameters import Bool, Int, Ints, Positive
from .shapes import UNKNOWN, PartialShape, either, known_rank, normalize_axis, unify, unify_all, unify_at, unify_some

if TYPE_CHECKING:
    from .builder import MxBuilder


@operator("Concat", aliases=("_sparse_concat", "concat"))
class Concat(Operator):
    """Concatenates arrays along an existing axis. Their other extents must be equal.

    Args:
        data: The arrays.
        dim: The axis.
    Returns:
        An array whose extent along the axis is the sum of the inputs' extents.
    Example:
        >>> nd.concat(nd.array([[1], [2]]), nd.array([[3], [4]]), dim=1).asnumpy()
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """

    inputs = ("data*",)
    num_args: Int
    dim: Int = 1

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        known = next((s for s in (*inputs, *outputs) if s is not None), None)
        if known is None:
            return
        axis = normalize_axis(self.dim, len(known))
        common: PartialShape = None
        for shapes in (inputs, outputs):
            for i in range(len(shapes)):
                unify_at(shapes, i, common)
                if (shape := shapes[i]) is not None:
                    common = (*shape[:axis], UNKNOWN, *shape[axis + 1 :])
        assert common is not None
        for shapes in (inputs, outputs):
            shapes[:] = [(*common[:axis], UNKNOWN if s is None else s[axis], *common[axis + 1 :]) for s in shapes]
        self._complete_axis(inputs, outputs, axis)

    def _complete_axis(self, inputs: list[PartialShape], outputs: list[PartialShape], axis: int) -> None:
        extents = [s[axis] for s in inputs if s is not None]
        out = outputs[0]
        assert out is not None
        if extents.count(UNKNOWN) == 1 and out[axis] is not UNKNOWN:
            missing = extents.index(UNKNOWN)
            shape = inputs[missing]
            assert shape is not None
            rest = sum(n for n in extents if n is not UNKNOWN)
            inputs[missing] = (*shape[:axis], out[axis] - rest, *shape[axis + 1 :])
        outputs[0] = unify(out, (*out[:axis], sum(extents), *out[axis + 1 :]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if not inputs:
            raise ValueError("at least one array is required")
        return b.concat(list(inputs), normalize_axis(self.dim, inputs[0].type.rank))


@operator("_rnn_param_concat", aliases=("_npi_rnn_param_concat",))
class RnnParamConcat(Concat):
    """Concatenates the weights and biases of a recurrent network into the vector that RNN takes."""

    def _complete_axis(self, inputs: list[PartialShape], outputs: list[PartialShape], axis: int) -> None:
        # Several unknown parts belong to the directions of one layer: they share the rest equally, as in MXNet.
        extents = [s[axis] for s in inputs if s is not None]
        unknown, total = extents.count(UNKNOWN), outputs[0][axis] if outputs[0] is not None else UNKNOWN
        if total is not UNKNOWN and unknown > 1:
            share, left = divmod(total - sum(n for n in extents if n is not UNKNOWN), unknown)
            if not left:
                inputs[:] = [(*s[:axis], either(s[axis], share), *s[axis + 1 :]) for s in inputs if s is not None]
        super()._complete_axis(inputs, outputs, axis)


@operator("stack")
class Stack(Operator):
    """Concatenates arrays of one shape along a new axis.

    Args:
        data: The arrays.
        axis: Position of the new axis.
    Returns:
        An array with one more axis than the inputs.
    Example:
        >>> nd.stack(nd.array([1, 2]), nd.array([3, 4]), axis=1).asnumpy()
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """

    inputs = ("data*",)
    axis: Int = 0
    num_args: Int

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_some(inputs, range(len(inputs)))

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if not inputs:
            raise ValueError("at least one array is required")
        axis = normalize_axis(self.axis, inputs[0].type.rank + 1)
        return b.concat([b.expand_dims(x, axis) for x in inputs], axis)


def part(b: MxBuilder, x: Value, axis: int, begin: int, end: int, squeeze: bool) -> Value:
    """The slice [begin, end) of an axis, without the axis if `squeeze`."""
    piece = b.slice_axis(x, axis, begin, end)
    shape = piece.type.shape
    if not squeeze:
        return piece
    if end - begin != 1:
        raise ValueError(f"squeeze_axis requires parts of extent 1, got {end - begin}")
    return b.reshape(piece, shape[:axis] + shape[axis + 1 :])


@operator("SliceChannel", aliases=("split",))
class SliceChannel(Operator):
    """Splits an array into equal parts along an axis.

    Args:
        num_outputs: Number of parts; must divide the extent.
        axis: The axis.
        squeeze_axis: True to remove the axis from the parts; requires parts of extent 1.
    Returns:
        output: One array per part.
    Example:
        >>> [part.asnumpy().tolist() for part in nd.split(nd.array([[1, 2], [3, 4]]), num_outputs=2, axis=0)]
        [[[1.0, 2.0]], [[3.0, 4.0]]]
    """

    sections: Annotated[Positive, Named("num_outputs")]
    axis: Int = 1
    squeeze_axis: Bool = False

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.sections))

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_all(outputs)
        data, piece = inputs[0], outputs[0]
        if data is None or piece is None or (self.squeeze_axis and len(data) == 1):
            return
        axis = normalize_axis(self.axis, len(data))
        before, after = piece[:axis], piece[axis:]
        if self.squeeze_axis:
            unify_at(inputs, 0, (*before, self.sections, *after))
        else:
            unify_at(inputs, 0, (*before, after[0] * self.sections, *after[1:]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        x = inputs[0]
        axis = normalize_axis(self.axis, x.type.rank)
        extent = x.type.shape[axis]
        if extent % self.sections:
            raise ValueError(f"an extent of {extent} cannot be split into {self.sections} equal parts")
        width = extent // self.sections
        starts = [i * width for i in range(self.sections)]
        return tuple(part(b, x, axis, begin, begin + width, self.squeeze_axis) for begin in starts)


@operator("_split_v2", aliases=("_npi_split",))
class SplitV2(Operator):
    """Splits an array along an axis into equal parts, or at positions.

    Args:
        indices: Start positions of the parts, the first is 0; used without `sections`.
        axis: The axis.
        squeeze_axis: True to remove the axis from the parts; requires parts of extent 1.
        sections: Number of equal parts; 0 to split at `indices`.
    Returns:
        output: One array per part.
    """

    indices: Ints
    axis: Int = 1
    squeeze_axis: Bool = False
    sections: Int = 0

    def check(self) -> None:
        if not self._count():
            raise ValueError(f"_split_v2: indices={self.indices} and sections={self.sections}: produce no parts")

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self._count()))

    def _count(self) -> int:
        return self.sections if self.sections > 0 else len(self.indices)

    def _cuts(self, extent: int) -> list[int]:
        """The start of each part. If equal parts do not divide the extent, the first ones are one element longer. An
        axis without elements has empty parts, whatever the indices."""
        if self.sections > 0:
            width, longer = divmod(extent, self.sections)
            return [i * width + min(i, longer) for i in range(self.sections)]
        if not extent:
            return [0] * len(self.indices)
        rising = list(self.indices) == sorted(self.indices) and self.indices[:1] == (0,)
        if not rising or self.indices[-1] > extent:
            raise ValueError(f"indices={self.indices} must rise from 0 to at most the extent {extent}")
        return list(self.indices)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        rank = known_rank(inputs[0])
        if rank is None or (self.squeeze_axis and rank == 1):
            return
        axis = normalize_axis(self.axis, rank)
        for piece in outputs:
            if piece is not None:
                unify_at(inputs, 0, (*piece[:axis], UNKNOWN, *piece[axis if self.squeeze_axis else axis + 1 :]))

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        x = inputs[0]
        axis = normalize_axis(self.axis, x.type.rank)
        extent = x.type.shape[axis]
        cuts = self._cuts(extent)
        spans = zip(cuts, [*cuts[1:], extent], strict=True)
        return tuple(part(b, x, axis, begin, end, self.squeeze_axis) for begin, end in spans)


@operator("amp_multicast")
class AmpMulticast(Operator):
    """Casts float32 and 16-bit arrays to one dtype, as mixed precision inserts it; other arrays are unchanged.

    Args:
        data: The arrays.
        num_outputs: Number of arrays.
        cast_narrow: True for the narrowest of the inputs' dtypes, False for the widest.
    Returns:
        output: One array per input.
    """

    inputs = ("data*",)
    variadic = "sections"
    sections: Annotated[Positive, Named("num_outputs")]
    cast_narrow: Bool = False

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.sections))

    def variadic_names(self, count: int) -> list[str]:
        return [f"data_{i}" for i in range(count)]

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """The dtypes of the arrays are independent."""

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return self._targets(inputs)

    def _targets(self, dtypes: Sequence[DType]) -> list[DType]:
        moving = [d for d in dtypes if d in MIXED]
        chosen = (min if self.cast_narrow else max)(moving, key=lambda d: d.bits, default=None)
        return [chosen if chosen and d in MIXED else d for d in dtypes]

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        targets = self._targets([x.type.dtype for x in inputs])
        return tuple(b.cast(x, target) for x, target in zip(inputs, targets, strict=True))
