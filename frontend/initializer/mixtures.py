"""Initializers that select by parameter name: loaded arrays, or other initializers by pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ndarray import NDArray


class Load:
    """Fills parameters from a file or a dictionary, others with `default_init`. The prefixes `arg:` and `aux:` of names
    are dropped."""

    def __init__(self, param: str | Mapping[str, NDArray], default_init: Any = None, verbose: bool = False) -> None:
        from ..ndarray import load

        loaded: Mapping[str, Any] = load(param) if isinstance(param, str) else param
        self.param = {name.removeprefix("arg:").removeprefix("aux:"): arr for name, arr in loaded.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        loaded = self.param.get(str(name))
        if loaded is None and self.default_init is None:
            raise AssertionError(
                f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided."
            )
        if loaded is None:
            self.default_init(name, arr)
        elif arr.shape != loaded.shape:
            raise AssertionError(
                f"Parameter {name} cannot be initialized from loading. "
                f"Shape mismatch, target {arr.shape} vs loaded {loaded.shape}"
            )
        else:
            arr[:] = loaded
        if self.verbose:
            import logging

            logging.info("Initialized %s by %s", name, "default" if loaded is None else "loading")


class Mixed:
    """Several initializers, selected by regular expression. The first pattern that matches the name is used.

    Example:
        >>> mixed = mx.init.Mixed([".*embed.*", ".*"], [mx.init.One(), mx.init.Zero()])
        >>> weight = mx.nd.empty((2,))
        >>> mixed(mx.init.InitDesc("embed_weight"), weight)
        >>> weight.asnumpy()
        array([1., 1.], dtype=float32)
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]) -> None:
        if len(patterns) != len(initializers):
            raise AssertionError(f"{len(patterns)} patterns for {len(initializers)} initializers")
        self.map = list(zip(map(re.compile, patterns), initializers, strict=True))

    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f"Parameter name {name} did not match any pattern. Consider "
            'add a ".*" pattern at the end with default Initializer.'
        )
