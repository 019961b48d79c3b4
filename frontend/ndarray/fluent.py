"""Operators as methods: `x.exp()` is `nd.exp(x)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..generated_functions import METHODS, method_help
from . import op
from .creation import split_v2

if TYPE_CHECKING:
    from .ndarray import NDArray


def _method(name: str) -> Callable[..., Any]:
    def method(self: NDArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(op, name)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"NDArray.{name}"
    method.__doc__ = method_help(name, "nd", "array")
    return method


class Fluent:
    """The methods of `METHODS`, and methods that differ from their operator."""

    __slots__ = ()

    def expand_dims(self: NDArray, axis: int, inplace: bool = False) -> NDArray:  # type: ignore[misc]
        """Inserts an axis of extent 1.

        Args:
            axis: Position of the new axis in the result.
            inplace: True to return a view of the same memory instead of a copy.
        """
        if not inplace:
            return op.expand_dims(self, axis=axis)
        rank = len(self._shape) + 1
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} is out of range for {rank} dimensions")
        shape = list(self._shape)
        shape.insert(axis % rank, 1)
        return self._view(tuple(shape))

    def broadcast_like(self: NDArray, other: NDArray) -> NDArray:  # type: ignore[misc]
        """Repeats the array along axes of extent 1, and along new leading axes, to the shape of `other`.

        Unlike `nd.broadcast_like`, it accepts an `other` with more axes. See `broadcast_to`.
        """
        return self.broadcast_to(other.shape)

    def diag(self: NDArray, k: int = 0, **kwargs: Any) -> NDArray:  # type: ignore[misc]
        """Extracts the k-th diagonal of a matrix, or builds a matrix with a vector as its k-th diagonal; see `nd.diag`.

        Args:
            k: The diagonal: 0 is the main diagonal, k > 0 is above it, k < 0 below it.
        """
        return op.diag(self, k, **kwargs)

    def flatten(self: NDArray, inplace: bool = False) -> NDArray:  # type: ignore[misc]
        """Merges all axes except the first: shape (n, ...) becomes (n, m).

        Args:
            inplace: True to return a view of the same memory instead of a copy.
        """
        return self.reshape((0, -1)) if inplace else op.flatten(self)

    def squeeze(self: NDArray, axis: Any = None, inplace: bool = False) -> NDArray:  # type: ignore[misc]
        """Removes axes of extent 1.

        Args:
            axis: The axes to remove: one, a tuple, or by default all axes of extent 1.
            inplace: True to return a view of the same memory instead of a copy.
        """
        result = op.squeeze(self, axis=axis)
        return self._view(result._shape) if inplace else result

    def broadcast_to(self: NDArray, shape: Any) -> NDArray:  # type: ignore[misc]
        """Repeats the array along axes of extent 1, and along new leading axes, to `shape`.

        Args:
            shape: The new shape.
        Returns:
            A copy. ValueError if an extent is neither 1 nor the new one, or `shape` has fewer axes.
        """
        target = (shape,) if isinstance(shape, int) else tuple(shape)
        missing = len(target) - len(self._shape)
        if missing < 0:
            raise ValueError(f"cannot broadcast array of shape {self._shape} to {target}: it has more dimensions")
        source = (1,) * missing + self._shape
        bad = [i for i, (have, new) in enumerate(zip(source, target, strict=True)) if have not in (1, new)]
        if bad:
            raise ValueError(
                f"operands could not be broadcast together with remapped shapes: {self._shape} and {target}"
            )
        return op.broadcast_to(self.reshape(source) if missing else self, shape=target)

    def split_v2(self: NDArray, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
        """Splits the array along an axis into equal parts, or at the positions that are passed; see `nd.split_v2`."""
        return split_v2(self, *args, **kwargs)


for _name in METHODS:
    setattr(Fluent, _name, _method(_name))
