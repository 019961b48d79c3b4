"""Parts of MXNet that are absent say so, and are absent indeed."""

from __future__ import annotations

import re
from functools import reduce

import mxforge as mx
import pytest
from mxforge.frontend.absent import ABSENT


@pytest.mark.parametrize("module", ABSENT)
def test_absent_parts_say_so(module: str) -> None:
    place = reduce(getattr, filter(None, module.split(".")), mx)
    path = re.escape(".".join(filter(None, ("mxforge", module))))
    for name in ABSENT[module].split():
        assert not hasattr(place, name)
        with pytest.raises(AttributeError, match=f"'{path}' has no attribute '{name}': this part of MXNet is not in"):
            getattr(place, name)


def test_other_names_are_plainly_unknown() -> None:
    for place in (mx, mx.contrib, mx.gluon, mx.gluon.contrib, mx.io, mx.mod, mx.model):
        with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
            place.nonsense  # type: ignore[attr-defined]  # noqa: B018
