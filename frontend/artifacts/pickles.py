"""Reads pickles of plain data: an interpreter of the opcodes that creates only values of the types in a table.

With `pickle.Unpickler` a file can change every object that it can name: BUILD sets attributes of classes, and APPENDS
calls methods of any object. This interpreter changes only objects that it has created. The memory that it allocates is
at most proportional to the size of the file.

    name        a class or function in the table, by module and qualified name; it is not a value
    unfinished  an object that is immutable once it has its state, so BUILD replaces it; not a value before
    arguments   a tuple with names, for REDUCE; not a value
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from pickle import UnpicklingError
from typing import Any

from ...ir.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Name:
    """What a pickle can do with a class or function. `call` is called by REDUCE, and `new` creates an instance without
    arguments, whose state follows. Both return a value or an `Unfinished`. None is not allowed."""

    call: Callable[..., Any] | None = None
    new: Callable[[], Any] | None = None


class Unfinished:
    """An object that a pickle creates first and that `finish(state)` returns."""

    def __init__(self, finish: Callable[[Any], Any]) -> None:
        self.finish = finish
        self.places: list[int] = []  # in the memo


Names = Mapping[tuple[str, str], Any]
"""A `Name`, or the value of a constant, by module and qualified name."""


def read_pickle(
    data: bytes,
    names: Names,
    persistent: Callable[[Any], Any] | None = None,
    stateless: tuple[type, ...] = (),
) -> Any:
    """The value of a pickle of any protocol. UnpicklingError if it is damaged or contains anything that is not in
    `names`; errors of the functions in `names` propagate. `persistent` returns the value of a persistent id, and states
    of objects of the types `stateless` are left out."""
    reader = _Reader(data, names, persistent, stateless)
    for operation, argument in _operations(data):
        reader.run(operation, argument)
    return reader.result()


def _operations(data: bytes) -> Iterator[tuple[str, Any]]:
    from pickletools import genops

    try:
        for operation, argument, _ in genops(data):
            yield operation.name, argument
    except ValueError as error:
        raise UnpicklingError(f"a damaged pickle: {error}") from None


class _Arguments(tuple[Any, ...]):
    """A tuple with names."""

    __slots__ = ()


_NO_VALUES = (Name, Unfinished, _Arguments)
_OBJECT, _RECONSTRUCT = Name(), Name()
_COPIES = 4
"""The elements that calls of functions and states can copy, for each byte of the file. A file can name an object many
times, so copies could take any amount of memory. A file of MXNet copies each byte at most three times."""
_FREE_COPIES = 4096
_LARGEST_KEY = 1 << 63


def _bytearray(content: str | bytes = b"", encoding: str = "latin1") -> bytearray:
    """Create a bytearray. Python's own also takes a size, with which it could allocate any amount of memory."""
    return bytearray(_encoded(content, encoding) if isinstance(content, str) else _of_type(content, bytes))


