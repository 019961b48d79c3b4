"""Splits convolutions of inputs with zeros between their elements into dense ones, the sub-pixel convolutions.

The gradient of a convolution of stride s by its data is such a convolution: its input, the cotangent, has s - 1 zeros
between neighbours. The outputs o = s * i + p with one remainder p meet elements only with the taps t for which
p + t * dilation - low is a multiple of s. So the outputs of each remainder are a dense convolution with some of the
taps, whose results are stored s elements apart. No zero is stored or multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ..ir.kernel import (
    Affine,
    Axis,
    AxisValue,
    Cast,
    Const,
    Contract,
    Expr,
    Index,
    Kernel,
    Load,
    Local,
    Scalar,
    Store,
    Window,
    affine,
    contracts,
    index_value,
)
from ..ir.lazy_dataclass import dataclass


def subpixel_kernels(kernel: Kernel) -> tuple[Kernel, ...]:
    """The kernels that together compute a convolution; the kernel itself if its input has no interior zeros.

    A sub-pixel convolution without taps is zero.
    """
    products = contracts(kernel)
    split = [w for c in products for w in c.windows if w.interior > 1]
    if len(products) != 1 or not split or any(w.stride > 1 for w in split):
        return (kernel,)
    combinations = product(*(_subpixel_windows(kernel, w) for w in split))
    return tuple(_subpixel_kernel(kernel, products[0], chosen) for chosen in combinations)


@dataclass(frozen=True, slots=True)
class _SubpixelWindow:
    """A window over the outputs of one remainder: the kernel's axes as functions of axes of other extents."""

    window: Window
    outputs: int
    taps: int
    output: Affine
    tap: Affine


def _subpixel_windows(kernel: Kernel, window: Window) -> list[_SubpixelWindow]:
    """The windows that have outputs, one for each remainder."""
    outputs, taps, step = kernel.axis(window.out).extent, kernel.axis(window.tap).extent, window.interior
    assert isinstance(outputs, int)
    assert isinstance(taps, int)
    windows: list[_SubpixelWindow] = []
    for p in range(step):
        count = -(-(outputs - p) // step)
        meeting = [t for t in range(taps) if (p + t * window.dilation - window.low) % step == 0]
        if p and count <= 0:
            continue
        first = meeting[0] if meeting else 0
        stride = meeting[1] - first if len(meeting) > 1 else step
        dense = replace(
            window,
            dilation=stride * window.dilation // step if len(meeting) > 1 else 1,
            low=-((p + first * window.dilation - window.low) // step),
            interior=1,
        )
        output, tap = affine((window.out, step), offset=p), affine((window.tap, stride), offset=first)
        windows.append(_SubpixelWindow(dense, count, len(meeting), output, tap))
    return windows


def _subpixel_kernel(kernel: Kernel, node: Contract, chosen: Sequence[_SubpixelWindow]) -> Kernel:
    places: dict[str, Affine] = {}
    extents: dict[str, int] = {}
    for c in chosen:
        places |= {c.window.out: c.output, c.window.tap: c.tap}
        extents |= {c.window.out: c.outputs, c.window.tap: c.taps}
    axes = [Axis(a.name, extents.get(a.name, a.extent), a.kind) for a in kernel.axes]
    if all(c.taps for c in chosen):
        dense = {c.window.name: c.window for c in chosen}
        windows = tuple(dense.get(w.name, w) for w in node.windows)
        value: Expr = replace(node, rhs=_placed(node.rhs, places), windows=windows)
    else:
        value = Const(0, node.dtype)
        channels = [kernel.axis(name).extent for name in (*node.batch, *node.columns)]
        merged = {node.columns[0]: prod(n for n in channels if isinstance(n, int))}  # of all groups
        places |= {group: Affine() for group in node.batch}
        axes = [Axis(a.name, merged.get(a.name, a.extent), a.kind) for a in axes]
        axes = [a for a in axes if a.name not in (*node.inner, *node.batch)]
    stages = tuple(_placed_stage(s, places, node, value) for s in kernel.stages)
    return replace(kernel, axes=tuple(axes), stages=stages)


def _placed_stage(stage: Store | Local, places: Mapping[str, Affine], node: Contract, value: Expr) -> Store | Local:
    placed = _placed(stage.value, places, {node: value})
    if isinstance(stage, Local):
        return replace(stage, value=placed)
    return replace(stage, index=_placed_index(stage.index, places), value=placed)


def _placed_index(index: Index, places: Mapping[str, Affine]) -> Index:
    return tuple(_composed(i, places) if isinstance(i, Affine) else _placed(i, places) for i in index)


def _composed(index: Affine, places: Mapping[str, Affine]) -> Affine:
    """An index with each axis of `places` replaced by its place."""
    terms: list[tuple[str, int]] = []
    offset = index.offset
    for axis, scale in index.terms:
        place = places.get(axis, affine((axis, 1)))
        terms += [(a, scale * c) for a, c in place.terms]
        offset += scale * place.offset
    return Affine(tuple(terms), offset)


def _placed(expr: Expr, places: Mapping[str, Affine], instead: Mapping[Expr, Expr] | None = None) -> Expr:
    """`expr` with each axis of `places` replaced by its place, and each expression of `instead` by another."""
    if instead and expr in instead:
        return instead[expr]
    match expr:
        case Load(index=index):
            return replace(expr, index=_placed_index(index, places))
        case AxisValue(axis=axis) if axis in places:
            return index_value(places[axis])
        case Scalar(operands=operands):
            return replace(expr, operands=tuple(_placed(e, places, instead) for e in operands))
        case Cast(operand=operand):
            return replace(expr, operand=_placed(operand, places, instead))
        case _:
            return expr
