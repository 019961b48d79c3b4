"""Symbol: an expression of named arrays, built by composing operators, as in MXNet."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..artifacts import write_atomically
from ..base import MXNetError, NotImplementedForSymbol
from ..tracebacks import api_boundary, cause_of
from .compose import hidden_attrs, lacks_inputs, replacements, with_inputs, without_inputs
from .files import from_json, to_json
from .infer import Dtypes, PartialShapes, Shapes, debug_text, infer_shape, infer_type
from .node import HIDDEN_KEYS, Entry, SymNode, copy_nodes, depth_first

if TYPE_CHECKING:
    from ..context import Context
    from ..executor import Executor
    from ..ndarray import NDArray

__all__ = ["Symbol"]

# MXNet's graph rewriters for other libraries. mxforge's compiler optimises every graph.
_BACKENDS = ("MKLDNN", "MKLDNN_QUANTIZE")


class Symbol:
    """One or several outputs of a graph of operators; immutable except for `_compose` and attributes.

    Example:
        >>> x, y = mx.sym.var("x"), mx.sym.var("y")
        >>> z = 2 * x + y
        >>> z.list_arguments()
        ['x', 'y']
        >>> z.eval(x=mx.nd.array([1]), y=mx.nd.array([3]))[0].asnumpy()
        array([5.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_entries")

    _class: ClassVar[type[Symbol] | None] = None
    """The class of symbols of `mx.sym.np`; None for `mx.sym`."""

    __array_priority__ = 1000.0  # NumPy scalars defer arithmetic to Symbol

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
        return (type(self)([entry]) for entry in self._entries)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """An output by position or by its name in `list_outputs`; a slice selects a group."""
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
        return type(self)([self._entries[index]])

    def _group(self, entries: Sequence[Entry]) -> Symbol:
        if not entries:
            raise TypeError("Expected a list of symbols as input")
        return type(self)(entries)

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
        """A group of the inputs of the output nodes; None if they have no inputs."""
        nodes = dict.fromkeys(entry.node for entry in self._entries)
        inputs = [e for node in nodes for e in node.inputs]
        return Symbol(inputs) if inputs else None

    def _variables(self) -> tuple[list[SymNode], set[SymNode]]:
        """All variables in depth-first order, and the auxiliary variables."""
        nodes = depth_first(self._entries)
        auxiliary = {variable for node in nodes for variable in node.auxiliary_inputs()}
        return [node for node in nodes if node.is_variable], auxiliary

    def list_arguments(self) -> list[str]:
        """Names of all arguments: data, weights, labels."""
        variables, auxiliary = self._variables()
        return [node.name for node in variables if node not in auxiliary]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the variables that operators update, such as moving statistics."""
        variables, auxiliary = self._variables()
        return [node.name for node in variables if node in auxiliary]

    def list_inputs(self) -> list[str]:
        """Names of arguments and auxiliary states together, in depth-first order."""
        return [node.name for node in self._variables()[0]]

    def list_outputs(self) -> list[str]:
        return [entry.node.output_name(entry.index) for entry in self._entries]

    # --- attributes -------------------------------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """An attribute of the node, None if it is not set. `lr_mult` is accepted for `__lr_mult__`, and so on."""
        if not isinstance(key, str):
            raise TypeError(f"the name of an attribute must be a string, not {key!r}")
        node = self._node()
        if node is None:
            return None
        if key == "name":
            return node.name
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
        """The attributes of all nodes with attributes, by node name."""
        return {node.name: _listed(node.attrs) for node in depth_first(self._entries) if node.attrs}

    def _set_attr(self, **kwargs: Any) -> None:
        """Set attributes, which are strings, of the symbol's only node; `name` is its name. MXNetError for a name that
        is not a parameter of its operator."""
        node = self._node()
        if node is None:
            raise MXNetError("attributes can be set on one node only; this symbol is a group")
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError(f"Set Attr only accepts string values: {kwargs}")
        name = kwargs.pop("name", node.name)
        changed = node.copy()
        changed.attrs.update(hidden_attrs(kwargs, node.op))
        changed._operator = None
        if not node.is_variable:
            node._operator = changed.operator  # raises MXNetError for unknown parameters
        node.attrs, node.name = changed.attrs, name

    # --- composition ------------------------------------------------------------------------------------------------

    def __call__(self, *args: Symbol, **kwargs: Any) -> Symbol:
        """A copy in which the variables that the keywords name are replaced by other symbols."""
        composed = self.__copy__()
        composed._compose(*args, **kwargs)
        return composed

    def _compose(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> None:
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise TypeError("Compose expect `Symbol` as arguments")
        if lacks_inputs(self._entries):
            self._entries = with_inputs(self._entries, args, kwargs, name)
            return
        if args:
            raise MXNetError("General composition only support kwargs for now")
        replaced = replacements(self._entries, kwargs)
        self._entries = copy_nodes(self._entries, replaced)
        if name:
            self._entries[0].node.name = name

    def _gen_atomic_symbol(self) -> Symbol:
        """A symbol of the same operator without inputs, which a call of the symbol adds."""
        return type(self)(without_inputs(self._entries))

    def __copy__(self) -> Symbol:
        return type(self)(copy_nodes(self._entries))

    def __deepcopy__(self, _: Any) -> Symbol:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[[str], Symbol], tuple[str]]:
        return (load_json if type(self) is Symbol else load_numpy_json), (self.tojson(),)

    @property
    def handle(self) -> ctypes.c_void_p:
        """A pointer that identifies this symbol during its lifetime. In MXNet it is a C pointer."""
        return ctypes.c_void_p(id(self))

    def as_nd_ndarray(self) -> Symbol:
        """The symbol as one of `mx.sym`."""
        return self if type(self) is Symbol else Symbol(self._entries)

    def as_np_ndarray(self) -> Symbol:
        """The symbol as one of `mx.sym.np`."""
        return symbol_class(True)(self._entries)

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
        """The graph as text, in MXNet's format."""
        return debug_text(self._entries)

    # --- types ------------------------------------------------------------------------------------------------------

    @api_boundary
    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Shapes | None, Shapes | None, Shapes | None]:
        """Infers the shapes of arguments, outputs and auxiliary states.

        Args:
            *args: Known shapes of the arguments, in order; None for an unknown shape.
            **kwargs: Known shapes by name. An unknown extent is 0, or -1 with NumPy's shape semantics
                (`mx.util.np_shape`).
        Returns:
            Three lists of shapes; or (None, None, None), with a warning, if a shape remains unknown. MXNetError names a
            node whose shapes contradict each other.
        """
        return infer_shape(self, args, kwargs, partial=False)

    @api_boundary
    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[PartialShapes, PartialShapes, PartialShapes]:
        """Same as `infer_shape`, but always returns lists. Unknown shapes are () and unknown extents 0; with NumPy's
        shape semantics, None and -1."""
        return infer_shape(self, args, kwargs, partial=True)

    @api_boundary
    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Dtypes | None, Dtypes | None, Dtypes | None]:
        """Infers the dtypes of arguments, outputs and auxiliary states.

        Args:
            *args: Known dtypes of the arguments, in order; None for an unknown dtype.
            **kwargs: Known dtypes by name.
        Returns:
            Three lists of NumPy types; or (None, None, None), with a warning, if a dtype remains unknown.
        """
        return infer_type(self, args, kwargs, partial=False)

    @api_boundary
    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Dtypes, Dtypes, Dtypes]:
        """Same as `infer_type`, but always returns lists, with None for unknown dtypes."""
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
        """Creates an executor on new arrays of zeros.

        Args:
            ctx: The device.
            grad_req: The gradient request "write", "add" or "null": for all arguments, in order, or by name.
            type_dict: Dtypes by argument name; others are inferred, or float32.
            stype_dict: Storage types by argument name.
            group2ctx: Contexts by `ctx_group`.
            shared_arg_names: Arguments whose arrays are shared with `shared_exec`.
            shared_exec: An executor whose arrays are shared if `shared_buffer` is passed.
            shared_buffer: A dictionary of arrays by name whose memory other arguments use.
            **kwargs: Input shapes by name; other shapes are inferred. RuntimeError if they cannot be inferred.
        """
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
        """Creates an executor on the caller's arrays.

        Args:
            ctx: The device.
            args: The arguments, in order or by name.
            args_grad: The arrays of their gradients, in order or by name.
            grad_req: The gradient request "write", "add" or "null": for all arguments, in order, or by name.
            aux_states: The auxiliary states, in order or by name.
            group2ctx: Contexts by `ctx_group`. Without it, MXNetError for arrays that are not on `ctx`.
            shared_exec: Unused.
        """
        from ..binding import bind

        return bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx)

    @api_boundary
    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Binds the symbol to arrays and runs it.

        Args:
            ctx: The device; the current context by default.
            **kwargs: The arguments by name.
        Returns:
            The list of outputs.
        """
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
        """A copy of the symbol: the compiler applies the optimizations of MXNet's backends when a graph is bound.

        As in MXNet, an unknown backend is logged as an error.
        """
        if not isinstance(backend, str):
            raise TypeError(f"the name of a backend must be a string, not {backend!r}")
        if backend not in _BACKENDS:
            import logging

            logging.error("Error optimizing for backend '%s' cannot be found", backend)
        return self.__copy__()

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Same as `optimize_for`, but raises MXNetError for an unknown backend."""
        if backend not in _BACKENDS:
            raise MXNetError(f"SubgraphProperty {backend} is not found in SubgraphBackendRegistry")
        return self.__copy__()

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("unhashable type: 'Symbol'")

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol("__bool__", "bool")

    __nonzero__ = __bool__  # its name in Python 2


def symbol_class(numpy: bool) -> type[Symbol]:
    """The class of symbols of `mx.sym.np` or of `mx.sym`."""
    if not numpy:
        return Symbol
    return import_module(".numpy_symbol", __package__)._Symbol


def load_numpy_json(json_str: str) -> Symbol:
    """As `load_json`, as a symbol of `mx.sym.np`."""
    return load_json(json_str).as_np_ndarray()


def _listed(attrs: Mapping[str, str]) -> dict[str, str]:
    """Attributes for users: `__lr_mult__` also as `lr_mult`."""
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
    """The symbol from the text that `tojson` of any MXNet version returned."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(from_json(json_str))


fromjson = load_json
