"""Keys: integers with the order of elements, computed from the bits of elements of any dtype by the same code.

Three numbers, which are arguments of a launch, describe the dtype and the direction. NaN has the greatest key in both
directions.
"""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ..arithmetic import Value
from ..emitter import FunctionBuilder
from ..types import Type
from .lanes import greatest

KEY_NUMBERS = 3
_INFINITIES = {DType.F16: 0x7C00, DType.BF16: 0x7F80, DType.F32: 0x7F800000, DType.F64: 0x7FF << 52}


def key_numbers(dtype: DType, descending: bool) -> tuple[int, int, int]:
    """The bits that a negative element flips, the bits that all elements flip, and the greatest magnitude of a
    number."""
    most = (1 << (dtype.bits if dtype is not DType.BOOL else 8) - 1) - 1
    unsigned = dtype is DType.BOOL or dtype.is_unsigned
    flips = (-most - 1 if unsigned else 0) ^ (-1 if descending else 0)
    return (most if dtype.is_float else 0), flips, _INFINITIES.get(dtype, most)


@dataclass(frozen=True, slots=True)
class Keys:
    """Computes keys of elements of one width. The numbers are scalars of the elements' integer type."""

    negative: Value
    all: Value
    limit: Value

    def keys(self, f: FunctionBuilder, bits: Value, *, equal_zeros: bool) -> Value:
        """The keys of elements, from their bits. With `equal_zeros` both zeros of floats have one key; else -0 is
        below 0, and `elements` is the inverse."""
        type = bits.type
        flipped = self._sign(f, bits) & f.splat(self.negative, type)
        key = bits ^ flipped
        if equal_zeros:
            key = key + (flipped & 1)
        is_nan = f.cmp("ugt", bits & greatest(type.scalar), f.splat(self.limit, type))
        return f.select(is_nan, greatest(type.scalar), key ^ f.splat(self.all, type))

    def elements(self, f: FunctionBuilder, keys: Value) -> Value:
        """The bits of elements with these keys."""
        type = keys.type
        ordered = keys ^ f.splat(self.all, type)
        return ordered ^ (self._sign(f, ordered) & f.splat(self.negative, type))

    def _sign(self, f: FunctionBuilder, bits: Value) -> Value:
        return f.ashr(bits, bits.type.bits - 1)


def loaded_keys(f: FunctionBuilder, numbers: tuple[Value, Value, Value], element: Type) -> Keys:
    """The keys for numbers of a launch (i64)."""
    return Keys(*(f.convert(n, element.element) for n in numbers))
