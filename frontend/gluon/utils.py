"""Small helpers of Gluon: splitting batches among contexts, shapes, text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..downloads import check_sha1, download, replace_file  # noqa: F401

if TYPE_CHECKING:
    from ..context import Context
    from ..ndarray import NDArray


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """`data` in `num_slice` pieces along `batch_axis`; ValueError where it cannot be split (evenly, if asked)."""
    size = data.shape[batch_axis]
    if size < num_slice or (even_split and size % num_slice):
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. "
            f"Use a batch size that's multiple of {num_slice} or set even_split=False to allow uneven partitioning "
            "of data."
        )
    step = size // num_slice
    bounds = [i * step for i in range(num_slice)] + [size]
    pairs = pairwise(bounds)
    if batch_axis == 0:
        return [data[lo:hi] for lo, hi in pairs]
    return [data.slice_axis(axis=batch_axis, begin=lo, end=hi) for lo, hi in pairs]  # type: ignore[attr-defined]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """`data` in pieces, one on each context."""
    from ..ndarray import NDArray, array

    if not isinstance(data, NDArray):
        data = array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    pieces = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(pieces, ctx_list, strict=True)]


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether rank and all dimensions are known: neither 0 nor -1 stands for an unknown one."""
    return shape is not None and all(n > 0 for n in shape) and len(shape) > 0


def _indent(text: str, spaces: int) -> str:
    """All lines but the first moved right."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _brief_print_list(names: Iterable[str], limit: int = 7) -> str:
    names = [f"'{name}'" for name in names]
    if len(names) > limit:
        names = [*names[: limit // 2], "...", *names[-(limit // 2) :]]
    return ", ".join(names)


class HookHandle:
    """Removes a hook again, by `detach` or at the end of a `with`."""

    def __init__(self) -> None:
        self._hooks: MutableMapping[int, Callable[..., Any]] | None = None

    def attach(self, hooks: MutableMapping[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        if self._hooks is not None:
            raise RuntimeError("The same handle cannot be attached twice.")
        hooks[id(self)] = hook
        self._hooks = hooks

    def detach(self) -> None:
        if self._hooks is not None:
            self._hooks.pop(id(self), None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()
