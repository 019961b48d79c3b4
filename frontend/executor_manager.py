"""Executors of one network on several devices, each with its share of every batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from . import ndarray as nd
from .base import mx_real_t
from .context import Context, cpu
from .executor import Executor
from .io import DataDesc
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["DataDesc", "DataParallelExecutorGroup", "DataParallelExecutorManager", "cpu", "nd"]

Sliced = list[tuple[slice, NDArray]]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The slice of a batch for each device, proportional to its work load. ValueError if a slice is empty."""
    total = sum(work_load_list)
    counts = [round(load * batch_size / total) for load in work_load_list]
    counts[-1] += max(0, batch_size - sum(counts))
    slices: list[slice] = []
    end = 0
    for count in counts:
        begin, end = min(end, batch_size), min(end + int(count), batch_size)
        if begin >= end:
            raise ValueError(
                f"Too many slices. Some splits are empty: a batch of {batch_size} for work loads {list(work_load_list)}"
            )
        slices.append(slice(begin, end))
    return slices


def _check_arguments(symbol: Symbol) -> None:
    """ValueError if two arguments, or two auxiliary states, have the same name."""
    for kind, names in (("argument", symbol.list_arguments()), ("auxiliary param", symbol.list_auxiliary_states())):
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise ValueError(
                f'Find duplicated {kind} name "{twice}", please make the weight name non-duplicated(using name '
                f"arguments), {kind}s are {names}"
            )


def _load_general(data: Sequence[NDArray], targets: Sequence[NDArray | Sliced]) -> None:
    """Copy each array to its target: an array, or a list of slices with an array for each."""
    for source, target in zip(data, targets, strict=False):
        if isinstance(target, NDArray):
            source.copyto(target)
            continue
        expected = target[-1][0].stop
        assert expected == source.shape[0], f"Batch size miss match. Expected {expected}, got {source.shape[0]}"
        for part, array in target:
            source[part].copyto(array)


def _load_data(batch: Any, targets: Sequence[NDArray | Sliced]) -> None:
    """Copy a batch's data to sliced arrays."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[NDArray | Sliced]) -> None:
    """Copy a batch's labels to sliced arrays."""
    _load_general(batch.label, targets)


def _bind_exec(
    sym: Symbol,
    ctx: Context,
    input_shapes: Mapping[str, tuple[int, ...]],
    param_names: Sequence[str],
    need_grad: bool | set[str] = False,
    base_exec: Executor | None = None,
    shared_data_arrays: dict[str, NDArray] | None = None,
    input_types: Mapping[str, Any] | None = None,
    logger: Any = logging,
) -> Executor:
    """An executor that uses the parameters of `base_exec`, if passed, and whose inputs share memory with
    `shared_data_arrays`."""
    shapes, _, aux_shapes = sym.infer_shape(**input_shapes)
    types, _, aux_types = sym.infer_type(**(input_types or dict.fromkeys(input_shapes, mx_real_t)))
    assert shapes is not None and aux_shapes is not None and types is not None and aux_types is not None
    names = sym.list_arguments()
    trained = _with_gradient(need_grad, names, input_shapes)
    base = base_exec.arg_dict if base_exec is not None else {}
    arrays: list[NDArray] = []
    for name, shape, dtype in zip(names, shapes, types, strict=True):
        if name not in param_names:
            arrays.append(_input_array(name, shape, dtype, ctx, shared_data_arrays, logger))
        elif base_exec is None:
            arrays.append(nd.zeros(shape, ctx, dtype))
        else:
            assert base[name].shape == shape and base[name].dtype == dtype, f"{name} does not fit the base executor"
            arrays.append(base[name])
    grads: dict[str, Any] = {}
    for name, array in zip(names, arrays, strict=True):
        if name in trained and name in param_names:
            old = None if base_exec is None else base_exec.grad_dict[name]
            grads[name] = nd.zeros(array.shape, ctx, array.dtype) if old is None else old
    if base_exec is None:
        states = [nd.zeros(s, ctx, t) for s, t in zip(aux_shapes, aux_types, strict=True)]
    else:
        states = list(base_exec.aux_arrays)
        assert [(a.shape, a.dtype) for a in states] == list(zip(aux_shapes, aux_types, strict=True))
    requests = {name: "write" if name in trained else "null" for name in names}
    return sym.bind(ctx, arrays, grads if trained else None, requests, states, shared_exec=base_exec)


