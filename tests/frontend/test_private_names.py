"""Private functions of MXNet that third-party code calls behave as in MXNet."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge import gluon, nd
from mxforge.frontend.ndarray.key_helpers import (
    _broadcast_shapes,
    _get_dim_size,
    _get_index_range,
    _get_slice_len,
    _int_to_slice,
    _is_advanced_index,
    _shape_for_bcast,
)

KEYS = [
    slice(None),
    slice(0, 1),
    slice(1, 3),
    slice(3, 1),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(-1, None),
]
S = slice


@pytest.mark.parametrize("shape", [(3, 4), (1, 3), (2, 1)])
def test_keys_of_slices_select_what_numpy_selects(shape: tuple[int, int]) -> None:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    for key in itertools.product(KEYS, repeat=2):
        selected = numbers[key]
        neighbours = selected.size <= 1 or (np.diff(selected.ravel()) == 1).all()
        assert nd.NDArray._basic_indexing_sliced_shape(key, shape) == selected.shape
        assert nd.NDArray._basic_indexing_slice_is_contiguous(key, shape) == neighbours
        if neighbours:
            begin, end = nd.NDArray._basic_indexing_contiguous_flat_begin_end(key, shape)
            assert list(range(begin, end)) == selected.ravel().tolist()


def test_keys_are_decomposed() -> None:
    array = nd.NDArray
    key = (1, None, slice(1, 2), -1)
    assert array._basic_indexing_key_to_begin_end_step(key, (3, 4, 5)) == ((1, 1, -1), (2, 2, None), (None, None, None))
    assert array._basic_indexing_key_to_begin_end_step(key, (3, 4, 5), False) == ((1, 1, 4), (2, 2, 5), (1, 1, 1))
    assert array._basic_indexing_key_int_to_slice((1, S(1), None, -1)) == ((S(1, 2), S(1), None, S(-1, None)), (0, 3))
    assert array._new_axes_after_basic_indexing([1, 3], (1, None, S(1), None)) == (0, 2)
    assert array._new_axes_after_advanced_indexing(([1], None, S(1), [0]), [0, 3], 2, False) == (2,)
    assert array._new_axes_after_advanced_indexing((None, [1], [0], None), [1, 2], 2, True) == (0, 1)
    assert array._drop_int_axes((1, 2, 3), (0, 2)) == (2,) and array._drop_int_axes((1,), (0,)) == (1,)
    assert array._drop_slice_none_at_end((1, S(None), S(1), S(None))) == (1, S(None), S(1))


def test_indices_become_arrays() -> None:
    cases: list[tuple[Any, list[int]]] = [(1, [1]), ([1, 2], [1, 2]), (S(0, 3), [0, 1, 2]), (range(1, 3), [1, 2])]
    for idx, expected in [*cases, (np.array([1, 2]), [1, 2]), (nd.array([1, 0]), [1, 0])]:
        assert nd.NDArray._advanced_index_to_array(idx, 4, mx.cpu()).asnumpy().tolist() == expected
    with pytest.raises(RuntimeError, match="illegal index type"):
        nd.NDArray._advanced_index_to_array(None, 4, mx.cpu())
    given = [nd.array([0, 1, 2]), nd.array([1, 2]), nd.array([[0], [1]]), nd.array([5, 6])]
    spread = nd.NDArray._broadcast_advanced_indices(given, [1, 2])
    assert {array.shape for array in spread} == {(3, 2, 2, 2)}
    assert spread[3].asnumpy()[2, 1, 0].tolist() == [5, 6] and spread[1].asnumpy()[0, 1, :, 0].tolist() == [1, 2]
    x = nd.arange(12).reshape((3, 4))
    x._scatter_set_nd(nd.array([7, 8]), nd.array([[0, 1], [1, 2]]))
    assert x.asnumpy()[[0, 1], [1, 2]].tolist() == [7, 8]
    assert x._get_nd_basic_indexing((S(None), 1)).asnumpy().tolist() == [7, 5, 9]


def test_helpers_of_keys() -> None:
    assert _get_index_range(None, None, 3, -1) == (2, -1, -1) and _get_index_range(-9, 9, 3) == (0, 3, 1)
    assert _get_dim_size(4, 0, -2) == 2 and _get_slice_len(S(None, None, 2), 5) == 3
    assert _shape_for_bcast((3,), 3, (0,)) == (1, 1, 3) and _shape_for_bcast((2, 3), 3, (2,)) == (2, 3, 1)
    assert _broadcast_shapes([nd.ones((2, 1)), nd.ones((3,))]) == (2, 3) and _int_to_slice(2) == S(2, 3)
    assert _is_advanced_index(1) and _is_advanced_index(range(2)) and not _is_advanced_index(None)


def test_division_by_its_names_of_python_2() -> None:
    x: Any = nd.array([4, 8])
    s: Any = mx.sym.var("x")
    assert x.__div__(2).asnumpy().tolist() == [2, 4] and x.__rdiv__(8).asnumpy().tolist() == [2, 1]
    assert x.__idiv__(4) is x and x.asnumpy().tolist() == [1, 2]
    half, inverse = s.__div__(2), s.__rdiv__(8)
    assert half.eval(x=x)[0].asnumpy().tolist() == [0.5, 1] and inverse.eval(x=x)[0].asnumpy().tolist() == [8, 4]
    with pytest.raises(mx.base.NotImplementedForSymbol, match=r'Function __idiv__ \(namely operator "/="'):
        s.__idiv__(2)
    with pytest.raises(mx.base.NotImplementedForSymbol):
        s.__nonzero__()


def test_inference_without_warnings() -> None:
    dense = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    assert dense._infer_shape_impl(False) == (None, None, None)
    assert dense._infer_shape_impl(True)[0][0] == ()
    assert dense._infer_shape_impl(False, x=(2, 4)) == ([(2, 4), (3, 4), (3,)], [(2, 3)], [])
    assert dense._infer_type_impl(False) == (None, None, None)
    assert dense._infer_type_impl(False, x="float32")[1] == [np.float32]


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("update", [None, True, False])
def test_trainers_create_their_store(devices: int, update: bool | None) -> None:
    contexts = [mx.cpu(i) for i in range(devices)]
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=update)
    trainer._init_kvstore()
    trainer._init_params()
    made = trainer._kvstore and (trainer._kvstore.type, trainer._update_on_kvstore)
    assert made == (("device", update is not False) if devices == 2 else None)
    assert trainer._kv_initialized and trainer._params_to_init == [] and trainer._distributed is False


def test_trainers_read_rows_of_sparse_parameters_from_the_store() -> None:
    def sparse_weight() -> gluon.Parameter:
        weight = gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
        weight.initialize(init="one")
        return weight

    weight = sparse_weight()
    trainer = gluon.Trainer([weight], "sgd")
    rows = nd.sparse.zeros("row_sparse", (4, 2))
    trainer._row_sparse_pull(weight, rows, nd.array([1, 3], dtype="int64"))
    assert rows.asnumpy().tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    with pytest.raises(ValueError, match="Cannot set update_on_kvstore=False when sparse weights"):
        gluon.Trainer([sparse_weight()], "sgd", update_on_kvstore=False)._init_kvstore()


def test_the_c_library_raises_only_when_called() -> None:
    library = mx.base._LIB
    library.MXGetVersion.restype = ctypes.c_int
    with pytest.raises(
        mx.MXNetError, match="MXGetVersion is a function of MXNet's C library, which mxforge does not have"
    ):
        mx.base.check_call(library.MXGetVersion(ctypes.byref(ctypes.c_int())))
    assert not hasattr(library, "__wrapped__")
