"""Mixed precision reports that it is off, and raises when it is switched on."""

from __future__ import annotations

import mxforge as mx
import pytest


def test_packages_can_query_whether_it_is_on() -> None:
    assert mx.contrib.amp.amp._amp_initialized is False


@pytest.mark.parametrize("name", ["init", "init_trainer", "convert_symbol", "convert_model", "convert_hybrid_block"])
def test_missing_functions_raise_with_their_name(name: str) -> None:
    with pytest.raises(mx.MXNetError, match=f"amp.{name}: automatic mixed precision is not in mxforge yet"):
        getattr(mx.contrib.amp, name)()
