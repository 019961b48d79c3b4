"""Monitors receive operators' inputs under MXNet's names."""

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