def _with_gradient(need_grad: bool | set[str], names: Sequence[str], inputs: Mapping[str, Any]) -> set[str]:
    if isinstance(need_grad, set):
        return need_grad
    if not isinstance(need_grad, bool):
        raise AssertionError("need_grad must be boolean or set.")
    return set(names) - set(inputs) if need_grad else set()


def _input_array(
    name: str, shape: tuple[int, ...], dtype: Any, ctx: Context, shared: dict[str, NDArray] | None, logger: Any
) -> NDArray:
    """A view of the first elements of the shared array; if there is none or it is too small, a new shared array."""
    old = None if shared is None else shared.get(name)
    if old is not None and old.size >= prod(shape):
        assert old.dtype == dtype, f"{name} is shared as {old.dtype}, {dtype} is needed"
        return old.reshape((-1,))[: prod(shape)].reshape(shape)
    if old is not None:
        logger.warning(
            'bucketing: data "%s" has a shape %s, which is larger than already allocated shape %s. Need to '
            "re-allocate. Consider putting default_bucket_key to be the bucket taking the largest input for better "
            "memory sharing.",
            name,
            shape,
            old.shape,
        )
    array = nd.zeros(shape, ctx, dtype)
    if shared is not None:
        shared[name] = array
    return array


class DataParallelExecutorGroup:
    """Executors with equal parameters on several devices; `slices` holds the part of a batch for each.

    `train_data` provides names and shapes of data and labels (`provide_data`, `provide_label`). With a
    `shared_group`, the parameters and the memory of the inputs are shared with it.
    """

    def __init__(
        self,
        sym: Symbol,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        ctx: Sequence[Context],
        slices: Sequence[slice],
        train_data: Any,
        shared_group: DataParallelExecutorGroup | None = None,
    ) -> None:
        _check_arguments(sym)
        self.shared_data_arrays: list[dict[str, NDArray]]
        self.shared_data_arrays = [{} for _ in ctx] if shared_group is None else shared_group.shared_data_arrays
        self.data_names = [x[0] for x in train_data.provide_data]
        self.label_names = [x[0] for x in train_data.provide_label]
        self.aux_names = sym.list_auxiliary_states()
        self.param_idx = [i for i, name in enumerate(arg_names) if name in param_names]
        self.param_names = [arg_names[i] for i in self.param_idx]
        self.slices = slices
        inputs = [*train_data.provide_data, *train_data.provide_label]
        types = {x[0]: x.dtype if isinstance(x, DataDesc) else mx_real_t for x in inputs}
        self.train_execs: list[Executor] = []
        for i, (context, part) in enumerate(zip(ctx, slices, strict=True)):
            shapes = {x[0]: (part.stop - part.start, *x[1][1:]) for x in inputs}
            base = None if shared_group is None else shared_group.train_execs[i]
            memory = self.shared_data_arrays[i]
            self.train_execs.append(_bind_exec(sym, context, shapes, self.param_names, True, base, memory, types))
        self.data_arrays = [self._sliced(name) for name in self.data_names]
        self.label_arrays = [self._sliced(name) for name in self.label_names]
        self.param_arrays = [[e.arg_arrays[i] for e in self.train_execs] for i in self.param_idx]
        self.grad_arrays = [[e.grad_arrays[i] for e in self.train_execs] for i in self.param_idx]
        self.aux_arrays = [[e.aux_arrays[i] for e in self.train_execs] for i in range(len(self.aux_names))]

    def _sliced(self, name: str) -> Sliced:
        return [(part, e.arg_dict[name]) for part, e in zip(self.slices, self.train_execs, strict=True)]

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy a batch's data and labels to the executors."""
        _load_data(data_batch, self.data_arrays)
        _load_label(data_batch, self.label_arrays)

    def forward(self, is_train: bool = False) -> None:
        """Run every executor."""
        for executor in self.train_execs:
            executor.forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients of every executor."""
        for executor in self.train_execs:
            executor.backward()

    def update_metric(self, metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and outputs of each executor; `pre_sliced` labels are one list per executor."""
        for i, (executor, part) in enumerate(zip(self.train_execs, self.slices, strict=True)):
            own = labels[i] if pre_sliced else [label[part] for label in labels]
            metric.update(own, executor.outputs)


