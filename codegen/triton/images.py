"""Rewrites convolutions of images with few channels, such as the first of a network, for packed images and weights.

An image of 2 to 4 channels is packed as rows of pixels of 4 numbers, with its padding. Then the points of a window that
are in one row are neighbours in memory, no index is outside of the image, and the convolution is a matrix product:

    y[n, h, w, f] = sum over r, q of x[n, h * stride + r * dilation, 4 * w * stride + q] * weights[f, r, q]

q counts 4 numbers for each tap of a row. The weights have zeros up to a multiple of 16. The gradient with respect to
the weights reads the same packed image.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.kernel import (
    Affine,
    Axis,
    Buffer,
    Const,
    Contract,
    ContractionKind,
    Kernel,
    Load,
    Store,
    Window,
    affine,
    contracts,
    walk,
)
from ...ir.lazy_dataclass import dataclass
from ...ir.symbolic import is_symbolic
from ...ir.types import DType
from ..lower_contract import rewritten

_DTYPES = (DType.F16, DType.BF16, DType.F32)
_PIXEL = 4  # numbers of a packed pixel
_ROW = 16  # a row of taps has a multiple of this many numbers
_FEWEST = 4096  # positions of the convolution from which packing takes less time than it saves


@dataclass(frozen=True, slots=True)
class KernelPacking:
    """Implements `Packing`: `kernel` reads its first buffer and writes all of its second."""

    kernel: Kernel

    @property
    def nbytes(self) -> int:
        packed = self.kernel.buffers[1]
        return prod(map(int, packed.shape)) * packed.dtype.itemsize


Packings = tuple[tuple[int, KernelPacking], ...]


def on_packed_image(kernel: Kernel) -> tuple[Kernel, Packings]:
    """The kernel for packed operands, and their packings by the position of the buffer; the same kernel and none if its
    convolution is another or too small."""
    nodes = contracts(kernel)
    if len(nodes) != 1 or not _is_of_image(kernel, nodes[0]):
        return kernel, ()
    (node,) = nodes
    is_gradient = node.kind is ContractionKind.WEIGHT_GRADIENT
    image = _Image(kernel, node)
    positions = {b.name: i for i, b in enumerate(kernel.buffers)}
    packings = [(positions[image.buffer.name], image.packing())]
    changed = replace(node, lhs=image.packed_load(is_gradient), windows=())
    buffers = {image.buffer.name: _packed(image.packing(), image.buffer.name)}
    axes = {a.name: a for a in kernel.axes}
    if not is_gradient:
        assert isinstance(node.rhs, Load)
        packing = image.weights(node.rhs)
        packings.append((positions[node.rhs.buffer], packing))
        buffers[node.rhs.buffer] = _packed(packing, node.rhs.buffer)
        axes[image.across.tap] = replace(axes[image.across.tap], extent=image.row)
        del axes[image.channel]
        filters, taps = (affine((a, 1)) for a in (image.filters(node.rhs), image.down.tap))
        weights = Load(node.rhs.buffer, (filters, taps, affine((image.across.tap, 1))))
        changed = replace(changed, rhs=weights, inner=(image.down.tap, image.across.tap))
    kernel = rewritten(kernel, lambda e: changed if e == node else e)
    buffers_ = tuple(buffers.get(b.name, b) for b in kernel.buffers)
    return replace(kernel, buffers=buffers_, axes=tuple(axes.values())), tuple(packings)


def _packed(packing: KernelPacking, name: str) -> Buffer:
    return replace(packing.kernel.buffers[1], name=name, written=False)


def _is_of_image(kernel: Kernel, node: Contract) -> bool:
    """True for a convolution, or its gradient with respect to the weights, that reads rows of an image of few
    channels."""
    if len(node.windows) != 2 or node.batch or not isinstance(node.lhs, Load) or not isinstance(node.rhs, Load):
        return False
    image, other = kernel.buffer(node.lhs.buffer), kernel.buffer(node.rhs.buffer)
    down, across = node.windows
    extents = [a.extent for a in kernel.axes] + [w.extent for w in node.windows]
    if kernel.extents or any(isinstance(e, str) or is_symbolic(e) for e in (*extents, *image.shape, *other.shape)):
        return False
    plain = image.layout is None and image.strides is None and image.dtype is other.dtype and image.dtype in _DTYPES
    named = [affine((w.name, 1)) for w in node.windows]
    if not plain or [*node.lhs.index[2:]] != named or down.interior * across.interior * across.dilation != 1:
        return False
    if not 2 <= int(image.shape[1]) <= _PIXEL or int(kernel.axis(across.tap).extent) == 1 or image.name == other.name:
        return False
    positions = prod(int(kernel.axis(w.out).extent) for w in node.windows) * int(image.shape[0])
    return positions >= _FEWEST and all(_reads(kernel, b.name) == 1 for b in (image, other))


def _reads(kernel: Kernel, buffer: str) -> int:
    loads = {e for stage in kernel.stages for e in walk(stage.value) if isinstance(e, Load) and e.buffer == buffer}
    return len(loads)


class _Image:
    """The image of a convolution, and its packed form."""

    def __init__(self, kernel: Kernel, node: Contract) -> None:
        assert isinstance(node.lhs, Load)
        self.kernel, self.index, self.buffer = kernel, node.lhs.index, kernel.buffer(node.lhs.buffer)
        self.down, self.across = node.windows
        (self.channel,) = _axes_of(node.lhs.index[1])
        taps, tap_rows = self._extent(self.across.tap), self._extent(self.down.tap)
        self.row = -(-taps * _PIXEL // _ROW) * _ROW
        self.height = (self._extent(self.down.out) - 1) * self.down.stride + (tap_rows - 1) * self.down.dilation + 1
        self.width = (self._extent(self.across.out) - 1) * self.across.stride + self.row // _PIXEL

    def _extent(self, axis: str) -> int:
        return int(self.kernel.axis(axis).extent)

    def packing(self) -> KernelPacking:
        """From (images, channels, height, width) to (images, rows, pixels, numbers), with zeros around."""
        axes = (("n", int(self.buffer.shape[0])), ("h", self.height), ("w", self.width), ("c", _PIXEL))
        low = self.down.low, self.across.low
        index = tuple(affine((a, 1), offset=-o) for a, o in zip("nchw", (0, 0, *low), strict=True))
        return _packing(self.buffer, "image", axes, index)

    def weights(self, load: Load) -> KernelPacking:
        """From (filters, channels, rows, taps) to (filters, rows, taps, numbers), with zeros after taps and numbers."""
        filters = self._extent(self.filters(load))
        axes = (("f", filters), ("r", self._extent(self.down.tap)), ("s", self.row // _PIXEL), ("c", _PIXEL))
        return _packing(self.kernel.buffer(load.buffer), "weights", axes, tuple(affine((a, 1)) for a in "fcrs"))

    @staticmethod
    def filters(load: Load) -> str:
        (axis,) = _axes_of(load.index[0])
        return axis

    def packed_load(self, is_gradient: bool) -> Load:
        """The element at the position of the windows. Channels and taps of a row are one axis, except in a gradient."""
        down, across = self._position(self.down, 1), self._position(self.across, _PIXEL, not is_gradient)
        if is_gradient:
            across.append((self.channel, 1))
        return Load(self.buffer.name, (self.index[0], self._affine(down), self._affine(across)))

    @staticmethod
    def _position(window: Window, scale: int, joined: bool = False) -> list[tuple[str, int]]:
        return [(window.out, window.stride * scale), (window.tap, 1 if joined else window.dilation * scale)]

    def _affine(self, terms: list[tuple[str, int]]) -> Affine:
        order = [a.name for a in self.kernel.axes]
        return affine(*sorted(terms, key=lambda term: order.index(term[0])))


def _axes_of(index: object) -> tuple[str, ...]:
    return tuple(axis for axis, _ in index.terms) if isinstance(index, Affine) else ()


def _packing(source: Buffer, kind: str, axes: tuple[tuple[str, int], ...], index: tuple[Affine, ...]) -> KernelPacking:
    """The packing whose element along `axes` is that of the source at `index`, or zero outside of it. The last two axes
    are one dimension."""
    names, sizes = zip(*axes, strict=True)
    shape = (*sizes[:2], sizes[2] * sizes[3])
    into = (*(affine((a, 1)) for a in names[:2]), affine((names[2], sizes[3]), (names[3], 1)))
    value = Load("x", index, Const(0, source.dtype))
    buffers = replace(source, name="x"), Buffer("y", source.dtype, shape, written=True)
    stages = (Store("y", into, value),)
    return KernelPacking(Kernel(f"pack_{kind}", buffers, (), tuple(Axis(*a) for a in axes), stages))
