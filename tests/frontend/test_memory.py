"""Arrays that do not fit into memory raise MXNetError everywhere, with the operator and the shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxforge as mx
import pytest
from mxforge.ir.types import LARGEST_BYTES, DType, Layout, TensorType

LARGE = 2**31

UNCOUNTABLE: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast_to": lambda F, x: F.broadcast_to(x, shape=(LARGE, LARGE)),
    "broadcast_axis": lambda F, x: F.broadcast_axis(x, axis=(0, 1), size=(LARGE, LARGE)),
    "tile": lambda F, x: F.tile(x, reps=(LARGE, LARGE)),
    "repeat": lambda F, x: F.repeat(x, repeats=2**62),
    "one_hot": lambda F, x: F.one_hot(x, 2**62),
    "UpSampling": lambda F, x: F.UpSampling(x.reshape((1, 1, 1, 1)), scale=LARGE, sample_type="nearest"),
    "_random_uniform": lambda F, x: F.random.uniform(shape=(LARGE, LARGE)) + x,
}


def bound(make: Callable[[Any, Any], Any]) -> None:
    symbol = mx.sym.sum(make(mx.sym, mx.sym.var("x")))
    symbol.bind(mx.cpu(), {"x": mx.nd.ones((1, 1))}).forward()


def hybridized(make: Callable[[Any, Any], Any]) -> None:
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.sum(make(F, x))

    net = Net()
    net.hybridize()
    net(mx.nd.ones((1, 1)))


def eager(make: Callable[[Any, Any], Any]) -> None:
    make(mx.nd, mx.nd.ones((1, 1)))


@pytest.mark.parametrize("route", [eager, bound, hybridized])
@pytest.mark.parametrize("operator", UNCOUNTABLE)
def test_sizes_beyond_63_bits(operator: str, route: Callable[[Any], None]) -> None:
    with pytest.raises(mx.MXNetError, match=rf"{operator}.*shape \(.*\d{{10}}.* has more bytes than memory can have"):
        route(UNCOUNTABLE[operator])


def test_a_types_size_is_limited_to_63_bits() -> None:
    TensorType((LARGEST_BYTES,), DType.I8)
    TensorType((0, LARGE, LARGE, LARGE), DType.F64)
    for shape, dtype in (((LARGEST_BYTES,), DType.F16), ((LARGE, LARGE, 2), DType.BOOL)):
        with pytest.raises(ValueError, match="more bytes than memory can have"):
            TensorType(shape, dtype)
    with pytest.raises(ValueError, match="more bytes"):
        TensorType((1, 1, 1 << 30, 1 << 28), DType.F32, Layout(16, ((0, 0), (0, 0))))


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: mx.nd.zeros((LARGE, LARGE)),
    "ones": lambda: mx.nd.ones((2**20, 2**20)),
    "empty": lambda: mx.nd.empty((2**20, 2**20)),
    "full": lambda: mx.nd.full((2**20, 2**20), 3),
    "arange": lambda: mx.nd.arange(2**42),
    "linspace": lambda: mx.nd.linspace(0, 1, 2**42),
    "eye": lambda: mx.nd.eye(2**21),
    "dot": lambda: mx.nd.dot(mx.nd.ones((2**21, 1)), mx.nd.ones((1, 2**21))),
    "csr": lambda: mx.nd.sparse.zeros("csr", (2**42, 2)),
    "dense of row_sparse": lambda: mx.nd.sparse.zeros("row_sparse", (LARGE, LARGE)).tostype("default"),
    "parameter": lambda: mx.gluon.Parameter("w", shape=(LARGE, LARGE)).initialize(),
    "bind": lambda: mx.sym.sum(mx.sym.var("x")).simple_bind(mx.cpu(), x=(2**20, 2**20)),
}


@pytest.mark.parametrize("call", TOO_LARGE)
def test_arrays_larger_than_the_machines_memory(call: str) -> None:
    """If Linux overcommits, such an allocation succeeds, and a write to it kills the process."""
    with pytest.raises(mx.MXNetError, match=r"an array of shape .*: cannot allocate .* the machine has") as caught:
        TOO_LARGE[call]()
    assert isinstance(caught.value, MemoryError)


def test_the_error_names_the_operator_and_the_graph() -> None:
    with pytest.raises(mx.MXNetError, match=r"^broadcast_to: an array of shape \(2097152, 2097152\) and dtype f32: "):
        mx.nd.broadcast_to(mx.nd.ones((1, 1)), shape=(2**21, 2**21))
    symbol = mx.sym.sum(mx.sym.sort(mx.sym.broadcast_to(mx.sym.var("x"), shape=(2**21, 2**21))), name="total")
    with pytest.raises(mx.MXNetError, match=r"^total: memory for intermediate results: cannot allocate"):
        symbol.bind(mx.cpu(), {"x": mx.nd.ones((1, 1))}).forward()
