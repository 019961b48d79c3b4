"""Classes with declared parameters: what annotations mean, and what is refused."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, ClassVar, Literal

import pytest
from mxforge.ir.dialects.mx.declared import Declared, Named, Problem, Reader, Refused
from mxforge.ir.dialects.mx.parameters import OR_NONE, Float, Int, Text


class Base(Declared):
    counted: ClassVar[int] = 3
    size: Int
    mode: Literal["fast", "exact"] = "fast"


class Derived(Base):
    rest: Annotated[Int, Named("num_rest")] = 1
    kind: Annotated[Literal["a"] | None, OR_NONE] = None
    label: Text = ""
    half: Annotated[Float, Reader(lambda x: x / 2)] = 0.5


def make(cls: Any, /, **given: Any) -> Any:
    """`cls(**given)`, which the type checker would refuse."""
    return cls(**given)


def refused(cls: type[Declared], /, **given: Any) -> list[Problem]:
    with pytest.raises(Refused) as error:
        make(cls, **given)
    return error.value.problems


def test_fields_are_in_order_from_the_base_on() -> None:
    names = {attribute: field.name for attribute, field in Derived.fields().items()}
    assert list(names) == ["size", "mode", "rest", "kind", "label", "half"]
    assert names["rest"] == "num_rest"
    assert Derived.fields()["size"].is_required
    assert list(Base.fields()) == ["size", "mode"]


def test_text_and_values_are_read() -> None:
    made = make(Derived, size="4", mode="exact", num_rest="7", kind="None", half="3")
    assert made.values() == {"size": 4, "mode": "exact", "rest": 7, "kind": None, "label": "", "half": 1.5}
    assert Derived(size=1, rest=2).rest == 2
    assert repr(Base(size=1)) == "Base(size=1, mode='fast')"


def test_every_problem_is_reported() -> None:
    problems = refused(Derived, mode="slow", kind="b", label=3, other=1)
    assert [(p.parameter, p.kind) for p in problems] == [
        ("size", "missing"),
        ("mode", "invalid"),
        ("kind", "invalid"),
        ("label", "invalid"),
        ("other", "unknown"),
    ]
    assert [(p.parameter, p.kind) for p in refused(Base, **{"size": 1, "self": 2})] == [("self", "unknown")]
    assert problems[1].allowed == "'fast' or 'exact'"
    assert problems[2].allowed == "'a'"
    assert problems[3].reason == "Input should be a valid string"


def test_unknown_parameters_are_ignored_or_kept() -> None:
    class Ignoring(Base):
        unknown_parameters = "ignore"

    class Keeping(Base):
        unknown_parameters = "keep"

    assert make(Ignoring, size=1, x=2).others == {}
    assert make(Keeping, size=1, x=2).others == {"x": 2}


def test_instances_are_frozen_and_can_be_copied_and_pickled() -> None:
    made = make(Base, size=1)
    with pytest.raises(AttributeError, match="frozen"):
        made.size = 2
    with pytest.raises(AttributeError, match="frozen"):
        del made.size
    assert made.with_values(size=2).values() == {"size": 2, "mode": "fast"}
    assert made.size == 1
    assert pickle.loads(pickle.dumps(made)).values() == made.values()


def test_an_annotation_without_a_reader_is_an_error() -> None:
    class Wrong(Declared):
        size: int

    with pytest.raises(TypeError, match=r"Wrong\.size.*no reader"):
        Wrong.fields()
