"""Symbol: an expression over named arrays, built by composing operators, as in MXNet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..artifacts import write_atomically
from ..base import MXNetError, NotImplementedForSymbol, _Null
from . import ops
from .compose import hidden_attrs, replacements, resolved_attrs
from .files import from_json, to_json
from .node import HIDDEN_KEYS, Entry, SymNode, copy_nodes, depth_first

if TYPE_CHECKING:
    from ..context import Context
    from ..executor import Executor
    from ..ndarray import NDArray
    from .infer import Dtypes, Shapes

_DTYPE_NUMBERS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}
_DTYPE_NUMBERS |= {"int16": 8, "bfloat16": 12}
DTYPE_NAMES = {str(number): name for name, number in _DTYPE_NUMBERS.items()}
STORAGE_NUMBERS = {"default": 0, "row_sparse": 1, "csr": 2}


def is_null(value: Any) -> bool:
    """Whether a parameter was left out."""
    return value is _Null


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
            return Group([Symbol([entry]) for entry in self._entries[index]])
        if isinstance(index, str):
            index = self._index_of(index)
        if not isinstance(index, int):
            raise TypeError("Symbol only support integer index to fetch i-th output")
        if index < 0:
            raise MXNetError(f"Symbol only accept nonnegative index, got {index}")
        if index >= len(self._entries):
            raise IndexError(f"the symbol has {len(self._entries)} outputs; there is no output {index}")
        return Symbol([self._entries[index]])

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
        node = self._node()
        if node is None:
            raise MXNetError("attributes can be set on one node only; this symbol is a group")
        node.attrs.update(hidden_attrs(kwargs, node.op))
        node._operator = None

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
        from .infer import debug_text

        return debug_text(self._entries)

    # --- types ------------------------------------------------------------------------------------------------------

    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Shapes | None, Shapes | None, Shapes | None]:
        """Shapes of arguments, outputs and auxiliary states; three times None, and a warning, when some stay unknown.

        Known shapes are given by position or by name; 0 is an unknown dimension. MXNetError names the node where they
        contradict each other.
        """
        from .infer import infer_shape

        return infer_shape(self, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[Shapes, Shapes, Shapes]:
        """As `infer_shape`, with what is unknown left as () or 0."""
        from .infer import infer_shape

        return infer_shape(self, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Dtypes | None, Dtypes | None, Dtypes | None]:
        """Dtypes of arguments, outputs and auxiliary states; three times None, with a warning, if some stay unknown."""
        from .infer import infer_type

        return infer_type(self, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Dtypes, Dtypes, Dtypes]:
        """As `infer_type`, with None for what is unknown."""
        from .infer import infer_type

        return infer_type(self, args, kwargs, partial=True)

    # --- execution --------------------------------------------------------------------------------------------------

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
        from ..executor import simple_bind

        return simple_bind(self, ctx, grad_req, type_dict, kwargs, shared_exec)

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
        from ..executor import bind

        return bind(self, ctx, args, args_grad, grad_req, aux_states)

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """The outputs for these arguments."""
        from ..context import current_context

        return self.bind(ctx or current_context(), kwargs).forward()

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("unhashable type: 'Symbol'")

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol("__bool__", "bool")

    def __abs__(self) -> Symbol:
        return internal("abs", self)

    def __neg__(self) -> Symbol:
        return internal("_MulScalar", self, scalar=-1.0)


def _listed(attrs: Mapping[str, str]) -> dict[str, str]:
    """Attributes as users see them: `__lr_mult__` also as `lr_mult`."""
    plain = {key: attrs[f"__{key}__"] for key in HIDDEN_KEYS if f"__{key}__" in attrs}
    return {**attrs, **plain}


def internal(op: str, *args: Any, **kwargs: Any) -> Symbol:
    """Use an operator by its full name, as `sym._internal` does."""
    function = ops.find_function("_internal", op)
    if function is None:
        raise MXNetError(f"{op!r}: no such operator is declared")
    return function(*args, **kwargs)


def binary(elementwise: str, scalar: str, left: Symbol, right: Any) -> Symbol:
    """A binary operator on two symbols, or on a symbol and a number."""
    if isinstance(right, Symbol):
        return internal(elementwise, left, right)
    if isinstance(right, Number | np.number):
        return internal(scalar, left, scalar=right)
    raise TypeError(f"type {type(right)} not supported")


def _operator_method(elementwise: str, scalar: str) -> Callable[[Symbol, Any], Symbol]:
    return lambda self, other: binary(elementwise, scalar, self, other)


def _reflected_method(elementwise: str, scalar: str) -> Callable[[Symbol, Any], Symbol]:
    def method(self: Symbol, other: Any) -> Symbol:
        return internal(elementwise, other, self) if isinstance(other, Symbol) else binary("", scalar, self, other)

    return method


def _in_place_method(method: str, operator: str) -> Callable[[Symbol, Any], NoReturn]:
    def fail(self: Symbol, other: Any) -> NoReturn:
        raise NotImplementedForSymbol(method, operator, other)

    return fail


def _array_only(method: str) -> Callable[..., NoReturn]:
    def fail(self: Symbol, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedForSymbol(method, None)

    return fail


def _fluent(op: str) -> Callable[..., Symbol]:
    def method(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
        kwargs.pop("inplace", None)
        return internal(op, self, *args, **kwargs)

    method.__doc__ = f"`sym.{op}` of this symbol."
    return method


# Python method: the operators for two symbols and for a symbol and a number.
_ARITHMETIC = {
    "add": ("_Plus", "_PlusScalar", "_PlusScalar"),
    "sub": ("_Minus", "_MinusScalar", "_RMinusScalar"),
    "mul": ("_Mul", "_MulScalar", "_MulScalar"),
    "truediv": ("_Div", "_DivScalar", "_RDivScalar"),
    "mod": ("_Mod", "_ModScalar", "_RModScalar"),
    "pow": ("_Power", "_PowerScalar", "_rpower_scalar"),
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "lesser",
    "le": "lesser_equal",
}
_IN_PLACE = {"__iadd__": "+=", "__isub__": "-=", "__imul__": "*=", "__itruediv__": "/="}
_ARRAY_ONLY = "wait_to_read asnumpy asscalar copy as_in_context detach backward"
_FLUENT = """
    reshape reshape_like zeros_like ones_like broadcast_axes repeat pad swapaxes split slice slice_axis slice_like
    take one_hot pick sort topk argsort argmax argmax_channel argmin clip abs sign flatten shape_array size_array
    expand_dims broadcast_to broadcast_like tile transpose flip depth_to_space space_to_depth diag sum nansum prod
    nanprod mean max min norm round rint fix floor ceil trunc sin cos tan arcsin arccos arctan degrees radians sinh
    cosh tanh arcsinh arccosh arctanh exp expm1 log log10 log2 log1p sqrt rsqrt cbrt rcbrt square reciprocal relu
    sigmoid softmax log_softmax softmin squeeze
