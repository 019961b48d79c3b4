"""Errors of users are one exception with a short traceback, in the words of MXNet's API, of the type that MXNet has."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from mistakes import COMPILER_WORDS, Mistake, groups, inner_frames, read, write
from mxforge.frontend.tracebacks import shorten
from mxforge.ir.dialects.mx import custom
from mxforge.ir.settings import settings

# A number that counts the blocks or nodes of a kind in the process.
COUNTED = re.compile(
    r"(?<![a-z])(_plus|[a-z]*(?:dense|conv|norm|sequential|lstm|fullyconnected|concat)|net|exp|reshape)\d+"
)

# MXNet's error type is accidental.
OTHER_TYPE = {
    "out_type": "an AttributeError of an array without a handle",
    "float_of_array": "NDArray has no __float__ in MXNet, and no number of an array is one",
    "len_of_scalar": "an IndexError of an empty shape",
    "states_of_another_optimizer": "an AssertionError about the argument of an operator",
    "module_states_of_another_optimizer": "an AssertionError about the argument of an operator",
}
MISTAKES = [(group, mistake) for group in groups() for mistake in read(group)]


@pytest.fixture(autouse=True)
def fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no custom operators of other tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(custom, "_factories", {})


def refused(mistake: Mistake) -> Exception:
    with warnings.catch_warnings(), mx.name.NameManager():
        warnings.simplefilter("ignore")
        error = mistake.run(mx)
    assert error is not None, mistake.program
    return error


def text_of(error: Exception) -> str:
    text = "".join(traceback.format_exception_only(error)).strip().replace(f"{mx.__name__}.", "mxforge.")
    text = re.sub(r"^[\w.]*\.", "", text).replace(os.getcwd(), ".")
    text = re.sub(r"\. Did you mean: '\w+'\?$", "", text)  # some versions of Python suggest a name
    return "\n".join(line.rstrip() for line in COUNTED.sub(r"\1N", text).splitlines())


@pytest.mark.parametrize(("group", "mistake"), MISTAKES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_mistakes_raise_one_short_error(group: str, mistake: Mistake) -> None:
    error = refused(mistake)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert COMPILER_WORDS.search(str(error)) is None
    assert len(inner_frames(error)) <= max(4, mistake.frames)
    if mistake.mxnet != "none" and mistake.name not in OTHER_TYPE:
        assert mistake.mxnet in [kind.__name__ for kind in type(error).__mro__]


@pytest.mark.parametrize("group", groups())
def test_error_texts(group: str, request: pytest.FixtureRequest) -> None:
    recorded = read(group)
    found = [Mistake(m.name, m.program, m.mxnet, m.frames, text_of(refused(m))) for m in recorded]
    if request.config.getoption("--update-golden"):
        write(group, found)
        return
    for new, old in zip(found, recorded, strict=True):
        assert str(new) == str(old)


def mistake_named(group: str, name: str) -> Mistake:
    return next(m for m in read(group) if m.name == name)


def test_debugging_keeps_causes_and_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = mistake_named("gluon", "dense_features_hybrid")
    short = refused(mistake)
    monkeypatch.setenv("MXFORGE_DEBUG", "1")
    settings.cache_clear()
    try:
        long = refused(mistake)
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    assert long.__cause__ is not None
    assert len(inner_frames(long)) > len(inner_frames(short)) + 3


def test_an_error_of_a_block_names_the_users_line() -> None:
    error = refused(mistake_named("gluon", "own_block_hybrid"))
    assert "Error in operator " in str(error)
    assert "_product (dot, made at <program>:3): " in str(error)


def test_internal_failures_keep_their_frames() -> None:
    scope: dict[str, Any] = {"__name__": "mxforge.accident", "shorten": shorten}
    source = """
def inner(fails):
    if fails:
        return {}["key"]
    raise ValueError("refused")


def outer(fails):
    try:
        return inner(fails)
    except Exception as error:
        shorten(error)
        raise
"""
    exec(compile(source, "inside.py", "exec"), scope)
    counts: list[int] = []
    for fails in (True, False):
        with pytest.raises((KeyError, ValueError)) as caught:
            scope["outer"](fails)
        counts.append(sum(f.filename == "inside.py" for f in traceback.extract_tb(caught.value.__traceback__)))
    assert counts == [2, 1]
