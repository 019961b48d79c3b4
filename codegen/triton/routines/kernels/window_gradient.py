"""Gradients of maxima over windows.

A tensor is [P, A, B, C, Q] in memory; windows slide along A, B and C. Windows are numbered [P, OA, OB, OC, Q].
"""

import triton
import triton.language as tl

from .common import program


@triton.jit
def first_maximum(
    x_ptr, inside, p, oa, ob, oc, q,
    A, B, C, Q,
    WINDOW_A, WINDOW_B, WINDOW_C, STRIDE_A, STRIDE_B, STRIDE_C, LOW_A, LOW_B, LOW_C,
):  # fmt: skip
    """The point (a * B + b) * C + c of the first maximum of each window, or -1 if it has no element. NaN is the
    greatest."""
    winner = tl.full(p.shape, -1, tl.int32)
    best = tl.zeros(p.shape, x_ptr.dtype.element_ty)
    for i in range(WINDOW_A):
        a = oa * STRIDE_A - LOW_A + i
        for j in range(WINDOW_B):
            b = ob * STRIDE_B - LOW_B + j
            for k in range(WINDOW_C):
                c = oc * STRIDE_C - LOW_C + k
                exists = inside & (a >= 0) & (a < A) & (b >= 0) & (b < B) & (c >= 0) & (c < C)
                x = tl.load(x_ptr + (((p * A + a) * B + b) * C + c) * Q + q, mask=exists, other=0)
                takes = exists & ((winner < 0) | (x > best) | ((x != x) & (best == best)))
                best = tl.where(takes, x, best)
                winner = tl.where(takes, ((a * B + b) * C + c).to(tl.int32), winner)
    return winner


@triton.jit
def window_winners(
    x_ptr, winner_ptr, count, A, B, C, Q, OA, OB, OC,
    WINDOW_A, WINDOW_B, WINDOW_C, STRIDE_A, STRIDE_B, STRIDE_C, LOW_A, LOW_B, LOW_C,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Store the first maximum of each of `count` windows."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    q, rest = at % Q, at // Q
    oc, rest = rest % OC, rest // OC
    ob, rest = rest % OB, rest // OB
    oa, p = rest % OA, rest // OA
    winner = first_maximum(
        x_ptr, inside, p, oa, ob, oc, q, A, B, C, Q,
        WINDOW_A, WINDOW_B, WINDOW_C, STRIDE_A, STRIDE_B, STRIDE_C, LOW_A, LOW_B, LOW_C,
    )  # fmt: skip
    tl.store(winner_ptr + at, winner, mask=inside)


@triton.jit
def first_window(at, LOW, STRIDE, NEAR, OUT):
    """The first of NEAR successive windows among which are all that contain a position along an axis."""
    return tl.minimum(tl.maximum((at + LOW) // STRIDE - (NEAR - 1), 0), OUT - NEAR)


@triton.jit
def covers(o, at, LOW, STRIDE, WINDOW):
    """True if a window contains a position along an axis."""
    first = o * STRIDE - LOW
    return (first <= at) & (at < first + WINDOW)


@triton.jit
def window_gradient(
    x_ptr, winner_ptr, cotangent_ptr, result_ptr, count, A, B, C, Q, OA, OB, OC,
    WINDOW_A, WINDOW_B, WINDOW_C, STRIDE_A, STRIDE_B, STRIDE_C, LOW_A, LOW_B, LOW_C, NEAR_A, NEAR_B, NEAR_C,
    STORED: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sum of the cotangents of the windows whose first maximum is each of `count` elements, in the order of the
    windows. With STORED the first maxima are in memory, else they are computed."""
    at = program(WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    q, rest = at % Q, at // Q
    c, rest = rest % C, rest // C
    b, rest = rest % B, rest // B
    a, p = rest % A, rest // A
    point = ((a * B + b) * C + c).to(tl.int32)
    first_a = first_window(a, LOW_A, STRIDE_A, NEAR_A, OA)
    first_b = first_window(b, LOW_B, STRIDE_B, NEAR_B, OB)
    first_c = first_window(c, LOW_C, STRIDE_C, NEAR_C, OC)
    total = tl.zeros((BLOCK,), result_ptr.dtype.element_ty)
    for i in range(NEAR_A):
        oa = first_a + i
        in_a = inside & covers(oa, a, LOW_A, STRIDE_A, WINDOW_A)
        for j in range(NEAR_B):
            ob = first_b + j
            in_b = in_a & covers(ob, b, LOW_B, STRIDE_B, WINDOW_B)
            for k in range(NEAR_C):
                oc = first_c + k
                near = in_b & covers(oc, c, LOW_C, STRIDE_C, WINDOW_C)
                window = (((p * OA + oa) * OB + ob) * OC + oc) * Q + q
                if STORED:
                    winner = tl.load(winner_ptr + window, mask=near, other=-1)
                else:
                    winner = first_maximum(
                        x_ptr, near, p, oa, ob, oc, q, A, B, C, Q,
                        WINDOW_A, WINDOW_B, WINDOW_C, STRIDE_A, STRIDE_B, STRIDE_C, LOW_A, LOW_B, LOW_C,
                    )  # fmt: skip
                total += tl.load(cotangent_ptr + window, mask=near & (winner == point), other=0)
    tl.store(result_ptr + at, total, mask=inside)
