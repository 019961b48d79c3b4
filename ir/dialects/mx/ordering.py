"""Sorting and top-k selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ...graph import Value
from ...types import DType
from .operator import Operator, Results, operator
from .parameters import Bool, Int, OptionalInt
from .shapes import normalize_axis

if TYPE_CHECKING:
    from .builder import MxBuilder

IndexDType = Literal["float16", "float32", "float64", "int32", "int64", "uint8"]


def ordered(b: MxBuilder, x: Value, axis: int | None, ascending: bool) -> tuple[Value, Value, int]:
    """x sorted along an axis (flattened for None), the original positions of its elements, and the axis."""
    if axis is None:
        x = b.reshape(x, (x.type.size,))
    along = normalize_axis(axis or 0, x.type.rank)
    places = b.iota(x.type.shape, DType.I32, along)
    values, order = b.sort([x, places], along, descending=not ascending, stable=True)
    return values, order, along


@operator("sort", aliases=("_npi_sort",))
class Sort(Operator):
    """Sorts the elements along an axis.

    Args:
        axis: The axis; None for the flattened array.
        is_ascend: False for the largest element first.
    Returns:
        output0: An array of data's shape.
    Example:
        >>> nd.sort(nd.array([[3, 1, 2]])).asnumpy()
        array([[1., 2., 3.]], dtype=float32)
    """

    outputs = ("output0", "output1")
    hidden = 1
    axis: OptionalInt = -1
    is_ascend: Bool = True

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, Value]:
        values, order, _ = ordered(b, inputs[0], self.axis, self.is_ascend)
        return values, order


@operator("argsort", aliases=("_npi_argsort",))
class ArgSort(Operator):
    """The positions that sort the elements along an axis.

    Args:
        axis: The axis; None for the flattened array.
        is_ascend: False for the position of the largest element first.
        dtype: Dtype of the result.
    Returns:
        An array of data's shape.
    Example:
        >>> nd.argsort(nd.array([3, 1, 2])).asnumpy()
        array([1., 2., 0.], dtype=float32)
    """

    axis: OptionalInt = -1
    is_ascend: Bool = True
    dtype: IndexDType = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        _, order, _ = ordered(b, inputs[0], self.axis, self.is_ascend)
        return b.cast(order, DType.from_numpy(self.dtype))


@operator("topk", aliases=("_npx_topk",))
class TopK(Operator):
    """The k largest elements along an axis, or the k smallest.

    Args:
        axis: The axis; None for the flattened array.
        k: Number of elements; all if less than 1.
        ret_typ: What is returned: "indices", "value", "both" (values, then indices), or a "mask" of data's shape.
        is_ascend: True for the smallest elements, in ascending order.
        dtype: Dtype of the indices.
    Returns:
        data's shape with extent k along the axis.
    Example:
        >>> nd.topk(nd.array([3, 1, 2]), k=2, ret_typ="value").asnumpy()
        array([3., 2.], dtype=float32)
    """

    axis: OptionalInt = -1
    k: Int = 1
    ret_typ: Literal["both", "indices", "mask", "value"] = "indices"
    is_ascend: Bool = False
    dtype: IndexDType = "float32"

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1") if self.ret_typ in ("value", "both") else ("output",)

    @property
    def visible_outputs(self) -> int:
        return 2 if self.ret_typ == "both" else 1

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        index = DType.from_numpy(self.dtype)
        return {"indices": [index], "mask": [inputs[0]]}.get(self.ret_typ, [inputs[0], index])

    def fixed_dtypes(self) -> Sequence[DType | None]:
        index = DType.from_numpy(self.dtype)
        return {"indices": [index], "mask": [None]}.get(self.ret_typ, [None, index])

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        x = inputs[0]
        values, order, axis = ordered(b, x, self.axis, self.is_ascend)
        extent = order.type.shape[axis]
        if self.k > extent:
            raise ValueError(f"k must not exceed the {extent} elements of the axis, got {self.k}")
        k = self.k if self.k > 0 else extent
        if self.ret_typ == "mask":
            return self._mask(b, x, order, axis, k)
        indices = b.cast(b.slice_axis(order, axis, 0, k), DType.from_numpy(self.dtype))
        return indices if self.ret_typ == "indices" else (b.slice_axis(values, axis, 0, k), indices)

    def _mask(self, b: MxBuilder, x: Value, order: Value, axis: int, k: int) -> Value:
        """Compute each element's rank by sorting the positions, and select ranks below k."""
        _, rank = b.sort([order, b.iota(order.type.shape, DType.I32, axis)], axis, descending=False, stable=True)
        return b.reshape(b.cast(b.lt(rank, k), x.type.dtype), x.type.shape)
