"""Utilities of Gluon: splitting batches across contexts, clipping gradients, text formatting, hooks."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

from .. import ndarray  # noqa: F401  (MXNet's module has these names too)
from ..downloads import _get_repo_file_url, _get_repo_url, check_sha1, download, replace_file  # noqa: F401
from ..ndarray import NDArray, array
from ..shapes import is_known as shape_is_known  # noqa: F401
from ..symbol import Symbol
from ..util import is_np_array, is_np_shape  # noqa: F401

if TYPE_CHECKING:
    from ..context import Context
    from ..ndarray import NDArray

__all__ = ["check_sha1", "clip_global_norm", "download", "replace_file", "split_and_load", "split_data"]


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Split `data` into `num_slice` parts along `batch_axis`. Raises ValueError if `even_split` and the parts differ in
    size."""
    size = data.shape[batch_axis]
    if even_split and size % num_slice:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. "
            f"Use a batch size that's multiple of {num_slice} or set even_split=False to allow uneven partitioning "
            "of data."
        )
    step, larger = divmod(size, num_slice)  # the first `larger` parts have one more sample
    bounds = [i * step + min(i, larger) for i in range(num_slice + 1)]
    pairs = pairwise(bounds)
    if batch_axis == 0:
        return [data[lo:hi] for lo, hi in pairs]
    before = (slice(None),) * batch_axis
    return [data[(*before, slice(lo, hi))] for lo, hi in pairs]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Split `data` into one part per context, and copy each part to its context.

    Example:
        >>> parts = mx.gluon.utils.split_and_load(mx.nd.ones((4, 3)), [mx.cpu(0), mx.cpu(1)])
        >>> [(part.shape, part.context) for part in parts]
        [((2, 3), cpu(0)), ((2, 3), cpu(1))]
    """
    if not isinstance(data, NDArray):
        data = array(data, ctx=ctx_list[0])
        data = data.as_np_ndarray() if is_np_array() else data
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    pieces = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(pieces, ctx_list, strict=True)]


def _indent(text: str, spaces: int) -> str:
    """Indent all lines except the first."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _brief_print_list(names: Iterable[str], limit: int = 7) -> str:
    names = [f"'{name}'" for name in names]
    if len(names) > limit:
        names = [*names[: limit // 2], "...", *names[-limit // 2 :]]  # rounds down, -7 // 2 = -4, as in MXNet
    return ", ".join(names)


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale the arrays in place so that their joint 2-norm is at most `max_norm`. Returns the norm before scaling.

    The result is a float, or an NDArray (1,) if `check_isfinite` is False. With `check_isfinite`, a norm that is not
    finite issues a warning.

    Example:
        >>> arrays = [mx.nd.array([3]), mx.nd.array([4])]
        >>> norm = mx.gluon.utils.clip_global_norm(arrays, 1)
        >>> float(norm), [round(array.asscalar().item(), 3) for array in arrays]
        (5.0, [0.6, 0.8])
    """
    from ..ndarray import add_n, concat, dot, ones, sqrt

    if not arrays:
        raise AssertionError("clip_global_norm requires at least one array")
    ctx = arrays[0].context
    flat = [array.as_nd_ndarray().tostype("default").reshape((-1,)) for array in arrays]
    norm = sqrt(add_n(*[dot(x, x).as_in_context(ctx) for x in flat]))
    if check_isfinite and not isfinite(norm.asscalar()):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = concat(max_norm / (norm + 1e-8), ones(1, ctx=ctx), dim=0).min()
    for gradient in arrays:
        plain = gradient.as_nd_ndarray()
        plain *= scale.as_in_context(gradient.context)
    if check_isfinite:
        return norm.asscalar()
    return norm.as_np_ndarray() if arrays[0]._class is not None else norm


def _check_same_symbol_type(symbols: Sequence[Any]) -> type:
    """The class of the symbols, which MXNet checks to be the same. There is only one class here."""
    return Symbol


def _check_all_np_ndarrays(out: Any) -> None:
    """Raise TypeError for outputs that are arrays or symbols of `mx.nd` or `mx.sym`: MXNet's NumPy mode requires those
    of `mx.np`."""
    if isinstance(out, list | tuple):
        for item in out:
            _check_all_np_ndarrays(item)
    elif isinstance(out, NDArray | Symbol) and out._class is None:
        raise TypeError(
            "Block's output must be mx.np arrays or symbols in MXNet's NumPy mode. Found output type "
            f"{type(out)}: give the block arrays of mx.np, or call it outside of use_np, np_array and set_np"
        )


def _as_np_ndarrays(out: Any) -> Any:
    """The outputs of a layer of Gluon, with arrays and symbols as those of `mx.np`, without a copy."""
    if isinstance(out, list | tuple):
        return type(out)(map(_as_np_ndarrays, out))
    if isinstance(out, NDArray | Symbol) and out._class is None and not getattr(out, "_is_sparse", False):
        return out.as_np_ndarray()
    return out


class HookHandle:
    """Removes a hook, by `detach` or at the end of a `with` block. It holds no reference to the hook or its block."""

    def __init__(self) -> None:
        self._hooks_dict_ref: weakref.ref[Any] | None = None
        self._id: int | None = None

    def attach(self, hooks_dict: MutableMapping[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        """Add a hook to the table. A hook that is already in the table is not added twice."""
        if self._hooks_dict_ref is not None:
            raise AssertionError("The same handle cannot be attached twice.")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self) -> None:
        hooks = self._hooks_dict_ref() if self._hooks_dict_ref is not None else None
        if hooks is not None:
            hooks.pop(self._id, None)

    def __getstate__(self) -> tuple[Any, int | None]:
        return self._hooks_dict_ref() if self._hooks_dict_ref is not None else None, self._id

    def __setstate__(self, state: tuple[Any, int | None]) -> None:
        hooks, self._id = state
        self._hooks_dict_ref = None if hooks is None else weakref.ref(hooks)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()
