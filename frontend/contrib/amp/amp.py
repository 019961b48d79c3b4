"""Mixed precision: packages ask whether it is on, and it never is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...base import MXNetError

_amp_initialized = False
"""Whether `init` was called: other packages read it."""


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise MXNetError(
            f"amp.{name}: automatic mixed precision is not in mxforge yet; net.cast('float16') computes in one dtype"
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


init = _refusing("init")
init_trainer = _refusing("init_trainer")
scale_loss = _refusing("scale_loss")
unscale = _refusing("unscale")
convert_hybrid_block = _refusing("convert_hybrid_block")
convert_model = _refusing("convert_model")
convert_symbol = _refusing("convert_symbol")
