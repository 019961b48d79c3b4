"""The executors of a module: one for each context, which share every batch among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..executor import Executor
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray, concat
from ..symbol import Symbol


class DataParallelExecutorGroup:
    """Executors with the same parameters on several contexts; each works on its slice of a batch."""

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        data_shapes: Sequence[DataDesc],
        label_shapes: Sequence[DataDesc] | None,
        param_names: Sequence[str],
        grad_req: Any,
        shared_group: DataParallelExecutorGroup | None = None,
    ) -> None:
        self.symbol, self.contexts = symbol, list(contexts)
        self.param_names, self.aux_names = list(param_names), symbol.list_auxiliary_states()
        self.data_shapes = list(data_shapes)
        self.label_shapes = list(label_shapes or [])
        self.batch_size = _batch_size(self.data_shapes[0])
        self.slices = _slices(self.batch_size, len(self.contexts))
        known = set(symbol.list_arguments())
        self._inputs = [d for d in (*self.data_shapes, *self.label_shapes) if d.name in known]
        self._buffers: list[dict[str, NDArray]]
        self._buffers = [{} for _ in self.contexts] if shared_group is None else shared_group._buffers
        self.execs = [self._bind(i, grad_req, shared_group) for i in range(len(self.contexts))]

    def _bind(self, number: int, grad_req: Any, shared_group: DataParallelExecutorGroup | None) -> Executor:
        part = self.slices[number]
        shapes = {d.name: _part_shape(d, part.stop - part.start) for d in self._inputs}
        types = {d.name: d.dtype for d in self._inputs}
        shared = shared_group.execs[number] if shared_group is not None else None
        if shared is not None:
            self._check_shared(shared, shapes)
        options: dict[str, Any] = {
            "type_dict": types,
            "shared_arg_names": self.param_names,
            "shared_exec": shared,
            "shared_buffer": self._buffers[number],
        }
        return self.symbol.simple_bind(self.contexts[number], grad_req, **options, **shapes)

    def _check_shared(self, shared: Executor, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """MXNetError unless the parameters keep their shapes when the inputs have these."""
        arguments, _, states = self.symbol.infer_shape(**shapes)
        names = (*self.symbol.list_arguments(), *self.aux_names)
        found = (*(arguments or ()), *(states or ()))
        old = {**shared.arg_dict, **shared.aux_dict}
        for name, shape in zip(names, found, strict=True):
            if name not in shapes and old[name].shape != shape:
                raise MXNetError(
                    f"Shape of unspecified arg {name} changed: {old[name].shape} is bound, the inputs "
                    f"{dict(shapes)} need {shape}"
                )

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """For each parameter its arrays on all contexts."""
        return [[e.arg_dict[name] for e in self.execs] for name in self.param_names]

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        return [[e.aux_dict[name] for e in self.execs] for name in self.aux_names]

    @property
    def grad_arrays(self) -> list[list[NDArray | None]]:
        return [[e.grad_dict[name] for e in self.execs] for name in self.param_names]

    def set_params(
        self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], allow_extra: bool = False
    ) -> None:
        """Copy parameters to all contexts."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the parameters' means over the contexts into the arrays of two dictionaries."""
        for names, arrays, target in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, copies in zip(names, arrays, strict=True):
                total = copies[0]
                for other in copies[1:]:
                    total = total + other.as_in_context(total.context)
                mean = total if len(copies) == 1 else total / len(copies)
                target[name][:] = mean

    def forward(self, batch: DataBatch, is_train: bool) -> None:
        """Give each executor its slice of the batch, and run all."""
        given = dict(zip([d.name for d in self.data_shapes], batch.data, strict=True))
        if batch.label:
            given.update(zip([d.name for d in self.label_shapes], batch.label, strict=False))
        for executor, part in zip(self.execs, self.slices, strict=True):
            for desc in self._inputs:
                if desc.name in given:
                    executor.arg_dict[desc.name][:] = self._part(given[desc.name], desc, part)
            executor.forward(is_train=is_train)

    def _part(self, array: NDArray, desc: DataDesc, part: slice) -> NDArray:
        if len(self.execs) == 1:
            return array
        axis = max(DataDesc.get_batch_axis(desc.layout), 0)
        return array.slice_axis(axis=axis, begin=part.start, end=part.stop)  # type: ignore[attr-defined]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward: merged along the batch, or one list for each output."""
        outputs = [list(found) for found in zip(*(e.outputs for e in self.execs), strict=True)]
        if not merge_multi_context:
            return outputs
        return [_merged(parts, output) for parts, output in zip(outputs, self.symbol, strict=True)]

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of each output for a whole batch."""
        shapes = {d.name: tuple(d.shape) for d in self._inputs}
        found = self.symbol.infer_shape(**shapes)[1]
        return list(zip(self.symbol.list_outputs(), found or [], strict=True))


def _merged(parts: list[NDArray], output: Symbol) -> NDArray:
    if len(parts) == 1:
        return parts[0]
    axis = max(DataDesc.get_batch_axis(output.attr("__layout__")), 0)
    return concat(*[p.as_in_context(parts[0].context) for p in parts], dim=axis)


def _batch_size(desc: DataDesc) -> int:
    return desc.shape[max(DataDesc.get_batch_axis(desc.layout), 0)]


def _part_shape(desc: DataDesc, size: int) -> tuple[int, ...]:
    axis = max(DataDesc.get_batch_axis(desc.layout), 0)
    return (*desc.shape[:axis], size, *desc.shape[axis + 1 :])


def _slices(size: int, parts: int) -> list[slice]:
    """The share of each context; ValueError when one would be empty."""
    if size < parts:
        raise ValueError(f"Too many slices. A batch of {size} cannot be shared among {parts} contexts.")
    bounds = [round(i * size / parts) for i in range(parts + 1)]
    return [slice(lo, hi) for lo, hi in pairwise(bounds)]
