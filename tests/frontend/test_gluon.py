"""Gluon beyond the recorded programs: files, errors, compiled calls after changes of parameters."""

from __future__ import annotations

import copy
import pickle
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.host.executable import Executable

nn = mx.gluon.nn
FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"


def small_net(**kwargs: Any) -> nn.HybridSequential:
    mx.random.seed(1)  # no relu is dead with this seed
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    return net


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", ["convnet", "tagger"])
def test_exported_networks_agree_with_the_records(name: str) -> None:
    block = mx.gluon.SymbolBlock.imports(
        str(FIXTURES / f"{name}-symbol.json"), ["data"], str(FIXTURES / f"{name}-0000.params")
    )
    recorded = np.load(FIXTURES / f"{name}.npz")
    x = mx.nd.array(recorded["x0"])
    for _ in range(2):  # compiled, then the fast path
        assert error(block(x).asnumpy(), recorded["y0"]) < 1e-5


def write_whole(array: mx.nd.NDArray) -> None:
    array[:] = array * 2


def write_in_place(array: mx.nd.NDArray) -> None:
    array *= 3


def write_as_output(array: mx.nd.NDArray) -> None:
    mx.nd.exp(array, out=array)


def write_through_view(array: mx.nd.NDArray) -> None:
    array.reshape((-1,))[1:3] = 7


@pytest.mark.parametrize("write", [write_whole, write_in_place, write_as_output, write_through_view])
def test_compiled_call_follows_writes_to_parameters(write: Any) -> None:
    net, x = small_net(), mx.nd.ones((3, 5))
    net.hybridize()
    for _ in range(2):
        net(x)
    for param in net.collect_params().values():
        write(param.data())
    compiled = net(x).asnumpy()
    net.hybridize(False)
    assert error(compiled, net(x).asnumpy()) < 1e-6


def test_compiled_call_follows_new_arrays() -> None:
    net, x = small_net(), mx.nd.ones((3, 5))
    net.hybridize()
    before = net(x).asnumpy()
    net.initialize(mx.init.One(), force_reinit=True)
    assert error(net(x).asnumpy(), before) > 0.1
    net.cast("float64")
    assert net(x.astype("float64")).dtype == np.float64


def test_one_program_for_each_signature() -> None:
    net = small_net()
    net.hybridize()
    for shape in ((1, 5), (2, 5), (1, 5), (2, 5)):
        assert net(mx.nd.ones(shape)).shape == (shape[0], 2)
    assert net._cached_op is not None and len(net._cached_op.function.known) == 2


def test_modes_have_their_own_programs() -> None:
    net = nn.Dropout(0.5)
    net.hybridize()
    x = mx.nd.ones((32, 32))
    assert net(x).asnumpy().min() == 1
    with mx.autograd.train_mode():
        assert net(x).asnumpy().min() == 0
        with mx.autograd.predict_mode():
            assert net(x).asnumpy().min() == 1
    assert not mx.autograd.is_training() and not mx.autograd.is_recording()


