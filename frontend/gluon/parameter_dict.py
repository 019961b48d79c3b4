"""ParameterDict: the parameters of a block by full name, with a prefix and optional shared parameters."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import accepts_device
from ..initializer import Uniform
from ..ndarray import load, save
from .parameter import Constant, Parameter, same_dtype
from .parameter_arrays import require_usable
from .utils import _brief_print_list, _indent

if TYPE_CHECKING:
    from ..context import Context
    from ..ndarray import NDArray

_NAMING = "For more info on naming, please see https://mxnet.apache.org/api/python/docs/tutorials/packages/gluon/blocks/naming.html"


class ParameterDict:
    """Parameters by name. `get` looks up `prefix + name` here, then in `shared`, and creates it if it is missing.

    Example:
        >>> params = mx.gluon.ParameterDict("net_")
        >>> params.get("weight", shape=(2, 3)).name
        'net_weight'
        >>> params.initialize()
        >>> list(params)
        ['net_weight']
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared
        self.structural: dict[str, Parameter] = {}
        """The parameters by structural names, such as `0.weight`, if `Block.collect_params` made the dictionary."""

    def __repr__(self) -> str:
        name = f"{self._prefix} " if self._prefix else ""
        content = "\n".join(_indent(f"  {p}", 2) for p in self.values())
        return f"{name}(\n{content}\n)"

    def __getitem__(self, key: str) -> Parameter:
        """The parameter of this name; as in MXNet 2, the name can also be a structural one."""
        known = self._params.get(key) or self.structural.get(key)
        if known is None:
            raise KeyError(key)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        return self._params.items()

    def keys(self) -> KeysView[str]:
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        return self._params.values()

    @property
    def prefix(self) -> str:
        return self._prefix

    def _get_impl(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter `prefix + name`. A missing one is created with these arguments.

        An existing parameter must match the arguments, otherwise AssertionError is raised. An unknown extent is
        replaced by the known one.
        """
        name = self.prefix + name
        param = self._get_impl(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            param._is_named = True
            return param
        for key, value in kwargs.items():
            _merge_attribute(param, key, value)
        return param

    def _adopt(self, name: str, param: Parameter) -> None:
        """Add a parameter that no dictionary made, as `prefix + name`: as in MXNet 2, it is one of the block that it is
        an attribute of."""
        if not param._is_named:
            param.name, param._is_named = self.prefix + name, True
            self._params[param.name] = param

    def _replace(self, old: Parameter, new: Parameter) -> None:
        """Use another parameter in the place of one."""
        for name, param in list(self._params.items()):
            if param is old:
                del self._params[name]
                self._params[new.name] = new

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant `prefix + name`. A missing one is created with `value`."""
        name = self.prefix + name
        param = self._get_impl(name)
        if param is None:
            if value is None:
                raise KeyError(
                    f"No constant named '{name}'. Please specify value if you want to create a new constant."
                )
            param = self._params[name] = Constant(name, value)
            param._is_named = True
        elif value is not None:
            _check_constant(param, name, value)
        return param

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add all parameters of another dictionary. Two parameters with the same name raise AssertionError."""
        for name, param in other.items():
            if self._params.setdefault(name, param) is not param:
                raise AssertionError(
                    f"Cannot update self with other because they have different Parameters with the same name '{name}'"
                )

    @accepts_device
    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize all parameters. `init` is used for parameters without an initializer."""
        init = Uniform() if init is None else init
        if verbose:
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts. MXNetError for a context without a device; no parameter is moved."""
        require_usable(ctx)
        for param in self.values():
            param.reset_ctx(ctx)

    reset_device = reset_ctx

    def list_ctx(self) -> list[Context]:
        """The contexts of all parameters."""
        return list({ctx: None for param in self.values() for ctx in param.list_ctx()})

    list_device = list_ctx

    def setattr(self, name: str, value: Any) -> None:
        """Set one attribute of all parameters: `params.setattr("grad_req", "null")`."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str | os.PathLike[str], strip_prefix: str = "") -> None:
        """Write all parameters to a file. `strip_prefix` is removed from their names."""
        for name in self.keys():
            if not name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name '{name}' does not "
                    f"start with '{strip_prefix}'. this may be due to your Block shares parameters from other "
                    f"Blocks or you forgot to use 'with name_scope()' when creating child blocks. {_NAMING}"
                )
        save(filename, {name[len(strip_prefix) :]: param._reduce() for name, param in self.items()})

    @accepts_device
    def load(
        self,
        filename: str | os.PathLike[str],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a file. `restore_prefix` is added to the names in the file."""
        for name in self.keys():
            if not name.startswith(restore_prefix):
                raise ValueError(
                    f"restore_prefix is '{restore_prefix}' but Parameters name '{name}' does not start with it. "
                    f"{_NAMING}"
                )
        loaded = load(filename)
        self.load_dict(
            loaded, ctx, allow_missing, ignore_extra, restore_prefix, os.fspath(filename), cast_dtype, dtype_source
        )

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set parameters from a dictionary of arrays. The prefixes `arg:` and `aux:` of names are dropped."""
        source = f"file: {filename}" if filename else "param_dict"
        if not isinstance(param_dict, Mapping) and param_dict:
            raise ValueError(f"{source} contains a list of arrays without names; parameters require names")
        arrays = param_dict if isinstance(param_dict, Mapping) else {}  # a file without arrays is read as a list
        loaded = {restore_prefix + k.removeprefix("arg:").removeprefix("aux:"): v for k, v in arrays.items()}
        missing = [] if allow_missing else [name for name in self.keys() if name not in loaded]
        if missing:
            raise AssertionError(
                f"Parameter '{missing[0][len(restore_prefix) :]}' is missing in {source}, which contains parameters: "
                f"{_brief_print_list(loaded)}. Please make sure source and target networks have the same prefix. "
                f"{_NAMING}"
            )
        extra = [] if ignore_extra else [name for name in loaded if name not in self._params]
        if extra:
            raise AssertionError(
                f"Parameter '{extra[0][len(restore_prefix) :]}' loaded from {source} is not present in ParameterDict, "
                f"choices are: {_brief_print_list(self.keys())}. Set ignore_extra to True to ignore. "
                f"Please make sure source and target networks have the same prefix. {_NAMING}"
            )
        for name, array in loaded.items():
            if name in self._params:
                self[name]._load_init(array, ctx, cast_dtype, dtype_source, adopt=filename is not None)


def _merge_attribute(param: Parameter, key: str, value: Any) -> None:
    """Merge a requested attribute into an existing parameter. Raises AssertionError if they differ."""
    existing = getattr(param, key, None)
    if existing is None:
        setattr(param, key, value)
        return
    if key == "shape" and value is not None and len(value) == len(existing):
        if all(m == n or m <= 0 or n <= 0 for m, n in zip(value, existing, strict=True)):
            param._shape = tuple(n if m <= 0 else m for m, n in zip(value, existing, strict=True))
            return
    elif key == "dtype" and same_dtype(value, existing):
        return
    if value is not None and value != existing:
        raise AssertionError(
            f"Cannot retrieve Parameter '{param.name}' because desired attribute does not match with stored "
            f"for attribute '{key}': desired '{value}' vs stored '{existing}'."
        )


def _check_constant(param: Parameter, name: str, value: Any) -> None:
    if not isinstance(param, Constant):
        raise AssertionError(f"Parameter '{name}' already exists but it is not a constant.")
    expected = np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)
    if param.shape != expected.shape or not (param.value.asnumpy() == expected).all():
        raise AssertionError(f"Constant '{name}' already exists but it's value doesn't match new value")
