"""Kernels of convolutions and matrix products for tests: with any epilogue, or from the regions of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mxforge.codegen.llvm.target import AVX2
from mxforge.codegen.lower import lower_region
from mxforge.codegen.lower_contract import sum_dtype
from mxforge.ir.dialects.core import Fused
from mxforge.ir.graph import Graph
from mxforge.ir.kernel import (
    Axis,
    AxisKind,
    Buffer,
    Contract,
    Expr,
    Index,
    Kernel,
    Load,
    Store,
    Window,
    affine,
    contracts,
)
from mxforge.ir.types import DType, Layout
from mxforge.ir.verifier import verify_kernel
from mxforge.passes.eliminate import EliminateDeadCode
from mxforge.passes.expand import Expand
from mxforge.passes.fuse import Fuse
from mxforge.passes.manager import Context, Options

Epilogue = Callable[[Expr, Index], Expr]
"""From the Contract and the index of the stored element to the stored value."""


@dataclass(frozen=True)
class ConvSpec:
    """A convolution's attributes, as in core: `low` and `high` are the padding before and after each spatial axis;
    negative padding crops.
    """

    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...] = ()
    interior: tuple[int, ...] = ()
    groups: int = 1

    def out_size(self, size: tuple[int, ...], taps: tuple[int, ...]) -> tuple[int, ...]:
        axes = zip(size, taps, self.stride, self.low, self.high, self.dilations(), self.interiors(), strict=True)
        return tuple(((n - 1) * i + 1 + lo + hi - (k - 1) * d - 1) // s + 1 for n, k, s, lo, hi, d, i in axes)

    def dilations(self) -> tuple[int, ...]:
        return self.dilation or (1,) * len(self.stride)

    def interiors(self) -> tuple[int, ...]:
        return self.interior or (1,) * len(self.stride)

    def windows(self, size: tuple[int, ...]) -> tuple[Window, ...]:
        attributes = zip(size, self.stride, self.dilations(), self.low, self.interiors(), strict=True)
        return tuple(
            Window(name=f"p{k}", out=f"i{k + 2}", tap=f"r{k + 1}", extent=n, stride=s, dilation=d, low=lo, interior=i)
            for k, (n, s, d, lo, i) in enumerate(attributes)
        )


@dataclass(frozen=True)
class Extras:
    """Further operands of an epilogue, and the physical strides of the three other buffers unless contiguous."""

    buffers: tuple[Buffer, ...] = ()
    epilogue: Epilogue = field(default=lambda total, index: total)
    strides: tuple[tuple[int, ...] | None, ...] = (None, None, None)


def conv_kernel(
    x: tuple[int, ...],
    w: tuple[int, ...],
    spec: ConvSpec,
    dtype: DType = DType.F32,
    x_layout: Layout | None = None,
    out_layout: Layout | None = None,
    extras: Extras | None = None,
    name: str = "conv",
) -> Kernel:
    """x (N, C, spatial), w (O, C / groups, taps) -> y (N, O, spatial), as buffers `x`, `w`, the extras, `y`.

    Axes: i0 (batch), g (groups, when there are several), i1 (filter in its group), i2... (positions); r0 (channel),
    r1... (taps).
    """
    extras = extras or Extras()
    size, windows = spec.out_size(x[2:], w[2:]), spec.windows(x[2:])
    axes, out = _conv_axes(x[0], w, size, spec.groups)
    group = ("g",) if spec.groups > 1 else ()
    channel = affine(*((g, w[1]) for g in group), ("r0", 1))
    taps = tuple(f"r{k}" for k in range(len(w) - 1))
    contract = Contract(
        lhs=Load("x", (affine(("i0", 1)), channel, *(affine((v.name, 1)) for v in windows))),
        rhs=Load("w", (out[1], *(affine((a, 1)) for a in taps))),
        batch=group,
        rows=("i0", *(v.out for v in windows)),
        columns=("i1",),
        inner=taps,
        accumulator=sum_dtype(dtype),
        dtype=dtype,
        windows=windows,
    )
    buffers = (
        Buffer("x", dtype, x, x_layout, extras.strides[0]),
        Buffer("w", dtype, w, None, extras.strides[1]),
        *extras.buffers,
        Buffer("y", dtype, (x[0], w[0], *size), out_layout, extras.strides[2], written=True),
    )
    return Kernel(name, buffers, (), axes, (Store("y", out, extras.epilogue(contract, out)),))


def weight_gradient_kernel(
    x: tuple[int, ...],
    filters: int,
    taps: tuple[int, ...],
    spec: ConvSpec,
    dtype: DType = DType.F32,
    x_layout: Layout | None = None,
    layout: Layout | None = None,
    extras: Extras | None = None,
    name: str = "gradient",
) -> Kernel:
    """x (N, C, spatial), cotangent dy (N, O, positions) -> y (O, C / groups, taps), as buffers `x`, `dy`, the extras,
    `y`.

    Axes: g (groups, when there are several), i0 (filter in its group), i1 (channel), i2... (taps); r0 (image), r1...
    (positions).
    """
    extras = extras or Extras()
    size, groups = spec.out_size(x[2:], taps), spec.groups
    own = filters // groups, x[1] // groups
    windows = tuple(replace(w, out=w.tap, tap=w.out) for w in spec.windows(x[2:]))
    group = ("g",) if groups > 1 else ()
    filter_, channel = (affine(*((g, n) for g in group), (a, 1)) for a, n in zip(("i0", "i1"), own, strict=True))
    axes = (
        *(Axis(g, groups) for g in group),
        *(Axis(f"i{k}", n) for k, n in enumerate((*own, *taps))),
        *(Axis(f"r{k}", n, AxisKind.REDUCE) for k, n in enumerate((x[0], *size))),
    )
    contract = Contract(
        lhs=Load("x", (affine(("r0", 1)), channel, *(affine((v.name, 1)) for v in windows))),
        rhs=Load("dy", (affine(("r0", 1)), filter_, *(affine((v.out, 1)) for v in windows))),
        batch=group,
        rows=("i1", *(v.tap for v in windows)),
        columns=("i0",),
        inner=("r0", *(v.out for v in windows)),
        accumulator=sum_dtype(dtype),
        dtype=dtype,
        windows=windows,
    )
    buffers = (
        Buffer("x", dtype, x, x_layout, extras.strides[0]),
        Buffer("dy", dtype, (x[0], filters, *size), layout, extras.strides[1]),
        *extras.buffers,
        Buffer("y", dtype, (filters, own[1], *taps), None, extras.strides[2], written=True),
    )
    out: Index = (filter_, *(affine((f"i{k + 1}", 1)) for k in range(len(taps) + 1)))
    return Kernel(name, buffers, (), axes, (Store("y", out, extras.epilogue(contract, out)),))


def _conv_axes(batch: int, w: tuple[int, ...], size: tuple[int, ...], groups: int) -> tuple[tuple[Axis, ...], Index]:
    filters = w[0] // groups
    group = (Axis("g", groups),) if groups > 1 else ()
    axes = (
        Axis("i0", batch),
        *group,
        Axis("i1", filters),
        *(Axis(f"i{k + 2}", n) for k, n in enumerate(size)),
        *(Axis(f"r{k}", n, AxisKind.REDUCE) for k, n in enumerate(w[1:])),
    )
    channel = affine(*((a.name, filters) for a in group), ("i1", 1))
    return axes, (affine(("i0", 1)), channel, *(affine((f"i{k + 2}", 1)) for k in range(len(size))))


def gemm_kernel(
    batch: tuple[int, ...],
    rows: int,
    columns: int,
    inner: int,
    dtype: DType = DType.F32,
    transposed: tuple[bool, bool] = (False, False),
    batched_rhs: bool = True,
    extras: Extras | None = None,
    name: str = "gemm",
) -> Kernel:
    """a [batch..., rows, inner] times b [batch..., inner, columns] -> y [batch..., rows, columns], buffers `a`, `b`,
    the extras, `y`.

    `transposed` swaps the last two dimensions of a and of b; `batched_rhs` False gives b no batch.
    """
    extras = extras or Extras()
    heads = tuple(f"b{k}" for k in range(len(batch)))
    axes = (
        *(Axis(h, n) for h, n in zip(heads, batch, strict=True)),
        Axis("m", rows),
        Axis("n", columns),
        Axis("k", inner, AxisKind.REDUCE),
    )
    lead = tuple(affine((h, 1)) for h in heads)
    a_pair, b_pair = (("k", "m") if transposed[0] else ("m", "k")), (("n", "k") if transposed[1] else ("k", "n"))
    sizes = {"m": rows, "n": columns, "k": inner}
    b_lead, b_batch = (lead, batch) if batched_rhs else ((), ())
    contract = Contract(
        lhs=Load("a", (*lead, *(affine((p, 1)) for p in a_pair))),
        rhs=Load("b", (*b_lead, *(affine((p, 1)) for p in b_pair))),
        batch=heads,
        rows=("m",),
        columns=("n",),
        inner=("k",),
        accumulator=sum_dtype(dtype),
        dtype=dtype,
    )
    out: Index = (*lead, affine(("m", 1)), affine(("n", 1)))
    buffers = (
        Buffer("a", dtype, (*batch, *(sizes[p] for p in a_pair)), None, extras.strides[0]),
        Buffer("b", dtype, (*b_batch, *(sizes[p] for p in b_pair)), None, extras.strides[1]),
        *extras.buffers,
        Buffer("y", dtype, (*batch, rows, columns), None, extras.strides[2], written=True),
    )
    return Kernel(name, buffers, (), axes, (Store("y", out, extras.epilogue(contract, out)),))


def einsum_kernel(out: str, lhs: str, rhs: str, sizes: dict[str, int]) -> Kernel:
    """The product of `a` and `b` as in `np.einsum`, one letter for each axis."""
    reduce = tuple(sorted((set(lhs) | set(rhs)) - set(out)))
    axes = (*(Axis(a, sizes[a]) for a in out), *(Axis(a, sizes[a], AxisKind.REDUCE) for a in reduce))

    def index(letters: str) -> Index:
        return tuple(affine((a, 1)) for a in letters)

    def buffer(name: str, letters: str) -> Buffer:
        return Buffer(name, DType.F32, tuple(sizes[a] for a in letters))

    value = Contract(
        lhs=Load("a", index(lhs)),
        rhs=Load("b", index(rhs)),
        batch=tuple(a for a in out if a in lhs and a in rhs),
        rows=tuple(a for a in out if a not in rhs),
        columns=tuple(a for a in out if a not in lhs),
        inner=reduce,
        accumulator=DType.F32,
        dtype=DType.F32,
    )
    return Kernel(
        "einsum", (buffer("a", lhs), buffer("b", rhs), buffer("y", out)), (), axes, (Store("y", index(out), value),)
    )


def region_contractions(graph: Graph) -> list[Kernel]:
    """The verified kernels of the graph's regions that contain a contraction."""
    for step in (EliminateDeadCode(), Expand(), Fuse()):
        graph = step.run(graph, Context(AVX2, Options()))
    kernels = [lower_region(node.op) for node in graph.nodes if isinstance(node.op, Fused)]
    found = [kernel for kernel in kernels if contracts(kernel)]
    for kernel in found:
        verify_kernel(kernel)
    return found
