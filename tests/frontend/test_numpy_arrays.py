"""Arrays of `mx.np`: their class, storage, text, keys, autograd, and how they differ from those of `mx.nd`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import mxforge as mx
import numpy as onp
import pytest
from mxforge import autograd, gluon, nd, np, npx


@pytest.fixture(autouse=True)
def numpy_mode() -> Iterator[None]:
    npx.set_np()
    yield
    npx.reset_np()


def test_both_kinds_of_arrays_share_storage_and_tape() -> None:
    x: Any = nd.array([1, 2])
    y = x.as_np_ndarray()
    assert type(y) is np.ndarray and isinstance(y, nd.NDArray) and y.as_nd_ndarray() is not y
    y[0] = 5
    assert x.asnumpy().tolist() == [5, 2]
    x.attach_grad()
    with autograd.record():
        z = (x.as_np_ndarray() ** 2).sum()
    z.backward()
    assert x.grad.asnumpy().tolist() == [10, 4]


def test_text_is_numpys_without_float32() -> None:
    assert repr(np.array([[1, 2], [3, 4]])) == "array([[1., 2.],\n       [3., 4.]])"
    assert repr(np.array(1)) == "array(1.)" and repr(np.array([1], dtype="int32")) == "array([1], dtype=int32)"
    assert repr(np.ones(1, dtype="float64")) == "array([1.], dtype=float64)" and str(np.ones(2)) == "[1. 1.]"
    assert repr(np.array([1, 0]).astype(bool)) == "array([ True, False])"


def test_kinds_are_not_mixed() -> None:
    x, y = nd.ones((2,)), np.ones(2)
    for _ in range(2):  # the second call has a fast path
        with pytest.raises(TypeError, match="numpy operator"):
            np.exp(x)
        for left, right in ((x, y), (y, x)):
            with pytest.raises(TypeError, match="not supported"):
                left + right
    with pytest.raises(TypeError, match="legacy operator"):
        nd.broadcast_add(y, y)
    with pytest.raises(TypeError, match=r"type <class 'list'> not supported"):
        np.exp([1.0])


def test_conversions_and_their_errors() -> None:
    x = np.arange(6).reshape(2, 3)
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        x.item()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="only size-1 arrays"):
        float(x)
    with pytest.raises(TypeError, match="unsized"):
        len(np.ones(()))
    with pytest.raises(NotImplementedError):
        hash(x)
    assert x[1, 2].item() == 5 and x.tolist()[1] == [3, 4, 5] and x.item(4) == 4
    assert [row.tolist() for row in x] == x.tolist()
    copy = pickle.loads(pickle.dumps(x))
    assert type(copy) is np.ndarray and copy.tolist() == x.tolist()


def test_keys_read_and_write_as_numpys() -> None:
    plain = onp.arange(24, dtype="float32").reshape(2, 3, 4)
    keys: list[Any] = [0, (1, 2), (Ellipsis, 1), (slice(None), slice(0, 2)), None, (0, [1, 2]), ([0, 1], [1, 2]), True]
    keys += [plain > 5, (slice(None), plain[0, :, 0] > 3), slice(None, None, -1), (1, 2, 3), ()]
    for key in keys:
        x = np.array(plain)
        expected = plain[key]
        assert x[key].shape == expected.shape and (x[key].asnumpy() == expected).all(), key
        changed = plain.copy()
        changed[key] = 7
        x[key] = 7
        assert (x.asnumpy() == changed).all(), key
    x = np.array(plain)
    x[0][1:][:] = 0
    assert x.asnumpy()[0, 1:].sum() == 0


def test_gradients_flow_through_keys() -> None:
    x = np.arange(6).reshape(2, 3)
    x.attach_grad()
    with autograd.record():
        y = x[x > 2].sum() * 2 + x[0, 1] + x[:, ::2].sum() + x[1].mean()
    y.backward()
    expected = onp.array([[1, 1, 1], [3, 2, 3]]) + onp.array([[0, 0, 0], [1 / 3] * 3])
    assert onp.allclose(x.grad.asnumpy(), expected)


def test_options_of_ufuncs() -> None:
    x = np.ones(2)
    with pytest.raises(TypeError, match="foo is an invalid keyword to function 'exp'"):
        np.exp(x, foo=1)
    with pytest.raises(NotImplementedError, match="where=False is not implemented"):
        np.exp(x, where=False)
    with pytest.raises(TypeError, match="foo is an invalid keyword to function 'add'"):
        np.add(x, x, foo=1)
    out = np.zeros(2)
    assert np.exp(x, out=out) is out and np.add(x, 2, out=out) is out and out.tolist() == [3, 3]


class Both(gluon.HybridBlock):
    """A block of functions of `F.np` and `F.npx`, with keys and operators."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.params.get("weight", shape=(3, 2))
        self.dense = gluon.nn.Dense(2, flatten=False)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # type: ignore[override]
        y = F.npx.relu(F.np.dot(x, weight)) + self.dense(x) * 2
        return F.np.concatenate([y[0], 1 - y[1]], axis=0) / F.np.sum(F.np.exp(x))


