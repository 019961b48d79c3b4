"""Block: the base class of all layers and models, with children and parameters."""

from __future__ import annotations

import os
import re
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ..base import MXNetError
from ..context import accepts_device
from ..ndarray import NDArray, load, save
from ..symbol import Symbol
from ..tracebacks import shorten
from ..util import is_np_array
from .model_files import load_model, save_model
from .parameter import Parameter
from .parameter_dict import ParameterDict
from .structure import BlockScope, has_numpy
from .summary import print_summary
from .utils import HookHandle, _as_np_ndarrays, _brief_print_list, _check_all_np_ndarrays, _indent

_PACKAGE = __name__.partition(".")[0]


def _are_classic(args: tuple[Any, ...]) -> bool:
    """True if arguments are arrays of `mx.nd`, and none is one of `mx.np`."""
    return any(isinstance(a, NDArray | Symbol) for a in args) and not has_numpy(args)


class Block:
    """A layer or model. A subclass creates children and parameters in `__init__` under `name_scope()` and defines
    `forward`.

    The names of parameters and children start with `prefix`, by default the lower-case class name and a number.
    `params` shares the parameters of another block.

    Example:
        >>> class Twice(mx.gluon.Block):
        ...     def __init__(self, **kwargs):
        ...         super().__init__(**kwargs)
        ...         with self.name_scope():
        ...             self.layer = mx.gluon.nn.Dense(3)
        ...     def forward(self, x):
        ...         return self.layer(self.layer(x))
        >>> net = Twice()
        >>> net.initialize()
        >>> net(mx.nd.ones((1, 3))).shape
        (1, 3)
    """

    _has_summary_row = True

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    def __repr__(self) -> str:
        lines = [f"  ({k}): {_indent(repr(b), 2)}" for k, b in self.__dict__.items() if isinstance(b, Block)]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def __setattr__(self, name: str, value: Any) -> None:
        existing = getattr(self, name, None)
        if isinstance(existing, Parameter | Block) and not isinstance(value, type(existing)):
            raise TypeError(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                raise AssertionError(
                    f"Overriding Parameter attribute {name} is not allowed. If you want to share parameters between "
                    "blocks, please set 'params' at Block construction instead."
                )
            self._reg_params[name] = value
            self._params._adopt(name, value)
        super().__setattr__(name, value)

    def _alias(self) -> str:
        return type(self).__name__.lower()

    @property
    def prefix(self) -> str:
        """The prefix of the names of the block's parameters and children."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """A context manager. Children and parameters that are created in it get this block's prefix."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without the children's parameters."""
        return self._params

    # --- parameters -------------------------------------------------------------------------------------------------

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """The parameters of the block and all its children, or only names that match the regular expression
        `select`."""
        self._check_container_with_block()
        parameters = ParameterDict(self._params.prefix)
        pattern = re.compile(select) if select else None
        parameters.update({n: p for n, p in self.params.items() if pattern is None or pattern.match(n)})
        for child in self._children.values():
            parameters.update(child.collect_params(select=select))
        chosen = set(parameters.values())
        parameters.structural = {n: p for n, p in self._collect_params_with_prefix().items() if p in chosen}
        return parameters

    def _check_container_with_block(self) -> None:
        children = set(self._children.values())
        for name, value in self.__dict__.items():
            internal = name.startswith("__") or name == "_children"
            if isinstance(value, list | tuple | dict) and not internal and _contains_other_block(value, children):
                warnings.warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. Note that Blocks inside '
                    "the list, tuple or dict will not be registered automatically. Make sure to register them using "
                    "register_child() or switching to nn.Sequential/nn.HybridSequential instead. ",
                    stacklevel=3,
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """All parameters by structural name: attributes and child names joined by dots, `0.weight`."""
        dotted = f"{prefix}." if prefix else ""
        parameters = {dotted + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            parameters.update(child._collect_params_with_prefix(dotted + name))
        return parameters

    def save_parameters(self, filename: str | os.PathLike[str], deduplicate: bool = False) -> None:
        """Write all parameters under structural names (`0.weight`). `deduplicate` writes shared ones once."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            params = {name: param for param, name in {p: n for n, p in params.items()}.items()}
        save(filename, {name: param._reduce() for name, param in params.items()})

    @accepts_device
    def load_parameters(
        self,
        filename: str | os.PathLike[str],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a file of `save_parameters`, `export` or `collect_params().save`."""
        loaded = load(filename)
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not isinstance(loaded, dict):
            raise ValueError(f"{filename} contains a list of arrays without names; parameters require names")
        if not any("." in name for name in loaded):
            own = self.collect_params()
            full = any(name.removeprefix("arg:").removeprefix("aux:") in own for name in loaded)
            prefix = "" if full else self.prefix  # a file of save_params, whose names have no prefix
            own.load_dict(
                loaded, ctx, allow_missing, ignore_extra, prefix, os.fspath(filename), cast_dtype, dtype_source
            )
            return
        where = f"file '{filename}'"
        self._set_parameters(loaded, where, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source, adopt=True)

    def _set_parameters(
        self,
        loaded: Mapping[str, Any],
        where: str,
        ctx: Any,
        allow_missing: bool,
        ignore_extra: bool,
        cast_dtype: bool,
        dtype_source: str,
        adopt: bool = False,
    ) -> None:
        """Set parameters by structural names; with `adopt`, the arrays have no other user."""
        params = self._collect_params_with_prefix()
        if not allow_missing:
            _check_complete(params, loaded, where)
        for name, array in loaded.items():
            if name in params:
                params[name]._load_init(array, ctx, cast_dtype, dtype_source, adopt=adopt)
            elif not ignore_extra:
                raise ValueError(
                    f"Parameter '{name}' loaded from {where} is not present in ParameterDict, which contains "
                    f"parameters {_brief_print_list(params)}. Set ignore_extra=True to ignore. "
                )

    def save_params(self, filename: str | os.PathLike[str]) -> None:
        """Deprecated: use `save_parameters`. Writes full names without the block's prefix."""
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self, filename: str | os.PathLike[str], ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """Deprecated: use `load_parameters`."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str | os.PathLike[str]) -> None:
        """Write `PREFIX-model.json`, with the graphs of blocks that ran hybridized, and `PREFIX-model.params`."""
        save_model(self, prefix)

    def load(self, prefix: str | os.PathLike[str]) -> None:
        """Load files of `save`, which must come from a block of the same structure. Saved graphs run unchanged."""
        load_model(self, prefix)

    def _saved_graph(self) -> dict[str, Any]:
        """The description of the block's graph for `save`; empty for a block without a graph."""
        return {}

    def _restore_graph(self, saved: dict[str, Any]) -> None:
        """Restore the graph from a description by `_saved_graph`."""

    @accepts_device
    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize all parameters. The default draws uniformly from [-0.07, 0.07)."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    # names of MXNet 2

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def reset_device(self, device: Any) -> None:
        """Move all parameters to other contexts."""
        self.reset_ctx(device)

    def zero_grad(self) -> None:
        """Set the gradients of all parameters to zero."""
        self.collect_params().zero_grad()

    def setattr(self, name: str, value: Any) -> None:
        """Set one attribute of all parameters: `net.setattr("grad_req", "null")`."""
        self.collect_params().setattr(name, value)

    @accepts_device
    def load_dict(
        self,
        param_dict: dict[str, Any],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set parameters from a dictionary of arrays by structural names, such as `0.weight`."""
        self._set_parameters(param_dict, "the dictionary", ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    def share_parameters(self, shared: ParameterDict | Mapping[str, Parameter]) -> Block:
        """Use the parameters that `collect_params` of another block returned, or of a dictionary by structural names,
        such as `0.weight`, instead of the block's own. Returns the block. ValueError for names that it does not
        have."""
        if isinstance(shared, ParameterDict):
            shared = shared.structural
        if not isinstance(shared, Mapping):
            raise ValueError(f"'shared' should be a dictionary of parameters, not {type(shared)}")
        names = self._collect_params_with_prefix()
        unknown = [name for name in shared if name not in names]
        if unknown:
            raise ValueError(f"Parameter names: {', '.join(unknown)} are not available in the current block")
        self._share(shared, "")
        return self

    def _share(self, shared: Mapping[str, Parameter], prefix: str) -> None:
        for name, own in list(self._reg_params.items()):
            param = shared.get(prefix + name)
            if param is not None and param is not own:
                self._reg_params[name] = param
                object.__setattr__(self, name, param)
                self._params._replace(own, param)
        for name, child in self._children.items():
            child._share(shared, f"{prefix}{name}.")

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    # --- children and hooks -----------------------------------------------------------------------------------------

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add `block` as a child. The default name is its number."""
        self._children[str(len(self._children)) if name is None else name] = block

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call `fn` on all children, then on the block itself."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Activate or deactivate compilation of all hybrid blocks among the descendants."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(block, inputs)` before each forward. Returns a handle that detaches the hook."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(block, inputs, outputs)` after each forward. Returns a handle that detaches the hook."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Make hybridized blocks among the descendants call `callback(name, operator, array)` for each result of each
        operator.

        Names are UTF-8 bytes, as in MXNet. With `monitor_all`, the callback is also called for the operands, before
        the results.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    # --- calls ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()) if self._forward_pre_hooks else ():
            hook(self, args)
        try:
            out = self.forward(*args)
        except Exception as error:
            shorten(error)
            if isinstance(error, MXNetError) and not hasattr(error, "__notes__"):
                error.add_note(f"  in block {self.name} ({type(self).__name__})")
            raise
        for hook in list(self._forward_hooks.values()) if self._forward_hooks else ():
            hook(self, args, out)
        if is_np_array():
            if type(self).__module__.partition(".")[0] == _PACKAGE and not _are_classic(args):
                return _as_np_ndarrays(out)
            _check_all_np_ndarrays(out)
        return out

    def forward(self, *args: Any) -> Any:
        """Compute the outputs. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def summary(self, *inputs: NDArray) -> None:
        """Run on `inputs` and print each layer's output shape and number of parameters."""
        print_summary(self, inputs)


def _contains_other_block(value: Any, children: set[Block]) -> bool:
    """True if a nested container contains a block that is not in `children`."""
    if isinstance(value, list | tuple):
        return any(_contains_other_block(item, children) for item in value)
    if isinstance(value, dict):
        return any(_contains_other_block(item, children) for item in value.values())
    return isinstance(value, Block) and value not in children


def _check_complete(params: dict[str, Parameter], loaded: Mapping[str, NDArray], where: str) -> None:
    """Raise AssertionError if a parameter is missing under all of its names. Shared ones have several."""
    names: dict[Parameter, list[str]] = defaultdict(list)
    for name, param in params.items():
        names[param].append(name)
    for aliases in names.values():
        if not any(name in loaded for name in aliases):
            raise AssertionError(
                f"Parameter '{aliases[0]}' is missing in {where}, which contains parameters: "
                f"{_brief_print_list(loaded)}. Set allow_missing=True to ignore missing parameters."
            )
