"""NDArrays beyond the recorded programs: errors, files, pickles, random numbers, sparse arrays, threads, names."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import DATA
from mxforge import MXNetError, nd
from mxforge.frontend.image_codec import codec
from mxforge.ir.caches import cache_counts
from mxforge.ir.settings import settings

MANY: Any = "many"
BOGUS: Any = {"bogus": 1}

# Public names.


def test_public_names_of_the_modules() -> None:
    assert mx.__version__ == "1.9.1" and mx.mxforge_version != mx.__version__
    assert mx.nd is mx.ndarray is sys.modules["mxforge.frontend.ndarray"]
    assert mx.nd.NDArray is mx.ndarray.ndarray.NDArray
    assert {"nd", "cpu", "MXNetError", "random"} <= set(dir(mx))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mx.nonsense


@pytest.mark.parametrize("path", ["nd", "ndarray.ndarray", "nd.random", "ndarray.sparse", "context", "base", "util"])
def test_module_paths_are_aliases(path: str) -> None:
    module = importlib.import_module(f"mxforge.{path}")
    assert module is sys.modules[module.__name__]
    assert module.__spec__ is not None and module.__spec__.name == module.__name__
    assert ".frontend." in module.__name__


def test_a_missing_submodule_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"mxforge\.nd\.nonsense"):
        importlib.import_module("mxforge.nd.nonsense")


def test_functions_have_signatures_and_docs() -> None:
    names = list(inspect.signature(nd.FullyConnected).parameters)
    assert names[:4] == ["data", "weight", "bias", "num_hidden"] and names[-2:] == ["out", "name"]
    assert "num_hidden" in (nd.FullyConnected.__doc__ or "")
    assert "FullyConnected" in dir(nd) and "_plus_scalar" in dir(nd._internal) and "_plus_scalar" not in dir(nd.op)


# Contexts.


def test_contexts() -> None:
    assert repr(mx.cpu(2)) == "cpu(2)" and hash(mx.cpu(1)) == hash(mx.Context("cpu", 1))
    with mx.cpu(1) as outer:
        assert nd.zeros(2).context == mx.current_context() == outer
        with mx.cpu(3):
            assert nd.array([1]).context == mx.cpu(3)
        assert mx.current_context() == outer
    assert mx.current_context() == mx.cpu(0)
    assert mx.context.num_gpus() == 0


@pytest.mark.parametrize("use", [lambda: nd.zeros(2, mx.gpu(0)), lambda: nd.zeros(2).as_in_context(mx.gpu(1))])
def test_a_gpu_is_refused(use: Any) -> None:
    with pytest.raises(MXNetError, match=r"gpu\(.\) cannot be used: .*: (pip )?install .* Use cpu\(\)\."):
        use()


def test_results_have_the_context_of_their_operands() -> None:
    x = nd.ones(2, mx.cpu(1))
    assert {y.context for y in (x + 1, 1 - x, -x, x.exp(), nd.maximum(2, x), x[0], x[[0]], x.sum(), x.copy())} == {
        mx.cpu(1)
    }


# Errors are raised by the call, and name the problem.


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nd.ones((2, 3)) + nd.ones((4,)), ["broadcast_add", "(2, 3)", "(4,)"]),
        (lambda: nd.concat(nd.ones((2, 3)), nd.ones((3, 2)), dim=0), ["Concat", "(?, 3)", "(3, 2)"]),
        (
            lambda: nd.FullyConnected(nd.ones((2, 3)), nd.ones((2, 3)), num_hidden=MANY),
            ["FullyConnected", "num_hidden"],
        ),
        (lambda: nd.softmax(nd.ones(2), **BOGUS), ["softmax", "bogus", "axis"]),
        (nd.relu, ["relu", "data"]),
        (lambda: nd.exp(nd.ones(2), out=nd.ones(3)), ["exp", "(3,) float32"]),
        (lambda: nd.ones((2, 3)).reshape((4, 2)), ["reshape", "(2, 3)", "(4, 2)"]),
    ],
)
def test_errors_name_operator_and_operands(call: Any, words: list[str]) -> None:
    with pytest.raises(MXNetError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


# Memory.


def test_views_outlive_their_array() -> None:
    x = nd.arange(12).reshape((3, 4))
    view = x[1]
    del x
    junk = [nd.ones((3, 4)) for _ in range(10)]
    assert view.asnumpy().tolist() == [4, 5, 6, 7] and junk


def test_from_numpy_shares() -> None:
    source = np.arange(4.0)
    x = nd.from_numpy(source)
    assert not source.flags.writeable
    x[0] = 9
    assert source[0] == 9
    assert nd.from_numpy(np.arange(3), zero_copy=False).dtype is np.int64


def test_dlpack_with_numpy() -> None:
    x = nd.ones((2, 2))
    np.from_dlpack(x)  # type: ignore[arg-type]
    y = nd.from_dlpack(np.arange(3))
    assert y.dtype is np.int64 and y.asnumpy().tolist() == [0, 1, 2]


def test_single_elements_are_views_of_the_array() -> None:
    x = mx.nd.arange(12).reshape((3, 4))
    first, second = x[1, 2], x[np.int64(1), 3]
    first[:] = 50
    assert (first.shape, second.asscalar(), x[1, 2].asscalar()) == ((1,), 7, 50)
    assert x.asnumpy().tolist() == [[0, 1, 2, 3], [4, 5, 50, 7], [8, 9, 10, 11]]
    assert mx.nd.arange(3)[np.int32(2)].asscalar() == 2


def test_unaligned_views_as_operands() -> None:
    x = nd.arange(40)
    y = x[3:20] * 2 + x[7:24]
    np.testing.assert_array_equal(y.asnumpy(), np.arange(3, 20) * 2 + np.arange(7, 24))


def test_out_that_overlaps_an_operand() -> None:
    x = nd.array([[1.0, 2], [3, 4]])
    expected = x.asnumpy() @ x.asnumpy()
    nd.dot(x, x, out=x)
    np.testing.assert_allclose(x.asnumpy(), expected)
    v = nd.arange(6)
    nd.add(v, 1)
    nd.broadcast_add(v[0:4], nd.ones(4), out=v[2:6])
    assert v.asnumpy().tolist() == [0, 1, 1, 2, 3, 4]


def test_in_place_keeps_identity_and_dtype() -> None:
    x = nd.ones((2, 2), dtype="float16")
    same = x
    for _ in range(2):
        x += 1.5
        x *= x
    assert x is same and x.dtype is np.float16


def test_numbers_are_not_compiled_into_programs() -> None:
    x = nd.ones((5, 5))
    _ = x * 1.5
    before = cache_counts()["programs"]
    values = [float((x * (0.25 * k))[0, 0].asscalar()) for k in range(10)]
    assert values == [0.25 * k for k in range(10)] and cache_counts()["programs"] == before


def test_new_extents_need_no_new_code() -> None:
    from mxforge.frontend.ndarray.eager import bind, operator_named
    from mxforge.runtime.host.executable import Executable

    shapes = (20, 30), (41, 17), (1000, 5)
    made = [bind(operator_named("exp"), {}).specialization([nd.ones(shape)]).executable for shape in shapes]
    if settings().target == "cpu":
        assert len({e.program.code for e in made if isinstance(e, Executable)}) == 1


def test_signed_zero_as_a_number() -> None:
    one = nd.ones(1)
    assert (one / 0.0).asscalar() == np.inf and (one / -0.0).asscalar() == -np.inf


def test_bfloat16() -> None:
    x = nd.array([1, 2.5, -3]).astype("bfloat16")
    assert x.asnumpy().tolist() == [1, 2.5, -3] and x.dtype.names == ("bfloat16",)
    x[1] = 7
    assert x[1:].astype("float32").asnumpy().tolist() == [7, -3]
    assert pickle.loads(pickle.dumps(x)).dtype == x.dtype


def test_boolean_masks() -> None:
    x = nd.arange(6).reshape((2, 3))
    assert x[x.asnumpy() > 2].asnumpy().tolist() == [3, 4, 5]
    x[(x > 3).astype("bool")] = 0
    assert x.asnumpy().tolist() == [[0, 1, 2], [3, 0, 0]]


def test_numpy_functions_take_arrays() -> None:
    x = nd.array([1.0, 4.0])
    assert np.asarray(x).tolist() == [1, 4] and np.sqrt(x).tolist() == [1, 2] and float(x[1]) == 4.0 and int(x[1]) == 4


# Files and copies.


def test_files(tmp_path: Path) -> None:
    path = str(tmp_path / "arrays.params")
    x, y = nd.arange(3), nd.ones((2, 2), dtype="int32")
    nd.save(path, {"x": x, "y": y})
    loaded = nd.load(path)
    assert list(loaded) == ["x", "y"] and loaded["y"].dtype is np.int32
    nd.save(path, [x, y])
    assert [a.shape for a in nd.load(path)] == [(3,), (2, 2)]
    nd.save(path, x)
    assert nd.load_frombuffer(Path(path).read_bytes())[0].asnumpy().tolist() == [0, 1, 2]
    with pytest.raises(MXNetError, match="no_such"):
        nd.load(str(tmp_path / "no_such"))
    with pytest.raises(TypeError, match="save only accept"):
        nd.save(path, {"x": 1})  # type: ignore[dict-item]


def test_sparse_files(tmp_path: Path) -> None:
    path = str(tmp_path / "sparse.params")
    dense = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]], np.float32)
    csr, rows = nd.array(dense).tostype("csr"), nd.array(dense).tostype("row_sparse")
    nd.save(path, [csr, rows])
    for array, stype in zip(nd.load(path), ("csr", "row_sparse"), strict=True):
        assert array.stype == stype and (array.asnumpy() == dense).all()
        assert (array.tostype("default").asnumpy() == dense).all()
    assert csr.indptr.asnumpy().tolist() == [0, 1, 1, 3] and rows.indices.asnumpy().tolist() == [0, 2]
    assert csr[1:3].asnumpy().tolist() == dense[1:3].tolist()
    with pytest.raises(MXNetError, match="outside"):
        nd.sparse.csr_matrix(([1.0], [7], [0, 1]), shape=(1, 3)).asnumpy()


@pytest.mark.parametrize(
    "copied",
    [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_pickles_and_copies(copied: Any) -> None:
    x = nd.arange(6, ctx=mx.cpu(2)).reshape((2, 3))
    y = copied(x)
    y[0] = 9
    assert y.context == mx.cpu(2) and x.asnumpy()[0].tolist() == [0, 1, 2] and y.asnumpy()[1].tolist() == [3, 4, 5]


class _OfMXNet(pickle.Unpickler):
    """Unpickles objects of programs that ran on MXNet."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return super().find_class(module_name.replace("mxnet", "mxforge", 1), global_name)


