"""Parameter updates of training loops: by a KVStore, or by an updater after a KVStore has summed the gradients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from . import kvstore as kvs
from .kvstore.kvstore import is_shared
from .ndarray import NDArray

_LARGE = 16 << 20  # parameters with more elements are not updated by a local store, which then only sums gradients


def _create_sparse_kvstore(kvstore: Any) -> tuple[Any, bool]:
    """A store that updates `row_sparse` parameters. Returns (store, True)."""
    if not isinstance(kvstore, str | kvs.KVStore):
        raise TypeError(
            f"Cannot create {kvstore!r} KVStore with row_sparse parameters. The type must be KVStore or str."
        )
    store = kvs.create(kvstore) if isinstance(kvstore, str) else kvstore
    if not store.is_capable(kvs.KVStoreBase.OPTIMIZER):
        raise AssertionError(
            f"KVStore with sparse weight requires optimizer support, which {type(store)} does not have"
        )
    return store, True


def _create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """The store of a training loop, and whether the store updates the parameters.

    A name other than "dist..." returns no store for one device. With `MXNET_UPDATE_ON_KVSTORE=0` or large parameters,
    the loop updates the parameters.
    """
    update = bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
    if kvstore is not None and not isinstance(kvstore, str | kvs.KVStoreBase):
        raise TypeError("kvstore must be KVStore, str or None")
    store: Any = kvstore
    if isinstance(kvstore, str):
        alone = num_device == 1 and "dist" not in kvstore
        store = None if alone else kvs.create(kvstore)
        if kvstore == "local" and not alone:
            update = update and max(prod(param.shape) for param in arg_params.values()) <= _LARGE
    if store is None:
        return None, False
    return store, update and store.is_capable(kvs.KVStoreBase.OPTIMIZER)


def _initialize_kvstore(
    kvstore: Any,
    param_arrays: Sequence[list[NDArray]],
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Initialize a store with the parameters; if it updates dense parameters, broadcast its values to the devices."""
    for name, arrays in zip(param_names, param_arrays, strict=False):
        begins_with_store = update_on_kvstore or is_shared(kvstore)  # workers begin with equal values
        if not begins_with_store or arg_params[name].stype != "default":
            kvstore.init(name, arg_params[name])
        else:
            kvstore.broadcast(name, arg_params[name], out=arrays)


def exchange(kvstore: Any, pushed: Sequence[tuple[Any, list[NDArray], list[NDArray]]]) -> None:
    """Push dense gradients, and pull their sums or the updated parameters. `pushed` has (key, gradients, arrays that
    receive the values). A store of this package updates all parameters in one call, others get one call for each.
    """
    if isinstance(kvstore, kvs.KVStore) and pushed:
        keys, grads, out = (list(part) for part in zip(*pushed, strict=True))
        kvstore.pushpull(keys, grads, out=out)
        return
    for priority, (key, grads, out) in enumerate(pushed):
        kvstore.pushpull(key, grads, out=None if out is grads else out, priority=-priority)


def _exchange_all(kvstore: Any, updates: Sequence[tuple[Any, list[NDArray], list[NDArray]]]) -> None:
    """`exchange` of dense and sparse gradients."""
    dense: list[tuple[Any, list[NDArray], list[NDArray]]] = []
    for priority, (key, grads, out) in enumerate(updates):
        if grads[0].stype == "default" and out[0].stype == "default":
            dense.append((key, grads, out))
        else:
            kvstore.push(key, grads, priority=-priority)
            kvstore.pull(key, out=out, priority=-priority)
    exchange(kvstore, dense)


def _update_params_on_kvstore(
    param_arrays: Sequence[list[NDArray]], grad_arrays: Sequence[list[Any]], kvstore: Any, param_names: Sequence[str]
) -> None:
    """Update parameters on a store, and pull the new values."""
    every = zip(param_names, grad_arrays, param_arrays, strict=False)
    _exchange_all(kvstore, [(name, grads, arrays) for name, grads, arrays in every if grads[0] is not None])


_update_params_on_kvstore_nccl = _update_params_on_kvstore  # stores choose how they sum


def _update_params(
    param_arrays: Sequence[list[NDArray]],
    grad_arrays: Sequence[list[Any]],
    updater: Callable[[Any, Any, Any], None],
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Update parameters on each device with `updater(indices, gradients, weights)`. A store, if there is one, first
    sums the gradients over the devices. The index of parameter i on device k is i * num_device + k."""
    chosen = [i for i, grads in enumerate(grad_arrays) if grads[0] is not None]
    if kvstore:
        _exchange_all(kvstore, [((param_names or [])[i], grad_arrays[i], grad_arrays[i]) for i in chosen])
    updates: list[list[tuple[int, Any, NDArray]]] = [[] for _ in range(num_device)]
    for i in chosen:
        for k, (weight, grad) in enumerate(zip(param_arrays[i], grad_arrays[i], strict=True)):
            updates[k].append((i * num_device + k, grad, weight))
    for of_device in updates:
        if of_device:
            indices, gradients, weights = zip(*of_device, strict=True)
            updater(indices, gradients, weights)


def total_batch_size(size: int, store: Any) -> int:
    """The batch size, summed over all workers for a synchronous distributed KVStore."""
    synchronous = store and "dist" in store.type and "_sync" in store.type
    return size * store.num_workers if synchronous else size


def numbered_names(names: Sequence[str], copies: int) -> dict[int, str]:
    """Parameter names by the optimizer's index: each parameter has `copies` consecutive indices."""
    return {number * copies + k: name for number, name in enumerate(names) for k in range(copies)}
