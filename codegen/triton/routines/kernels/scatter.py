"""Scatters: groups of coordinates are sorted by the position at which their slice begins, and each position combines
its updates in order.

Groups that have a coordinate outside of the tensor begin at `total`, the number of its elements. A slice has `size`
elements along up to four axes (R0 to R3, with strides T0 to T3), of which unused ones have extent 1.
"""

import triton
import triton.language as tl

from .common import combined, program, widened


@triton.jit
def copied(source_ptr, result_ptr, count, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Copy `count` elements."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    tl.store(result_ptr + at, tl.load(source_ptr + at, mask=at < count), mask=at < count)


@triton.jit
def moved(start, kept, indices_ptr, EXTENT, STRIDE, inside):
    """The position and whether it is inside of the tensor, after a further coordinate."""
    index = tl.load(indices_ptr, mask=inside, other=0).to(tl.int64)
    kept = kept & (index >= 0) & (index < EXTENT)
    return start + tl.where(kept, index, 0).to(start.dtype) * STRIDE, kept


@triton.jit
def begin(
    indices_ptr, group, inside, points, batch_stride, total,
    E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7, AXES: tl.constexpr,
):  # fmt: skip
    """The position of the first element of each group's slice."""
    start = group // points * batch_stride
    kept = inside
    at = indices_ptr + group * AXES
    start, kept = moved(start, kept, at, E0, S0, inside)
    if AXES > 1:
        start, kept = moved(start, kept, at + 1, E1, S1, inside)
    if AXES > 2:
        start, kept = moved(start, kept, at + 2, E2, S2, inside)
    if AXES > 3:
        start, kept = moved(start, kept, at + 3, E3, S3, inside)
    if AXES > 4:
        start, kept = moved(start, kept, at + 4, E4, S4, inside)
    if AXES > 5:
        start, kept = moved(start, kept, at + 5, E5, S5, inside)
    if AXES > 6:
        start, kept = moved(start, kept, at + 6, E6, S6, inside)
    if AXES > 7:
        start, kept = moved(start, kept, at + 7, E7, S7, inside)
    return tl.where(kept, start, total)


@triton.jit
def starts(
    indices_ptr, start_ptr, groups, points, batch_stride, total,
    E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7,
    AXES: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Store where the slice of each group begins."""
    group = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    start = begin(
        indices_ptr, group, group < groups, points, batch_stride, total,
        E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7, AXES,
    )  # fmt: skip
    tl.store(start_ptr + group, start, mask=group < groups)


@triton.jit
def ranked(
    indices_ptr, start_ptr, order_ptr, groups, points, batch_stride, total,
    E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7,
    AXES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sort the groups: the place of each is the number of groups before it."""
    own = program(WIDE) * ROWS + tl.arange(0, ROWS)
    exists = own < groups
    start = begin(
        indices_ptr, own, exists, points, batch_stride, total,
        E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7, AXES,
    )  # fmt: skip
    place = tl.zeros((ROWS,), tl.int32)
    for first in range(0, groups, BLOCK):
        other = (first + tl.arange(0, BLOCK)).to(own.dtype)
        inside = other < groups
        begins = begin(
            indices_ptr, other, inside, points, batch_stride, total,
            E0, E1, E2, E3, E4, E5, E6, E7, S0, S1, S2, S3, S4, S5, S6, S7, AXES,
        )  # fmt: skip
        a, b = begins[None, :], start[:, None]
        before = inside[None, :] & ((a < b) | ((a == b) & (other[None, :] < own[:, None])))
        place += tl.sum(before.to(tl.int32), 1)
    tl.store(start_ptr + place, start, mask=exists)
    tl.store(order_ptr + place, own.to(tl.int32), mask=exists)


@triton.jit
def element(r, R1, R2, R3, T0, T1, T2, T3):
    """The position of element r of a slice."""
    position = r % R3 * T3
    r = r // R3
    position += r % R2 * T2
    r = r // R2
    return position + r % R1 * T1 + r // R1 * T0


@triton.jit
def same_until(start_ptr, low, high, start, STEPS, STRIDE):
    """The first number in [low, high) whose group, at STRIDE times the number, does not begin at `start`; `high` if
    there is none. Groups are sorted."""
    for _ in range(STEPS):
        middle = (low + high) // 2
        open = low < high
        equal = open & (tl.load(start_ptr + middle * STRIDE, mask=open, other=0) == start)
        low = tl.where(equal, middle + 1, low)
        high = tl.where(open & ~equal, middle, high)
    return low


@triton.jit
def last_updates(
    start_ptr, order_ptr, updates_ptr, result_ptr, groups, total, size, columns, R1, R2, R3, T0, T1, T2, T3,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Store the last update of each position."""
    number = program(WIDE)
    k = number // columns * ROWS + tl.arange(0, ROWS)
    r = number % columns * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(start_ptr + k, mask=k < groups, other=total)
    following = tl.load(start_ptr + k + 1, mask=k + 1 < groups, other=-1)
    last = (start < total) & (following != start)
    group = tl.load(order_ptr + k, mask=last, other=0).to(k.dtype)
    mask = last[:, None] & (r < size)[None, :]
    update = tl.load(updates_ptr + group[:, None] * size + r[None, :], mask=mask, other=0)
    position = element(r, R1, R2, R3, T0, T1, T2, T3)
    tl.store(result_ptr + start[:, None] + position[None, :], update, mask=mask)


@triton.jit
def combined_pieces(
    start_ptr, order_ptr, x_ptr, updates_ptr, result_ptr, part_ptr, groups, total, size, columns, piece, steps,
    R1, R2, R3, T0, T1, T2, T3,
    OP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Combine successive updates of one position, up to a multiple of `piece`: the first ones with the tensor's
    element. Positions with all their updates in one piece are stored; other pieces are stored in `part`."""
    number = program(WIDE)
    k = number // columns * ROWS + tl.arange(0, ROWS)
    r = number % columns * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(start_ptr + k, mask=k < groups, other=total)
    before = tl.load(start_ptr + k - 1, mask=(k > 0) & (k < groups), other=-1)
    is_first = (start < total) & (before != start)
    begins = is_first | ((start < total) & (k % piece == 0))
    limit = tl.where(begins, tl.minimum((k // piece + 1) * piece, groups), k)
    end = same_until(start_ptr, k + begins.to(k.dtype), limit, start, steps, 1)
    following = tl.load(start_ptr + end, mask=end < groups, other=-1)
    count = tl.where(begins, end - k, 0)

    columns_inside = (r < size)[None, :]
    mask = begins[:, None] & columns_inside
    target = start[:, None] + element(r, R1, R2, R3, T0, T1, T2, T3)[None, :]
    group = tl.load(order_ptr + k, mask=begins, other=0).to(k.dtype)
    update = widened(tl.load(updates_ptr + group[:, None] * size + r[None, :], mask=mask, other=0))
    x = widened(tl.load(x_ptr + target, mask=mask & is_first[:, None], other=0))
    total_so_far = tl.where(is_first[:, None], combined(x, update, OP), update)
    for t in range(1, tl.max(count, 0)):
        more = t < count
        group = tl.load(order_ptr + k + t, mask=more, other=0).to(k.dtype)
        mask_of_more = more[:, None] & columns_inside
        update = widened(tl.load(updates_ptr + group[:, None] * size + r[None, :], mask=mask_of_more, other=0))
        total_so_far = tl.where(more[:, None], combined(total_so_far, update, OP), total_so_far)
    whole = (is_first & (following != start))[:, None]
    result = total_so_far.to(result_ptr.dtype.element_ty)
    tl.store(result_ptr + target, result, mask=mask & whole)
    tl.store(part_ptr + k[:, None] * size + r[None, :], total_so_far, mask=mask & ~whole)


@triton.jit
def joined_pieces(
    start_ptr, part_ptr, result_ptr, groups, pieces, total, size, columns, piece, steps, piece_steps,
    R1, R2, R3, T0, T1, T2, T3,
    OP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Combine the pieces of each position that has several, in order: piece number n begins at group n * piece."""
    number = program(WIDE)
    n = number // columns * ROWS + tl.arange(0, ROWS)
    r = number % columns * BLOCK + tl.arange(0, BLOCK)
    k = n * piece
    inside = (n > 0) & (n < pieces)
    start = tl.load(start_ptr + k, mask=inside, other=total)
    before = tl.load(start_ptr + k - 1, mask=inside, other=-1)
    back = tl.load(start_ptr + k - piece, mask=inside, other=-1)
    further = tl.load(start_ptr + k - piece - 1, mask=inside & (n > 1), other=-1)
    second = (start < total) & (before == start) & ~((back == start) & (further == start))
    low, high = tl.where(second, k - piece, k), k
    for _ in range(steps):
        middle = (low + high) // 2
        open = low < high
        equal = open & (tl.load(start_ptr + middle, mask=open, other=0) == start)
        low = tl.where(open & ~equal, middle + 1, low)
        high = tl.where(equal, middle, high)
    limit = tl.where(second, pieces, n)
    end = same_until(start_ptr, n + second.to(n.dtype), limit, start, piece_steps, piece)
    count = tl.where(second, end - n, 0)

    columns_inside = (r < size)[None, :]
    mask = second[:, None] & columns_inside
    joined = tl.load(part_ptr + low[:, None] * size + r[None, :], mask=mask, other=0)
    for t in range(0, tl.max(count, 0)):
        more = t < count
        mask_of_more = more[:, None] & columns_inside
        part = tl.load(part_ptr + (k + t * piece)[:, None] * size + r[None, :], mask=mask_of_more, other=0)
        joined = tl.where(more[:, None], combined(joined, part, OP), joined)
    target = start[:, None] + element(r, R1, R2, R3, T0, T1, T2, T3)[None, :]
    tl.store(result_ptr + target, joined.to(result_ptr.dtype.element_ty), mask=mask)
