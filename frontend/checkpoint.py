"""Checkpoints: a symbol and its parameters in MXNet's file formats."""

from __future__ import annotations

import logging
import os
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from .base import MXNetError
from .context import cpu
from .ndarray import NDArray, load, save
from .symbol import Symbol
from .symbol import load as load_symbol

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]

BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])
Arrays = dict[str, NDArray]


def call_all(callbacks: Any, *args: Any, **kwargs: Any) -> None:
    """Call a callback, or each callback of a list; None is skipped."""
    for callback in callbacks if isinstance(callbacks, list) else [callbacks]:
        if callback is not None:
            callback(*args, **kwargs)


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Write `PREFIX-symbol.json` and `PREFIX-EPOCH.params`."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    path = f"{prefix}-{epoch:04d}.params"
    save_arrays(path, arg_params, aux_params)
    logging.info('Saved checkpoint to "%s"', path)


def save_arrays(path: str, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
    """Write parameters as `arg:NAME` and auxiliary states as `aux:NAME`."""
    arrays = {f"arg:{name}": array.as_in_context(cpu()) for name, array in arg_params.items()}
    arrays.update({f"aux:{name}": array.as_in_context(cpu()) for name, array in aux_params.items()})
    save(path, arrays)


def load_arrays(path: str) -> tuple[Arrays, Arrays]:
    """Parameters and auxiliary states from a file. MXNetError for names without the prefix `arg:` or `aux:`."""
    loaded = load(path)
    if not loaded:
        logging.warning("Params file '%s' is empty", path)
        return {}, {}
    if not isinstance(loaded, dict):
        raise MXNetError(f"{path}: a list of arrays without names is not a checkpoint")
    arrays: dict[str, Arrays] = {"arg": {}, "aux": {}}
    for key, array in loaded.items():
        kind, colon, name = key.partition(":")
        if not colon or kind not in arrays:
            raise MXNetError(f"{path}: {key!r} is neither 'arg:NAME' nor 'aux:NAME'")
        arrays[kind][name] = array
    return arrays["arg"], arrays["aux"]


def load_named(path: str | os.PathLike[str]) -> Arrays:
    """All arrays of a file by name, with the prefixes `arg:` and `aux:` removed. MXNetError if they have no names."""
    loaded = load(path)
    if not isinstance(loaded, dict):
        if loaded:
            raise MXNetError(f"{os.fspath(path)}: the arrays have no names")
        return {}
    return {without_kind(name): array for name, array in loaded.items()}


def without_kind(name: str) -> str:
    """The name without `arg:` or `aux:`."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind in ("arg", "aux") else name


def load_params(prefix: str, epoch: int) -> tuple[Arrays, Arrays]:
    """Parameters and auxiliary states of `PREFIX-EPOCH.params`."""
    return load_arrays(f"{prefix}-{epoch:04d}.params")


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Arrays, Arrays]:
    """Symbol, parameters and auxiliary states of a checkpoint.

    Example:
        >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
        >>> mx.model.save_checkpoint("net", 1, net, {"fc_weight": mx.nd.ones((2, 3))}, {})
        >>> symbol, arg_params, aux_params = mx.model.load_checkpoint("net", 1)
        >>> list(arg_params)
        ['fc_weight']
    """
    return load_symbol(f"{prefix}-symbol.json"), *load_params(prefix, epoch)
