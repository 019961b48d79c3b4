"""ONNX under the name of MXNet before 1.9."""

from __future__ import annotations

from pathlib import Path

import mxforge as mx
import numpy as np
import onnx


def test_models_are_written_under_the_old_name(tmp_path: Path) -> None:
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    path = mx.contrib.onnx.export_model(data, params, [(1, 3)], np.float32, str(tmp_path / "net.onnx"))
    assert "Gemm" in [node.op_type for node in onnx.load(path).graph.node]


def test_models_are_read_under_the_old_name(tmp_path: Path) -> None:
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    path = mx.contrib.onnx.export_model(data, params, [(1, 3)], np.float32, str(tmp_path / "net.onnx"))
    symbol, arguments, auxiliary = mx.contrib.onnx.import_model(path)
    assert symbol.list_inputs() == ["data", "fc_weight", "fc_bias"] and not auxiliary
    assert sorted(arguments) == ["fc_bias", "fc_weight"]
    assert mx.contrib.onnx.import_to_gluon(path, mx.cpu())(mx.nd.ones((1, 3))).asnumpy().tolist() == [[3, 3]]
    metadata = mx.contrib.onnx.get_model_metadata(path)
    assert metadata == {"input_tensor_data": [("data", (1, 3), 1)], "output_tensor_data": [("fc", (1, 2))]}
