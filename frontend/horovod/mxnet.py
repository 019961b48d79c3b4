"""Horovod's functions for MXNet, on the processes that MPI connects.

Each function that exchanges arrays is called by all workers in the same order.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...runtime.communicator import Communicator
from ...runtime.mpi import connect
from .. import optimizer as opt
from ..gluon import ParameterDict, Trainer
from ..gluon.parameter import Parameter
from ..kvstore.distributed import DistributedKVStore
from ..kvstore.kvstore import SharedInitially
from ..ndarray import NDArray, array
from .objects import from_bytes, to_bytes

__all__ = [
    "DistributedOptimizer",
    "DistributedTrainer",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "gloo_built",
    "gloo_enabled",
    "grouped_allreduce",
    "grouped_allreduce_",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "shutdown",
    "size",
]


class _Job:
    """This process's place in the job, from `init` to `shutdown`."""

    workers: Communicator | None = None
    local: tuple[int, int] = (0, 1)


_job = _Job()


def _workers() -> Communicator:
    if _job.workers is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _job.workers


def init(*_: object, **__: object) -> None:
    """Connect the processes of the job. Arguments, which choose among them in Horovod, are ignored."""
    if _job.workers is None:
        _job.workers = connect()
        _job.local = _job.workers.on_this_machine()


def shutdown() -> None:
    """Leave the job; the launcher ends it when all processes have ended."""
    _job.workers = None


def is_initialized() -> bool:
    return _job.workers is not None


def rank() -> int:
    """The number of this worker."""
    return _workers().rank


def size() -> int:
    """The number of workers."""
    return _workers().size


def local_rank() -> int:
    """The number of this worker among those on its machine."""
    _workers()
    return _job.local[0]


def local_size() -> int:
    """The number of workers on this machine."""
    _workers()
    return _job.local[1]


def mpi_threads_supported() -> bool:
    """True: each group of workers is used by one thread."""
    return True


def mpi_enabled() -> bool:
    return True


mpi_built = mpi_enabled


def gloo_enabled() -> bool:
    return False


gloo_built = gloo_enabled


def nccl_built() -> int:
    return 0


def allreduce(
    tensor: NDArray,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """The mean over all workers of an array, or the sum."""
    return grouped_allreduce([tensor], average, name, priority, prescale_factor, postscale_factor)[0]


def allreduce_(
    tensor: NDArray,
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> NDArray:
    """`allreduce` in place."""
    return grouped_allreduce_([tensor], average, name, priority, prescale_factor, postscale_factor)[0]


def grouped_allreduce(
    tensors: list[NDArray],
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[NDArray]:
    """`allreduce` of several arrays in few messages."""
    scaled = [tensor * prescale_factor for tensor in tensors] if prescale_factor != 1 else tensors
    sums = DistributedKVStore("horovod", _workers()).sums(scaled)
    factor = postscale_factor / size() if average else postscale_factor
    return [total * factor for total in sums] if factor != 1 else sums


def grouped_allreduce_(
    tensors: list[NDArray],
    average: bool = True,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[NDArray]:
    """`grouped_allreduce` in place."""
    results = grouped_allreduce(tensors, average, name, priority, prescale_factor, postscale_factor)
    for tensor, result in zip(tensors, results, strict=True):
        result.copyto(tensor)
    return tensors


def allgather(tensor: NDArray, name: str | None = None, priority: int = 0) -> NDArray:
    """The arrays of all workers one after another; they differ in their first extent at most."""
    parts = _workers().all_gather(tensor.asnumpy())
    return array(np.concatenate(parts), ctx=tensor.context, dtype=tensor.dtype)


def broadcast(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """The array of the worker `root_rank`."""
    result = tensor.copy()
    broadcast_(result, root_rank, name, priority)
    return result


def broadcast_(tensor: NDArray, root_rank: int, name: str | None = None, priority: int = 0) -> NDArray:
    """`broadcast` in place."""
    _check_root(root_rank)
    values = _workers().broadcast(tensor.asnumpy(), root_rank)
    tensor[:] = array(values, ctx=tensor.context, dtype=tensor.dtype)
    return tensor


def _check_root(root_rank: int) -> None:
    if not 0 <= root_rank < size():
        raise ValueError(f"root_rank={root_rank}: there are {size()} workers")


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Set parameters, or arrays by name, to those of a worker. Parameters whose initialization is deferred are set when
    they are initialized."""
    _check_root(root_rank)
    if not isinstance(params, Mapping | ParameterDict):
        raise ValueError(f"invalid params of type: {type(params)}")
    store = DistributedKVStore("horovod", _workers())
    arrays: dict[int | str, list[NDArray]] = {}
    for key, value in sorted(params.items()):
        if not isinstance(value, Parameter):
            arrays[key] = [value]
        elif value._deferred_init:
            value._initialized_by = SharedInitially(store, root_rank)
        else:
            arrays[key] = value.list_data()
    store.share(arrays, root_rank)


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """An object of the worker `root_rank`: None, numbers, texts, arrays, and lists, tuples and dictionaries of them."""
    _check_root(root_rank)
    own = to_bytes(obj) if rank() == root_rank else b""
    return from_bytes(bytes(_workers().all_gather(np.frombuffer(own, np.uint8))[root_rank]))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all workers; see `broadcast_object`."""
    return [from_bytes(bytes(part)) for part in _workers().all_gather(np.frombuffer(to_bytes(obj), np.uint8))]


class DistributedTrainer(Trainer):
    """A Trainer whose steps use the mean of the gradients of all workers: `batch_size` is that of one worker.

    Gradients are exchanged in their own dtype and in the messages of the store: `compression`, `num_groups`, `prefix`
    and `gradient_predivide_factor`, which choose how Horovod exchanges them, are ignored.
    """

    def __init__(
        self,
        params: Any,
        optimizer: str | opt.Optimizer,
        optimizer_params: dict[str, Any] | None = None,
        compression: Any = None,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn(
                "DistributedTrainer does not take DistributedOptimizer as its optimizer. We have unwrapped it for you.",
                stacklevel=2,
            )
        store = DistributedKVStore("horovod", _workers())
        super().__init__(params, optimizer, optimizer_params, kvstore=store, update_on_kvstore=False)
        self._scale /= size()


class DistributedOptimizer(opt.Optimizer):
    """An optimizer whose updates use the mean of the gradients of all workers. `num_groups` and
    `gradient_predivide_factor` are ignored, as by `DistributedTrainer`."""

    def __init__(self, optimizer: opt.Optimizer, gradient_predivide_factor: float = 1.0, num_groups: int = 0) -> None:
        self._optimizer = optimizer
        self._optimizer.rescale_grad /= size()
        self._store = DistributedKVStore("horovod", _workers())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        return self._optimizer.create_state_multi_precision(index, weight)

    def _sum(self, grad: Any) -> None:
        grads = list(grad) if isinstance(grad, list | tuple) else [grad]
        for own, total in zip(grads, self._store.sums(grads), strict=True):
            total.copyto(own)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Sum the gradients of all workers, and update."""
        self._sum(grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """`update` with a state of `create_state_multi_precision`."""
        self._sum(grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        self._optimizer.set_wd_mult(args_wd_mult)