class DataParallelExecutorManager:
    """A group of executors for each bucket of a network; without `sym_gen`, which creates a bucket's symbol, one group.

    `work_load_list` holds a weight for each device in `ctx`. `train_data` provides names, shapes and the batch size.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Sequence[Context],
        train_data: Any,
        arg_names: Sequence[str],
        param_names: Sequence[str],
        aux_names: Sequence[str],
        work_load_list: list[float] | None = None,
        logger: Any = None,
        sym_gen: Callable[[Any], Symbol] | None = None,
    ) -> None:
        (logger or logging).info("Start training with %s", str(ctx))
        loads = [1] * len(ctx) if work_load_list is None else work_load_list
        assert isinstance(loads, list) and len(loads) == len(ctx), "Invalid settings for work load. "
        self.slices = _split_input_slice(train_data.batch_size, loads)
        self.arg_names, self.param_names, self.aux_names = arg_names, param_names, aux_names
        self.ctx, self.symbol, self.sym_gen = ctx, symbol, sym_gen
        self.execgrp = self._group(symbol, train_data)
        self.curr_execgrp: DataParallelExecutorGroup | None = None
        if sym_gen is not None:
            self.execgrp_bucket = {train_data.default_bucket_key: self.execgrp}

    def _group(
        self, symbol: Symbol, data: Any, shared: DataParallelExecutorGroup | None = None
    ) -> DataParallelExecutorGroup:
        return DataParallelExecutorGroup(
            symbol, self.arg_names, self.param_names, self.ctx, self.slices, data, shared_group=shared
        )

    def install_monitor(self, monitor: Any) -> None:
        """Install a monitor on all executors. NotImplementedError with buckets."""
        if self.sym_gen is not None:
            raise NotImplementedError("Monitoring is not implemented for bucketing")
        for executor in self.execgrp.train_execs:
            monitor.install(executor)

    def set_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Copy parameters and auxiliary states to all executors."""
        for executor in self.execgrp.train_execs:
            executor.copy_params_from(arg_params, aux_params)

    def copy_to(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Write the means over the devices into these arrays."""
        for names, blocks, targets in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, block in zip(names, blocks, strict=True):
                total = block[0].copyto(cpu())
                for other in block[1:]:
                    total = total + other.copyto(cpu())
                (total / len(block)).astype(targets[name].dtype).copyto(targets[name])

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """For each parameter, its arrays on all devices; all buckets share them."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray | None]]:
        """For each parameter, its gradients on all devices."""
        return self.execgrp.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """For each auxiliary state, its arrays on all devices."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: Any) -> None:
        """Copy a batch to the executors of its bucket. The first batch of a bucket creates them."""
        self.curr_execgrp = self.execgrp
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                self.execgrp_bucket[key] = self._group(self.sym_gen(key), data_batch, self.execgrp)
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def _current(self) -> DataParallelExecutorGroup:
        if self.curr_execgrp is None:
            raise RuntimeError("call load_data_batch before forward")
        return self.curr_execgrp

    def forward(self, is_train: bool = False) -> None:
        """Run the executors of the current batch."""
        self._current().forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients of the current batch."""
        self._current().backward()

    def update_metric(self, metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the labels and outputs of the current batch."""
        self._current().update_metric(metric, labels, pre_sliced)
