"""Whole Gluon models: saving, copies, hooks, several contexts, threads, many shapes."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

gluon, nn = mx.gluon, mx.gluon.nn


def small_net(**kwargs: Any) -> Any:
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Conv2D(2, 3, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    return net


IMAGE = mx.nd.array(np.cos(np.arange(50)).reshape(1, 2, 5, 5))


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one.asnumpy(), other.asnumpy())


def test_saved_parameters_load_into_a_net_of_equal_structure(tmp_path: Path) -> None:
    net, other = small_net(prefix="n_"), small_net()
    net.hybridize()
    expected = net(IMAGE)
    net.save(tmp_path / "model")
    other.load(tmp_path / "model")
    assert same(other(IMAGE), expected)
    assert other.name == "n" and list(other.collect_params()) == list(net.collect_params())
    eager = small_net()
    eager(IMAGE)
    eager.save(tmp_path / "eager")
    assert same(_loaded(small_net(), tmp_path / "eager")(IMAGE), eager(IMAGE))


def _loaded(net: Any, prefix: Path) -> Any:
    net.load(prefix)
    return net


def test_models_of_other_structure_are_refused(tmp_path: Path) -> None:
    net = small_net()
    net(IMAGE)
    net.save(tmp_path / "model")
    with pytest.raises(ValueError, match="has no dense0"):
        nn.Dense(2).load(tmp_path / "model")
    with pytest.raises(ValueError, match="has no dropout1"):
        other = nn.HybridSequential()
        other.add(nn.Dropout(0.1))
        other.load(tmp_path / "model")
    (tmp_path / "broken-model.json").write_text("{")
    with pytest.raises(ValueError, match="is not valid JSON"):
        net.load(tmp_path / "broken")


@pytest.mark.parametrize("hybridized", [False, True])
def test_nets_are_copied_and_pickled(hybridized: bool) -> None:
    net = small_net()
    net(IMAGE)
    if hybridized:
        net.hybridize()
    expected = net(IMAGE)
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made[0].weight is not net[0].weight
        assert same(made(IMAGE), expected)
        made[0].weight.set_data(made[0].weight.data() * 0)
        assert not same(made(IMAGE), expected)
    assert same(net(IMAGE), expected)


@pytest.mark.parametrize("everything", [False, True])
def test_the_op_hook_is_called_for_every_operator(everything: bool) -> None:
    net, heard = small_net(prefix="n_"), []
    expected = net(IMAGE)
    net.hybridize()
    net(IMAGE)
    net.register_op_hook(lambda name, op, array: heard.append((name, op, array)), everything)
    for _ in range(2):
        heard.clear()
        assert same(net(IMAGE), expected)
    results = [
        (b"n_conv0_fwd_output", b"Convolution"),
        (b"n_conv0_relu_fwd_output", b"Activation"),
        (b"n_batchnorm0_fwd_output", b"BatchNorm"),
        (b"n_dense0_fwd_output", b"FullyConnected"),
    ]
    names = [(name, op) for name, op, _ in heard]
    assert same(heard[-1][2], expected)
    if everything:
        assert names[:4] == [(b"n_conv0_fwd_" + n, b"Convolution") for n in (b"data", b"weight", b"bias", b"output")]
        assert same(heard[0][2], IMAGE) and len(names) == 16
    else:
        assert names == results


def test_hooks_are_registered_once_and_can_be_removed() -> None:
    net, seen = small_net(), []

    def hook(*args: Any) -> None:
        seen.append(args)

    first, second = net.register_forward_hook(hook), net.register_forward_hook(hook)
    net(IMAGE)
    assert len(seen) == 1
    first.detach()
    second.detach()
    with net.register_forward_pre_hook(hook):
        net(IMAGE)
    net(IMAGE)
    assert len(seen) == 2
    with pytest.raises(AssertionError, match="attached twice"):
        first.attach(net._forward_hooks, hook)


def test_a_hybridized_net_calls_its_own_hooks() -> None:
    net, seen = small_net(), []
    net.hybridize()
    net(IMAGE)
    net.register_forward_hook(lambda *args: seen.append(args))
    net(IMAGE)
    assert len(seen) == 1


def test_programs_of_a_block_are_bounded() -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 3)))
    block = net._cached_op
    assert block is not None
    block.function.known.limit = block._by_mode[False, False].limit = 4
    for batch in (1, 2, 3, 4, 5, 1, 2):
        assert net(mx.nd.ones((batch, 3))).shape == (batch, 2)
    assert len(block.function.known) <= 4 and len(block._by_mode[False, False]) <= 4


def test_threads_can_make_the_first_call_at_once() -> None:
    net, found, start = small_net(), [], threading.Barrier(8)
    expected = net(IMAGE)
    net.hybridize()

    def work() -> None:
        start.wait()
        for _ in range(20):
            found.append(same(net(IMAGE), expected))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160 and all(found)


def test_threads_can_create_deferred_parameters_at_once() -> None:
    net, shapes, start = small_net(), [], threading.Barrier(6)
    net.hybridize()

    def work(batch: int) -> None:
        start.wait()
        shapes.append(net(mx.nd.ones((batch, 2, 5, 5))).shape)

    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(shapes) == [(1, 2), (1, 2), (2, 2), (2, 2), (3, 2), (3, 2)]


CONTEXTS = [mx.cpu(0), mx.cpu(1)]


@pytest.mark.parametrize("hybridized", [False, True])
def test_parameters_on_several_contexts(hybridized: bool) -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize(ctx=CONTEXTS)
    if hybridized:
        net.hybridize()
    batch = mx.nd.array(np.arange(12).reshape(4, 3))
    expected = net(batch).asnumpy()
    pieces = gluon.utils.split_and_load(batch, CONTEXTS)
    results = [net(piece) for piece in pieces]
    assert [r.context for r in results] == CONTEXTS
    np.testing.assert_allclose(np.concatenate([r.asnumpy() for r in results]), expected, rtol=1e-5)
    net.weight.data(mx.cpu(1))[:] = 0
    assert net(pieces[1]).asnumpy().any() == 0 and net(pieces[0]).asnumpy().any()
    net.collect_params().reset_ctx(mx.cpu(1))
    assert net.weight.list_ctx() == [mx.cpu(1)]
    with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(0\)"):
        net(batch)


def test_uneven_batches_are_split_as_mxnet_does() -> None:
    pieces = gluon.utils.split_data(mx.nd.ones((8, 3)), 3, even_split=False)
    assert [p.shape[0] for p in pieces] == [3, 3, 2]
    with pytest.raises(ValueError, match="evenly split"):
        gluon.utils.split_data(mx.nd.ones((8, 3)), 3)


def test_sparse_parameters_give_rows() -> None:
    table = gluon.Parameter("table", shape=(5, 2), stype="row_sparse", grad_stype="row_sparse")
    table.initialize(mx.init.One())
    with pytest.raises(RuntimeError, match="storage type is row_sparse"):
        table.data()
    with pytest.raises(RuntimeError, match="no Trainer"):
        table.row_sparse_data(mx.nd.array([1]))
    gluon.Trainer([table], "sgd")
    rows = table.row_sparse_data(mx.nd.array([3, 1, 3]))
    assert rows.indices.asnumpy().tolist() == [1, 3] and rows.data.asnumpy().tolist() == [[1, 1], [1, 1]]
    table.set_data(mx.nd.ones((5, 2)) * 3)
    assert table.list_row_sparse_data(mx.nd.array([0]))[0].data.asnumpy().tolist() == [[3, 3]]
    assert table.grad().stype == "row_sparse"
    with pytest.raises(TypeError, match="NDArray"):
        table.row_sparse_data([1])  # type: ignore[arg-type]


def test_gradients_are_clipped_together() -> None:
    arrays = [mx.nd.ones((2, 2)) * 3, mx.nd.ones((3,)) * 4]
    assert gluon.utils.clip_global_norm(arrays, 1.0) == pytest.approx(84**0.5)
    assert sum(float((a * a).sum().asscalar()) for a in arrays) == pytest.approx(1)
    assert gluon.utils.clip_global_norm(arrays, 5.0, check_isfinite=False).shape == (1,)
    with pytest.warns(UserWarning, match="nan or inf"):
        gluon.utils.clip_global_norm([mx.nd.array([np.inf])], 1.0)


def test_backends_are_accepted_and_change_nothing() -> None:
    net = small_net()
    expected = net(IMAGE)
    net.optimize_for(IMAGE, backend="MKLDNN", static_alloc=True, an_option=1)
    assert net._active and same(net(IMAGE), expected)
    with pytest.raises(ValueError, match="backend"):
        net.optimize_for(IMAGE)


def test_several_contexts_in_one_hybridized_call_are_refused() -> None:
    net = nn.HybridLambda(lambda F, x, y: x + y)
    net.hybridize()
    with pytest.raises(ValueError, match="multiple contexts"):
        net(mx.nd.ones((1,), ctx=mx.cpu(0)), mx.nd.ones((1,), ctx=mx.cpu(1)))


def test_layers_as_activations_of_cells() -> None:
    cell = gluon.rnn.RNNCell(2, activation=nn.LeakyReLU(0.5), input_size=2)
    cell.initialize(mx.init.One())
    outputs, _ = cell.unroll(1, mx.nd.array([[[-1, -1]]]), merge_outputs=True)
    assert outputs.asnumpy().tolist() == [[[-1, -1]]]


def test_parameters_that_are_read_from_a_file_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small_net()
    net.hybridize()
    net(mx.nd.ones((1, 3, 8, 8)))
    net.export(str(tmp_path / "net"))
    read: list[int] = []
    load = mx.nd.load

    def noted(file: Any) -> Any:
        found = load(file)
        read.extend(array._address for array in found.values())
        return found

    monkeypatch.setattr("mxforge.frontend.gluon.parameter_dict.load", noted)
    files = str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    params = gluon.SymbolBlock.imports(*files).collect_params().values()
    assert sorted(param.data()._address for param in params) == sorted(read)
