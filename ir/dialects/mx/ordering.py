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


def along(b: MxBuilder, x: Value, axis: int | None) -> tuple[Value, int]:
    """x and the axis along which it is sorted: the flattened array for None."""
    if axis is None:
        return b.reshape(x, (x.type.size,)), 0
    return x, normalize_axis(axis, x.type.rank)


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
        x, axis = along(b, inputs[0], self.axis)
        (values,) = b.sort(x, axis, descending=not self.is_ascend)
        return values, b.argsort(x, axis, not self.is_ascend)


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
        x, axis = along(b, inputs[0], self.axis)
        order = b.argsort(x, axis, not self.is_ascend)
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
        x, axis = along(b, inputs[0], self.axis)
        extent = x.type.shape[axis]
        if self.k > extent:
            raise ValueError(f"k must not exceed the {extent} elements of the axis, got {self.k}")
        k = self.k if self.k > 0 else extent
        order = b.argsort(x, axis, not self.is_ascend, k)
        if self.ret_typ == "mask":
            return b.reshape(self._mask(b, x, order, axis), inputs[0].type.shape)
        indices = b.cast(order, DType.from_numpy(self.dtype))
        return indices if self.ret_typ == "indices" else (b.take_along(x, order, axis), indices)

    def _mask(self, b: MxBuilder, x: Value, order: Value, axis: int) -> Value:
        """Ones at the selected positions."""
        return b.put_along(b.full_like(x, 0), order, b.full(order.type.shape, 1, x.type.dtype), axis)
