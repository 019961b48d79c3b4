"""ONNX under the name of MXNet before 1.9."""

from __future__ import annotations

from pathlib import Path

import mxforge as mx
import numpy as np
import onnx
import pytest


def test_models_are_written_under_the_old_name(tmp_path: Path) -> None:
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    path = mx.contrib.onnx.export_model(data, params, [(1, 3)], np.float32, str(tmp_path / "net.onnx"))
    assert "Gemm" in [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("name", ["import_model", "get_model_metadata", "import_to_gluon"])
def test_reading_models_is_refused(name: str) -> None:
    with pytest.raises(mx.MXNetError, match=f"contrib.onnx.{name}: ONNX models cannot be read yet"):
        getattr(mx.contrib.onnx, name)("net.onnx")