def test_pickles_of_mxnet() -> None:
    with (DATA / "fixtures" / "arrays.pickle").open("rb") as file:
        found = _OfMXNet(file).load()
    expected = [[0, 1], [2, 3], [4, 5]]
    assert {name: found[name].asnumpy().tolist() for name in "acr"} == dict.fromkeys("acr", expected)
    assert [found[name].stype for name in "acr"] == ["default", "csr", "row_sparse"] and found["k"] == mx.cpu(1)
    with pytest.raises(MXNetError, match="cannot be read"):
        nd.NDArray(None).__setstate__({"handle": b"nonsense"})  # type: ignore[typeddict-item]


# Random numbers.


def test_seeds_repeat() -> None:
    mx.random.seed(3)
    first = [nd.random.uniform(shape=(100,)).asnumpy() for _ in range(2)]
    mx.random.seed(3)
    again = [nd.random.uniform(shape=(100,)).asnumpy() for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).all() and first[0].min() >= 0 and first[0].max() < 1


def test_draws_by_numbers_and_by_arrays() -> None:
    mx.random.seed(0)
    x = nd.random.normal(3, 2, shape=(4000,))
    assert abs(x.mean().asscalar() - 3) < 0.2 and nd.random.uniform().shape == (1,)
    assert mx.random.uniform(shape=2, dtype="float64").dtype is np.float64
    assert nd.random.normal(nd.zeros(3), nd.ones(3), shape=5).shape == (3, 5)
    out = nd.zeros((2, 2))
    assert nd.random.uniform(5, 6, out=out) is out and out.asnumpy().min() >= 5
    with pytest.raises(AssertionError, match="all NDArrays or all numbers"):
        nd.random.normal(nd.zeros(3), 1)


