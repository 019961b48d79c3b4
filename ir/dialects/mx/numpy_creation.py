"""Operators of `mx.np` without operands, and those that take only the shape of one."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from ...graph import Value
from ...types import DType
from .creation_ops import ARange, Eye
from .operator import Operator, declare, operator
from .parameters import OR_NONE, Bool, DTypeName, DTypeNameOrBool, Float, Int, Ints, OptionalInt, Text

if TYPE_CHECKING:
    from .builder import MxBuilder

OptionalDType = Annotated[
    Literal["bfloat16", "bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"] | None, OR_NONE
]


class _Created(Operator):
    """Shared arguments of several operators.

    Args:
        shape: Shape of the result.
        dtype: Dtype of the result.
    """

    inputs = ()


def _declare_filled(name: str, number: int, doc: str) -> None:
    def decompose(self: Any, b: MxBuilder, *inputs: Value) -> Value:
        if any(n < 0 for n in self.shape):
            raise ValueError(f"negative dimensions are not allowed: {self.shape}")
        return b.full(self.shape, number, DType.from_numpy(self.dtype))

    parameters: dict[str, Any] = {"shape": Ints, "ctx": Text, "dtype": DTypeNameOrBool}
    members = {"__doc__": doc, "decompose": decompose, "shape": (), "ctx": "", "dtype": "float32"}
    declare(name, _Created, members, (), parameters)


_declare_filled("_npi_zeros", 0, "An array of zeros.")
_declare_filled("_npi_ones", 1, "An array of ones.")


@operator("_npi_identity")
class Identity(_Created):
    """A square matrix with ones on its diagonal."""

    shape: Ints = ()
    ctx: Text = ""
    dtype: DTypeNameOrBool = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        on = b.eq(b.iota(self.shape, DType.I32, 0), b.iota(self.shape, DType.I32, 1))
        return b.cast(on, DType.from_numpy(self.dtype))


@operator("_npi_eye")
class EyeMatrix(_Created):
    """A matrix with ones on one diagonal.

    Args:
        N: The number of rows.
        M: The number of columns; N by default.
        k: The diagonal: 0 is the main one, a positive one is above it.
    """

    N: Int
    M: OptionalInt = None
    k: Int = 0
    ctx: Text = ""
    dtype: DTypeName = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        shape = (self.N, self.N if self.M is None else self.M)
        if 0 in shape:
            return b.full(shape, 0, DType.from_numpy(self.dtype))
        return b.cast(Eye(N=shape[0], M=shape[1], k=self.k).decompose(b), DType.from_numpy(self.dtype))


@operator("_npi_arange")
class ArangeArray(ARange):
    """Evenly spaced numbers in a half-open interval, which can be empty."""

    def _count(self) -> int:
        first, last = self._bounds()
        return 0 if self.step and (last - first) / self.step <= 0 else super()._count()

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        return super().decompose(b, *inputs) if self._count() else b.full((0,), 0, DType.from_numpy(self.dtype))


@operator("_npi_indices")
class Indices(_Created):
    """The indices of a grid.

    Args:
        dimensions: The extents of the grid.
    Returns:
        (number of dimensions, *dimensions): the index of each axis.
    """

    dimensions: Ints
    dtype: DTypeName = "int32"
    ctx: Text = ""

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        dtype = DType.from_numpy(self.dtype)
        grids = [b.iota((1, *self.dimensions), dtype, i + 1) for i in range(len(self.dimensions))]
        return b.concat(grids, 0) if grids else b.full((0,), 0, dtype)


@operator("_npi_logspace")
class LogSpace(_Created):
    """Numbers that are evenly spaced on a logarithmic scale.

    Args:
        start: The exponent of the first number.
        stop: The exponent of the last number.
        num: The number of elements.
        endpoint: False to exclude the last number.
        base: The base of the exponents.
    """

    start: Float
    stop: Float
    num: Int
    endpoint: Bool = True
    base: Float = 10.0
    ctx: Text = ""
    dtype: DTypeName = "float32"

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        numbers = np.logspace(self.start, self.stop, self.num, self.endpoint, self.base)
        return b.constant(numbers, DType.from_numpy(self.dtype))


# name, coefficients of cos(k x) for x from 0 to 2 pi
_WINDOWS: tuple[tuple[str, tuple[float, ...], str], ...] = (
    ("hanning", (0.5, -0.5), "Hann's window."),
    ("hamming", (0.54, -0.46), "Hamming's window."),
    ("blackman", (0.42, -0.5, 0.08), "Blackman's window."),
)


class _Window(_Created):
    """A window for spectral analysis.

    Args:
        M: The number of elements.
    """

    M: OptionalInt = None
    ctx: Text = ""
    dtype: DTypeName = "float32"


def _declare_window(name: str, coefficients: tuple[float, ...], doc: str) -> None:
    def decompose(self: Any, b: MxBuilder, *inputs: Value) -> Value:
        count = self.M or 0
        if count < 2:
            return b.full((max(count, 0),), 1, DType.from_numpy(self.dtype))
        angles = [2 * pi * i / (count - 1) for i in range(count)]
        numbers = [sum(c * cos(k * x) for k, c in enumerate(coefficients)) for x in angles]
        return b.constant(np.array(numbers), DType.from_numpy(self.dtype))

    declare(f"_npi_{name}", _Window, {"__doc__": doc, "decompose": decompose})


for _row in _WINDOWS:
    _declare_window(*_row)


@operator("_npi_full_like")
class FullLike(Operator):
    """An array of another array's shape, filled with one number.

    Args:
        a: The array.
        fill_value: The number.
        dtype: Dtype of the result; that of `a` by default.
    """

    inputs = ("a",)
    fill_value: Float
    ctx: Text = ""
    dtype: OptionalDType = None

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        dtype = inputs[0].type.dtype if self.dtype is None else DType.from_numpy(self.dtype)
        number = self.fill_value if dtype.is_float or dtype is DType.BOOL else int(self.fill_value)
        return b.full(inputs[0].type.shape, number, dtype)
