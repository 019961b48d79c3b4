"""Absent parts of MXNet raise with the reason, and the list of absent parts is current."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

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


def test_a_block_of_numpy_mode_raises_when_it_is_called() -> None:
    @mx.util.use_np
    class Layer(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(2, 2))

        def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
            return F.np.dot(x, weight)

    layer = Layer()
    layer.initialize()
    with pytest.raises(
        AttributeError, match=r"'mxforge.ndarray.numpy' has no attribute 'dot': MXNet's NumPy interface"
    ):
        layer(mx.nd.ones((2, 2)))


def test_absent_modules_import_and_raise_when_used() -> None:
    from mxforge import np, npx
    from mxforge.numpy import random  # pyright: ignore[reportMissingImports]

    assert np.random is random and mx.np is np
    with pytest.raises(
        AttributeError, match=r"module 'mxforge.numpy' has no attribute 'array': MXNet's NumPy interface"
    ):
        np.array([1, 2])
    assert not hasattr(np, "ndarray") and not hasattr(random, "uniform")
    with pytest.raises(ImportError, match="cannot import name 'ones'"):
        from mxforge.numpy import ones  # noqa: F401  # pyright: ignore[reportMissingImports]
    npx.set_np()
    assert npx.is_np_array() and npx.cpu() == mx.cpu()
    npx.reset_np()
