"""Classes of `ir.lazy_dataclass` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import re
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields
from pathlib import Path
from typing import Any, ClassVar

import mxforge
import pytest
from mxforge.ir.lazy_dataclass import dataclass

Decorator = Callable[[type[Any]], type[Any]]
LAZY: Any = dataclass  # for type checkers it is the decorator of the standard library
OPTIONS = [
    dict(zip(("frozen", "slots", "kw_only", "eq"), values, strict=True))
    for values in itertools.product((False, True), repeat=4)
]


def pair(make: Callable[[Decorator], type[Any]], **options: bool) -> tuple[type[Any], type[Any]]:
    """The class that `make` decorates, lazily and by the standard library."""
    return make(LAZY(**options)), make(dataclasses.dataclass(**options))


def example(decorate: Decorator) -> type[Any]:
    @decorate
    class Example:
        count: ClassVar[int] = 7
        a: int
        b: tuple[int, ...] = (1, 2)
        c: list[int] = field(default_factory=list[int])
        d: int = field(default=4, repr=False, compare=False)
        e: int = field(default=5, init=False)
        f: str = field(default="", kw_only=True)

    return Example


def outcome(call: Callable[..., Any], *arguments: Any) -> object:
    try:
        return call(*arguments)
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("Example.", "")


def assert_same(call: Callable[..., Any], ours: object, theirs: object) -> None:
    assert outcome(call, ours) == outcome(call, theirs)


def assign(value: object, name: str) -> str:
    setattr(value, name, 3)
    return repr(value)


def delete(value: object, name: str) -> str:
    delattr(value, name)
    return repr(value)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options: dict[str, bool]) -> None:
    ours, theirs = pair(example, **options)
    assert_same(lambda cls: [f.name for f in fields(cls)], ours, theirs)
    assert_same(lambda cls: cls.__match_args__, ours, theirs)
    assert_same(lambda cls: getattr(cls, "__slots__", None), ours, theirs)
    assert_same(lambda cls: cls.count, ours, theirs)
    assert_same(lambda cls: repr(cls(1, (2,), [3])), ours, theirs)
    for given in ({"a": 1}, {"a": 1, "b": (), "c": [3], "d": 2, "f": "x"}, {}, {"a": 1, "e": 2}, {"a": 1, "z": 2}):
        assert_same(lambda cls, given=given: repr(cls(**given)), ours, theirs)
        assert_same(lambda cls, given=given: dataclasses.astuple(cls(**given)), ours, theirs)
        assert_same(lambda cls, given=given: cls(**given) == cls(**given), ours, theirs)
    assert_same(lambda cls: list(inspect.signature(cls).parameters), ours, theirs)
    assert_same(lambda cls: cls(a=1) == cls(a=2), ours, theirs)
    assert_same(lambda cls: cls(a=1, d=1) == cls(a=1, d=2), ours, theirs)
    assert_same(lambda cls: cls(a=1).c is cls(a=1).c, ours, theirs)
    assert ours(a=1) != theirs(a=1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_hashes_and_assignments(options: dict[str, bool]) -> None:
    def make(decorate: Decorator) -> type[Any]:
        @decorate
        class Example:
            a: int
            b: str = "b"
            unseen: int = field(default=0, hash=False)

        return Example

    ours, theirs = pair(make, **options)
    assert_same(lambda cls: cls.__hash__ is None, ours, theirs)
    if options["eq"]:
        assert_same(lambda cls: hash(cls(a=1, unseen=3)), ours, theirs)
        assert_same(lambda cls: len({cls(a=1), cls(a=1), cls(a=2)}), ours, theirs)
    for name in ("a",) if options["slots"] else ("a", "other"):  # the other error of frozen slots is a bug of Python
        for change in (assign, delete):
            assert_same(lambda cls, name=name, change=change: change(cls(a=1), name), ours, theirs)


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class Plain:
    a: int
    b: list[int] = field(default_factory=list[int])


@pytest.mark.parametrize("cls", [Slotted, Plain])
def test_copies(cls: type[Any]) -> None:
    value = cls(3, [4])
    for made in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert made == value
        assert made is not value
    assert dataclasses.replace(value, a=5) == cls(5, [4])
    assert dataclasses.asdict(value) == {"a": 3, "b": [4]}


def test_methods_of_the_class_remain() -> None:
    def make(decorate: Decorator) -> type[Any]:
        @decorate
        class Own:
            a: int

            def __post_init__(self) -> None:
                object.__setattr__(self, "a", self.a + 1)

            def __repr__(self) -> str:
                return f"<{self.a}>"

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 11

        return Own

    for cls in pair(make, frozen=True, slots=True):
        assert (repr(cls(1)), cls(1) == cls(2), hash(cls(1))) == ("<2>", True, 11)


def test_an_own_comparison_hashes_fields_of_a_frozen_class() -> None:
    def make(decorate: Decorator) -> type[Any]:
        @decorate
        class Own:  # noqa: PLW1641
            a: int

            def __eq__(self, other: object) -> bool:
                return True

        return Own

    for cls in pair(make, frozen=True):
        assert hash(cls(4)) == hash((4,))


def test_subclasses() -> None:
    def make(decorate: Decorator) -> type[Any]:
        @decorate
        class Base:
            a: int
            b: int = 2

        @decorate
        class Derived(Base):
            c: int = 3
            a: int = 1

        class Undecorated(Derived):
            pass

        return Undecorated

    for options in OPTIONS:
        ours, theirs = pair(make, **options)
        assert_same(lambda cls: repr(cls(a=5, c=6)).partition("(")[2], ours, theirs)
        assert_same(lambda cls: cls() == cls(), ours, theirs)
        assert_same(lambda cls: cls() == cls.__mro__[1](), ours, theirs)
        assert_same(lambda cls: assign(cls(), "a").partition("(")[2], ours, theirs)
    assert repr(assigned(pair(make, frozen=True)[0]())).endswith("Undecorated(a=1, b=2, c=3)")


def assigned(value: Any) -> Any:
    value.other = 4
    assert value.other == 4
    return value


def test_a_method_is_generated_once() -> None:
    @dataclass(frozen=True)
    class Example:
        a: int

    before = vars(Example)["__init__"]
    first = Example(1)
    generated = vars(Example)["__init__"]
    assert generated is not before
    assert first == Example(1)
    assert vars(Example)["__init__"] is generated
    assert generated.__qualname__.endswith("Example.__init__")


def test_reprs_of_cycles_end() -> None:
    @dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_weak_references() -> None:
    @dataclass(slots=True, weakref_slot=True, eq=False)
    class Referenced:
        a: int

    value = Referenced(1)
    assert weakref.ref(value)() is value


def test_frozen_fields() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        setattr(Plain(1), "a", 2)  # noqa: B010
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        delattr(Slotted(1), "a")


def test_the_package_has_no_other_dataclasses() -> None:
    package = Path(mxforge.__file__).parent
    folders = [package / name for name in ("frontend", "ir", "passes", "codegen", "runtime", "tools")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 500
    imports = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    assert [str(path) for path in files if imports.search(path.read_text())] == []
