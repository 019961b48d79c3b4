"""What the functions of operators in `nd` and in `sym` share: names, help texts, and the arguments of calls.

`nd.contrib`, `nd.linalg`, ... have the operators whose names start with `_contrib_`, `_linalg_`, ..., without that
prefix; `nd._internal` has all operators whose names start with an underscore. Functions are created from the
declarations of operators when they are first accessed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ir.lazy_dataclass import dataclass
from .base import _Null
from .method_texts import METHOD_TEXTS

if TYPE_CHECKING:
    from ..ir.dialects.mx.operator import Operator

NAMESPACES = ("contrib", "linalg", "sparse", "image", "random")
"""The submodules of a package with the operators of a prefix."""

NUMPY_PREFIXES = ("_np_", "_npi_", "_npx_")
"""The beginnings of the names of operators of `mx.np` and `mx.npx`."""

Function = Callable[..., Any]


def full_name(namespace: str, name: str) -> str:
    """MXNet's operator name for a function of a namespace ("" is the package itself; "_internal" keeps the name)."""
    return f"_{namespace}_{name}" if namespace in NAMESPACES else name


def names_of(namespace: str) -> list[str]:
    """The sorted names of the functions in a namespace."""
    from ..ir.dialects.mx.operator import all_names

    if namespace in NAMESPACES:
        prefix = f"_{namespace}_"
        return sorted(n.removeprefix(prefix) for n in all_names() if n.startswith(prefix))
    listed = [name for name in all_names() if not name.startswith(NUMPY_PREFIXES)]
    return sorted(n for n in listed if n.startswith("_") == (namespace == "_internal"))


class Values(NamedTuple):
    """The values that the functions of a package take and return: a name for help texts, their class, which can be
    defined later, and the error for a wrong argument."""

    name: str
    kind: Callable[[], type]
    expected: str


@dataclass(frozen=True)
class Package:
    """A package of functions of operators. `title` names it in errors, `module` is its path. `control` are the
    arguments that all functions have after inputs and parameters. `make` creates a function of an operator; it gets the
    operator's full name, the function's own, and what divides the arguments of a call."""

    title: str
    module: str
    values: Values
    control: tuple[str, ...]
    make: Callable[[type[Operator], str, str, Arguments], Function]

    def listed(self, row: Row) -> Function:
        """The function of a row: an operator under another name, with other names of its arguments."""
        from ..ir.dialects.mx.operator import lookup

        operator = lookup(row.operator)
        if row.arguments:
            arguments: Arguments = NamedArguments(operator, row, self.values)
        else:
            arguments = Arguments(operator, row.name, self.values, self.control)
        return self._finished(operator, row.operator, row.name, "", arguments)

    def function(self, namespace: str, name: str) -> Function:
        """A function of a namespace. AttributeError if no operator of this name is declared."""
        from ..ir.dialects.mx.operator import find

        hidden = name.startswith("__") or (namespace == "" and name.startswith("_"))
        operator = None if hidden else find(full_name(namespace, name))
        path = ".".join(filter(None, (self.title, namespace)))
        if operator is None:
            raise AttributeError(f"{path} has no attribute {name!r}: no such operator is declared", name=name)
        arguments = Arguments(operator, name, self.values, self.control)
        return self._finished(operator, full_name(namespace, name), name, namespace, arguments)

    def _finished(
        self, operator: type[Operator], full_name: str, name: str, namespace: str, arguments: Arguments
    ) -> Function:
        function = self.make(operator, full_name, name, arguments)
        function.__name__ = function.__qualname__ = name
        function.__module__ = ".".join(filter(None, (self.module, namespace)))
        function.__doc__ = _help_of(operator, self.values.name)
        function.__signature__ = arguments.signature()  # type: ignore[attr-defined]
        return function

    def attributes(self, namespace: str, table: dict[str, Any]) -> tuple[Function, Callable[[], list[str]]]:
        """`__getattr__` and `__dir__` of the module of a namespace. A function that is created is added to `table`, the
        module's globals."""

        def find(name: str) -> Any:
            function = table[name] = self.function(namespace, name)
            return function

        def names() -> list[str]:
            return sorted({*table, *names_of(namespace)})

        return find, names


def _help_of(operator: type[Operator], values: str) -> str:
    from ..ir.dialects.mx.describe import docstring

    return docstring(operator, values)


class DividedArguments(NamedTuple):
    """The arguments of a call: inputs by position, inputs by name, and the others."""

    positional: list[Any]
    named: dict[str, Any]
    others: dict[str, Any]


