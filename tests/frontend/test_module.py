"""Module and checkpoints on recorded networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"
SHAPES = ([("data", (64, 12))], [("softmax_label", (64,))])


@pytest.fixture
def recorded() -> dict[str, np.ndarray]:
    return dict(np.load(FIXTURES / "mlp.npz"))


def loaded(**kwargs: Any) -> mx.mod.Module:
    return mx.mod.Module.load(str(FIXTURES / "mlp"), 3, **kwargs)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_checkpoints_agree_with_the_records(recorded: dict[str, np.ndarray]) -> None:
    symbol, arguments, states = mx.model.load_checkpoint(str(FIXTURES / "mlp"), 3)
    assert states == {} and sorted(arguments) == ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"]
    arguments = {**arguments, "data": mx.nd.array(recorded["x0"]), "softmax_label": mx.nd.zeros((64,))}
    out = symbol.bind(mx.cpu(), arguments).forward()[0]
    assert error(out.asnumpy(), recorded["y0"]) < 1e-5


@pytest.mark.parametrize("contexts", [[mx.cpu()], [mx.cpu(0), mx.cpu(1), mx.cpu(2)]])
def test_modules_agree_with_the_records(contexts: list[mx.Context], recorded: dict[str, np.ndarray]) -> None:
    module = loaded(context=contexts)
    module.bind(*SHAPES, for_training=False)
    assert error(module.predict(mx.nd.array(recorded["x0"])).asnumpy(), recorded["y0"]) < 1e-5
    batches = mx.io.NDArrayIter(recorded["x0"], np.zeros(64), batch_size=10)
    assert error(module.predict(batches).asnumpy(), recorded["y0"]) < 1e-5


def test_checkpoints_are_loaded_again(tmp_path: Path) -> None:
    module = loaded()
    module.bind(*SHAPES, for_training=False)
    module.save_checkpoint(str(tmp_path / "again"), 12)
    assert (tmp_path / "again-symbol.json").read_bytes() == (FIXTURES / "mlp-symbol.json").read_bytes()
    assert (tmp_path / "again-0012.params").exists()
    again = mx.mod.Module.load(str(tmp_path / "again"), 12)
    again.bind(*SHAPES, for_training=False)
    for one, other in zip(module.get_params(), again.get_params(), strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[n].asnumpy(), other[n].asnumpy()) for n in one)


def test_training_requires_preparation() -> None:
    module = loaded()
    batch = mx.io.DataBatch([mx.nd.ones((64, 12))])
    with pytest.raises(AssertionError, match="number of epochs"):
        module.fit(None)
    with pytest.raises(AssertionError, match="bind"):
        module.forward_backward(batch)
    module.bind(*SHAPES, for_training=False)
    module.forward(batch)
    with pytest.raises(AssertionError, match="for_training=True"):
        module.backward()
    with pytest.raises(AssertionError, match="inputs_need_grad=True"):
        module.get_input_grads()
    with pytest.raises(AssertionError, match="no optimizer"):
        module.update()


def test_missing_and_extra_parameters() -> None:
    module = loaded()
    module.bind(*SHAPES, for_training=False)
    arguments, states = module.get_params()
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.set_params({k: v for k, v in arguments.items() if k != "fc1_bias"}, states)
    more = {**arguments, "strange": mx.nd.ones((1,))}
    with pytest.raises(ValueError, match="strange"):
        module.set_params(more, states, allow_missing=True)
    module.set_params(more, states, allow_missing=True, allow_extra=True)
    module.set_params(more, states)  # MXNet checks for extra parameters only if some may be missing


def test_an_unbound_module_raises() -> None:
    with pytest.raises(AssertionError, match="bind"):
        loaded().forward(mx.io.DataBatch([mx.nd.ones((64, 12))]))


def test_a_batch_of_a_wrong_shape_changes_nothing() -> None:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(mx.init.One())
    with pytest.raises(mx.MXNetError, match="Shape of unspecified arg f_weight changed"):
        module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))]))
    for batch in (2, 5):
        module.forward(mx.io.DataBatch([mx.nd.ones((batch, 3))]))
        assert np.array_equal(module.get_outputs()[0].asnumpy(), np.full((batch, 2), 3))


def test_buckets_share_parameters_and_the_memory_of_inputs() -> None:
    def generate(length: int) -> tuple[mx.sym.Symbol, tuple[str, ...], None]:
        net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, flatten=False, name="f")
        return mx.sym.sum(net, axis=1), ("data",), None

    module = mx.mod.BucketingModule(generate, default_bucket_key=8)
    module.bind([("data", (2, 8, 3))], for_training=False)
    module.init_params(mx.init.One())
    for length in (5, 8):
        desc = [mx.io.DataDesc("data", (2, length, 3))]
        module.forward(mx.io.DataBatch([mx.nd.ones((2, length, 3))], bucket_key=length, provide_data=desc))
        assert np.array_equal(module.get_outputs()[0].asnumpy(), np.full((2, 2), 3 * length))
    short, long = (module._buckets[key]._exec_group.execs[0] for key in (5, 8))  # type: ignore[union-attr]
    assert short.arg_dict["f_weight"] is long.arg_dict["f_weight"]
    long.arg_dict["data"][:] = 7
    assert short.arg_dict["data"].asnumpy().min() == 7


def test_a_file_of_buckets_without_the_default_one_is_refused(tmp_path: Path) -> None:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
    with pytest.raises(ValueError, match="default bucket 9 is not among"):
        mx.mod.BucketingModule.load_dict({3: net}, lambda key: (net, ("data",), None), 9, {}, {})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_feed_forward_predicts_with_the_parameters_it_was_trained_to(recorded: dict[str, np.ndarray]) -> None:
    model = mx.model.FeedForward.load(str(FIXTURES / "mlp"), 3, num_epoch=4)
    before = model.predict(recorded["x0"])
    assert error(before, recorded["y0"]) < 1e-5
    model.fit(recorded["x0"], np.zeros(len(before)))
    assert error(model.predict(recorded["x0"]), before) > 1e-5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_feed_forward_names_what_it_lacks(recorded: dict[str, np.ndarray]) -> None:
    model = mx.model.FeedForward.load(str(FIXTURES / "mlp"), 3)
    labels = np.zeros(len(recorded["x0"]))
    with pytest.raises(mx.MXNetError, match="num_epoch is None"):
        model.fit(recorded["x0"], labels)
    model.num_epoch, model.optimizer = 4, 3
    with pytest.raises(mx.MXNetError, match="3 is neither an optimizer nor the name of one"):
        model.fit(recorded["x0"], labels)
    made_later = mx.model.FeedForward(lambda key: model.symbol)  # type: ignore[arg-type, return-value]
    with pytest.raises(mx.MXNetError, match="use BucketingModule"):
        made_later.predict(recorded["x0"])


def test_a_bucket_made_again_takes_no_more_memory() -> None:
    def network(length: int) -> tuple[mx.sym.Symbol, list[str], None]:
        data = mx.sym.Embedding(mx.sym.var("data"), input_dim=5, output_dim=2, name="embed")
        return mx.sym.FullyConnected(mx.sym.sum(data, axis=1), num_hidden=2, name="fc"), ["data"], None

    module = mx.mod.BucketingModule(network, default_bucket_key=4)
    module.bind([("data", (3, 4))], for_training=False)
    module.init_params()
    sizes = []
    for _ in range(2):
        module.switch_bucket(2, [("data", (3, 2))])
        sizes += [module._buckets[4]._total_exec_bytes, module._buckets.pop(2)._total_exec_bytes]
    assert sizes[:2] == sizes[2:]
    assert sizes[0] == 4 * (3 * 4 + 5 * 2 + 2 * 2 + 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_callbacks_find_the_variables_of_fit() -> None:
    """Recorded from MXNet 1.9.1, whose callbacks find all local variables of `fit` and `score`."""
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    batches, module = mx.io.NDArrayIter(mx.nd.ones((4, 3)), mx.nd.zeros(4), 2), mx.mod.Module(net)
    seen: dict[str, dict[str, Any]] = {}
    module.fit(
        batches,
        batches,
        num_epoch=1,
        batch_end_callback=lambda p: seen.update(batch=p.locals),
        eval_batch_end_callback=lambda p: seen.update(scored=p.locals),
        eval_end_callback=lambda p: seen.update(end=p.locals),
    )
    of_fit = (
        "allow_missing arg_params aux_params batch_end_callback begin_epoch data_batch data_iter end_of_batch epoch "
        "epoch_end_callback eval_batch_end_callback eval_data eval_end_callback eval_metric eval_name_vals force_init "
        "force_rebind initializer kvstore monitor nbatch next_data_batch num_epoch optimizer optimizer_params self "
        "sparse_row_id_fn train_data validation_metric"
    )
    of_score = (
        "actual_num_batch batch_end_callback epoch eval_batch eval_data eval_metric nbatch num_batch reset "
        "score_end_callback self sparse_row_id_fn"
    )
    assert set(of_fit.split()) <= set(seen["batch"])
    assert set(of_score.split()) <= set(seen["scored"]) and set(of_score.split()) <= set(seen["end"])
    assert all(found["self"] is module for found in seen.values()) and seen["batch"]["optimizer"] == "sgd"
    model = mx.model.FeedForward(net, num_epoch=1)
    model.fit(batches, batch_end_callback=lambda p: seen.update(batch=p.locals))
    of_old = "arg_params ctx data_batch epoch eval_metric executor_manager kvstore nbatch optimizer symbol train_data"
    assert set(of_old.split()) <= set(seen["batch"])
