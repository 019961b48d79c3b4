"""Programs on mx.test_utils; see make_programs.py."""

import contextlib
import io
import os

import numpy as np
from program import failure, gather, numbers, ramp

PROGRAMS, program = gather()


def quiet(function):
    """The error that a call raises, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return failure(function)


def values(array):
    return np.asarray(array, dtype="float64").round(5).tolist()


@program
def tolerances(mx):
    tu = mx.test_utils
    by_name = [{str(k): v for k, v in table().items()} for table in (tu.default_rtols, tu.default_atols)]
    half, double = np.ones(2, "float16"), np.ones(2, "float64")
    found = [by_name, {str(k): v for k, v in tu.default_numeric_eps().items()}, str(np.dtype(tu.default_dtype()))]
    found += [tu.get_tols(half, double, None, None), tu.get_tols(half, 3, 0.5, {np.dtype("float16"): 0.25})]
    found += [tu.get_rtol(), tu.get_atol(), tu.get_etol(), tu.get_etol(0.1), tu.get_rtol(0.3)]
    found += [tu.get_tolerance(half, None, tu.default_rtols()), str(tu.effective_dtype(mx.nd.ones((1,))))]
    return [list(f) if isinstance(f, tuple) else f for f in found]


@program
def comparisons(mx):
    tu = mx.test_utils
    a = np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    nan = np.array([1.0, np.nan], dtype="float32")
    pairs = [
        (a, a + 0.0004), (a, a + 0.01), (a, mx.nd.array(a + 0.0004)), (mx.nd.array(a), mx.nd.array(a + 0.1)),
        (a.astype("float16"), a + 0.09), (a.astype("float64"), a), (a.astype("int32"), a),
         (nan, nan), (a > 2, a > 2), (a > 2, a > 3), (np.float32(1), np.float32(1.5)),
        (a.astype("int32"), a.astype("int32") + 1), (mx.nd.array(a, dtype="float16"), a + 0.05),
    ]  # fmt: skip
    found = [quiet(lambda p=p: tu.assert_almost_equal(*p)) for p in pairs]
    found += [quiet(lambda p=p: tu.assert_almost_equal(*p, rtol=1e-6, atol=1e-6)) for p in pairs]
    found += [quiet(lambda p=p: tu.assert_almost_equal(*p, equal_nan=True)) for p in ((nan, nan), (nan, nan + 1))]
    found += [quiet(lambda: tu.assert_almost_equal(a, a[0], use_broadcast=False))]
    found += [quiet(lambda p=p: tu.assert_allclose(*p)) for p in pairs[:4]]
    found += [quiet(lambda e=e: tu.assert_almost_equal_with_err(a, a + np.eye(2), etol=e)) for e in (0.4, 0.6, None)]
    found += [quiet(lambda: tu.assert_almost_equal_ignore_nan(nan, np.array([1.0, 5.0])))]
    found += [quiet(lambda: tu.assert_almost_equal_ignore_nan(nan, np.array([2.0, 5.0])))]
    found += [
        bool(tu.almost_equal(a, a + 1e-6)),
        bool(tu.almost_equal(a, a + 1, rtol=1)),
        tu.same(a, a),
        tu.same(a, a.T),
    ]
    found += [tu.same_array(x, x[:]) for x in [mx.nd.array(a)]] + [tu.same_array(mx.nd.array(a), mx.nd.array(a))]
    found += [failure(lambda: tu.assert_exception(lambda: 1 / 0, ZeroDivisionError))]
    found += [failure(lambda: tu.assert_exception(lambda: 1, ZeroDivisionError))]
    found += [quiet(lambda: tu.compare_ndarray_tuple((mx.nd.ones((2,)), None), (mx.nd.zeros((2,)), None)))]
    found += [quiet(lambda: tu.checkShapes(a, a[0]))]
    index, worst = tu._find_max_violation(a, a + np.array([[0, 0.1], [0.2, 0]]), 1e-2, 1e-2)
    return [*found, [int(i) for i in index], round(float(worst), 4)]


@program
def message_of_a_difference(mx):
    a = np.arange(6, dtype="float32").reshape(2, 3)
    b = a + np.array([[0, 0.5, 0], [0, 0, 0.25]], dtype="float32")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            mx.test_utils.assert_almost_equal(a, b, names=("mine", "yours"))
    except AssertionError as error:
        text = [line for line in str(error).splitlines() if "rror" in line]
    lines = [line for line in printed.getvalue().splitlines() if line]
    return [[line.replace("np.int64(", "").replace("),", ",") for line in part] for part in (lines, text)]


@program
def random_shapes_and_arrays(mx):
    tu = mx.test_utils
    np.random.seed(5)
    found = [tu.rand_shape_2d(), tu.rand_shape_3d(3, 4, 5), tu.rand_shape_nd(4, 6), tu.rand_coord_2d(0, 9, 3, 7)]
    found = [[int(x) for x in f] for f in found]
    found += [values(tu.random_arrays((2, 3))), [values(x) for x in tu.random_arrays((), (2,))]]
    found += [[values(x) for x in tu.random_uniform_arrays((3,), low=2, high=3, dtype="float16")]]
    found += [tu.random_sample(list(range(9)), 3), numbers(tu.rand_ndarray((2, 2))), str(tu.rand_ndarray((1,)).dtype)]
    made = tu.rand_ndarray((6, 4), "row_sparse", density=0.5)
    found += [made.stype, numbers(made), list(made.indices.shape)]
    array, (data, rows) = tu.rand_sparse_ndarray((6, 2), "row_sparse", rsp_indices=np.array([1, 4]), data_init=3)
    found += [values(data), values(rows), numbers(array)]
    csr, (indptr, indices, data) = tu.rand_sparse_ndarray((5, 8), "csr", density=0.25)
    found += [csr.stype, list(csr.shape), int(indptr.asnumpy()[-1]), list(data.shape), list(indices.shape)]
    power = tu.rand_ndarray((4, 8), "csr", density=0.6, distribution="powerlaw")
    found += [(power.asnumpy() > 0).astype(int).tolist()]
    ones = tu.create_sparse_array((4, 3), "row_sparse", data_init=1, rsp_indices=[2, 0], density=1)
    found += [numbers(ones), numbers(tu.create_sparse_array_zd((4, 3), "row_sparse", density=1))]
    found += [numbers(tu.create_sparse_array((3, 4), "csr", data_init=2, density=1))]
    failures = [
        failure(lambda: tu.rand_ndarray((2, 2), "csr", density=2)),
        failure(lambda: tu.rand_ndarray((2, 2), "strange")),
        failure(lambda: tu.create_sparse_array((2, 2), "default")),
        failure(lambda: tu.random_uniform_arrays((2,), colour=1)),
        failure(lambda: tu.rand_ndarray((9, 9), "csr", density=0.1, distribution="powerlaw")),
    ]
    return [*found, failures]


@program
def helpers_on_arrays(mx):
    tu = mx.test_utils
    a = np.arange(24).reshape(2, 3, 4)
    found = [values(tu.np_reduce(a, axis, keep, np.sum)) for axis in (None, 1, (0, 2)) for keep in (False, True)]
    found += [values(tu.collapse_sum_like(a, (3, 1))), values(tu.collapse_sum_like(a, (1, 4)))]
    found += [values(tu.assign_each(a[0], lambda x: x * x)), values(tu.assign_each2(a[0], a[1], lambda x, y: x - y))]
    found += [numbers(tu.create_2d_tensor(3, 2)), numbers(tu.create_vector(4)), numbers(tu.get_identity_mat(3))]
    found += [list(tu.get_identity_mat_batch(2).shape), failure(lambda: tu.collapse_sum_like(a, (2, 4)))]
    np.random.seed(2)
    matrix = tu.new_matrix_with_real_eigvals_nd((2, 4, 4))
    found += [list(matrix.shape), bool(np.abs(np.linalg.eigvals(matrix).imag).max() < 1e-6)]
    symmetric = tu.new_sym_matrix_with_real_eigvals_nd((3, 3))
    q = tu.new_orthonormal_matrix_2d(4)
    return [*found, bool(np.allclose(symmetric, symmetric.T)), bool(np.allclose(q @ q.T, np.eye(4)))]


@program
def forward_checks(mx):
    tu = mx.test_utils
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    location = {"data": ramp(mx, 3, 4).asnumpy(), "f_weight": ramp(mx, 2, 4).asnumpy(), "f_bias": np.ones(2)}
    expected = location["data"] @ location["f_weight"].T + 1
    outputs = tu.check_symbolic_forward(net, location, [expected])
    tu.check_symbolic_forward(net, list(location.values()), {"f_output": expected})
    found = [numbers(outputs[0]), values(tu.simple_forward(net, **location))]
    norm = mx.sym.BatchNorm(mx.sym.var("data"), name="b")
    parts = [location["data"], np.ones(4), np.zeros(4)]
    states = {"b_moving_mean": np.zeros(4), "b_moving_var": np.ones(4)}
    tu.check_symbolic_forward(norm, parts, [location["data"] / np.sqrt(1.001)], aux_states=states)
    doubled = tu.check_symbolic_forward(net, location, [expected], dtype=np.float64)
    failures = [
        quiet(lambda: tu.check_symbolic_forward(net, location, [expected + 1])),
        quiet(lambda: tu.check_symbolic_forward(net, {"data": location["data"]}, [expected])),
        quiet(lambda: tu.check_symbolic_forward(norm, parts, [expected], aux_states={"x": np.ones(4)})),
        quiet(lambda: tu.check_symbolic_forward(net, location, [expected], dtype=np.int32)),
        quiet(lambda: tu.check_consistency(net, [{"ctx": mx.cpu(), "data": (2, 3)}], grad_req="null")),
    ]
    found += [str(doubled[0].dtype), bool(tu.check_speed(net, location, N=2, typ="forward") > 0), failures]
    np.random.seed(0)
    contexts = [
        {"ctx": mx.cpu(i), "data": (3, 4), "type_dict": {"data": t}} for i, t in ((0, "float64"), (1, "float32"))
    ]
    truth = tu.check_consistency(net, contexts, grad_req="null", arg_params=dict(location))
    found += [sorted(truth), numbers(truth["f_output"])]
    other = mx.sym.FullyConnected(mx.sym.var("data") * 2, num_hidden=2, name="f")
    found.append(
        quiet(lambda: tu.check_consistency([net, other], contexts, grad_req="null", arg_params=dict(location)))
    )
    return [*found, tu.same_symbol_structure(net, net), tu.same_symbol_structure(net, norm)]


@program
def generators(mx):
    tu = mx.test_utils
    draws = np.random.RandomState(1)
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda x: x * 4, 5)
    found = [[list(b) for b in buckets], probs]
    p, observed, expected = tu.chi_square_check(lambda n: draws.uniform(0, 4, n), buckets, probs, 1000)
    found += [round(float(p), 6), observed.tolist(), expected.tolist()]
    p, observed, _ = tu.chi_square_check(lambda n: draws.randint(0, 3, n), [0, 1, 2], [0.3, 0.3, 0.4], 2000)
    found += [float("%.4g" % p), observed.tolist()]  # noqa: UP031
    found += [bool(tu.mean_check(lambda n: draws.normal(1, 2, n), m, 2, 10000)) for m in (1, 2)]
    found += [bool(tu.var_check(lambda n: draws.normal(1, 2, n), s, 10000)) for s in (2, 3)]
    found.append(len(tu.verify_generator(lambda n: draws.uniform(0, 4, n), buckets, probs, 1000, nrepeat=2)))
    wrong = lambda: tu.verify_generator(lambda n: draws.uniform(0, 3, n), buckets, probs, 1000)  # noqa: E731
    return [*found, quiet(wrong)]


@program
def surroundings(mx):
    tu = mx.test_utils
    found = [str(tu.default_context()), list(tu.list_gpus()), tu.is_cd_run(), tu.is_aarch64_run()]
    tu.set_default_context(mx.cpu(3))
    found += [str(tu.default_context()), str(mx.nd.ones((1,)).context)]
    tu.set_default_context(mx.cpu(0))
    with tu.environment("MXNET_OF_A_TEST", "7"):
        found.append(os.environ.get("MXNET_OF_A_TEST"))
        with tu.environment({"MXNET_OF_A_TEST": None, "MXNET_OTHER": "1"}):
            found += [os.environ.get("MXNET_OF_A_TEST"), os.environ.get("MXNET_OTHER")]
        found.append(os.environ.get("MXNET_OF_A_TEST"))
    found += [os.environ.get("MXNET_OF_A_TEST"), os.environ.get("MXNET_OTHER")]
    tries = []

    @tu.retry(3)
    def flaky():
        tries.append(1)
        assert len(tries) == 3

    flaky()

    @tu.retry(2)
    def broken():
        tries.append(1)
        raise AssertionError

    found += [failure(broken), len(tries)]
    with tu.discard_stderr():
        pass
    batches = tu.DummyIter(mx.io.NDArrayIter(np.arange(6), batch_size=2))
    found += [numbers(batches.next().data[0]), numbers(next(batches).data[0]), batches.batch_size]
    return [*found, tu.download_model("nothing of that name")[0]]