"""

for _name, (_pair, _scalar, _reflected) in _ARITHMETIC.items():
    setattr(Symbol, f"__{_name}__", _operator_method(_pair, _scalar))
    setattr(Symbol, f"__r{_name}__", _reflected_method(_pair, _reflected))
for _name, _op in _COMPARISONS.items():
    setattr(Symbol, f"__{_name}__", _operator_method(f"_{_op}", f"_{_op}_scalar"))
for _name, _op in _IN_PLACE.items():
    setattr(Symbol, _name, _in_place_method(_name, _op))
for _name in _ARRAY_ONLY.split():
    setattr(Symbol, _name, _array_only(_name))
for _name in _FLUENT.split():
    setattr(Symbol, _name, _fluent(_name))
Symbol.astype = _fluent("cast")  # type: ignore[attr-defined]


def var(
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: tuple[int, ...] | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """A variable. Further attributes are named `__like_this__`; `init` is an initializer or its JSON."""
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attrs: dict[str, Any] = {**resolved_attrs(attr)}
    known = {"__shape__": shape, "__lr_mult__": lr_mult, "__wd_mult__": wd_mult}
    attrs.update({key: str(value) for key, value in known.items() if value is not None})
    if dtype is not None:
        attrs["__dtype__"] = str(_DTYPE_NUMBERS[ops.dtype_text(dtype)])
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        attrs["__storage_type__"] = str(STORAGE_NUMBERS[stype])
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                "underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    return Symbol([Entry(SymNode("null", name, hidden_attrs(attrs, "Variable")))])


Variable = var


def Group(symbols: Sequence[Symbol], create_fn: Callable[..., Symbol] = Symbol) -> Symbol:
    """One symbol with the outputs of all `symbols`."""
    if not symbols or not all(isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return create_fn([entry for symbol in symbols for entry in symbol._entries])


def load(fname: str | os.PathLike[str]) -> Symbol:
    """The symbol in a `-symbol.json` file of any MXNet version."""
    if not isinstance(fname, str | os.PathLike):
        raise TypeError("fname need to be string")
    try:
        text = Path(fname).read_bytes()
    except OSError as error:
        raise MXNetError(str(error)) from error
    return Symbol(from_json(text, os.fspath(fname)))


def load_json(json_str: str) -> Symbol:
    """The symbol that `tojson` of any MXNet version gave."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(from_json(json_str))


fromjson = load_json
