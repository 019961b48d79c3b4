"""Unknown names raise, and absent modules raise with the reason when they are used."""

from __future__ import annotations

import mxforge as mx
import pytest


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
