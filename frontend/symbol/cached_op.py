"""CachedOp: a symbol as a function of arrays, compiled once for each signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.types import DType
from ...runtime.parameter_version import ParameterVersion
from ..base import MXNetError
from ..ndarray import NDArray
from .flags import parse_flags
from .function import SymbolFunction

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["CachedOp"]


class CachedOp:
    """A function of arrays in the order of `sym.list_inputs()`, compiled for each signature.

    `flags` are pairs such as ("static_alloc", True); see `frontend/symbol/flags.py`.
    """

    __module__ = "mxforge.ndarray"  # as in MXNet

    def __init__(self, sym: Symbol, flags: Sequence[tuple[str, Any]] = ()) -> None:
        parsed = parse_flags(flags)
        if parsed.weights is not DType.F32:
            raise MXNetError("weights is for blocks (hybridize): all inputs of a CachedOp are data")
        self._function = SymbolFunction(sym, flags=parsed)
        self._stamp = ParameterVersion().refresh([])

    def __call__(self, *args: NDArray, out: NDArray | Sequence[NDArray] | None = None) -> Any:
        """The result or the list of results; if `out` is passed, it receives them. MXNetError for a wrong number of
        arrays."""
        names = self._function.names
        if len(args) != len(names):
            raise MXNetError(f"CachedOp takes {len(names)} arrays ({', '.join(names)}), got {len(args)}")
        results = self._function.specialization_for(args).call(args, self._stamp)
        if out is None:
            return results[0] if len(results) == 1 else results
        outputs = [out] if isinstance(out, NDArray) else list(out)
        if len(outputs) != len(results):
            raise MXNetError(f"CachedOp has {len(results)} results, out has {len(outputs)}")
        for kept, new in zip(outputs, results, strict=True):
            new.copyto(kept)
        return out
