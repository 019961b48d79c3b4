"""Triton functions that are added to emitted source: operations that Triton lacks or defines differently."""

from __future__ import annotations

import re

_TEXTS = (
    # The nearest number with the 10 bits of mantissa of TF32; tensor cores cut off others. It can be -0 for NaN, but
    # then the rest, x - _high(x), is NaN.
    """
def _high(x):
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
""",
    """
def _tf32(x):
    return tl.where(x == x, _high(x), x)
""",
    # Tensor cores cut off bits of sums too. So each block is summed from zero, and the caller adds the blocks.
    """
def _dot_float32(a, b):
    a_high, b_high = _high(a), _high(b)
    total = tl.dot(a - a_high, b_high, input_precision="tf32")
    total = tl.dot(a_high, b - b_high, total, input_precision="tf32")
    return tl.dot(a_high, b_high, total, input_precision="tf32")
""",
    """
def _dot_halves(a, b_high, b_low):
    a_high = _high(a)
    total = tl.dot(a - a_high, b_high, input_precision="tf32")
    total = tl.dot(a_high, b_low, total, input_precision="tf32")
    return tl.dot(a_high, b_high, total, input_precision="tf32")
""",
    # As exact as the ones above, with bfloat16 numbers: tensor cores take these also if they are contiguous along rows.
    """
def _dot_bf16x6(a, b):
    a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)
    a_rest, b_rest = a - a_high.to(tl.float32), b - b_high.to(tl.float32)
    a_middle, b_middle = a_rest.to(tl.bfloat16), b_rest.to(tl.bfloat16)
    total = tl.dot((a_rest - a_middle.to(tl.float32)).to(tl.bfloat16), b_high)
    total = tl.dot(a_high, (b_rest - b_middle.to(tl.float32)).to(tl.bfloat16), total)
    total = tl.dot(a_middle, b_middle, total)
    total = tl.dot(a_middle, b_high, total)
    total = tl.dot(a_high, b_middle, total)
    return tl.dot(a_high, b_high, total)
""",
    """
def _dot_bf16x3(a, b):
    a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)
    total = tl.dot((a - a_high.to(tl.float32)).to(tl.bfloat16), b_high)
    total = tl.dot(a_high, (b - b_high.to(tl.float32)).to(tl.bfloat16), total)
    return tl.dot(a_high, b_high, total)
""",
    """
def _max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    """
def _min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
""",
    """
def _mul(a, b):
    return a * b
""",
    """
def _and(a, b):
    return a & b
""",
    """
def _or(a, b):
    return a | b
""",
    """
def _same(x):
    return x == x
""",
    """
def _differs(x):
    return x != x
""",
    """
def _sign(x):
    return tl.where(x > 0, 1, tl.where(x < 0, -1, x))
""",
    """
def _int_div(a, b):
    safe = tl.where((b == 0) | (b == -1), 1, b)
    return tl.where(b == 0, 0, tl.where(b == -1, -a, a // safe))
""",
    """
def _uint_div(a, b):
    return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b))
""",
    """
def _int_mod(a, b):
    r = a % tl.where((b == 0) | (b == -1), 1, b)
    r = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return tl.where(b == 0, 0, r)
""",
    """
def _uint_mod(a, b):
    return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b))
""",
    """
def _float_mod(a, b):
    r = libdevice.fmod(a, b)
    r = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    return tl.where(b == 0, 0, r)
""",
    """
def _shift_left(a, b, WIDTH: tl.constexpr):
    inside = (b >= 0) & (b < WIDTH)
    return tl.where(inside, a << tl.where(inside, b, 0), 0)
""",
    """
def _shift_right(a, b, WIDTH: tl.constexpr):
    inside = (b >= 0) & (b < WIDTH)
    return a >> tl.where(inside, b, WIDTH - 1)
""",
    """
def _uint_shift_right(a, b, WIDTH: tl.constexpr):
    inside = b < WIDTH
    return tl.where(inside, a >> tl.where(inside, b, 0), 0)
""",
    # A GPU saturates, and converts NaN to 0 or to the lowest number.
    """
def _to_int32(x):
    inside = tl.abs(x) < 2147483648.0
    return tl.where(inside, tl.where(inside, x, 0.0).to(tl.int32), -2147483648)
""",
    """
def _to_int64(x):
    inside = tl.abs(x) < 9223372036854775808.0
    return tl.where(inside, tl.where(inside, x, 0.0).to(tl.int64), -9223372036854775808)
""",
    # The float64 that is nearest to a power of integers, by squaring. Powers of 2 or more exceed 64 bits from the
    # exponent 64 on; those of -1, 0 and 1 depend on whether the exponent is odd.
    """
def _int_pow(a, b):
    rest = tl.where((b >= 0) & (b < 64), b, 64 + (b & 1)).to(tl.int32)
    factor, size = a.to(tl.int64), tl.abs(a.to(tl.float64))
    exact, estimate = tl.full((), 1, tl.int64), tl.full((), 1.0, tl.float64)
    for _ in tl.static_range(7):
        taken = (rest & 1) != 0
        exact = tl.where(taken, exact * factor, exact)
        estimate = tl.where(taken, estimate * size, estimate)
        factor, size, rest = factor * factor, size * size, rest >> 1
    power = tl.where(estimate < 9223372036854775808.0, exact.to(tl.float64), estimate)
    return tl.where(b < 0, 1 / power, power)
""",
    # Reflection below 1/2, ten steps of recurrence, the asymptotic series (Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18).
    """
def _digamma(x):
    low = x < 0.5
    y = tl.where(low, 1 - x, x)
    total = tl.where(low, -3.141592653589793 / libdevice.tan(3.141592653589793 * (x - tl.floor(x))), 0.0)
    for _ in tl.static_range(10):
        small = y < 10
        total = tl.where(small, total - 1 / y, total)
        y = tl.where(small, y + 1, y)
    r = 1 / (y * y)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132)))))
    pole = (x <= 0) & (x == tl.floor(x))
    return tl.where(pole, float("inf"), total + tl.log(y) - 0.5 / y - series)
""",
)
_NAMES = {re.search(r"def (\w+)", text).group(1): text.strip() for text in _TEXTS}  # type: ignore[union-attr]


def helpers_for(body: str) -> list[str]:
    """The jitted functions that `body` and these functions call, in the order of their definitions: each calls earlier
    ones."""
    called: list[str] = []
    for name, text in reversed(_NAMES.items()):
        if re.search(rf"\b{name}\b", "\n".join((body, *called))):
            called.insert(0, text)
    return [f"@triton.jit\n{text}" for text in called]
