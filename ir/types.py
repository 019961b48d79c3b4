"""The types of every IR: element types, tensor types and the physical layouts that passes assign.

`DType` is the closed set of element types. A `TensorType` is a shape and a dtype, and after layout assignment also a
`Layout`: the position of each element in memory, which does not change the tensor's value.
"""

from __future__ import annotations

from enum import Enum
from math import prod

import numpy as np

from .lazy_dataclass import dataclass


class DType(Enum):
    """An element type; the value is its spelling in MLIR."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "ui8"
    U16 = "ui16"
    U32 = "ui32"
    U64 = "ui64"
    BOOL = "i1"

    # Members are hashed and compared very often while graphs are built. Identity is correct, and the fastest.
    __hash__ = object.__hash__

    @property
    def bits(self) -> int:
        """Width of the value in bits (a BOOL is one bit, stored in a byte)."""
        return _BITS[self]

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, _BITS[self] // 8)

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def has_cotangent(self) -> bool:
        """True if values of this dtype can have gradients: floats, and as in MXNet the integers of its arrays."""
        return self in _WITH_COTANGENT

    @property
    def is_signed(self) -> bool:
        return self.value.startswith("i") and self is not DType.BOOL

    @property
    def is_unsigned(self) -> bool:
        return self.value.startswith("u")

    @property
    def is_integer(self) -> bool:
        return self.is_signed or self.is_unsigned

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype; TypeError for BF16, which NumPy lacks."""
        if self is DType.BF16:
            raise TypeError("bfloat16 has no NumPy dtype; convert to float32 first")
        return _NUMPY[self]

    @property
    def memory(self) -> np.dtype:
        """The NumPy dtype of elements in memory: uint16, which holds the bits, for BF16."""
        return _MEMORY[self]

    @property
    def full_name(self) -> str:
        """The name that users see: "float32", "bfloat16"."""
        return "bfloat16" if self is DType.BF16 else self.numpy.name

    @classmethod
    def from_numpy(cls, dtype: object) -> DType:
        """The element type of a NumPy dtype or dtype name; TypeError for an unsupported one."""
        if dtype == "bfloat16":
            return DType.BF16
        known = _FROM_NUMPY.get(np.dtype(dtype))  # type: ignore[call-overload]
        if known is None:
            raise TypeError(f"dtype {dtype!r} is not supported")
        return known


_BITS = {d: int(d.value.lstrip("bfui")) for d in DType}
_FLOATS = frozenset((DType.F16, DType.BF16, DType.F32, DType.F64))
_WITH_COTANGENT = _FLOATS | {DType.U8, DType.I8, DType.I32, DType.I64}
_NUMPY: dict[DType, np.dtype] = {
    DType.F16: np.dtype(np.float16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_MEMORY = {**_NUMPY, DType.BF16: np.dtype(np.uint16)}
_FROM_NUMPY = {n: d for d, n in _NUMPY.items()}

Shape = tuple[int, ...]

LARGEST_BYTES = (1 << 63) - 1
"""Sizes and offsets are signed 64-bit integers, in native code and in files."""

_FEW = 1 << 60  # a tensor with fewer elements is small enough for every dtype


@dataclass(frozen=True, slots=True)
class Layout:
    """A physical layout of a tensor (N, C, *spatial): channels in blocks, spatial axes with a halo of zeros.

    Memory is `[N][ceil(C/block)][spatial + halo ...][block]`. Channels past C are zeros. `halo[i]` is the number of
    elements before and after spatial axis i. With block 1 the memory is row-major except for the halo; with one block
    of all channels it is channels-last.
    """

    block: int
    halo: tuple[tuple[int, int], ...]

    def physical_shape(self, shape: Shape) -> Shape:
        """The shape of the memory that holds a tensor of logical `shape`."""
        spatial = tuple(n + lo + hi for n, (lo, hi) in zip(shape[2:], self.halo, strict=True))
        return (shape[0], -(-shape[1] // self.block), *spatial, self.block)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's shape and element type; `layout` is None for plain row-major memory.

    ValueError if its size in bytes, including halos and channel padding, exceeds `LARGEST_BYTES`.
    """

    shape: Shape
    dtype: DType
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if self.layout is None and prod(self.shape) < _FEW:
            return
        fits = self.layout is not None and len(self.layout.halo) == len(self.shape) - 2  # else the verifier fails
        if (self.nbytes if fits else self.size * self.dtype.itemsize) > LARGEST_BYTES:
            raise ValueError(
                f"an array of shape {self.shape} and {self.dtype.full_name} has more bytes than memory can have"
            )

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return prod(self.shape)

    @property
    def physical_size(self) -> int:
        """Number of elements in memory, including halos and channel padding."""
        return self.size if self.layout is None else prod(self.layout.physical_shape(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes in memory, including halos and channel padding."""
        return self.physical_size * self.dtype.itemsize

    @property
    def description(self) -> str:
        """The type as users see it: "(2, 3) float32"."""
        return f"{self.shape} {self.dtype.full_name}"

    def with_layout(self, layout: Layout | None) -> TensorType:
        return TensorType(self.shape, self.dtype, layout)

    def __str__(self) -> str:
        dims = "".join(f"{n}x" for n in self.shape)
        if self.layout is None:
            return f"tensor<{dims}{self.dtype.value}>"
        halo = ", ".join(str(n) for pair in self.layout.halo for n in pair)
        halo_text = f"array<i64: {halo}>" if halo else "array<i64>"
        return f"tensor<{dims}{self.dtype.value}, {{block = {self.layout.block} : i64, halo = {halo_text}}}>"