def test_blocks_give_arrays_of_numpy_and_train() -> None:
    mx.random.seed(1)
    net = Both()
    net.initialize(mx.init.Normal(0.5))
    x = np.arange(6).reshape(2, 3) / 4
    eager = net(x)
    net.hybridize()
    assert onp.allclose(eager.asnumpy(), net(x).asnumpy(), 1e-6) and type(net(x)) is np.ndarray
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    losses = []
    for _ in range(5):
        with autograd.record():
            loss = ((net(x) - 1) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.item())
    assert losses[-1] < losses[0] and type(net.weight.data()) is type(net.weight.grad()) is np.ndarray


def test_exported_blocks_are_read_again(tmp_path: Any) -> None:
    net = Both()
    net.initialize()
    net.hybridize()
    x = np.ones((2, 3))
    expected = net(x)
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    result = again(x)
    assert type(result) is np.ndarray and onp.allclose(result.asnumpy(), expected.asnumpy(), 1e-6)


def test_files_of_arrays(tmp_path: Any) -> None:
    arrays = {"x": np.ones((2, 3)), "scalar": np.array(2.5), "none": np.zeros((0, 2))}
    npx.save(str(tmp_path / "arrays"), arrays)
    loaded = npx.load(str(tmp_path / "arrays"))
    assert {name: (type(a), a.shape) for name, a in loaded.items()} == {
        n: (np.ndarray, a.shape) for n, a in arrays.items()
    }
    assert loaded["scalar"].item() == 2.5


def test_functions_of_numpy_on_arrays() -> None:
    x = np.array([[1, 2], [3, 4]])
    for result in (onp.mean(x), onp.exp(x), onp.linalg.norm(x), onp.concatenate([x, x]), onp.logaddexp(x, x)):
        assert type(result) is np.ndarray
    assert (onp.ones((2, 2)) + x).tolist() == [[2, 3], [4, 5]] and (onp.float32(2) * x)[0, 0].item() == 2
    with autograd.record(), pytest.raises(ValueError, match="Falling back to NumPy operator nextafter"):
        onp.nextafter(x, x)


def test_functions_of_numpy_that_mxnet_leaves_to_numpy_have_its_dtypes() -> None:
    x = np.array([0, 2], dtype="int32")
    assert onp.log1p(x).dtype == onp.float64
    assert onp.kron(x, 2).asnumpy().tolist() == [0, 4]
    assert type(onp.isfinite(np.array(1.0))) is onp.bool_


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0), (0, 3), (3, 4), (2, 0, 4), (2, 3, 4, 5), (80, 90)], ids=str)
def test_positions_and_masks_of_any_shape(shape: tuple[int, ...]) -> None:
    """Of large arrays masks become positions first."""
    values = onp.random.RandomState(0).randint(0, 3, shape).astype("float32")
    x = np.array(values)
    expected = onp.nonzero(onp.atleast_1d(values))
    positions = np.nonzero(x)
    assert [p.tolist() for p in positions] == [e.tolist() for e in expected]
    assert {str(p.dtype) for p in positions} == {"int64"} and npx.nonzero(x).shape == (len(expected[0]), len(expected))
    if shape:
        mask = values > 1
        assert x[np.array(mask, dtype="bool")].tolist() == values[mask].tolist()
        rows = np.array(mask.reshape(shape[0], -1).any(axis=1), dtype="bool") if mask.size else np.zeros(shape[0]) > 0
        assert x[rows].tolist() == values[rows.asnumpy()].tolist()


def test_a_large_mask_of_another_shape() -> None:
    with pytest.raises(IndexError, match="boolean index did not match"):
        np.zeros((80, 90))[np.ones((90, 80)) > 0]


@pytest.mark.parametrize("of_numpy", [True, False], ids=["np", "nd"])
@pytest.mark.parametrize("head_of_numpy", [True, False], ids=["np head", "nd head"])
def test_gradients_are_added_to_arrays_of_either_class(of_numpy: bool, head_of_numpy: bool) -> None:
    x: Any = (np if of_numpy else nd).ones((2, 3))
    x.attach_grad("add")
    with autograd.record():
        y = x * x
        head = y.as_np_ndarray() if head_of_numpy else y.as_nd_ndarray()
    for _ in range(2):
        head.backward((np if head_of_numpy else nd).ones((2, 3)), retain_graph=True)
    gradient: Any = x.grad
    assert type(gradient) is type(x) and (gradient.asnumpy() == 4).all()


