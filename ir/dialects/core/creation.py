"""Primitives that make tensors from nothing or from a key: constants, counting, random bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Attribute, Node, Value
from ...types import DType, Shape, TensorType
from .numerics import philox, round_bfloat16
from .primitive import Array, Arrays, Gradients, Primitive, Types, check_axes, operands, storage

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True, eq=False)
class Constant(Primitive):
    """A tensor known at compile time. BF16 takes a float32 array and `dtype`; otherwise the array's own dtype counts.

    Constants are equal when dtype, shape and all bytes are. The array is read-only.
    """

    name = "core.constant"
    value: Array
    dtype: DType | None = None
    _type: TensorType = field(init=False, repr=False)
    _hash: int | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        value = np.asarray(self.value)
        dtype = self.dtype or DType.from_numpy(value.dtype)
        value = np.array(value, storage(dtype), order="C", copy=bool(value.flags.writeable) or None)
        if dtype is DType.BF16:
            value = round_bfloat16(value)
        value.flags.writeable = False
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "_type", TensorType(value.shape, dtype))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Constant) or self._type != other._type or hash(self) != hash(other):
            return False
        return self.value.tobytes() == other.value.tobytes()

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self._type, self.value.tobytes())))
        assert self._hash is not None
        return self._hash

    def infer(self, *types: TensorType) -> Types:
        operands(types, 0)
        return (self._type,)

    def attributes(self) -> Mapping[str, Attribute]:
        return {"value": self.value, "dtype": self._type.dtype}

    def evaluate(self, *arrays: Array) -> Arrays:
        return (self.value,)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return []


@dataclass(frozen=True)
class Size(Primitive):
    """A scalar that follows from symbolic extents, such as the divisor of a mean. With constant extents it is a
    Constant, so only a dynamic compilation has it."""

    name = "core.size"
    value: int
    dtype: DType

    def infer(self, *types: TensorType) -> Types:
        operands(types, 0)
        return (TensorType((), self.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (np.asarray(int(self.value), storage(self.dtype)),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return []


@dataclass(frozen=True)
class Iota(Primitive):
    """0, 1, 2, ... along `axis`, the same along the others."""

    name = "core.iota"
    shape: Shape
    dtype: DType
    axis: int

    def infer(self, *types: TensorType) -> Types:
        operands(types, 0)
        check_axes((self.axis,), len(self.shape), "axis")
        if self.dtype is DType.BOOL:
            raise TypeError("cannot count in booleans")
        return (TensorType(self.shape, self.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        counts = np.arange(self.shape[self.axis]).astype(storage(self.dtype))
        aligned = counts.reshape([-1 if k == self.axis else 1 for k in range(len(self.shape))])
        return (np.broadcast_to(aligned, self.shape),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return []


@dataclass(frozen=True)
class RandomBits(Primitive):
    """key: u32[4] -> u32 of `shape`, by Philox4x32-10.

    Element i in row-major order is word i % 4 of the block with counter (low and high half of i // 4, key[2], key[3])
    under the Philox key (key[0], key[1]). A seed fills the first two words of the key; the last two count the draws.
    """

    name = "core.random_bits"
    shape: Shape

    def infer(self, *types: TensorType) -> Types:
        (key,) = operands(types, 1)
        if key.shape != (4,) or key.dtype is not DType.U32:
            raise TypeError(f"the key must be tensor<4xui32>, got {key}")
        return (TensorType(self.shape, DType.U32),)

    def evaluate(self, *arrays: Array) -> Arrays:
        k0, k1, k2, k3 = (int(k) for k in arrays[0])
        size = prod(self.shape)
        block = np.arange(-(-size // 4), dtype=np.uint64)
        low, high = block & np.uint64(0xFFFFFFFF), block >> np.uint64(32)
        counters = np.stack([low, high, np.full_like(block, k2), np.full_like(block, k3)], axis=1)
        return (philox(counters, (k0, k1)).reshape(-1)[:size].reshape(self.shape),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return [None]
