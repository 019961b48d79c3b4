"""Automatic mixed precision, which is not implemented. Packages read whether it is enabled: it never is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...base import MXNetError

_amp_initialized = False
"""True if `init` was called, so always False. Other packages read it."""


def _unsupported(name: str) -> Callable[..., NoReturn]:
    def raise_error(*args: Any, **kwargs: Any) -> NoReturn:
        raise MXNetError(
            f"amp.{name}: automatic mixed precision is not in mxforge yet; net.cast('float16') computes in one dtype"
        )

    raise_error.__name__ = raise_error.__qualname__ = name
    return raise_error


init = _unsupported("init")
init_trainer = _unsupported("init_trainer")
scale_loss = _unsupported("scale_loss")
unscale = _unsupported("unscale")
convert_hybrid_block = _unsupported("convert_hybrid_block")
convert_model = _unsupported("convert_model")
convert_symbol = _unsupported("convert_symbol")