def test_deviations_can_be_integers_and_numbers_have_an_axis() -> None:
    x = np.array([[0.0, 3.0], [4.0, 1.0]])
    assert x.std(axis=0, dtype="int32").tolist() == [2, 1]
    assert np.max(np.zeros((3, 0)), axis=0).shape == (0,) and np.max(np.zeros((0, 3)), axis=()).shape == (0, 3)
    with pytest.raises(mx.MXNetError, match="zero-size array"):
        np.max(np.zeros((3, 0)), axis=1)
    with pytest.raises(mx.MXNetError, match="empty sequence"):
        np.argmax(np.zeros((3, 0)), axis=1)
    with pytest.raises(mx.MXNetError, match="out of range"):
        np.sum(np.array(1.0), axis=1)
    mask = np.array([True, False], dtype="bool")
    mask &= True
    mask |= 0
    assert mask.tolist() == [True, False] and (-mask).tolist() == [-1, 0]


@pytest.mark.parametrize("order", [onp.inf, -onp.inf, 1, -1])
def test_norms_of_one_matrix_are_those_of_numpy(order: Any) -> None:
    x = onp.array([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]], "float32")
    expected = onp.linalg.norm(x, order)
    assert np.linalg.norm(np.array(x), order).item() == pytest.approx(expected)
    assert np.linalg.norm(np.array(x), order, axis=(0, 1)).item() == pytest.approx(expected)
    assert np.linalg.norm(np.array(x[0]), order).item() == pytest.approx(onp.linalg.norm(x[0], order))


def test_integers_are_rounded_to_tens() -> None:
    x = onp.array([[16, -14, 25], [4, 35, -75]])
    for dtype in ("int32", "int64", "float32"):
        for decimals in (-1, -2, 0, 1):
            rounded = np.around(np.array(x, dtype=dtype), decimals)
            assert rounded.dtype == dtype and (rounded.asnumpy() == onp.around(x, decimals)).all()


def test_diagonals_outside_of_a_matrix_are_empty() -> None:
    x = onp.arange(6.0).reshape(2, 3)
    for k in (5, 3, 2, 0, -1, -2, -7):
        assert np.diag(np.array(x), k).asnumpy().tolist() == onp.diag(x, k).tolist()


class _Applied(gluon.HybridBlock):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, x)


def _eager_and_hybridized(function: Any, x: Any) -> list[Any]:
    block = _Applied(function)
    eager = block(x)
    block.hybridize()
    return [eager, block(x)]


@pytest.mark.parametrize("cuts", [(1, 1), (6,), (0, 3)])
def test_splits_have_parts_without_elements(cuts: tuple[int, ...]) -> None:
    wanted = [part.tolist() for part in onp.split(onp.arange(6.0), cuts)]
    for parts in _eager_and_hybridized(lambda F, x: F.np.split(x, cuts, axis=0), np.arange(6)):
        assert [part.asnumpy().tolist() for part in parts] == wanted


def test_slices_without_bounds_are_the_array() -> None:
    for result in _eager_and_hybridized(lambda F, x: F.npx.slice(x, begin=(), end=()), np.ones((2, 3))):
        assert result.shape == (2, 3)
    with pytest.raises(mx.MXNetError, match="the same length"):
        npx.slice(np.ones((2, 3)), begin=(), end=(), step=(1,))


def test_ranges_in_graphs_can_be_empty() -> None:
    for result in _eager_and_hybridized(lambda F, x: x + F.np.arange(1, -10, 4), np.ones(())):
        assert result.shape == (0,)


def test_numbers_fill_shapes() -> None:
    for result in _eager_and_hybridized(lambda F, x: x + F.np.broadcast_to(1.5, (2, 3)), np.ones(())):
        assert result.asnumpy().tolist() == [[2.5] * 3] * 2
    assert np.broadcast_to(2, 3).dtype == onp.float32 and np.broadcast_to(True, (2,)).dtype == bool


@pytest.mark.parametrize("axis", [0, -1, (0,)])
def test_the_only_axis_of_a_scalar_can_be_squeezed(axis: Any) -> None:
    for result in _eager_and_hybridized(lambda F, x: F.np.squeeze(x, axis=axis), np.ones(())):
        assert result.shape == ()
    with pytest.raises(mx.MXNetError):
        np.squeeze(np.ones(()), axis=1)


@pytest.mark.parametrize("function", [np.linspace, np.logspace])
@pytest.mark.parametrize("num", [-1, 2.5])
def test_lengths_of_spaces_are_whole_numbers(function: Any, num: Any) -> None:
    with pytest.raises(mx.MXNetError, match="num="):
        function(0, 1, num)