def test_control_flow() -> None:
    out, state = nd.contrib.foreach(lambda x, s: (x + s, x + s), nd.arange(4), nd.zeros(1))
    assert out.asnumpy().ravel().tolist() == [0, 1, 3, 6] and state.asscalar() == 6
    out, (i, _) = nd.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: ([i], [i + 1, s + i]), [nd.zeros(1), nd.zeros(1)], max_iterations=5
    )
    assert out[0].asnumpy().ravel().tolist() == [0, 1, 2, 0, 0] and i.asscalar() == 3


def test_zipfian() -> None:
    draws, true, drawn = nd.contrib.rand_zipfian(nd.array([3]), 4, 5)
    assert draws.dtype is np.int64 and draws.asnumpy().max() < 5 and drawn.shape == (4,)
    assert abs(true.asscalar() - 0.4982) < 1e-3  # 4 log(5/4) / log 6


def test_private_methods_that_packages_use() -> None:
    x = nd.zeros((2, 3))
    x._full(2)
    x.slice_assign_scalar(5, (0, 1), (1, None), (None, 2))
    x._sync_copyfrom(x.asnumpy() + 1)
    assert x.asnumpy().tolist() == [[3, 6, 3], [3, 3, 3]]
    x.slice_assign(nd.ones((2, 1)), (0, 0), (2, 1), (1, 1))
    assert x.asnumpy()[:, 0].tolist() == [1, 1]


