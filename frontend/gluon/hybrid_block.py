"""HybridBlock: a block with one forward function for arrays and symbols. When hybridized, it runs compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.locks import ForkSafeLock
from ...runtime.device import DeviceError
from ...runtime.modes import hooks, modes
from .. import ndarray, symbol
from ..base import MXNetError
from ..ndarray import NDArray
from ..symbol import Symbol
from ..tracebacks import cause_of, in_place_of
from .block_function import BlockFunction
from .parameter import DeferredInitializationError, Parameter
from .parameter_dict import ParameterDict
from .plain_block import Block
from .structure import flatten, has_numpy, is_numpy, kinds_in, operators_for, regroup, same_format
from .traced_graphs import (
    TracedConstant,
    TracedGraph,
    TracedGraphs,
    contains_written,
    unknown_parameters,
)

_trace_lock = ForkSafeLock()
_NO_INPUT = "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args.\n"
_ONE_CONTEXT = "After hybridized, the HybridBlock only supports one input context."

_LISTED = 8
"""The most parameters of unknown shape that an error names."""


class HybridBlock(Block):
    """A block that defines `hybrid_forward(F, x, ..., **params)` with F = nd or sym, or as in MXNet 2 `forward(x, ...)`
    with functions of `mx.np` and `mx.npx`, which takes its parameters by `self.weight.data()`.

    After `hybridize()`, the first call traces the block and compiles the graph. Later calls run it. `hybrid_forward` is
    traced with symbols, once. `forward` is traced with arrays of `mx.np` for each kind of call: shapes, dtypes and the
    mode. It can read these and compute with them in Python, but no array can be written in it. With arrays of `mx.nd`
    it is not traced. If parameters of such a block have unknown extents, it defines `infer_shape(x, ...)`, which sets
    `self.weight.shape`.

    Example:
        >>> class Square(mx.gluon.HybridBlock):
        ...     def hybrid_forward(self, F, x):
        ...         return F.square(x)
        >>> net = Square()
        >>> net.hybridize()
        >>> net(mx.nd.array([2, 3])).asnumpy()
        array([4., 9.], dtype=float32)
    """

    _is_direct = True
    """True if `forward` only runs the compiled graph, so that calls can take fast paths."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = next(base for base in cls.__mro__ if "forward" in base.__dict__)
        cls._is_direct = owner.__dict__.get("_is_direct", False)

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._cached_graph: Any = ()
        self._cached_op: BlockFunction | None = None
        self._cached_op_args: list[tuple[bool, Any]] = []
        self._in_format: Any = None
        self._out_format: Any = None
        self._active = False
        self._flags: list[tuple[str, Any]] = []
        self._callback: Callable[..., Any] | None = None
        self._monitor_all = False
        self._backend: str | None = None
        self._backend_opts: dict[str, Any] = {}
        cls = type(self)
        self._is_written = (
            cls.forward is not HybridBlock.forward and cls.hybrid_forward is HybridBlock.hybrid_forward
        )  # `forward` is written with functions of arrays
        self._traces: TracedGraphs | None = None
        self._contains_written: bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles, without the compiled graph: a copy compiles its own."""
        return {**self.__dict__, "_cached_op": None, "_cached_op_args": [], "_traces": None}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    def register_child(self, block: Block, name: str | None = None) -> None:
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. "
                "If you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)
        self._clear_cached_op()

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        recompute: int | None = None,
        weights: str | None = None,
        precision: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Compile the block as one graph on its next call, or with `active=False` run it eagerly again.

        A block caches a limited number of compiled signatures. `static_alloc` keeps the memory of its programs while
        the block exists. `static_shape` specialises every signature. Without it the first signature is specialised,
        and later ones use kernels with dynamic shapes. `recompute` (not in MXNet) bounds the bytes that a recorded call
        keeps for its gradient, besides its inputs and outputs: cheap operators are computed again instead, as far as
        that is possible; 0 keeps the least, as MXNET_BACKWARD_DO_MIRROR=1 does for all blocks. `weights="bfloat16"`
        (not in MXNet) rounds the weights of products and convolutions to bfloat16 in compiled programs, which read half
        the bytes; parameters, calls that are recorded and calls in training mode stay float32. `precision` (not in
        MXNet) is how GPUs multiply float32 numbers: "float32", "tf32", "bf16x3" or "exact"; see the page on GPUs.
        `inline_limit`, the bulk sizes, `backend` and the backend's options have no effect: there is one compiler, and
        it compiles the whole graph.
        """
        options = {"static_alloc": static_alloc, "static_shape": static_shape, "inline_limit": inline_limit}
        optional: dict[str, Any] = {
            "forward_bulk_size": forward_bulk_size,
            "backward_bulk_size": backward_bulk_size,
            "recompute": recompute,
            "weights": weights,
            "precision": precision,
        }
        options |= {name: value for name, value in optional.items() if value is not None}
        self._backend, self._backend_opts = backend, kwargs or self._backend_opts
        self._active = active
        if not active and self._cached_op is not None:
            self._cached_op.forget_paths()
        self._flags = list(options.items())
        if clear:
            self._clear_cached_op()
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. '
                f'If "{self}" is a child of HybridBlock, the hooks will not take effect.',
                stacklevel=2,
            )
        super().hybridize(active, **options)

    def cast(self, dtype: Any) -> None:
        self._clear_cached_op()
        super().cast(dtype)

    def _clear_cached_op(self) -> None:
        self._cached_graph = ()
        self._cached_op = None
        self._cached_op_args = []
        self._traces, self._contains_written = None, None

    def _share(self, shared: Mapping[str, Parameter], prefix: str) -> None:
        self._clear_cached_op()
        super()._share(shared, prefix)

    # --- the graph --------------------------------------------------------------------------------------------------

    def _get_graph(self, *args: Any) -> tuple[list[Symbol], Symbol]:
        """Trace the block, once. Returns the symbols of the inputs and the outputs as one symbol."""
        if self._is_traced_with_arrays(args):
            self._function_of_arrays(args)
        if not self._cached_graph:
            flat, self._in_format = flatten(args, "input")
            inputs = self._input_symbols(flat)
            if has_numpy(args):
                inputs = [None if s is None else s.as_np_ndarray() for s in inputs]
            out = self._traced(regroup(inputs, self._in_format))
            outputs, self._out_format = flatten(out, "output")
            group = symbol.Group(outputs)
            self._cached_graph = (
                [s for s in inputs if s is not None],
                group.as_np_ndarray() if has_numpy(outputs) else group,
            )
        return self._cached_graph

    def _is_traced_with_arrays(self, args: Any) -> bool:
        """True if the block, or one in it, has a `forward` that takes arrays of `mx.np`, and these are such arrays."""
        if self._contains_written is None:
            self._contains_written = contains_written(self)
        return self._contains_written and has_numpy(args) and kinds_in(args)[1]

    def _function_of_arrays(self, args: Any) -> BlockFunction:
        """The function of the block for arrays like these, which becomes the current one."""
        with _trace_lock:
            if self._traces is None:
                self._traces = TracedGraphs()
            graph, function = self._traces.find(self, args)
            self._cached_op, self._cached_op_args = function, list(function.slots)
            self._cached_graph = graph.inputs, graph.outputs
            self._in_format, self._out_format = graph.in_format, graph.out_format
        return function  # another thread can have set another one

    def _function_of(self, graph: TracedGraph) -> BlockFunction:
        """The function of a traced graph."""
        positions = {s.name: i for i, s in enumerate(graph.inputs)}
        params = self.collect_params()
        constants = {name: TracedConstant(array) for name, array in graph.constants.items()}
        slots = [
            (True, positions[n]) if n in positions else (False, constants.get(n) or _parameter(params, n))
            for n in graph.outputs.list_inputs()
        ]
        formats = graph.in_format, graph.out_format
        function = BlockFunction(graph.outputs, slots, formats, self._flags, self.name)
        if self._callback is not None:
            function.register_op_hook(self._callback, self._monitor_all)
        return function

    def _input_symbols(self, flat: Sequence[Any]) -> list[Symbol | None]:
        """`data` for one input, `data0`, `data1`, ... for several; None stays None."""
        count = sum(arg is not None for arg in flat)
        if count == 0:
            raise ValueError(f"All args are None and we do not support such a case. Received args={flat}")
        names = iter(["data"] if count == 1 else [f"data{i}" for i in range(count)])
        return [None if arg is None else symbol.var(next(names)) for arg in flat]

    def _traced(self, inputs: Sequence[Any]) -> Any:
        params = {name: param.var() for name, param in self._reg_params.items()}
        numpy = has_numpy(inputs)
        if numpy:
            params = {name: variable.as_np_ndarray() for name, variable in params.items()}
        with self.name_scope():
            return self.hybrid_forward(operators_for(numpy, True), *inputs, **params)

    def _infer_attrs(self, function: str, attr: str, *args: Any) -> None:
        """Set `attr` ("shape" or "dtype") of all parameters to the result of the symbol's inference `function`."""
        inputs, out = self._get_graph(*args)
        arrays = [arg for arg in flatten(args, "input")[0] if arg is not None]
        known = {str(s.name): getattr(arg, attr) for s, arg in zip(inputs, arrays, strict=False)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            arguments, _, states = getattr(out, function)(**known)
        if arguments is None:
            raise ValueError(str(caught[0].message))
        inferred = dict(zip(out.list_arguments(), arguments, strict=True))
        inferred.update(zip(out.list_auxiliary_states(), states, strict=True))
        for name, param in self.collect_params().items():
            if name in inferred:
                setattr(param, attr, inferred[name])

    def infer_shape(self, *args: Any) -> None:
        """Infer unknown extents of all parameters from the shapes of `args`."""
        self._infer_attrs("infer_shape", "shape", *args)

    def infer_type(self, *args: Any) -> None:
        """Infer the dtypes of all parameters from the dtypes of `args`."""
        self._infer_attrs("infer_type", "dtype", *args)

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            unknown = [p for p in self.collect_params().values() if p._deferred_init]
            listed = "".join(f"\n  {p.name}: {p._unknown()}" for p in unknown[:_LISTED])
            if len(unknown) > _LISTED:
                listed += f"\n  and {len(unknown) - _LISTED} further parameters"
            known = isinstance(error, MXNetError | ValueError | AssertionError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            text = f"Deferred initialization of {type(self).__name__} '{self.name}' failed because shape cannot be "
            raise in_place_of(error, ValueError(f"{text}inferred. {reason}{listed}")) from cause_of(error)

    def _build_cache(self, *args: Any) -> None:
        """Trace the block into a function that compiles per signature, and finish deferred initializations."""
        data, out = self._get_graph(*args)
        positions = {s.name: i for i, s in enumerate(data)}
        params = self.collect_params()
        names = out.list_inputs()
        self._warn_of_unused(names, positions, params)
        try:
            for name in names:
                if name not in positions:
                    _parameter(params, name).list_data()
        except DeferredInitializationError:
            self._deferred_infer_shape(*args)
            for name in names:
                if name not in positions:
                    params[name]._finish_deferred_init()
        self._cached_op_args = [(n in positions, positions[n] if n in positions else params[n]) for n in names]
        formats = self._in_format, self._out_format
        function = BlockFunction(out, self._cached_op_args, formats, self._flags, self.name, self._is_direct)
        if self._callback is not None:
            function.register_op_hook(self._callback, self._monitor_all)
        self._cached_op = function

    def _warn_of_unused(self, names: Sequence[str], positions: dict[Any, int], params: ParameterDict) -> None:
        inputs = [f"{i}-th" for name, i in positions.items() if name not in names]
        if inputs:
            warnings.warn(
                f"The {', '.join(inputs)} input to HybridBlock is not used by any computation. Is this intended?",
                stacklevel=5,
            )
        unused = [name for name in params if name not in names]
        if unused:
            warnings.warn(
                f"Parameter {', '.join(unused)} is not used by any computation. Is this intended?", stacklevel=5
            )

    # --- calls ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        # Fast path of a hybridized call whose signature was used before: it only runs the compiled graph.
        compiled = self._cached_op
        if compiled is not None and not self._forward_hooks and not self._forward_pre_hooks:
            if hooks.watched or len(args) != 1:
                out = compiled.fast(args)
                if out is not None:
                    return out
            else:
                (x,) = args
                if x.__class__ is compiled.array:
                    path = compiled.paths.get((x._shape, x._dtype, x._context.device_id))
                    if path is not None:
                        try:
                            return path(x)
                        except DeviceError:
                            pass
        return self._call_written(*args) if self._is_written else super().__call__(*args)

    def _call_written(self, *args: Any) -> Any:
        """Call a block whose `forward` is written with functions of arrays."""
        if any([p._deferred_init for p in self._reg_params.values()]):
            self._finish_own_parameters(args)
        has_symbol, has_array, contexts = kinds_in(args)
        if has_symbol:
            raise ValueError(
                f"{type(self).__name__}.forward is written with functions of arrays: call it with arrays, not symbols"
            )
        if not self._active or not has_array or modes.tracer is not None or not has_numpy(args):
            return super().__call__(*args)
        if len(contexts) > 1:
            raise ValueError(f"Find multiple contexts in the input: {contexts}. {_ONE_CONTEXT}")
        for hook in list(self._forward_pre_hooks.values()):
            hook(self, args)
        with next(iter(contexts)):
            out = self._call_cached_op(*args)
        for hook in list(self._forward_hooks.values()):
            hook(self, args, out)
        return out

    def _finish_own_parameters(self, args: Any) -> None:
        """Initialize parameters of unknown shape, which the block's `infer_shape` sets."""
        if type(self).infer_shape is HybridBlock.infer_shape:
            raise unknown_parameters(self)
        self.infer_shape(*args)
        for param in self._reg_params.values():
            param._finish_deferred_init()

    def forward(self, x: Any, *args: Any) -> Any:  # type: ignore[override]
        """Run on arrays, or compose symbols. A mix of both, or neither, raises ValueError."""
        if not self._active and x.__class__ is NDArray:
            context = x._context
            if not args or all([a.__class__ is NDArray and a._context is context for a in args]):
                return self._forward_eagerly(context, x, *args)
        has_symbol, has_array, contexts = kinds_in([x, *args])
        if has_symbol and has_array:
            raise ValueError(
                "In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. "
                "Please check the type of the args.\n"
            )
        if has_array:
            return self._forward_arrays(contexts, x, *args)
        if not has_symbol:
            raise ValueError(_NO_INPUT)
        return self._traced([x, *args])

    def _forward_arrays(self, contexts: set[Any], x: Any, *args: Any) -> Any:
        first = next(iter(contexts)) if len(contexts) == 1 else _first_context([x, *args])
        if self._active and modes.tracer is None:
            if len(contexts) > 1:
                raise ValueError(f"Find multiple contexts in the input: {contexts}. {_ONE_CONTEXT}")
            with first:
                return self._call_cached_op(x, *args)
        return self._forward_eagerly(first, x, *args)

    def _forward_eagerly(self, context: Any, x: Any, *args: Any) -> Any:
        with context:
            try:
                params = self._own_arrays(context)
            except DeferredInitializationError:
                self._deferred_infer_shape(x, *args)
                for param in self.params.values():
                    param._finish_deferred_init()
                params = self._own_arrays(context)
            if x.__class__ is NDArray or not has_numpy([x, *args]):
                return self.hybrid_forward(ndarray, x, *args, **params)
            params = {name: p if is_numpy(p) else p.as_np_ndarray() for name, p in params.items()}
            return self.hybrid_forward(operators_for(True, False), x, *args, **params)

    def _own_arrays(self, context: Any) -> dict[str, Any]:
        return {name: param.data(context) for name, param in self._reg_params.items()} if self._reg_params else {}

    def _function_for(self, *args: Any) -> BlockFunction:
        """The function of the block, which is traced for arguments like these if it is not known."""
        if self._is_traced_with_arrays(args):
            return self._function_of_arrays(args)
        compiled = self._cached_op
        if compiled is None:
            with _trace_lock:  # one thread traces; others wait for the graph
                if self._cached_op is None:
                    self._build_cache(*args)
                compiled = self._cached_op
        assert compiled is not None
        return compiled

    def _call_cached_op(self, *args: Any) -> Any:
        compiled = self._function_for(*args)
        flat, form = flatten(args, "input")
        in_format, out_format = compiled.formats
        if not same_format(form, in_format):
            raise ValueError(
                "The argument structure of HybridBlock does not match the cached version. "
                f"Stored format = {in_format}, input format = {form}"
            )
        return regroup(compiled([arg for arg in flat if arg is not None]), out_format)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs, with F = `nd` on arrays or F = `sym` on symbols. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward")

    # --- files ------------------------------------------------------------------------------------------------------

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write `PATH-symbol.json` and `PATH-EPOCH.params`, which SymbolBlock, Module and MXNet can load.

        Raises RuntimeError if the block was never called hybridized.
        """
        if not self._cached_graph:
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least once "
                "before calling export."
            )
        out: Symbol = self._cached_graph[1]
        out.save(f"{path}-symbol.json", remove_amp_cast=remove_amp_cast)
        states = set(out.list_auxiliary_states())
        params = self.collect_params()
        arrays = {
            f"{'aux' if name in states else 'arg'}:{name}": params[name]._reduce()
            for name in out.list_inputs()
            if name in params
        }
        arrays |= {f"arg:{n}": p._reduce() for n, p in self._captured().items()}
        ndarray.save(f"{path}-{epoch:04d}.params", arrays)

    def _captured(self) -> dict[str, TracedConstant]:
        """The arrays of numbers in the traced graph, by the names of their variables."""
        names = self._cached_graph[1].list_inputs()
        return {n: p for n, (_, p) in zip(names, self._cached_op_args, strict=False) if isinstance(p, TracedConstant)}

    def _saved_graph(self) -> dict[str, Any]:
        if not self._cached_graph:
            return {"hybridized": False}
        inputs, out = self._cached_graph
        return {
            "in_format": self._in_format,
            "out_format": self._out_format,
            "inputs": [one.tojson() for one in inputs],
            "symbol": out.tojson(),
            "hybridized": True,
        }

    def _restore_graph(self, saved: dict[str, Any]) -> None:
        self._clear_cached_op()
        self._in_format, self._out_format = saved["in_format"], saved["out_format"]
        inputs = [symbol.load_json(text) for text in saved["inputs"]]
        self._cached_graph = inputs, symbol.load_json(saved["symbol"])
        self._active = True

    def optimize_for(
        self,
        x: Any,
        *args: Any,
        backend: str | None = None,
        clear: bool = False,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Hybridize, and trace with these arguments. `backend` is required, but it and its options have no effect:
        there is one compiler, and it compiles the whole graph."""
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(
            True,
            backend,
            clear,
            static_alloc,
            static_shape,
            inline_limit,
            forward_bulk_size,
            backward_bulk_size,
            **kwargs,
        )
        has_symbol, has_array, contexts = kinds_in([x, *args])
        if not has_symbol and not has_array:
            raise ValueError(_NO_INPUT)
        if len(contexts) > 1:
            raise ValueError(f"Found multiple contexts in the input: {contexts}. {_ONE_CONTEXT}")
        if self._is_traced_with_arrays([x, *args]):
            self._function_of_arrays([x, *args])
            return
        with _trace_lock:
            self._build_cache(x, *args)

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        self._callback, self._monitor_all = callback, monitor_all
        if self._cached_op is not None:
            self._cached_op.register_op_hook(callback, monitor_all)
        super().register_op_hook(callback, monitor_all)


def _parameter(params: ParameterDict, name: str) -> Parameter:
    if name not in params:
        raise AssertionError(f"Unknown input to HybridBlock: {name}")
    return params[name]


def _first_context(args: Any) -> Any:
    flat = [arg for arg in flatten(args, "input")[0] if arg is not None]
    return flat[0].context