def test_shifts_and_quotients_by_arrays_of_numpy() -> None:
    x, by = np.array([9, 5], dtype="int64"), onp.array([1, 2])
    results = [x << by, x >> by, x // by]
    assert all(type(result) is np.ndarray for result in results)
    assert [result.asnumpy().tolist() for result in results] == [[18, 20], [4, 1], [9, 2]]


@pytest.mark.parametrize(
    ("position", "shape", "axis"),
    [([0], (2, 2), 0), ([-1], (3, 2), 1), (slice(1, 2), (2, 2), 0), (1, (2, 2), 0), ([0, 2], (1, 2), 0)],
)
def test_one_position_takes_all_inserted_values(position: Any, shape: tuple[int, ...], axis: int) -> None:
    x, values = (
        onp.arange(6, dtype="float32").reshape(3, 2),
        -onp.arange(onp.prod(shape), dtype="float32").reshape(shape),
    )
    place = np.array(position, dtype="int64") if isinstance(position, list) else position
    result = np.insert(np.array(x), place, np.array(values), axis=axis)
    assert result.asnumpy().tolist() == onp.insert(x, position, values, axis=axis).tolist()


def test_numbers_are_clipped() -> None:
    assert np.clip(0.7, None, 0.5) == 0.5 and np.clip(0.7, 0.8, None) == 0.8


def test_indices_of_splits_without_elements_do_not_matter() -> None:
    for parts in _eager_and_hybridized(lambda F, x: F.np.split(x, (1, 2), axis=0), np.ones((0, 3))):
        assert [part.shape for part in parts] == [(0, 3)] * 3


def test_constraints_are_checked_in_graphs() -> None:
    block = _Applied(lambda F, x: x * F.npx.constraint_check(x > 0, "must be positive"))
    for hybridized in (False, True):
        block.hybridize(hybridized)
        assert block(np.array([1, 2])).asnumpy().tolist() == [1, 2]
        with pytest.raises(mx.MXNetError, match="must be positive"):
            block(np.array([1, -2]))


@pytest.mark.parametrize("axis", [2, -3])
def test_insert_and_delete_refuse_axes_that_are_not_there(axis: int) -> None:
    for call in (lambda x: np.insert(x, 0, 1, axis=axis), lambda x: np.delete(x, 0, axis=axis)):
        with pytest.raises(mx.MXNetError, match=f"axis {axis} is out of range for 2 dimensions"):
            call(np.ones((3, 2)))


def test_lstsq_has_the_default_rcond_of_mxnet() -> None:
    a, b = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([1.0, 4.0, 3.0])
    for rank in (np.linalg.lstsq(a, b)[2], np.linalg.lstsq(a, b, rcond="warn")[2]):
        assert rank == 2
    solution, residuals, _, _ = np.linalg.lstsq(a, b)
    onp.testing.assert_allclose(solution.asnumpy(), [1, 2], rtol=1e-6)
    onp.testing.assert_allclose(residuals.asnumpy(), [9], rtol=1e-6)


def test_negative_extents_raise() -> None:
    for extents in ((-1,), (-2, None), (1, -1)):
        with pytest.raises(mx.MXNetError, match="negative dimensions"):
            np.eye(*extents)
    with pytest.raises(mx.MXNetError, match="negative dimensions"):
        np.indices((2, -1))


def test_eigenvalues_of_integers_are_float64() -> None:
    for dtype in ("uint8", "int32", "int64"):
        x = np.array([[2, 1], [1, 2]], dtype=dtype)
        for name in ("eigvals", "eigvalsh", "eig", "eigh"):
            results = getattr(np.linalg, name)(x)
            values = results[0] if isinstance(results, tuple) else results
            assert values.dtype == "float64" and sorted(values.tolist()) == pytest.approx([1, 3])


def test_a_symbol_of_one_axis_is_padded_by_a_pair() -> None:
    padded = mx.sym.np.pad(mx.sym.var("x").as_np_ndarray(), (2, 1), mode="edge")
    (found,) = padded.eval(x=np.array([1.0, 2.0]))
    assert found.asnumpy().tolist() == [1, 1, 1, 2, 2]


def test_matrices_without_elements_have_no_eigenvalues() -> None:
    for shape in ((0, 0), (1, 0, 0), (0, 2, 2)):
        x = np.zeros(shape)
        values, vectors = np.linalg.eigh(x)
        assert values.shape == np.linalg.eigvalsh(x).shape == shape[:-1] and vectors.shape == shape
    with pytest.raises(mx.MXNetError, match="square"):
        np.linalg.eigvalsh(np.zeros((0, 2)))
