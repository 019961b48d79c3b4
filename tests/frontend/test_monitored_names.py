"""Monitors and hooks receive operators' inputs and outputs under MXNet's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from mxforge.ir.dialects.mx.monitored_names import monitored_gradients, monitored_names
from mxforge.ir.dialects.mx.operator import lookup

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "monitored_inputs.json").read_text())


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row[0])
def test_names_agree_with_mxnets(row: Any) -> None:
    op, attributes, count, names = row
    assert list(monitored_names(lookup(op).parse(attributes), count)) == names


def test_a_monitor_of_a_module_receives_them(caplog: pytest.LogCaptureFixture) -> None:
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    active: Any = mx.sym.Activation(data, act_type="relu", name="act")
    out = mx.sym.SoftmaxOutput(active + 1, name="softmax")
    module = mx.mod.Module(out)
    module.bind([("data", (2, 4))], [("softmax_label", (2,))], for_training=False)
    module.init_params()
    monitor = mx.mon.Monitor(1, monitor_all=True)
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 4))], [mx.nd.ones((2,))]))
    heard = [name for _, name, _ in monitor.toc()]
    inside = [
        "data",
        "fc_data",
        "fc_weight",
        "fc_weight",
        "fc_bias",
        "fc_bias",
        "fc_output",
        "act_input0",
        "act_output",
    ]
    assert heard[: len(inside)] == inside
    assert heard[len(inside)].endswith("_input0") and heard[len(inside)].startswith("_plusscalar")


def hooked(net: Any, shape: tuple[int, ...], inputs: bool, recorded: bool) -> list[str]:
    """The names that a hook of a hybridized block receives."""
    heard: list[str] = []
    net.initialize()
    net.hybridize()
    x = mx.nd.ones(shape)
    net(x)
    net.register_op_hook(lambda name, op, array: heard.append(name.decode()), monitor_all=inputs)
    with mx.autograd.record() if recorded else mx.autograd.pause():
        net(x)
    return heard


class Mixed(mx.gluon.HybridBlock):
    """Operators with and without names of outputs; an output that nothing reads."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.split(x, 2, axis=1)[0] + F.exp(x.slice_axis(1, 0, 2)) * 2


def layers() -> Any:
    net = mx.gluon.nn.HybridSequential(prefix="seq_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Flatten())
        net.add(mx.gluon.nn.LayerNorm(), mx.gluon.nn.Dropout(0.5))
    return net


def test_names_that_a_hook_of_a_block_receives() -> None:
    """Recorded from MXNet 1.9.1."""
    mixed = "split0_output0 slice_axis0_0 exp0_0 _mulscalar0_0 _plus0_output".split()
    assert hooked(Mixed(prefix="two_"), (1, 4), False, False) == [f"two_{name}" for name in mixed]
    mixed = """split0_data split0_output0 slice_axis0_input0 slice_axis0_0 exp0_input0 exp0_0 _mulscalar0_input0
        _mulscalar0_0 _plus0_lhs _plus0_rhs _plus0_output""".split()
    assert hooked(Mixed(prefix="two_"), (1, 4), True, True) == [f"two_{name}" for name in mixed]
    outputs = """dense0_fwd_output dense0_relu_fwd_output batchnorm0_fwd_output flatten0_flatten0_0
        layernorm0_layernorm0_output dropout0_fwd_output""".split()
    assert hooked(layers(), (2, 3), False, False) == [f"seq_{name}" for name in outputs]
    both = """dense0_fwd_data dense0_fwd_weight dense0_fwd_bias dense0_fwd_output dense0_relu_fwd_input0
        dense0_relu_fwd_output batchnorm0_fwd_data batchnorm0_fwd_gamma batchnorm0_fwd_beta batchnorm0_fwd_moving_mean
        batchnorm0_fwd_moving_var batchnorm0_fwd_output batchnorm0_fwd_mean batchnorm0_fwd_var
        flatten0_flatten0_input0 flatten0_flatten0_0 layernorm0_layernorm0_data layernorm0_layernorm0_gamma
        layernorm0_layernorm0_beta layernorm0_layernorm0_output layernorm0_layernorm0_mean
        layernorm0_layernorm0_std dropout0_fwd_data dropout0_fwd_output dropout0_fwd_mask""".split()
    assert hooked(layers(), (2, 3), True, True) == [f"seq_{name}" for name in both]


def test_a_block_that_is_not_hybridized_has_no_op_hook() -> None:
    net, heard = Mixed(), []
    net.register_op_hook(lambda *args: heard.append(args), monitor_all=True)
    net(mx.nd.ones((1, 4)))
    assert heard == []


GRADIENTS = [
    ("FullyConnected", {"num_hidden": "2"}, 3, ["_output0", "_output1", "_output2"]),
    ("Activation", {"act_type": "relu"}, 1, ["_output"]),
    ("SliceChannel", {"num_outputs": "2"}, 1, ["_data"]),
    ("InstanceNorm", {}, 3, ["_data", "_gamma", "_beta"]),
    ("BatchNorm", {}, 3, ["_output0", "_output1", "_output2"]),
    ("BatchNorm_v1", {}, 3, ["_data", "_gamma", "_beta"]),
    ("Correlation", {}, 2, ["_data1", "_data2"]),
    ("SequenceLast", {"use_sequence_length": "True"}, 2, ["_data", "_sequence_length"]),
    ("Crop", {"num_args": "2"}, 2, ["_arg0", "_arg1"]),
    ("batch_dot", {}, 2, ["_lhs_output", "_rhs_output"]),
]


@pytest.mark.parametrize(("op", "attributes", "count", "names"), GRADIENTS)
def test_names_of_gradients(op: str, attributes: dict[str, str], count: int, names: list[str]) -> None:
    """As MXNet's executors name them, here after `NODE_backward`."""
    found = monitored_gradients(lookup(op).parse(attributes), range(count), count + 2 * op.startswith("BatchNorm"))
    assert list(found) == [f"_backward{name}" for name in names]
