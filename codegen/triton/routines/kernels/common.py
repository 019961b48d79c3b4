"""What kernels share: the number of a program, wide registers of elements, and the combination of two elements."""

import triton
import triton.language as tl


@triton.jit
def program(WIDE: tl.constexpr):
    """The number of this program; with WIDE it has 64 bits, and so has what is computed from it."""
    number = tl.program_id(0)
    if WIDE:
        number = number.to(tl.int64)
    return number


@triton.jit
def widened(x):
    """Elements in the type in which they are combined: float32 for 16-bit floats."""
    if x.dtype == tl.float16 or x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def multiplied(a, b):
    return a * b


@triton.jit
def greater(a, b):
    if a.dtype.is_floating():
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.maximum(a, b)


@triton.jit
def smaller(a, b):
    if a.dtype.is_floating():
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.minimum(a, b)


@triton.jit
def anded(a, b):
    return a & b


@triton.jit
def ored(a, b):
    return a | b


@triton.jit
def combined(a, b, OP: tl.constexpr):
    if OP == "add":
        return a + b
    elif OP == "mul":
        return a * b
    elif OP == "max":
        return greater(a, b)
    elif OP == "min":
        return smaller(a, b)
    elif OP == "and":
        return a & b
    else:
        return a | b
