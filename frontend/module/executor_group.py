"""The executors of a module: one per context. Every batch is split across them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..executor import Executor
from ..executor_manager import _split_input_slice
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray, concat
from ..symbol import Symbol
from .gradient_requests import gradient_requests, groups_by_context

Descs = Sequence[DataDesc]


class DataParallelExecutorGroup:
    """Executors with the same parameters on several contexts. Each one computes a slice of a batch.

    `workload` contains the relative slice size of each context. With `shared_group`, parameters and input memory are
    shared with that group.
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Any,
        label_shapes: Any,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        self.symbol, self.contexts, self.logger = symbol, list(contexts), logger
        self.workload = list(workload or [1] * len(self.contexts))
        self.param_names, self.arg_names = list(param_names), symbol.list_arguments()
        self.aux_names, self.output_names = symbol.list_auxiliary_states(), symbol.list_outputs()
        self.num_outputs = len(self.output_names)
        self.fixed_param_names, self.state_names = list(fixed_param_names or []), list(state_names or [])
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.group2ctxs = groups_by_context(group2ctxs, len(self.contexts))
        data, labels = _descs(data_shapes), None if label_shapes is None else _descs(label_shapes)
        if labels == []:
            raise AssertionError("label_shapes is empty; it must be None for a module without labels")
        self.grad_req = gradient_requests(self, [d.name for d in data], grad_req if for_training else "null")
        self.output_layouts = [DataDesc.get_batch_axis(output.attr("__layout__")) for output in symbol]
        self.shared_data_arrays: list[dict[str, NDArray]] = (
            [{} for _ in self.contexts] if shared_group is None else shared_group.shared_data_arrays
        )
        self.execs: list[Executor] = []
        self._default_execs: list[Executor] | None = None
        self.bind_exec(data, labels, shared_group)

    # --- binding ----------------------------------------------------------------------------------------------------

    def decide_slices(self, data_shapes: Descs) -> list[int]:
        """Split the batch of these inputs across the contexts. Returns each input's batch axis, or -1 if it has none.

        Raises AssertionError if the inputs have different batch sizes.
        """
        self.batch_size, self.slices, axes = self._batch_slices(data_shapes, None)
        return axes

    def _batch_slices(self, descs: Descs, batch_size: int | None) -> tuple[int | None, Any, list[int]]:
        """The batch size, its slice for each context, and the batch axis of each input."""
        axes = [DataDesc.get_batch_axis(d.layout) for d in descs]
        for desc, axis in zip(descs, axes, strict=True):
            if axis < 0:
                continue
            if batch_size not in (None, desc.shape[axis]):
                raise AssertionError(
                    f"all data must have the same batch size: batch_size = {batch_size}, but {desc.name} has shape "
                    f"{desc.shape}"
                )
            batch_size = desc.shape[axis]
        return batch_size, None if batch_size is None else _split_input_slice(batch_size, self.workload), axes

    def bind_exec(self, data_shapes: Any, label_shapes: Any, shared_group: Any = None, reshape: bool = False) -> None:
        """Create the executors. With `reshape`, create executors for new shapes on the same memory.

        Invalid shapes raise an error and leave the group unchanged.
        """
        data, labels = _descs(data_shapes), None if label_shapes is None else _descs(label_shapes)
        batch_size, slices, axes = self._batch_slices(data, None)
        batch_size, slices, label_axes = self._batch_slices(labels or [], batch_size)
        arguments = set(self.arg_names)
        inputs = [d for d in (*data, *(labels or [])) if d.name in arguments]
        executors = [
            self._bind_one(
                i, [_sliced(d, None if slices is None else slices[i]) for d in inputs], shared_group, reshape
            )
            for i in range(len(self.contexts))
        ]
        self.execs, self.batch_size = executors, batch_size
        self.slices: Any = slices
        self.data_shapes, self.label_shapes, self._inputs = data, labels, inputs
        self.data_layouts, self.label_layouts = axes, label_axes
        self.data_names = [d.name for d in data]
        self.label_names = [d.name for d in labels or []]
        self._collect_arrays()

    def _bind_one(self, number: int, inputs: Descs, shared_group: Any, reshape: bool) -> Executor:
        shapes: dict[str, Any] = {d.name: tuple(d.shape) for d in inputs}
        if reshape and self._default_execs is not None:
            return self._default_execs[number].reshape(allow_up_sizing=True, **shapes)
        attrs = self.symbol.attr_dict()
        types = {d.name: d.dtype for d in inputs if "__dtype__" not in attrs.get(d.name, {})}
        shared = None if shared_group is None else shared_group.execs[number]
        if shared is not None:
            self._check_shared(shared, shapes)
        return self.symbol.simple_bind(
            self.contexts[number],
            self.grad_req,
            type_dict=types,
            group2ctx=self.group2ctxs[number],
            shared_arg_names=self.param_names,
            shared_exec=shared,
            shared_buffer=self.shared_data_arrays[number],
            **shapes,
        )

    def _check_shared(self, shared: Executor, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise MXNetError if inputs of these shapes require other shapes of the shared parameters."""
        arguments, _, states = self.symbol.infer_shape(**shapes)
        if arguments is None or states is None:
            raise RuntimeError(f"the shapes of all arguments cannot be inferred from the inputs {dict(shapes)}")
        names = (*self.arg_names, *self.aux_names)
        old = {**shared.arg_dict, **shared.aux_dict}
        parameters = {*self.param_names, *self.aux_names} & old.keys()
        for name, shape in zip(names, (*arguments, *states), strict=True):
            if name in parameters and old[name].shape != shape:
                raise MXNetError(
                    f"Shape of unspecified arg {name} changed: {old[name].shape} is bound, the inputs "
                    f"{dict(shapes)} require {shape}"
                )

    def _collect_arrays(self) -> None:
        """Collect the executors' arrays in lists: for each name, one array per context."""
        slices = self.slices or [slice(i, i + 1) for i in range(len(self.execs))]

        def on_all(names: Sequence[str], dictionary: str = "arg_dict") -> list[list[Any]]:
            return [[getattr(e, dictionary)[name] for e in self.execs] for name in names]

        def with_slices(names: Sequence[str]) -> list[Any]:
            return [
                [(part, e.arg_dict.get(name)) for part, e in zip(slices, self.execs, strict=True)] for name in names
            ]

        self.data_arrays = with_slices(self.data_names)
        self.label_arrays = None if self.label_shapes is None else with_slices(self.label_names)
        self.state_arrays = on_all(self.state_names)
        self.param_arrays = on_all(self.param_names)
        self.aux_arrays = on_all(self.aux_names, "aux_dict")
        self.grad_arrays = on_all(self.param_names, "grad_dict") if self.for_training else None
        data_args = [name for name in self.data_names if name in self.arg_names]
        self.input_grad_arrays = on_all(data_args, "grad_dict") if self.inputs_need_grad else None

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Replace the executors by executors for other shapes, with the same parameters."""
        if data_shapes == self.data_shapes and label_shapes == self.label_shapes:
            return
        if self._default_execs is None:
            self._default_execs = list(self.execs)
        self.bind_exec(data_shapes, label_shapes, reshape=True)

    # --- parameters and states --------------------------------------------------------------------------------------

    def set_params(
        self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], allow_extra: bool = False
    ) -> None:
        """Copy parameters to all contexts."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the mean of each parameter over the contexts to the arrays of two dictionaries."""
        for names, arrays, target in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, copies in zip(names, arrays, strict=True):
                total = copies[0]
                for other in copies[1:]:
                    total = total + other.as_in_context(total.context)
                target[name][:] = total if len(copies) == 1 else total / len(copies)

    def get_states(self, merge_multi_context: bool = True) -> list[list[NDArray]]:
        """For each state, its arrays on all contexts. `merge_multi_context=True` raises AssertionError."""
        if merge_multi_context:
            raise AssertionError("merge_multi_context=True is not supported for get_states yet.")
        return self.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to arrays, or all elements to `value`.

        `states` has an array for each state, or a list of arrays as in `get_states`.
        """
        if (states is None) == (value is None):
            raise AssertionError("set_states requires either states or value, and not both")
        if states is None:
            for arrays in self.state_arrays:
                for array in arrays:
                    array[:] = value
            return
        for state, arrays in zip(states, self.state_arrays, strict=True):
            sources = [state] * len(arrays) if isinstance(state, NDArray) else state
            for source, array in zip(sources, arrays, strict=True):
                source.copyto(array)

    # --- running ----------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Copy each executor's slice of the batch (or its batch of a list) to its inputs, and run all executors."""
        if isinstance(data_batch, list):
            if len(data_batch) != len(self.execs):
                raise ValueError(f"{len(data_batch)} batches for {len(self.execs)} contexts")
            for number, batch in enumerate(data_batch):
                self._load(number, batch, whole=True)
        else:
            for number in range(len(self.execs)):
                self._load(number, data_batch, whole=len(self.execs) == 1)
        for executor in self.execs:
            executor.forward(is_train=self.for_training if is_train is None else is_train)

    def _load(self, number: int, batch: DataBatch, whole: bool) -> None:
        """Copy a batch to the inputs of executor `number`: all of it if `whole`, otherwise the executor's slice."""
        if len(batch.data) != len(self.data_names):
            raise ValueError(f"the batch has {len(batch.data)} arrays, the module requires {self.data_names}")
        named = dict(zip(self.data_names, batch.data, strict=True))
        labels = getattr(batch, "label", None)  # a batch can be a tuple with only data
        if labels:
            named.update(zip(self.label_names, labels, strict=False))
        arrays = self.execs[number].arg_dict
        for desc in self._inputs:
            if desc.name not in named:
                continue
            source, axis = named[desc.name], DataDesc.get_batch_axis(desc.layout)
            source = source if whole or axis < 0 else _slice(source, axis, self.slices[number])
            source.copyto(arrays[desc.name])

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """Outputs `begin` to `end` of the last forward: concatenated along the batch, or one list per output."""
        end = self.num_outputs if end is None else end
        outputs = [[executor.outputs[i] for executor in self.execs] for i in range(begin, end)]
        if not merge_multi_context:
            return outputs
        return [_concatenate(parts, axis) for parts, axis in zip(outputs, self.output_layouts[begin:end], strict=True)]

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The name of each output and its shape for the whole batch."""
        shapes = {d.name: self.execs[0].arg_dict[d.name].shape for d in self._inputs}
        inferred = self.symbol.infer_shape(**shapes)[1] or []
        full: list[Any] = [
            shape if axis < 0 or not shape else (*shape[:axis], self.batch_size, *shape[axis + 1 :])
            for shape, axis in zip(inferred, self.output_layouts, strict=True)
        ]
        return list(zip(self.output_names, full, strict=True))

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool) -> None:
        """Update a metric with each executor's outputs and labels.

        `labels` are split across the executors; with `pre_sliced` they are one list per executor.
        """
        for number, executor in enumerate(self.execs):
            if pre_sliced:
                own = labels[number]
            else:
                pairs = zip(labels, self.label_layouts, strict=False)
                own = [x if axis < 0 else _slice(x, axis, self.slices[number]) for x, axis in pairs]
            named = dict(zip(self.label_names, own, strict=False))
            eval_metric.update_dict(named, dict(zip(self.output_names, executor.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Install a Monitor in all executors."""
        for executor in self.execs:
            mon.install(executor)

    # --- training ---------------------------------------------------------------------------------------------------

    def backward(self, out_grads: Any = None) -> None:
        """Run backward on all executors, each with its part of `out_grads`.

        AssertionError unless bound for training.
        """
        if not self.for_training:
            raise AssertionError("re-bind with for_training=True to run backward")
        gradients = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or [])
        for number, executor in enumerate(self.execs):
            parts = [
                (g if axis < 0 else _slice(g, axis, self.slices[number])).as_in_context(self.contexts[number])
                for g, axis in zip(gradients, self.output_layouts, strict=False)
            ]
            executor.backward(parts or None)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients by the data: merged along the batch, or a list of one for each context."""
        if self.input_grad_arrays is None:
            raise AssertionError("bind with inputs_need_grad=True to get gradients of inputs")
        if not merge_multi_context:
            return self.input_grad_arrays
        axes = [DataDesc.get_batch_axis(d.layout) for d in self.data_shapes]
        return [_concatenate(parts, axis) for parts, axis in zip(self.input_grad_arrays, axes, strict=False)]


def _descs(shapes: Any) -> list[DataDesc]:
    return [d if isinstance(d, DataDesc) else DataDesc(*d) for d in shapes]


def _sliced(desc: DataDesc, part: slice | None) -> DataDesc:
    """The description of one context's slice of an input."""
    axis = DataDesc.get_batch_axis(desc.layout)
    if part is None or axis < 0:
        return desc
    shape = (*desc.shape[:axis], part.stop - part.start, *desc.shape[axis + 1 :])
    return DataDesc(desc.name, shape, desc.dtype, desc.layout)


def _slice(array: NDArray, axis: int, part: slice) -> NDArray:
    if axis == 0:
        return array[part]
    return array.slice_axis(axis=axis, begin=part.start, end=part.stop)  # type: ignore[attr-defined]


def _concatenate(parts: list[NDArray], axis: int) -> NDArray:
    if len(parts) == 1 or axis < 0:
        return parts[0]
    return concat(*[p.as_in_context(parts[0].context) for p in parts], dim=axis)
