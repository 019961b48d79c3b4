"""Absent parts of MXNet raise with the reason, and the list of absent parts is current."""

from __future__ import annotations

import re
from functools import reduce

import mxforge as mx
import pytest
from mxforge.frontend.namespace.absent import ABSENT


@pytest.mark.parametrize("module", ABSENT)
def test_absent_parts_raise_with_the_reason(module: str) -> None:
    place = reduce(getattr, filter(None, module.split(".")), mx)
    path = re.escape(".".join(filter(None, ("mxforge", module))))
    for name in ABSENT[module].split():
        assert not hasattr(place, name)
        with pytest.raises(AttributeError, match=f"'{path}' has no attribute '{name}': this part of MXNet is not in"):
            getattr(place, name)


def test_other_names_are_unknown() -> None:
    for place in (mx, mx.contrib, mx.gluon, mx.gluon.contrib, mx.io, mx.mod, mx.model):
        with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
            place.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_absent_modules_import_and_raise_when_used() -> None:
    import mxforge.numpy.arrayprint as absent  # pyright: ignore[reportMissingImports]

    with pytest.raises(AttributeError, match=r"'mxforge.numpy.arrayprint' has no attribute 'nonsense': it belongs to"):
        absent.nonsense  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        from mxforge.numpy import nonsense  # noqa: F401  # pyright: ignore[reportMissingImports]