def test_training_mode_reaches_operators() -> None:
    x = nd.ones((100,))
    assert (nd.Dropout(x, p=0.5) == 1).sum().asscalar() == 100
    with mx.autograd.train_mode():
        dropped = nd.Dropout(x, p=0.5)
    assert 10 < (dropped == 0).sum().asscalar() < 90
    assert (nd.Dropout(x, p=0.5) == 1).sum().asscalar() == 100


def test_states_of_operators_are_written_in_place() -> None:
    x = nd.array([[1.0], [3.0]])
    gamma, beta, mean, var = nd.ones(1), nd.zeros(1), nd.zeros(1), nd.ones(1)
    with mx.autograd.train_mode():
        nd.BatchNorm(x, gamma, beta, mean, var, momentum=0.5)
    assert mean.asscalar() == 0  # a backward pass moves it
    x.attach_grad()
    with mx.autograd.record():
        y = nd.BatchNorm(x, gamma, beta, mean, var, momentum=0.5)
    y.backward()
    assert mean.asscalar() == 1 and var.asscalar() == 1
    momentum, weight = nd.zeros(1), nd.ones(1)
    nd.sgd_mom_update(weight, nd.ones(1), momentum, lr=0.5, momentum=0.9, out=weight)
    assert momentum.asscalar() == -0.5


@pytest.mark.parametrize(
    "repeat", [lambda x, y: x + y, lambda x, y: x * 2.5, lambda x, y: x > y, lambda x, y: -x, lambda x, y: nd.exp(x)]
)
def test_a_repeated_call_makes_few_python_calls(repeat: Any) -> None:
    """Nothing is parsed, inferred or imported: a call runs the operator, its fast path, an allocation and the native
    call."""
    if settings().target == "reference":
        pytest.skip("the reference interprets")
    x, y = nd.ones((10, 10)), nd.ones((10, 10))
    for _ in range(2):  # the second call allocates the memory of the fast path
        repeat(x, y)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        repeat(x, y)
    finally:
        sys.setprofile(None)
    called = [name for name in called if name not in ("<lambda>", "__del__")]
    assert len(called) <= 5, called


def test_threads() -> None:
    """Concurrent calls of one program from several threads, including first calls."""
    wrong: list[int] = []

    def work(k: int) -> None:
        x = nd.full((7, 5), k)
        for _ in range(200):
            if ((x + x) * x - k).asnumpy().ravel().tolist() != [2.0 * k * k - k] * 35:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_share_caches() -> None:
    """Threads contend for first calls, caches that are cleared, random numbers and contexts."""
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        draw = np.random.RandomState(seed)
        try:
            for i in range(12):
                a = draw.rand(*draw.randint(1, 6, 2)).astype(np.float32)
                x = nd.array(a)
                np.testing.assert_allclose((x + x * 2).asnumpy(), a * 3, rtol=1e-5)
                np.testing.assert_allclose(nd.dot(x, x.T).asnumpy(), a @ a.T, rtol=1e-4)
                np.testing.assert_allclose(nd.clip(x, 0.2, 0.3 + i).asnumpy(), a.clip(0.2, 0.3 + i), rtol=1e-5)
                assert nd.random.uniform(shape=a.shape).shape == a.shape
                with mx.cpu(seed):
                    assert nd.zeros(1).context == mx.cpu(seed)
                x += x
                np.testing.assert_allclose(nd.sum(x, axis=0).asnumpy(), 2 * a.sum(axis=0), rtol=1e-4)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures


def test_dlpack_refuses_bfloat16() -> None:
    x = nd.ones((2,)).astype("bfloat16")
    for share in (x.to_dlpack_for_read, x.__dlpack__):
        with pytest.raises(MXNetError, match="bfloat16"):
            share()


def test_boolean_mask() -> None:
    x = nd.arange(6).reshape((3, 2))
    assert nd.contrib.boolean_mask(x, nd.array([0.5, 0, 2])).asnumpy().tolist() == [[0, 1], [4, 5]]
    assert nd.contrib.boolean_mask(x, nd.zeros(3)).shape == (0, 2)
    out = nd.zeros((1, 2))
    assert nd.contrib.boolean_mask(x, nd.array([0, 1, 0]), out=out) is out and out.asnumpy().tolist() == [[2, 3]]
    with pytest.raises(MXNetError, match="does not fit"):
        nd.contrib.boolean_mask(x, nd.ones(2))


