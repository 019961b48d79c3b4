"""Cumulative operations along the middle axis of a tensor [outer, length, inner]: rows of `length` elements."""

import triton
import triton.language as tl

from .common import added, anded, combined, greater, multiplied, ored, program, smaller, widened


@triton.jit
def scanned(x, OP: tl.constexpr):
    """The combination of all elements up to each one, along the first dimension."""
    if OP == "add":
        return tl.associative_scan(x, 0, added)
    elif OP == "mul":
        return tl.associative_scan(x, 0, multiplied)
    elif OP == "max":
        return tl.associative_scan(x, 0, greater)
    elif OP == "min":
        return tl.associative_scan(x, 0, smaller)
    elif OP == "and":
        return tl.associative_scan(x, 0, anded)
    else:
        return tl.associative_scan(x, 0, ored)


@triton.jit
def element(number, length, inner, REVERSE: tl.constexpr):
    """The elements of the row's beginning up to element `number` in the order of the operation."""
    if REVERSE:
        number = length - 1 - number
    return number * inner


@triton.jit
def begin(row, length, inner, LAST: tl.constexpr):
    """The position of the first element of each row; LAST: `inner` is 1."""
    if LAST:
        return row * length
    else:
        return row // inner * inner * length + row % inner


@triton.jit
def continued(carry, x, is_first, OP: tl.constexpr):
    """`x` combined with what is before it, unless it is the first."""
    return tl.where(is_first, x, combined(carry, x, OP))


@triton.jit
def cumulative(
    x_ptr, part_ptr, result_ptr, rows, length, inner, parts, steps,
    OP: tl.constexpr, REVERSE: tl.constexpr, LAST: tl.constexpr, TOTALS: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A program continues over `steps` blocks of a row, one of `parts` parts. It starts with the combination of the
    parts before it; with TOTALS it stores its own combination as a part, and no result."""
    own = program(WIDE)
    part = own % parts
    row = own // parts * ROWS + tl.arange(0, ROWS)
    first = begin(row, length, inner, LAST)[None, :]
    exists = (row < rows)[None, :]
    carry = tl.zeros((ROWS,), part_ptr.dtype.element_ty)
    if not TOTALS:
        for i in range(0, part):
            before = tl.load(part_ptr + row * parts + i, mask=row < rows, other=0)
            carry = continued(carry, before, i == 0, OP)
    for step in range(0, steps):
        block = part * steps + step
        number = block * BLOCK + tl.arange(0, BLOCK)
        mask = exists & (number < length)[:, None]
        at = first + element(number, length, inner, REVERSE)[:, None]
        x = widened(tl.load(x_ptr + at, mask=mask, other=0))
        is_first = (step == 0) if TOTALS else (block == 0)
        total = continued(carry[None, :], scanned(x, OP), is_first, OP)
        if not TOTALS:
            tl.store(result_ptr + at, total.to(result_ptr.dtype.element_ty), mask=mask)
        is_last = (tl.arange(0, BLOCK) == BLOCK - 1)[:, None]
        carry = tl.sum(tl.where(is_last, total, tl.zeros_like(total)), 0).to(carry.dtype)
    if TOTALS:
        tl.store(part_ptr + row * parts + part, carry, mask=row < rows)