def _bytes(content: bytes = b"") -> bytes:
    return _of_type(content, bytes)


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Create bytes, in pickles of protocols 0 to 2."""
    if encoding not in ("latin1", "latin-1"):
        raise UnpicklingError(f"the encoding of bytes must be latin1, not {encoding!r}")
    return _of_type(text, str).encode("latin1")


def _set(items: list[Any] | tuple[Any, ...] = ()) -> set[Any]:
    return set(map(_key, _of_type(items, list, tuple)))


def _frozenset(items: list[Any] | tuple[Any, ...] = ()) -> frozenset[Any]:
    return frozenset(_set(items))


def _ordered(items: list[Any] | tuple[Any, ...] = ()) -> OrderedDict[Any, Any]:
    pairs = [_of_type(item, list, tuple) for item in _of_type(items, list, tuple)]
    return OrderedDict((_key(key), value) for key, value in pairs)


def _builtins() -> dict[tuple[str, str], Name]:
    functions = {"bytes": _bytes, "bytearray": _bytearray, "set": _set, "frozenset": _frozenset}
    names = {("collections", "OrderedDict"): Name(_ordered), ("_codecs", "encode"): Name(_encoded)}
    for module in ("builtins", "__builtin__"):
        names |= {(module, name): Name(function) for name, function in functions.items()}
        names[module, "object"] = _OBJECT
    return names | {(module, "_reconstructor"): _RECONSTRUCT for module in ("copyreg", "copy_reg")}


_BUILTINS = _builtins()


def _of_type(value: Any, *types: type) -> Any:
    """`value`, whose type must be one of `types`, not a subclass."""
    if type(value) not in types:
        raise UnpicklingError(f"{type(value).__name__} in place of {types[0].__name__}")
    return value


def _key(key: Any) -> Any:
    """`key`, if it can be hashed in constant time. Python's hash of nested tuples can overflow the stack, and integers
    of any size can all have the same hash."""
    for part in key if type(key) is tuple else (key,):
        if part is not None and not isinstance(part, str | bytes | Number):
            raise UnpicklingError(f"a key of type {type(part).__name__}")
        if isinstance(part, int) and not -_LARGEST_KEY <= part < _LARGEST_KEY:
            raise UnpicklingError("an integer of more than 64 bits as a key")
    return key


def _value(value: Any) -> Any:
    """`value`, if it is one."""
    if isinstance(value, _NO_VALUES):
        raise UnpicklingError("a class, a function or an object without its state in place of a value")
    return value


def _pairs(items: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise UnpicklingError("a key without a value")
    return [(_key(key), _value(value)) for key, value in zip(items[::2], items[1::2], strict=True)]


def _tuple(items: Sequence[Any]) -> tuple[Any, ...]:
    return _Arguments(items) if any(isinstance(item, _NO_VALUES) for item in items) else tuple(items)


class _Reader:
    """The stack and the memo."""

    def __init__(
        self, data: bytes, names: Names, persistent: Callable[[Any], Any] | None, stateless: tuple[type, ...]
    ) -> None:
        self.names, self.persistent, self.ignored = names, persistent, stateless
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the parts of the stack below each mark
        self.memo: dict[int, Any] = {}
        self.stateless: dict[int, Any] = {}  # instances that get a state, by identity
        self.left = _FREE_COPIES + _COPIES * len(data)

    def run(self, operation: str, argument: Any) -> None:
        if operation in _LITERALS:
            self.stack.append(argument)
            return
        run = _OPERATIONS.get(operation)
        if run is None:
            raise UnpicklingError(f"the operation {operation}, which plain data does not need")
        run(self, argument)

    def result(self) -> Any:
        if len(self.stack) != 1 or self.below:
            raise UnpicklingError(f"{len(self.stack)} values at its end")
        return _value(self.stack[0])

    def items(self) -> list[Any]:
        """Take the values above the last mark."""
        if not self.below:
            raise UnpicklingError("a mark is missing")
        above, self.stack = self.stack, self.below.pop()
        return above

    def last(self) -> Any:
        """The top of the stack."""
        if not self.stack:
            raise UnpicklingError("an operand is missing")
        return self.stack[-1]

    def top(self, count: int) -> list[Any]:
        """Take values from the stack."""
        if len(self.stack) < count:
            raise UnpicklingError("an operand is missing")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def copy(self, parts: Sequence[Any]) -> None:
        """Count what a function or a state can copy. UnpicklingError if it is too much."""
        self.left -= sum(len(part) for part in parts if isinstance(part, str | bytes | bytearray | list | tuple))
        if self.left < 0:
            raise UnpicklingError("the same bytes are copied too often")

    # -- operations

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.items()

    def put(self, place: int | None) -> None:
        """Remember the top of the stack, at the next place if `place` is None."""
        place, value = len(self.memo) if place is None else place, self.last()
        self.memo[place] = value
        if isinstance(value, Unfinished):
            value.places.append(place)

    def get(self, place: int) -> None:
        if place not in self.memo:
            raise UnpicklingError(f"nothing is at place {place} of the memo")
        self.stack.append(self.memo[place])

    def append(self, items: Sequence[Any]) -> None:
        _of_type(self.last(), list).extend(map(_value, items))

    def update(self, items: Sequence[Any]) -> None:
        _of_type(self.last(), dict, OrderedDict).update(_pairs(items))

    def add(self, items: Sequence[Any]) -> None:
        _of_type(self.last(), set).update(map(_key, items))

    def name(self, module: str, name: str) -> None:
        """Push what the table has. Names in the table of pickles themselves take precedence."""
        key = _of_type(module, str), _of_type(name, str)
        if key not in _BUILTINS and key not in self.names:
            raise UnpicklingError(f"the name {module}.{name}, which is rejected, since a pickle can run any code")
        self.stack.append(_BUILTINS[key] if key in _BUILTINS else self.names[key])

    def call(self) -> None:
        function, arguments = self.top(2)
        if function is _RECONSTRUCT and isinstance(arguments, tuple) and arguments[1:] == (_OBJECT, None):
            self.create(arguments[0], ())
            return
        if not isinstance(function, Name) or function.call is None or type(arguments) is not tuple:
            raise UnpicklingError("a call of something that is not one of the allowed functions")
        self.copy(arguments)
        self.stack.append(function.call(*arguments))

    def create(self, cls: Any, arguments: Any) -> None:
        """Push an instance, which has no state yet."""
        if not isinstance(cls, Name) or cls.new is None or arguments != ():
            raise UnpicklingError("an instance of something that is not one of the allowed classes")
        created = cls.new()
        self.stack.append(created)
        if not isinstance(created, Unfinished):
            self.stateless[id(created)] = created

    def build(self) -> None:
        """Give its state to the object below. Only objects of `create` and `Unfinished` objects take a state, once."""
        built, state = self.top(2)
        _value(state)
        if isinstance(built, Unfinished):
            self.copy(list(state.values()) if isinstance(state, dict) else ())
            self.finish(built, built.finish(state))
        elif self.stateless.pop(id(built), None) is not None:
            _set_state(built, state)
            self.stack.append(built)
        elif type(built) in self.ignored:
            self.stack.append(built)
        else:
            raise UnpicklingError(f"a state of an object of type {type(built).__name__}")

    def load(self) -> None:
        """Replace a persistent id by its value."""
        if self.persistent is None:
            raise UnpicklingError("a persistent id, which plain data does not need")
        self.stack.append(self.persistent(_value(self.top(1)[0])))

    def finish(self, unfinished: Unfinished, value: Any) -> None:
        self.stack.append(value)
        for place in unfinished.places:
            if self.memo[place] is unfinished:
                self.memo[place] = value


def _set_state(instance: Any, state: Any) -> None:
    """As `pickle` does, without setting attributes that the object does not store itself."""
    if isinstance(state, dict):
        for key in state:
            _of_type(key, str)
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
    else:
        vars(instance).update(_of_type(state, dict))


_LITERALS = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE "
    "SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8".split()
)
"""Operations that push their arguments."""


def _pushing(make: Callable[[_Reader], Any]) -> Callable[[_Reader, Any], None]:
    def run(reader: _Reader, _: Any) -> None:
        pushed = make(reader)  # it can replace the stack
        reader.stack.append(pushed)

    return run


def _doing(run: Callable[[_Reader], Any]) -> Callable[[_Reader, Any], None]:
    return lambda reader, _: run(reader)


_OPERATIONS: dict[str, Callable[[_Reader, Any], None]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "STOP": lambda *_: None,
    "MARK": _doing(_Reader.mark),
    "POP": _doing(_Reader.pop),
    "POP_MARK": _doing(_Reader.items),
    "DUP": _pushing(_Reader.last),
    "NONE": _pushing(lambda _: None),
    "NEWTRUE": _pushing(lambda _: True),
    "NEWFALSE": _pushing(lambda _: False),
    "EMPTY_TUPLE": _pushing(lambda _: ()),
    "EMPTY_LIST": _pushing(lambda _: []),
    "EMPTY_DICT": _pushing(lambda _: {}),
    "EMPTY_SET": _pushing(lambda _: set()),
    "TUPLE1": _pushing(lambda r: _tuple(r.top(1))),
    "TUPLE2": _pushing(lambda r: _tuple(r.top(2))),
    "TUPLE3": _pushing(lambda r: _tuple(r.top(3))),
    "TUPLE": _pushing(lambda r: _tuple(r.items())),
    "LIST": _pushing(lambda r: list(map(_value, r.items()))),
    "DICT": _pushing(lambda r: dict(_pairs(r.items()))),
    "FROZENSET": _pushing(lambda r: _frozenset(r.items())),
    "APPEND": _doing(lambda r: r.append(r.top(1))),
    "APPENDS": _doing(lambda r: r.append(r.items())),
    "SETITEM": _doing(lambda r: r.update(r.top(2))),
    "SETITEMS": _doing(lambda r: r.update(r.items())),
    "ADDITEMS": _doing(lambda r: r.add(r.items())),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Reader.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Reader.get),
    "GLOBAL": lambda r, text: r.name(*text.split(" ", 1)),
    "STACK_GLOBAL": _doing(lambda r: r.name(*r.top(2))),
    "REDUCE": _doing(_Reader.call),
    "NEWOBJ": _doing(lambda r: r.create(*r.top(2))),
    "BUILD": _doing(_Reader.build),
    "BINPERSID": _doing(_Reader.load),
}
