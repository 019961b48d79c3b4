"""Every operator's recorded calls, exported to ONNX and run by ONNX Runtime, agree with MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import onnx
import onnxruntime
import pytest
from goldens import Golden, operator_goldens, symbol_function
from mxforge.frontend.onnx import scalar_rules
from mxforge.frontend.onnx.export_model import export_symbol
from mxforge.ir.dialects.core.scalar_rules import EXPANDED
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType

onnxruntime.set_default_logger_severity(4)  # it warns about its graph rewriting

# Operators that ONNX lacks: their export raises and names them.
LACKING = frozenset(
    """CTCLoss _contrib_MultiBoxTarget _image_random_brightness _image_random_contrast _image_random_hue
    _image_random_lighting _image_random_saturation _linalg_det _linalg_gelqf _linalg_inverse _linalg_potrf
    _linalg_potri _linalg_slogdet _linalg_syevd _linalg_trsm _random_pdf_dirichlet _random_pdf_gamma
    _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_poisson erfinv gamma
    gammaln""".split()
)
# MXNet's record is wrong, ONNX does not define NaN, or MXNet's function takes other inputs.
OTHERWISE = frozenset(("unravel_index", "max", "min", "BatchNorm_v1", "fill_element_0index"))


def runnable(golden: Golden) -> bool:
    """True if ONNX Runtime has the kernels: it has few for floats other than float32, and none for empty arrays."""
    arrays = golden.inputs + golden.outputs
    usual = all(a.size and a.dtype in (np.float32, np.int32, np.int64) for a in arrays)
    return usual and not golden.train and golden.op not in LACKING | OTHERWISE


RUNNABLE = sorted({g.op for g in operator_goldens() if runnable(g)})


def exported(golden: Golden) -> Any:
    inputs = [mx.sym.var(f"x{i}") for i in range(len(golden.inputs))]
    types = {f"x{i}": TensorType(x.shape, DType.from_numpy(x.dtype)) for i, x in enumerate(golden.inputs)}
    return export_symbol(symbol_function(golden.op)(*inputs, name="n", **golden.attributes), {}, types).proto()


def run(model: Any, inputs: dict[str, np.ndarray]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()}))


@pytest.mark.parametrize("op", RUNNABLE)
def test_operators_agree_with_mxnet(op: str) -> None:
    for golden in (g for g in operator_goldens() if g.op == op and runnable(g)):
        found = run(exported(golden), {f"x{i}": x for i, x in enumerate(golden.inputs)})
        for one, other in zip(found, golden.outputs, strict=True):
            assert one.dtype == other.dtype, str(golden)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=str(golden))


@pytest.mark.parametrize("op", sorted(LACKING & {g.op for g in operator_goldens()}))
def test_operators_that_onnx_lacks_are_named(op: str) -> None:
    golden = next(g for g in operator_goldens() if g.op == op and all(a.size for a in g.inputs))
    with pytest.raises(mx.MXNetError, match=r"'n'.* cannot be written as ONNX: (ONNX has no |it draws random numbers)"):
        exported(golden)


def test_every_scalar_operation_is_written_or_listed_as_lacking() -> None:
    tables = (scalar_rules.NAMES, scalar_rules.FORMULAS, scalar_rules.UNSUPPORTED)
    assert sorted(op.value for table in tables for op in table) == sorted(op.value for op in set(ScalarOp) - EXPANDED)


def test_a_model_is_written_by_the_names_of_onnx(tmp_path: Path) -> None:
    net = mx.gluon.model_zoo.vision.resnet18_v1(classes=4, thumbnail=True)
    net.initialize()
    net.hybridize()
    x = mx.nd.random.uniform(shape=(1, 3, 16, 16))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    path = mx.onnx.export_model(*files, [(1, 3, 16, 16)], np.float32, str(tmp_path / "net.onnx"))
    model = onnx.load(path)
    kinds = {node.op_type for node in model.graph.node}
    assert kinds == {"Conv", "BatchNormalization", "Relu", "Add", "GlobalAveragePool", "Flatten", "Gemm"}
    np.testing.assert_allclose(run(model, {"data": x.asnumpy()})[0], expected, rtol=1e-4, atol=1e-5)


def test_windows_that_end_beyond_the_data_are_padded() -> None:
    """One MaxPool for MXNet's convention "full", unless a window would have padding alone."""
    x = np.random.RandomState(0).rand(2, 3, 8, 9).astype("f")
    for kernel, stride, pad, kinds in (
        (3, 2, 0, ["MaxPool"]),
        (3, 2, 1, ["MaxPool"]),
        (2, 3, 1, ["Reshape", "MaxPool"]),
    ):
        sizes: dict[str, Any] = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad, pad)}
        pool = mx.sym.Pooling(mx.sym.var("x"), pool_type="max", pooling_convention="full", **sizes)
        model = export_symbol(pool, {}, {"x": TensorType(x.shape, DType.F32)}).proto()
        expected = mx.nd.Pooling(mx.nd.array(x), pool_type="max", pooling_convention="full", **sizes).asnumpy()
        np.testing.assert_array_equal(run(model, {"x": x})[0], expected)
        found = [node.op_type for node in model.graph.node]
        assert [kind for kind in found if kind in ("Reshape", "MaxPool")][: len(kinds)] == kinds, found


