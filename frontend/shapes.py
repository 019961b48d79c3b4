"""Converts shapes between MXNet's notation and the notation of shape inference.

    inference   MXNet with NumPy's shape semantics   MXNet without them
    UNKNOWN     -1                                   0 (or -1)
    None        None                                 ()
    0           0                                    not expressible
    ()          ()                                   not expressible

Shapes of arrays are known and need no conversion. Shapes that users write (`infer_shape`, `var(shape=)`, `__shape__` in
a file) are converted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base import MXNetError
from .util import is_np_shape

if TYPE_CHECKING:
    from ..ir.dialects.mx.shapes import PartialShape
    from ..ir.types import Shape


def from_mxnet(shape: Sequence[int] | None) -> PartialShape:
    """A user's shape in the notation of inference. MXNetError for an extent below -1."""
    from ..ir.dialects.mx.shapes import UNKNOWN

    if shape is None:
        return None
    if any(n < -1 for n in shape):
        raise MXNetError(f"shape dim size must be >= -1, while received {min(shape)}")
    if is_np_shape():
        return tuple(UNKNOWN if n == -1 else n for n in shape)
    return tuple(n if n > 0 else UNKNOWN for n in shape) or None


def to_mxnet(shape: PartialShape) -> Shape | None:
    """An inferred shape in MXNet's notation."""
    from ..ir.dialects.mx.shapes import UNKNOWN

    unknown, unranked = (-1, None) if is_np_shape() else (0, ())
    return unranked if shape is None else tuple(unknown if n is UNKNOWN else n for n in shape)


def shape_of_element() -> Shape:
    """The shape of the result when a key selects one element."""
    return () if is_np_shape() else (1,)


def is_known(shape: Sequence[int] | None) -> bool:
    """True if the rank and all extents of a shape in MXNet's notation are known."""
    if is_np_shape():
        return shape is not None and all(n >= 0 for n in shape)
    return bool(shape) and all(n > 0 for n in shape)