def test_arrays_of_one_element_as_keys() -> None:
    x = nd.zeros((2, 3))
    x[0, 0] = nd.array([5])
    x[1, -1] = nd.array([[6]])
    x[np.int64(1), 0] = np.array([7.0])
    assert x.asnumpy().tolist() == [[5, 0, 0], [7, 0, 6]]


def test_power_in_place_makes_a_new_array() -> None:
    x = y = nd.array([1, 2, 3])
    x **= 2
    assert x.asnumpy().tolist() == [1, 4, 9] and y.asnumpy().tolist() == [1, 2, 3]


def test_imdecode_of_nd(tmp_path: Path) -> None:
    pixels = np.arange(36, dtype=np.uint8).reshape(4, 3, 3)
    encoded = codec.opencv().imencode(".png", pixels[:, :, ::-1])[1].tobytes()
    assert (nd.imdecode(encoded).asnumpy() == pixels.transpose(2, 0, 1)).all()
    assert nd.imdecode(encoded, (1, 0, 3, 2)).shape == (3, 2, 2)
    out = nd.zeros((2, 3, 4, 3))
    assert nd.imdecode(encoded, out=out, index=1) is out and (out[1].asnumpy() == pixels.transpose(2, 0, 1)).all()


def test_random_parameters_are_checked() -> None:
    for call in (
        lambda: nd.random.normal(0, -1),
        lambda: nd.random.exponential(-1),
        lambda: nd.random.uniform(nd.ones(2), nd.ones(3)),
    ):
        with pytest.raises(MXNetError, match=r"random\."):
            call()


def test_out_can_be_positional() -> None:
    x, out = nd.array([1, -2, 3]), nd.zeros(3)
    for _ in range(2):
        assert nd.abs(x, out) is out and out.asnumpy().tolist() == [1, 2, 3]
        out[:] = 0
    assert nd.clip(x, 0, 1, out).asnumpy().tolist() == [1, 0, 1]
    with pytest.raises(TypeError, match="at most"):
        nd.abs(x, out, "name", 5)  # type: ignore[call-arg]


@pytest.mark.parametrize(("indices", "axis"), [([5], 0), ([-1], 0), ([0, 3], 1)])
def test_take_in_mode_raise(indices: list[int], axis: int) -> None:
    x = nd.arange(6).reshape((2, 3))
    with pytest.raises(MXNetError, match="out of bounds"):
        nd.take(x, nd.array(indices), axis=axis, mode="raise")
    assert nd.take(x, nd.array([1]), axis=axis, mode="raise").shape == ((1, 3) if axis == 0 else (2, 1))


def test_a_file_in_a_missing_folder() -> None:
    with pytest.raises(MXNetError, match="nowhere"):
        nd.save("/nowhere/x.params", nd.ones(1))


def test_booleans_become_int64_beside_numbers() -> None:
    x = mx.nd.array([0, 1, 1], dtype="bool")
    for found, expected in [
        (x * 3, [0, 3, 3]),
        (2 - x, [2, 1, 1]),
        (mx.nd.maximum(x, 2), [2, 2, 2]),
        (mx.nd.subtract(1, x), [1, 0, 0]),
        (-x, [0, -1, -1]),
        (x == 0, [1, 0, 0]),
    ]:
        assert found.dtype == np.int64
        assert found.asnumpy().tolist() == expected
    with pytest.raises(mx.MXNetError, match="int64"):
        x += 1
    symbol: Any = mx.sym.var("x")
    assert (symbol * 3).eval(x=x)[0].dtype == np.int64


def test_every_second_element_of_large_arrays() -> None:
    """An operator copies them, also on a tape. Other keys of such arrays are NumPy's."""
    values = np.random.default_rng(0).standard_normal((60, 70, 80)).astype(np.float32)
    x = nd.array(values)
    for key in (np.s_[::2], np.s_[:, ::3], np.s_[::7, :, ::2], np.s_[:, :, ::-1], np.s_[1::2], np.s_[:, 3:9]):
        np.testing.assert_array_equal(x[key].asnumpy(), values[key])
    np.testing.assert_array_equal(x.copy().asnumpy(), values)
    x.attach_grad()
    with mx.autograd.record():
        y = x[:, ::3] * 2
    y.backward()
    expected = np.zeros_like(values)
    expected[:, ::3] = 2
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)
