"""Symbol: an expression over named arrays, built by composing operators, as in MXNet."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..artifacts import write_atomically
from ..base import MXNetError, NotImplementedForSymbol
from ..tracebacks import api_boundary, cause_of
from .compose import hidden_attrs, replacements
from .files import from_json, to_json
from .infer import Dtypes, PartialShapes, Shapes, debug_text, infer_shape, infer_type
from .node import HIDDEN_KEYS, Entry, SymNode, copy_nodes, depth_first

if TYPE_CHECKING:
    from ..context import Context
    from ..executor import Executor
    from ..ndarray import NDArray

__all__ = ["Symbol"]

# Ways of MXNet to rewrite a graph for another library. Here the compiler does such things for every graph.
_BACKENDS = ("MKLDNN", "MKLDNN_QUANTIZE")


class Symbol:
    """One or several outputs of a graph of operators; immutable but for `_compose` and attributes."""

    __slots__ = ("__weakref__", "_entries")
    __array_priority__ = 1000.0  # NumPy scalars leave arithmetic to Symbol

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)

    def __repr__(self) -> str:
        if self.name is None:
            return f"<{type(self).__name__} group [{', '.join(str(s.name) for s in self)}]>"
        return f"<{type(self).__name__} {self.name}>"

    # --- structure --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name of the node; None for a group of several nodes."""
        node = self._node()
        return None if node is None else node.name

    def _node(self) -> SymNode | None:
        nodes = {entry.node for entry in self._entries}
        return nodes.pop() if len(nodes) == 1 else None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Symbol]:
        return (Symbol([entry]) for entry in self._entries)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """An output by position or by its name in `list_outputs`; a slice gives a group."""
        if isinstance(index, slice):
            return self._group(self._entries[index])
        if isinstance(index, str):
            index = self._index_of(index)
        if not isinstance(index, int):
            raise TypeError("Symbol only support integer index to fetch i-th output")
        if index < 0:
            raise MXNetError(f"Symbol only accept nonnegative index, got {index}")
        if index >= len(self._entries):
            raise IndexError(f"the symbol has {len(self._entries)} outputs; there is no output {index}")
        return Symbol([self._entries[index]])

    @staticmethod
    def _group(entries: Sequence[Entry]) -> Symbol:
        if not entries:
            raise TypeError("Expected a list of symbols as input")
        return Symbol(entries)

    def _index_of(self, name: str) -> int:
        names = self.list_outputs()
        if names.count(name) > 1:
            raise ValueError(f'There are multiple outputs with name "{name}"')
        if name not in names:
            raise ValueError(f'Cannot find output that matches name "{name}"')
        return names.index(name)

    def get_internals(self) -> Symbol:
        """A group of all visible outputs of all nodes, in order."""
        nodes = depth_first(self._entries)
        return Symbol([Entry(n, i, n.version if n.is_variable else 0) for n in nodes for i in range(n.visible_outputs)])

    def get_children(self) -> Symbol | None:
        """A group of the inputs of the output nodes; None when there are none."""
        nodes = dict.fromkeys(entry.node for entry in self._entries)
        inputs = [e for node in nodes for e in node.inputs]
        return Symbol(inputs) if inputs else None

    def _variables(self) -> tuple[list[SymNode], set[SymNode]]:
        """All variables in depth-first order, and those among them that are auxiliary."""
        nodes = depth_first(self._entries)
        auxiliary = {variable for node in nodes for variable in node.auxiliary_inputs()}
        return [node for node in nodes if node.is_variable], auxiliary

    def list_arguments(self) -> list[str]:
        """Names of all arguments: data, weights, labels."""
        variables, auxiliary = self._variables()
        return [node.name for node in variables if node not in auxiliary]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the variables that operators change, such as moving statistics."""
        variables, auxiliary = self._variables()
        return [node.name for node in variables if node in auxiliary]

    def list_inputs(self) -> list[str]:
        """Names of arguments and auxiliary states together, in depth-first order."""
        return [node.name for node in self._variables()[0]]

    def list_outputs(self) -> list[str]:
        return [entry.node.output_name(entry.index) for entry in self._entries]

    # --- attributes -------------------------------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """One attribute of the node, None where it is not set; `lr_mult` and the like need no underscores."""
        if not isinstance(key, str):
            raise TypeError(f"the name of an attribute is a text, not {key!r}")
        node = self._node()
        if node is None:
            return None
        if key == "_value_index":
            return ", ".join(str(entry.index) for entry in self._entries)
        return node.attrs.get(key, node.attrs.get(f"__{key}__") if key in HIDDEN_KEYS else None)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """All attributes of the node."""
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True has been deprecated. Please use attr_dict instead."
            )
        node = self._node()
        return {} if node is None else _listed(node.attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """The attributes of all nodes that have any, by the nodes' names."""
        return {node.name: _listed(node.attrs) for node in depth_first(self._entries) if node.attrs}

    def _set_attr(self, **kwargs: Any) -> None:
        """Set attributes, all texts, of the symbol's one node; MXNetError for what is no parameter of its operator."""
        node = self._node()
        if node is None:
            raise MXNetError("attributes can be set on one node only; this symbol is a group")
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError(f"Set Attr only accepts string values: {kwargs}")
        changed = node.copy()
        changed.attrs.update(hidden_attrs(kwargs, node.op))
        changed._operator = None
        if not node.is_variable:
            node._operator = changed.operator  # which refuses what is no parameter
        node.attrs = changed.attrs

    # --- composition ------------------------------------------------------------------------------------------------

    def __call__(self, *args: Symbol, **kwargs: Any) -> Symbol:
        """A copy whose variables, named by keywords, are replaced by other symbols."""
        made = self.__copy__()
        made._compose(*args, **kwargs)
        return made

    def _compose(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> None:
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise TypeError("Compose expect `Symbol` as arguments")
        if args:
            raise MXNetError("General composition only support kwargs for now")
        replaced = replacements(self._entries, kwargs)
        self._entries = copy_nodes(self._entries, replaced)
        if name:
            self._entries[0].node.name = name

    def __copy__(self) -> Symbol:
        return Symbol(copy_nodes(self._entries))

    def __deepcopy__(self, _: Any) -> Symbol:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[[str], Symbol], tuple[str]]:
        return load_json, (self.tojson(),)

    @property
    def handle(self) -> ctypes.c_void_p:
        """A number that tells this symbol from others while it lives, where MXNet has a C pointer."""
        return ctypes.c_void_p(id(self))

    def as_nd_ndarray(self) -> Symbol:
        """The symbol itself: it is one of `mx.sym`."""
        return self

    def as_np_ndarray(self) -> NoReturn:
        """Raises MXNetError: the symbols of `mx.np` are not there yet."""
        raise MXNetError("Symbol.as_np_ndarray: mx.np is not in mxforge yet")

    # --- files ------------------------------------------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as MXNet 1.9.1 writes it, byte for byte."""
        return to_json(self._entries, remove_amp_cast)

    def save(self, fname: str | os.PathLike[str], remove_amp_cast: bool = True) -> None:
        """Write `tojson` to a file, atomically."""
        if not isinstance(fname, str | os.PathLike):
            raise TypeError("fname need to be string")
        write_atomically(fname, [self.tojson(remove_amp_cast).encode()])

    def debug_str(self) -> str:
        """The graph for people."""
        return debug_text(self._entries)

    # --- types ------------------------------------------------------------------------------------------------------

    @api_boundary
    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Shapes | None, Shapes | None, Shapes | None]:
        """Shapes of arguments, outputs and auxiliary states; three times None, and a warning, when some stay unknown.

        Known shapes are given by position or by name. An unknown dimension is 0, or -1 with NumPy's shape semantics
        (`mx.util.np_shape`). MXNetError names the node where shapes contradict each other.
        """
        return infer_shape(self, args, kwargs, partial=False)

    @api_boundary
    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[PartialShapes, PartialShapes, PartialShapes]:
        """As `infer_shape`. Unknown are () and 0, or None and -1 with NumPy's shape semantics."""
        return infer_shape(self, args, kwargs, partial=True)

    @api_boundary
    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Dtypes | None, Dtypes | None, Dtypes | None]:
        """Dtypes of arguments, outputs and auxiliary states; three times None, with a warning, if some stay unknown."""
        return infer_type(self, args, kwargs, partial=False)

    @api_boundary
    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Dtypes, Dtypes, Dtypes]:
        """As `infer_type`, with None for what is unknown."""
        return infer_type(self, args, kwargs, partial=True)

    def _infer_shape_impl(self, partial: bool, *args: Any, **kwargs: Any) -> Any:
        """`infer_shape_partial` or `infer_shape` without its warning."""
        return infer_shape(self, args, kwargs, partial, warn=False)

    def _infer_type_impl(self, partial: bool, *args: Any, **kwargs: Any) -> Any:
        """`infer_type_partial` or `infer_type` without its warning."""
        return infer_type(self, args, kwargs, partial, warn=False)

    # --- execution --------------------------------------------------------------------------------------------------

    @api_boundary
    def simple_bind(
        self,
        ctx: Context,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Executor | None = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Executor:
        """An executor with arrays of its own, whose shapes follow from those in `kwargs`."""
        from ..binding import simple_bind

        shared = shared_arg_names, shared_exec, shared_buffer
        return simple_bind(self, ctx, grad_req, type_dict, kwargs, *shared, stype_dict, group2ctx)

    @api_boundary
    def bind(
        self,
        ctx: Context,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Executor | None = None,
    ) -> Executor:
        """An executor on the caller's arrays, given as lists in order or as dictionaries by name."""
        from ..binding import bind

        return bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx)

    @api_boundary
    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """The outputs for these arguments."""
        from ..context import current_context

        return self.bind(ctx or current_context(), kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> NoReturn:
        """Raises MXNetError, as in MXNet: executors have gradients, symbols do not."""
        raise MXNetError("Symbol.gradient: not implemented")

    def optimize_for(
        self,
        backend: str,
        args: Any = None,
        aux: Any = None,
        ctx: Context | None = None,
        shape_dict: Any = None,
        type_dict: Any = None,
        stype_dict: Any = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Symbol:
        """The same graph: what MXNet's backends rewrite the compiler does whenever a graph is bound.

        A backend that MXNet does not know is reported in the log, as there.
        """
        if not isinstance(backend, str):
            raise TypeError(f"the name of a backend is a text, not {backend!r}")
        if backend not in _BACKENDS:
            logging.error("Error optimizing for backend '%s' cannot be found", backend)
        return self.__copy__()

    def get_backend_symbol(self, backend: str) -> Symbol:
        """As `optimize_for`; MXNetError for a backend that MXNet does not know."""
        if backend not in _BACKENDS:
            raise MXNetError(f"SubgraphProperty {backend} is not found in SubgraphBackendRegistry")
        return self.__copy__()

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("unhashable type: 'Symbol'")

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol("__bool__", "bool")

    __nonzero__ = __bool__  # its name in Python 2


def _listed(attrs: Mapping[str, str]) -> dict[str, str]:
    """Attributes as users see them: `__lr_mult__` also as `lr_mult`."""
    plain = {key: attrs[f"__{key}__"] for key in HIDDEN_KEYS if f"__{key}__" in attrs}
    return {**attrs, **plain}


def load(fname: str | os.PathLike[str]) -> Symbol:
    """The symbol in a `-symbol.json` file of any MXNet version."""
    if not isinstance(fname, str | os.PathLike):
        raise TypeError("fname need to be string")
    try:
        text = Path(fname).read_bytes()
    except OSError as error:
        raise MXNetError(str(error)) from cause_of(error)
    return Symbol(from_json(text, os.fspath(fname)))


def load_json(json_str: str) -> Symbol:
    """The symbol that `tojson` of any MXNet version gave."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(from_json(json_str))


fromjson = load_json