class Arguments:
    """The arguments of an operator's function. As in MXNet, positional arguments are first inputs, then parameters,
    then those of `control`. If the number of inputs varies, all positional arguments are inputs."""

    def __init__(self, operator: type[Operator], name: str, values: Values, control: Sequence[str]) -> None:
        from ..ir.dialects.mx.describe import arguments

        self.operator, self.name, self.values, self.control = operator, name, values, tuple(control)
        self.inputs = arguments(operator)
        self.is_variadic = any(i.startswith("*") for i in self.inputs)
        parameters = operator.parameters()
        self._counter = operator.variadic if operator.variadic in parameters else None
        self._order = (*self.inputs, *(p for p in parameters if p not in self.inputs), *control)

    def divide(self, args: Sequence[Any], kwargs: dict[str, Any]) -> DividedArguments:
        """The arguments of a call, without those that are `_Null` and inputs that are None. TypeError for too many
        arguments, AssertionError for an input of another class."""
        named = {key: value for key, value in kwargs.items() if value is not _Null}
        return self._any_number(args, named) if self.is_variadic else self._by_name(args, named)

    def _by_name(self, args: Sequence[Any], others: dict[str, Any]) -> DividedArguments:
        order = self._order
        if len(args) > len(order):
            raise TypeError(f"{self.name} takes at most {len(order)} positional arguments, {len(args)} were given")
        for key, value in zip(order, args, strict=False):
            if key in others:
                raise TypeError(f"{self.name} got multiple values for argument {key!r}")
            if value is not _Null or key in self.inputs:
                others[key] = value
        named: dict[str, Any] = {}
        cls = self.values.kind()
        for key in self.inputs:
            value = others.pop(key, None)
            if isinstance(value, cls):
                named[key] = value
            elif value is not None:
                raise self._wrong(key, value)
        return DividedArguments([], named, others)

    def _any_number(self, args: Sequence[Any], others: dict[str, Any]) -> DividedArguments:
        cls = self.values.kind()
        named = {key: others.pop(key) for key in tuple(others) if key != "out" and isinstance(others[key], cls)}
        positional = [value for value in args if value is not None]
        for number, value in enumerate(args):
            if not isinstance(value, cls) and value is not None:
                raise self._wrong(f"#{number}", value)
        if self._counter is not None:
            others.setdefault(self._counter, len(positional) + len(named))
        return DividedArguments(positional, named, others)

    def _wrong(self, argument: str, value: object) -> AssertionError:
        what = f"argument {argument} {self.values.expected}, but got {value!r} of {type(value)}"
        return AssertionError(f"{self.name}: {what}")

    def signature(self) -> inspect.Signature:
        """The signature for `inspect.signature` and editors."""
        from ..ir.dialects.mx.describe import parameters

        kind = inspect.Parameter
        if self.is_variadic:
            named = kind.KEYWORD_ONLY
            listed = [kind(i[1:], kind.VAR_POSITIONAL) for i in self.inputs if i.startswith("*")]
        else:
            named = kind.POSITIONAL_OR_KEYWORD
            listed = [kind(i, named, default=None) for i in self.inputs]
        for p in parameters(self.operator):
            if p.name.isidentifier() and p.name not in self.inputs:
                listed.append(kind(p.name, named, default=_Null if p.required else p.default))
        return inspect.Signature([*listed, *(kind(n, named, default=None) for n in self.control)])


class Row(NamedTuple):
    """A function that is an operator: its name, the operator's, and its arguments: `name` or `name=name in the
    operator`, of which `out` is the array that receives the result. Without arguments they are those of the operator,
    as in `mx.nd`."""

    name: str
    operator: str
    arguments: tuple[str, ...]


_ANYWHERE = ("out", "name", "attr", "ctx", "where", "order")
"""Arguments that all functions of rows take."""


class NamedArguments(Arguments):
    """The arguments of the function of a row, by position or by name."""

    def __init__(self, operator: type[Operator], row: Row, values: Values) -> None:
        super().__init__(operator, row.name, values, ("out",))
        pairs = [text.partition("=") for text in row.arguments]
        self._renamed = {shown: own for shown, _, own in pairs if own}
        self._order = tuple([shown for shown, _, _ in pairs])

    def _by_name(self, args: Sequence[Any], others: dict[str, Any]) -> DividedArguments:
        if len(args) > len(self._order):
            most = len(self._order)
            raise TypeError(f"{self.name} takes at most {most} positional arguments, {len(args)} were given")
        for key in others:
            if key not in self._order and key not in _ANYWHERE:
                known = ", ".join(self._order)
                raise TypeError(f"{self.name}() got an unexpected keyword argument {key!r}; its arguments are: {known}")
        for key, value in zip(self._order, args, strict=False):
            if key in others:
                raise TypeError(f"{self.name}() got multiple values for argument {key!r}")
            others[key] = value
        named = {self._renamed.get(key, key): value for key, value in others.items()}
        return super()._by_name((), named)

    def signature(self) -> inspect.Signature:
        own = {p.name: p for p in super().signature().parameters.values()}
        listed: list[inspect.Parameter] = []
        for shown in self._order:
            parameter = own[self._renamed.get(shown, shown)]
            if parameter.default is _Null or self._renamed.get(shown, shown) in self.inputs:
                parameter = parameter.replace(default=inspect.Parameter.empty)
            listed.append(parameter.replace(name=shown, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD))
        return inspect.Signature(listed)


METHODS = """
    abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes cbrt ceil clip
    cos cosh degrees depth_to_space exp expm1 fix flip floor log log10 log1p log2 log_softmax max mean min nanprod
    nansum norm one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt
    shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort space_to_depth split
    sqrt square sum swapaxes take tan tanh tile topk transpose trunc zeros_like
""".split()
"""The operators that are methods of arrays and of symbols."""


def method_help(name: str, package: str, value: str) -> str:
    """The help text of a method that is an operator."""
    text = METHOD_TEXTS.get(name, "")  # missing while tools/make_stubs.py writes them
    return f"{text}\n\n`{package}.{name}` with this {value} as its first input; see there for the parameters."
