"""Stable sorts of the rows of a tensor [outer, length, inner] along its middle axis, by integer keys.

Keys are stored row by row, and numbers of elements in the order of their keys. Blocks of rows are sorted by counting,
then runs of sorted keys are merged.
"""

import triton
import triton.language as tl

from .common import program, widened


@triton.jit
def key_of(x, DESCENDING: tl.constexpr, FLIPS: tl.constexpr):
    """An integer with the order of each element: NaN has the greatest, and both zeros have the same. FLIPS: the element
    is unsigned and as wide as the key."""
    if x.dtype.is_floating():
        x = widened(x)
        if x.dtype == tl.float64:
            bits = (x + 0.0).to(tl.int64, bitcast=True)
            ordered = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
            greatest = tl.full(bits.shape, 0x7FFFFFFFFFFFFFFF, tl.int64)
        else:
            bits = (x + 0.0).to(tl.int32, bitcast=True)
            ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
            greatest = tl.full(bits.shape, 0x7FFFFFFF, tl.int32)
        if DESCENDING:
            ordered = ~ordered
        return tl.where(x == x, ordered, greatest)
    else:
        if x.dtype.primitive_bitwidth == 64:
            key = x.to(tl.int64, bitcast=True)
        elif x.dtype.primitive_bitwidth == 32:
            key = x.to(tl.int32, bitcast=True)
        else:
            key = x.to(tl.int32)
        if FLIPS:
            key = key ^ tl.full((), -1 << (x.dtype.primitive_bitwidth - 1), key.dtype)
        if DESCENDING:
            key = ~key
        return key


@triton.jit
def keys(
    x_ptr, key_ptr, count, length, inner,
    DESCENDING: tl.constexpr, FLIPS: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Store the keys of all elements, row by row; LAST: `inner` is 1."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0)
    if LAST:
        place = at
    else:
        rest = at // inner
        place = (rest // length * inner + at % inner) * length + rest % length
    tl.store(key_ptr + place, key_of(x, DESCENDING, FLIPS), mask=at < count)


@triton.jit
def ranked_blocks(
    key_ptr, sorted_ptr, order_ptr, count, length, width, own_blocks,
    SHORT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sort blocks of `width` elements of each row: the place of an element is the number of elements before it. A
    program has ROWS elements of one row, or with SHORT of several rows."""
    number = program(WIDE)
    if SHORT:
        at = number * ROWS + tl.arange(0, ROWS)
        row, i = at // length, at % length
        exists = at < count
    else:
        row = number // own_blocks
        i = number % own_blocks * ROWS + tl.arange(0, ROWS)
        exists = i < length
        at = row * length + i
    low = i // width * width
    high = tl.minimum(low + width, length)
    key = tl.load(key_ptr + at, mask=exists, other=0)
    place = tl.zeros((ROWS,), tl.int32)
    if SHORT:
        for first in range(0, width, BLOCK):
            j = low[:, None] + first + tl.arange(0, BLOCK)[None, :]
            inside = exists[:, None] & (j < high[:, None])
            other = tl.load(key_ptr + row[:, None] * length + j, mask=inside, other=0)
            before = (other < key[:, None]) | ((other == key[:, None]) & (j < i[:, None]))
            place += tl.sum((inside & before).to(tl.int32), 1)
    else:
        begin = number % own_blocks * ROWS // width * width  # ROWS divides `width`
        end = tl.minimum(begin + width, length)
        for first in range(begin, end, BLOCK):
            j = first + tl.arange(0, BLOCK)
            other = tl.load(key_ptr + row * length + j, mask=j < end, other=0)[None, :]
            before = (other < key[:, None]) | ((other == key[:, None]) & (j[None, :] < i[:, None]))
            place += tl.sum(((j < end)[None, :] & before).to(tl.int32), 1)
    target = row * length + low + place
    tl.store(sorted_ptr + target, key, mask=exists)
    tl.store(order_ptr + target, i.to(tl.int32), mask=exists)


@triton.jit
def merged_runs(
    key_ptr, order_ptr, sorted_ptr, new_order_ptr, count, length, width, steps,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Merge pairs of runs of `width` sorted keys in each row. Of equal keys those of the left run are first."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    exists = at < count
    i = at % length
    row = at - i
    key = tl.load(key_ptr + at, mask=exists, other=0)
    own = i // width
    is_right = own % 2 == 1
    first = tl.minimum(tl.where(is_right, own - 1, own + 1) * width, length)  # of the other run
    last = tl.minimum(first + width, length)
    low, high = first, last
    for _ in range(steps):
        middle = (low + high) // 2
        open = exists & (low < high)
        other = tl.load(key_ptr + row + middle, mask=open, other=0)
        before = open & ((other < key) | (is_right & (other == key)))
        low = tl.where(before, middle + 1, low)
        high = tl.where(open & ~before, middle, high)
    target = row + own // 2 * 2 * width + i - own * width + low - first
    tl.store(sorted_ptr + target, key, mask=exists)
    order = tl.load(order_ptr + at, mask=exists, other=0)
    tl.store(new_order_ptr + target, order, mask=exists)


@triton.jit
def reordered(
    x_ptr, order_ptr, result_ptr, count, length, inner, LAST: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr
):
    """The elements of a tensor in the order of each row; LAST: `inner` is 1."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    if LAST:
        i = at % length
        source = at - i + tl.load(order_ptr + at, mask=inside, other=0).to(at.dtype)
    else:
        rest = at // inner
        i = rest % length
        outer, column = rest // length, at % inner
        number = tl.load(order_ptr + (outer * inner + column) * length + i, mask=inside, other=0)
        source = (outer * length + number.to(at.dtype)) * inner + column
    tl.store(result_ptr + at, tl.load(x_ptr + source, mask=inside, other=0), mask=inside)


@triton.jit
def positions(order_ptr, result_ptr, count, length, first, inner, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The numbers of the `first` elements of each row, stored along the middle axis of [outer, first, inner]."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    rest = at // inner
    row = rest // first * inner + at % inner
    number = tl.load(order_ptr + row * length + rest % first, mask=inside, other=0)
    tl.store(result_ptr + at, number, mask=inside)