def test_outputs_have_different_names() -> None:
    x = mx.sym.var("x")
    a = mx.sym.exp(x, name="a")
    b = mx.sym.log(a, name="a")
    types = {"x": TensorType((2,), DType.F32)}
    for outputs in ([a, a], [a, b], [b, a], [a, b, a]):
        model = export_symbol(mx.sym.Group(outputs), {}, types).proto()
        names = [output.name for output in model.graph.output]
        assert len(set(names)) == len(names) and names[0] == "a"
        values = {id(a): np.exp([0.0, 1.0]), id(b): np.array([0.0, 1.0])}
        for output, result in zip(outputs, run(model, {"x": np.array([0, 1], np.float32)}), strict=True):
            np.testing.assert_allclose(result, values[id(output)], rtol=1e-5, atol=1e-6)


def test_scales_fixed_to_1_are_ignored() -> None:
    # MXNet's export writes the stored scales.
    made = mx.sym.BatchNorm(mx.sym.var("data"), fix_gamma=True, name="bn")
    values = {"gamma": 7, "beta": 0, "moving_mean": 0, "moving_var": 1}
    arrays = {f"bn_{name}": np.full(2, value, np.float32) for name, value in values.items()}
    model = export_symbol(made, arrays, {"data": TensorType((1, 2), DType.F32)}).proto()
    np.testing.assert_allclose(run(model, {"data": np.ones((1, 2), np.float32)})[0], [[1, 1]], rtol=1e-2)


def test_invalid_calls_name_what_is_missing(tmp_path: Path) -> None:
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones((2,))}
    with pytest.raises(mx.MXNetError, match="in_shapes is missing"):
        mx.onnx.export_model(dense, params)
    with pytest.raises(mx.MXNetError, match="2 shapes for the inputs"):
        mx.onnx.export_model(dense, params, [(1, 3), (1, 3)])
    draw = mx.sym.random.uniform(shape=(2,), name="draw")
    with pytest.raises(mx.MXNetError, match=r"'draw'.* draws random numbers"):
        mx.onnx.export_model(draw, {}, [], onnx_file_path=str(tmp_path / "a.onnx"))


def test_loops_and_branches_are_written() -> None:
    """Many steps are exported as one loop; one loop scans data, the other does not."""
    sym: Any = mx.sym

    def step(x: Any, states: Any) -> Any:
        chosen = sym.contrib.cond(sym.sum(x) > 0, lambda: x * sym.var("scale"), lambda: x - states[0])
        return chosen, [states[0] + x * 0.1]

    outs, states = sym.contrib.foreach(step, sym.var("data"), [sym.var("state")])
    stacked, last = sym.contrib.while_loop(
        lambda i, s: i < 5, lambda i, s: (s * 2, (i + 1, s + 1)), (sym.var("i"), states[0]), max_iterations=300
    )
    graph = sym.Group([outs, stacked, *last])
    data = np.cos(np.arange(900, dtype=np.float32) * 0.37).reshape(300, 3)
    arrays = {"data": data, "state": data[0], "scale": data[1], "i": np.zeros(1, np.float32)}
    reference = graph.bind(mx.cpu(), {n: mx.nd.array(a) for n, a in arrays.items()}).forward()
    types = {n: TensorType(a.shape, DType.F32) for n, a in arrays.items()}
    model = export_symbol(graph, {}, types).proto()
    assert len(model.graph.node) < 50
    for found, expected in zip(run(model, arrays), reference, strict=True):
        np.testing.assert_allclose(found, expected.asnumpy(), rtol=1e-5, atol=1e-5)


def test_a_loop_from_the_last_step_to_the_first_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """In inference no operator has such a loop; the backward pass of a loop is one."""

    def summed_from_the_end(self: Any, b: MxBuilder, x: Value) -> Value:
        step, row = MxBuilder("step"), TensorType(x.type.shape[1:], x.type.dtype)
        total, item = step.input(row), step.input(row)
        total = step.add(total, item)
        return b.scan(step.build([total, total]), [b.full(row.shape, 0)], [x], [], x.type.shape[0], reverse=True)[1]

    monkeypatch.setattr(lookup("_contrib_quadratic"), "decompose", summed_from_the_end)
    model = export_symbol(mx.sym.contrib.quadratic(mx.sym.var("x")), {}, {"x": TensorType((301, 3), DType.F32)}).proto()
    assert "Scan" in {node.op_type for node in model.graph.node}
    data = np.cos(np.arange(903, dtype=np.float32)).reshape(301, 3)
    np.testing.assert_allclose(run(model, {"x": data})[0], np.cumsum(data[::-1], 0)[::-1], rtol=1e-4, atol=1e-4)


def test_the_written_opset_can_be_requested() -> None:
    assert {"Convolution", "_contrib_box_nms"} <= {*mx.onnx.get_operator_support(), *mx.onnx.get_operator_support(18)}
    with pytest.raises(mx.MXNetError, match="opset 18, not 9"):
        mx.onnx.get_operator_support(9)