def test_threads_can_share_a_compiled_net() -> None:
    net = small_net()
    net.hybridize()
    inputs = [mx.nd.ones((8, 5)) * i for i in range(4)]
    expected = [net(x).asnumpy() for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(200):
            if not np.array_equal(net(inputs[i]).asnumpy(), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_deferred_initialization_names_parameter_and_dimension() -> None:
    net = small_net(prefix="net_")
    with pytest.raises(mx.gluon.DeferredInitializationError, match=r"net_dense0_weight.*dimension 1"):
        net[0].weight.data()
    with pytest.raises(ValueError, match=r"'bare'.*dimension 0"):
        mx.gluon.Parameter("bare", shape=(0, 3)).initialize()


def test_failed_inference_names_block_and_parameter() -> None:
    net = nn.Conv2D(4, 3, prefix="conv_")
    net.initialize()
    with pytest.raises(ValueError, match=r"(?s)Conv2D 'conv'.*conv_weight"):
        net(mx.nd.ones((2, 3)))


def test_parameters_survive_every_kind_of_file(tmp_path: Path) -> None:
    net, x = small_net(prefix="a_"), mx.nd.ones((3, 5))
    net.hybridize()
    expected = net(x).asnumpy()
    net.save_parameters(tmp_path / "structural")
    net.collect_params().save(tmp_path / "full")
    net.export(str(tmp_path / "exported"), epoch=3)
    for file in ("structural", "full", "exported-0003.params"):
        other = small_net(prefix="a_")
        other.load_parameters(tmp_path / file)
        assert np.array_equal(other(x).asnumpy(), expected), file
    block = mx.gluon.SymbolBlock.imports(tmp_path / "exported-symbol.json", ["data"], tmp_path / "exported-0003.params")
    assert np.array_equal(block(x).asnumpy(), expected)
    block.export(str(tmp_path / "again"))
    assert (tmp_path / "again-symbol.json").read_text() == (tmp_path / "exported-symbol.json").read_text()


def test_loading_names_what_is_missing_or_extra(tmp_path: Path) -> None:
    net = small_net()
    net(mx.nd.ones((3, 5)))
    net.save_parameters(tmp_path / "file")
    larger = small_net()
    larger.add(nn.Dense(2))
    with pytest.raises(AssertionError, match=r"'2\.weight' is missing"):
        larger.load_parameters(tmp_path / "file")
    larger.load_parameters(tmp_path / "file", allow_missing=True)
    with pytest.raises(ValueError, match=r"'0\.weight'.*not present"):
        nn.HybridSequential().load_parameters(tmp_path / "file", allow_missing=True)
    wide = nn.HybridSequential()
    wide.add(nn.Dense(9), nn.Dense(2))
    with pytest.raises(AssertionError, match="shape incompatible"):
        wide.load_parameters(tmp_path / "file")


def test_children_of_hybrid_blocks_are_hybrid() -> None:
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(nn.Lambda("relu"))


def test_hooks_run_and_can_be_removed() -> None:
    net, seen = small_net(), []
    handle = net.register_forward_hook(lambda block, inputs, outputs: seen.append(outputs.shape))
    net(mx.nd.ones((3, 5)))
    handle.detach()
    net(mx.nd.ones((3, 5)))
    assert seen == [(3, 2)]


def test_an_unused_input_warns() -> None:
    class Ignoring(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:  # type: ignore[override]
            return F.relu(x)

    net = Ignoring()
    net.hybridize()
    with pytest.warns(UserWarning, match="1-th input"):
        net(mx.nd.ones((2,)), mx.nd.ones((2,)))


def test_none_inputs_and_structures() -> None:
    class Optional(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, pair: Any, extra: Any = None) -> Any:  # type: ignore[override]
            total = pair[0] + pair[1]
            return [total, (total if extra is None else total + extra, total)]

    net, one = Optional(), mx.nd.ones((2,))
    eager = net([one, one], None)
    net.hybridize()
    compiled = net([one, one], None)
    assert compiled[1][1].asnumpy().tolist() == eager[1][1].asnumpy().tolist() == [2, 2]
    assert net([one, one])[0].asnumpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match="argument structure"):
        net(one, one)


def test_parameter_sharing_and_modification() -> None:
    first = nn.Dense(3, in_units=4, prefix="shared_")
    second = nn.Dense(3, in_units=4, params=first.params)
    first.initialize(mx.init.One())
    assert second.weight is first.weight
    first.collect_params().setattr("grad_req", "null")
    assert second.weight.grad_req == "null"
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        second.weight.grad()


def test_summary_has_no_rows_for_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    net, inner = nn.HybridSequential(), nn.HybridSequential()
    inner.add(nn.Dense(3))
    net.add(nn.Dense(4), inner, nn.Dense(2))
    net.initialize()
    net.summary(mx.nd.ones((2, 3)))
    shown = capsys.readouterr().out
    assert "Sequential" not in shown
    assert "Dense-3 " in shown
    assert "Total params: 39\n" in shown


def test_summary_counts_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    net = small_net()
    net.summary(mx.nd.ones((3, 5)))
    printed = capsys.readouterr().out
    assert "Dense-" in printed and "Total params: 34" in printed


def test_compiled_call_follows_other_types_of_parameters() -> None:
    net = nn.Embedding(6, 4)
    net.initialize(mx.init.One())
    net.hybridize()
    rows = mx.nd.array([1, 5])
    for _ in range(2):
        assert net(rows).dtype == np.float32
    net.weight.cast("float64")
    for _ in range(2):
        found = net(rows)
        assert found.dtype == np.float64 and found.asnumpy().tolist() == [[1.0] * 4] * 2


def test_several_inputs_use_the_fast_path() -> None:
    class Weighted(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.dense = nn.Dense(2, use_bias=False)

        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:  # type: ignore[override]
            return self.dense(x) - y

    net = Weighted()
    net.initialize(mx.init.One())
    net.hybridize()
    for i in range(4):
        assert net(mx.nd.ones((1, 3)) * i, mx.nd.ones((1, 2))).asnumpy().tolist() == [[3.0 * i - 1] * 2]


def test_the_fast_path_keeps_the_structure_of_arguments() -> None:
    class Pair(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, pair: Any) -> Any:  # type: ignore[override]
            return pair[0] + pair[1]

    net, one = Pair(), mx.nd.ones((2,))
    net.hybridize()
    for _ in range(2):
        assert net([one, one]).asnumpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match="argument structure"):
        net(one, one)


def test_the_fast_path_keeps_the_structure_of_results() -> None:
    class Nested(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
            return [[x * 2]]

    net = Nested()
    net.hybridize()
    for _ in range(3):
        ((found,),) = net(mx.nd.ones((2,)))
        assert found.asnumpy().tolist() == [2, 2]


def test_the_fast_path_of_a_block_that_ignores_arguments() -> None:
    class Second(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:  # type: ignore[override]
            return y + 1

    net = Second()
    net.hybridize()
    for i in range(3):
        with pytest.warns(UserWarning, match="not used") if i == 0 else nullcontext():
            found = net(mx.nd.zeros((2,)), mx.nd.ones((2,)) * i)
        assert found.asnumpy().tolist() == [i + 1] * 2


def test_the_fast_path_follows_its_parameters() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.Dense(1, in_units=3))
    net.initialize(mx.init.One())
    net.hybridize(static_alloc=True, static_shape=True)
    x = mx.nd.ones((1, 2))
    for factor in (1, 2, 3):
        net[1].weight.set_data(mx.nd.ones((1, 3)) * factor)
        for _ in range(3):
            assert net(x).asscalar() == 6 * factor
    net[1].weight.data()[:] = 4
    assert net(x * 2).asscalar() == 48


def test_a_block_follows_arithmetic_in_place_on_its_parameters() -> None:
    net = nn.Dense(64, use_bias=False, in_units=64)
    net.initialize(mx.init.Zero())
    net.hybridize()
    x, weight = mx.nd.ones((8, 64)), net.weight.data()
    for i in range(1, 5):
        weight += mx.nd.ones((64, 64))
        assert (net(x).asnumpy() == 64 * i).all()


def test_a_block_that_is_no_longer_hybridized_runs_its_own_forward() -> None:
    calls: list[Any] = []

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
            calls.append(F)
            return x * 2

    net, x = Net(), mx.nd.ones((2,))
    net.hybridize()
    for _ in range(3):
        net(x)
    assert calls == [mx.sym]
    for _ in range(2):
        net.hybridize(False, clear=False)
        net(x)
        assert calls.pop() is mx.nd
    net.hybridize(clear=False)
    for _ in range(2):
        assert net(x).asnumpy().tolist() == [2, 2]
    assert calls == [mx.sym]


def test_nets_of_equal_structure_keep_their_prepared_memory() -> None:
    nets = [nn.Conv2D(8, 3, in_channels=8) for _ in range(3)]
    x = mx.nd.ones((1, 8, 6, 6))
    for net in nets:
        net.initialize(mx.init.Xavier())
    expected = [net(x).asnumpy() for net in nets]
    for net in nets:
        net.hybridize()
    for _ in range(3):
        for net, reference in zip(nets, expected, strict=True):
            assert error(net(x).asnumpy(), reference) < 1e-5
    ops: list[Any] = [net._cached_op for net in nets]
    executables = [found.executable for op in ops for found in op.function.known.values()]
    assert len(set(map(id, executables))) == 1
    if isinstance(executables[0], Executable) and executables[0].program.prepare:
        assert len(executables[0].owners()) == len(nets)


def test_an_error_of_inference_names_few_of_many_parameters() -> None:
    net = nn.HybridSequential()
    for _ in range(12):
        net.add(nn.Conv2D(2, 3), nn.MaxPool2D())
    net.initialize()
    net.hybridize()
    with pytest.raises(ValueError, match="Deferred initialization") as error:
        net(mx.nd.ones((1, 1, 8, 8)))
    assert len(str(error.value).splitlines()) <= 12
    assert "further parameters" in str(error.value)


# Copies, other contexts, blocks without parameters.


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda block: pickle.loads(pickle.dumps(block))])
@pytest.mark.parametrize("hybridized", [False, True])
def test_a_copy_of_a_block_has_own_gradients(copied: Any, hybridized: bool) -> None:
    net = small_net()
    if hybridized:
        net.hybridize()
    x = mx.nd.ones((2, 3))
    net(x)
    other = copied(net)
    assert [g.asnumpy().any() for p in other.collect_params().values() for g in p.list_grad()] == [False] * 4
    before = net[0].weight.data().asnumpy()
    trainer = mx.gluon.Trainer(other.collect_params(), "sgd")
    with mx.autograd.record():
        loss = other(x).sum()
    loss.backward()
    trainer.step(1)
    assert (net[0].weight.data().asnumpy() == before).all() and not net[0].weight.grad().asnumpy().any()
    assert (other[0].weight.data().asnumpy() != before).any()


def test_a_context_without_a_device_moves_no_parameter() -> None:
    net = small_net()
    net(mx.nd.ones((2, 3)))
    params = net.collect_params()
    for reset in (params.reset_ctx, net[0].weight.reset_ctx):
        with pytest.raises(mx.MXNetError, match=r"gpu\(7\) cannot be used"):
            reset([mx.cpu(), mx.gpu(7)])
    assert params.list_ctx() == [mx.cpu()] and net(mx.nd.ones((2, 3))).shape == (2, 2)


def test_a_block_without_parameters_is_loaded_from_its_export(tmp_path: Path) -> None:
    net, prefix = nn.HybridSequential(), str(tmp_path / "net")
    net.add(nn.Activation("relu"))
    net.hybridize()
    net(mx.nd.ones((1, 2)))
    net.export(prefix)
    loaded = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
    assert loaded(mx.nd.array([[-1, 2]])).asnumpy().tolist() == [[0, 2]]
    mx.gluon.ParameterDict().load(f"{prefix}-0000.params")
    params = nn.Dense(2, in_units=2).collect_params()
    params.load(f"{prefix}-0000.params", allow_missing=True)
    with pytest.raises(AssertionError, match="is missing in file"):
        params.load(f"{prefix}-0000.params")
    mx.nd.save(f"{prefix}.params", [mx.nd.ones(2)])
    with pytest.raises(ValueError, match="list of arrays without names"):
        params.load(f"{prefix}.params", allow_missing=True)


def test_dumps_of_a_constant_makes_its_argument_a_list() -> None:
    for value in (mx.nd.array([1, 2]), np.array([1.0, 2.0])):
        constant = mx.init.Constant(value)
        assert constant.dumps() == '["constant", {"value": [1.0, 2.0]}]'
        assert constant._kwargs == {"value": [1.0, 2.0]} and constant.value is value


@pytest.mark.parametrize("sample", ["uniform", "normal"])
def test_initializers_draw_the_same_numbers_for_an_array_of_any_rank(sample: str) -> None:
    initializer = mx.init.Uniform(1) if sample == "uniform" else mx.init.Normal(1)
    draw = getattr(mx.nd.random, sample)
    for shape in ((3, 5), (2, 3, 5)):
        mx.random.seed(5)
        expected = draw(*((-1, 1) if sample == "uniform" else (0, 1)), shape=shape)
        mx.random.seed(5)
        parameter = mx.gluon.Parameter("weight", shape=shape, init=initializer)
        parameter.initialize()
        np.testing.assert_array_equal(parameter.data().asnumpy(), expected.asnumpy())
