"""Flattening of nested arguments and results of blocks, and name scopes of blocks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import ndarray, symbol
from ..name import Prefix, current_manager
from ..ndarray import NDArray
from ..symbol import Symbol
from .parameter_dict import ParameterDict

if TYPE_CHECKING:
    from .plain_block import Block


class BlockScope:
    """The name scope of a block: the block's prefix, and a counter for each kind of child."""

    _current = threading.local()

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: dict[str, int] = {}
        self._outer: list[tuple[BlockScope | None, Prefix]] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """The full prefix and the parameter dictionary of a new block with this class name (`hint`)."""
        current: BlockScope | None = getattr(BlockScope._current, "value", None)
        if current is None:
            if prefix is None:
                prefix = current_manager().get(None, hint) + "_"
            return prefix, ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        if prefix is None:
            count = current._counter.get(hint, 0)
            current._counter[hint] = count + 1
            prefix = f"{hint}{count}_"
        if params is None:
            parent = current._block.params
            return current._block.prefix + prefix, ParameterDict(parent.prefix + prefix, parent._shared)
        return current._block.prefix + prefix, ParameterDict(params.prefix, params)

    def __enter__(self) -> Self:
        if not self._block._empty_prefix:
            names = Prefix(self._block.prefix)
            self._outer.append((getattr(BlockScope._current, "value", None), names))
            BlockScope._current.value = self
            names.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._block._empty_prefix:
            outer, names = self._outer.pop()
            names.__exit__(kind, error, trace)
            BlockScope._current.value = outer


def flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """Flatten nested lists of arrays or symbols. Returns the flat list and its format.

    The format of an array is 0, of None -1, of a symbol with n > 1 outputs n, and of a list the list of its elements'
    formats. `what`, "input" or "output", is used in the ValueError for other types.
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        outputs = len(args)
        return [args], outputs if outputs > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, list | tuple):
        raise ValueError(
            f"When hybridized, the input of HybridBlock {what} must be (nested) list of Symbol or NDArray, "
            f"but got {args} of type {type(args)}"
        )
    flat: list[Any] = []
    formats: list[Any] = []
    for arg in args:
        items, form = flatten(arg, what)
        flat.extend(items)
        formats.append(form)
    return flat, formats


def is_numpy(value: Any) -> bool:
    """True for an array of `mx.np` or a symbol of `mx.sym.np`."""
    return getattr(value, "_class", None) is not None


def has_numpy(args: Any) -> bool:
    """True if the first array or symbol among nested arguments is one of `mx.np`."""
    if isinstance(args, list | tuple):
        return any(map(has_numpy, args))
    return is_numpy(args)


def operators_for(numpy: bool, symbols: bool) -> Any:
    """The `F` of `hybrid_forward`: the operators on arrays or symbols, with `numpy` on those of `mx.np`."""
    if not numpy:
        return symbol if symbols else ndarray
    if symbols:
        from ..symbol.numpy.legacy import OPERATORS
    else:
        from ..numpy.legacy import OPERATORS
    return OPERATORS


def regroup(args: Sequence[Any], form: Any) -> Any:
    """The inverse of `flatten`."""
    return _regroup(list(args), form)[0]


def _regroup(args: list[Any], form: Any) -> tuple[Any, list[Any]]:
    if isinstance(form, int):
        if form == -1:
            if args[0] is not None:
                raise ValueError(
                    "We do not support passing types that are not None when the initial HybridBlock has received "
                    f"NoneType and has been hybridized. Received arg = {args[0]}, fmt = {form}."
                )
            return None, args[1:]
        return (args[0], args[1:]) if form == 0 else (args[:form], args[form:])
    grouped: list[Any] = []
    for inner in form:
        group, args = _regroup(args, inner)
        grouped.append(group)
    return grouped, args


def same_format(form: Any, stored: Any) -> bool:
    """True if arguments of format `form` match a graph of format `stored`, except for trailing None."""
    if form == stored:
        return True
    if not isinstance(form, list) or not isinstance(stored, list):
        return False
    common = min(len(form), len(stored))
    return form[:common] == stored[:common] and all(f == -1 for f in (*form[common:], *stored[common:]))


def kinds_and_first(args: Any) -> tuple[bool, bool, set[Any], Any]:
    """The results of `kinds_in`, and the context of the first array or None."""
    arrays = [arg for arg in flatten(args, "input")[0] if isinstance(arg, NDArray)]
    return *kinds_in(args), arrays[0].context if arrays else None


def kinds_in(args: Any) -> tuple[bool, bool, set[Any]]:
    """Inspect nested arguments: (contains symbols, contains arrays, contexts of the arrays)."""
    if isinstance(args, NDArray):
        return False, True, {args.context}
    if isinstance(args, Symbol):
        return True, False, set()
    if not isinstance(args, list | tuple):
        return False, False, set()
    inner_kinds = [kinds_in(arg) for arg in args]
    contexts = {ctx for _, _, inner in inner_kinds for ctx in inner}
    return any(s for s, _, _ in inner_kinds), any(a for _, a, _ in inner_kinds), contexts
