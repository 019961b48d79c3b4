"""Classes whose annotations declare parameters, which are read from text or from Python values.

    class Crop(Declared):
        offset: Ints = (0, 0)
        num_results: Annotated[Int, Named("num_outputs")]

An annotation is `str`, a `Literal` of texts, or a type with a `Reader`; the types of `parameters.py` have one. Fields
are found when a class first reads parameters, because most programs use few of the operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast, dataclass_transform, get_args, get_origin


class Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()
"""The default of a parameter without one."""


class Reader(NamedTuple):
    """Part of an annotation: the function that reads a parameter. It raises ValueError."""

    read: Callable[[Any], Any]


class Named(NamedTuple):
    """Part of an annotation: the parameter's name, where the attribute has another one."""

    name: str


class Field(NamedTuple):
    """A declared parameter: the name under which it is passed, the type of its values, and its default."""

    name: str
    type: Any
    read: Callable[[Any], Any]
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


class Problem(NamedTuple):
    """Why a parameter is refused. `allowed` lists its values if they are texts."""

    parameter: str
    kind: Literal["missing", "unknown", "invalid"]
    value: Any = None
    reason: str = ""
    allowed: str = ""


class NotAllowed(ValueError):
    """A text that is not among those of a Literal; the message lists them."""


class Refused(ValueError):
    """Parameters are missing, unknown or invalid."""

    def __init__(self, owner: type[Declared], problems: list[Problem]) -> None:
        super().__init__(f"{owner.__name__}: {'; '.join(f'{p.kind} {p.parameter} {p.reason}' for p in problems)}")
        self.problems = problems


_Unknown = Literal["refuse", "ignore", "keep"]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """The base of classes with declared parameters. Instances are frozen."""

    unknown_parameters: ClassVar[_Unknown] = "refuse"
    """What happens to parameters that are not declared; those to keep are in `others`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ in sys.modules:
            _scopes[cls.__module__] = vars(sys.modules[cls.__module__])

    def __init__(self, /, **named: Any) -> None:
        """Read the parameters, which are passed under their names or those of the attributes. Raises `Refused`."""
        cls, values, problems = type(self), vars(self), list[Problem]()
        left = dict(named)
        for attribute, field in cls.fields().items():
            name = attribute if attribute in left and field.name not in left else field.name
            if name in left:
                value = left.pop(name)
                try:
                    values[attribute] = field.read(value)
                except NotAllowed as error:
                    problems.append(Problem(field.name, "invalid", value, allowed=str(error)))
                except ValueError as error:
                    problems.append(Problem(field.name, "invalid", value, str(error)))
            elif field.is_required:
                problems.append(Problem(field.name, "missing"))
            else:
                values[attribute] = field.default
        if cls.unknown_parameters == "refuse":
            problems += [Problem(name, "unknown", value) for name, value in left.items()]
        elif cls.unknown_parameters == "keep":
            values["_others"] = left
        if problems:
            raise Refused(cls, problems)

    @classmethod
    def fields(cls) -> dict[str, Field]:
        """The declared parameters by attribute, those of base classes first."""
        fields: dict[str, Field] | None = cls.__dict__.get("_fields")
        if fields is None:
            fields = {}
            for owner in reversed(cls.__mro__):
                for attribute, annotation in getattr(owner, "__annotations__", {}).items():
                    if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
                        fields[attribute] = _field(owner, attribute, annotation)
            cls._fields = fields  # type: ignore[attr-defined]
        return fields

    @property
    def others(self) -> dict[str, Any]:
        """The parameters that are not declared."""
        return vars(self).get("_others", {})

    def values(self) -> dict[str, Any]:
        """The declared parameters by attribute."""
        return {attribute: getattr(self, attribute) for attribute in type(self).fields()}

    def with_values(self, /, **values: Any) -> Self:
        """A copy with other values of these attributes, which are not read."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), **values)
        return copy

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.values().items())})"


def _field(owner: type, attribute: str, annotation: Any) -> Field:
    """The field that `owner` declares; annotations in its source are text."""
    if isinstance(annotation, str):
        annotation = _evaluated(owner.__module__, annotation)
    name, readers = attribute, list[Callable[[Any], Any]]()
    while get_origin(annotation) is Annotated:
        annotation, *parts = get_args(annotation)
        name = next((part.name for part in parts if isinstance(part, Named)), name)
        readers[:0] = [part.read for part in parts if isinstance(part, Reader)]
    texts = _texts(annotation)
    if texts:
        readers.append(_one_of(texts, optional=get_origin(annotation) is not Literal))
    elif annotation is str:
        readers.append(_text)
    if not readers:
        raise TypeError(f"{owner.__name__}.{attribute}: parameters of the type {annotation} have no reader")
    read = readers[0] if len(readers) == 1 else _in_turn(readers)
    return Field(name, annotation, read, owner.__dict__.get(attribute, REQUIRED))


_evaluations: dict[tuple[str, str], Any] = {}
_scopes: dict[str, dict[str, Any]] = {}
"""The names of modules that declare classes. Python removes a module from `sys.modules` if Ctrl-C ends its import."""


def _evaluated(module: str, annotation: str) -> Any:
    key = module, annotation
    if key not in _evaluations:
        scope = _scopes[module] if module in _scopes else vars(sys.modules[module])
        _evaluations[key] = eval(annotation, scope)  # the text of our own source
    return _evaluations[key]


def _texts(annotation: Any) -> tuple[str, ...]:
    """The texts of a Literal or of an optional one."""
    if get_origin(annotation) is Literal:
        return cast("tuple[str, ...]", get_args(annotation))
    return next((_texts(part) for part in get_args(annotation) if get_origin(part) is Literal), ())


def _one_of(texts: tuple[str, ...], optional: bool) -> Callable[[Any], str | None]:
    quoted = [repr(text) for text in texts]
    allowed = " or ".join(part for part in (", ".join(quoted[:-1]), quoted[-1]) if part)

    def read(value: Any) -> str | None:
        if optional and value is None:
            return None
        if isinstance(value, str) and value in texts:
            return str(value)
        raise NotAllowed(allowed)

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("Input should be a valid string")
    return value


def _in_turn(readers: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        for reader in readers:
            value = reader(value)
        return value

    return read
