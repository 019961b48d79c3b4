"""`mx.mlir`: networks as modules of upstream MLIR, and modules as functions of arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
from mxforge.codegen.stablehlo.upstream import Upstream

upstream = Upstream()
MODULES = Path(__file__).resolve().parents[1] / "data" / "jax_modules"


def network() -> Any:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Activation("relu"), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    return net


def parsed(body: str, arguments: str = "%x: tensor<2x3xf32>", results: str = "tensor<2x3xf32>") -> Any:
    context = upstream.context()
    with context:
        return upstream.ir.Module.parse(f"module {{ func.func @main({arguments}) -> ({results}) {{ {body} }} }}")


@pytest.mark.parametrize("stage", mx.mlir.STAGES)
@pytest.mark.parametrize("constants", (False, True))
def test_a_block_enters_at_every_stage(stage: str, constants: bool) -> None:
    net, x = network(), mx.nd.random.normal(shape=(2, 3, 6, 6))
    expected = net(x).asnumpy()
    module = mx.mlir.lower(net, x, stage=stage, constants=constants)
    run = mx.mlir.compile(module)
    parameters = {} if constants else {name: p.data() for name, p in net.collect_params().items()}
    assert set(run.input_names) == {"data", *parameters}
    (y,) = run(data=x, **parameters)
    assert isinstance(y, mx.nd.NDArray)
    np.testing.assert_allclose(y.asnumpy(), expected, 1e-5, 1e-5)
    assert module.operation.verify()


def test_states_that_a_layer_adds_to_its_call() -> None:
    net, x = mx.gluon.rnn.LSTM(4, layout="NTC", bidirectional=True), mx.nd.random.normal(shape=(2, 5, 3))
    net.initialize(mx.init.Xavier())
    run = mx.mlir.compile(mx.mlir.lower(net, x, constants=True))
    assert run.input_names == ("data",)
    np.testing.assert_allclose(run(x)[0].asnumpy(), net(x).asnumpy(), 1e-5, 1e-5)


def test_one_module_for_all_batch_sizes() -> None:
    net, x = network(), mx.nd.random.normal(shape=(2, 3, 6, 6))
    net(x)
    module = mx.mlir.lower(net, x, constants=True, dynamic_batch=True)
    assert "tensor<?x3x6x6xf32>" in str(module)
    with module.context, upstream.ir.Location.unknown():
        upstream.run(
            "builtin.module(stablehlo-refine-arguments{types=tensor<5x3x6x6xf32>},stablehlo-refine-shapes,"
            "func.func(stablehlo-canonicalize-dynamism))",
            module,
        )
    data = mx.nd.random.normal(shape=(5, 3, 6, 6))
    np.testing.assert_allclose(mx.mlir.compile(module)(data)[0].asnumpy(), net(data).asnumpy(), 1e-5, 1e-5)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    assert '(%arg0: tensor<?x4xf32> {mxforge.name = "data"}, %arg1: tensor<3x4xf32>' in str(
        mx.mlir.lower(dense, data=(2, 4), dynamic_batch=True)
    )
    with pytest.raises(mx.MXNetError, match="'linalg' has fixed shapes"):
        mx.mlir.lower(net, x, dynamic_batch=True, stage="linalg")


@pytest.mark.parametrize("stage", ("stablehlo", "buffers"))
def test_a_training_step(stage: str) -> None:
    """The compiled step trains as Gluon's Trainer. Adam follows the sign of a gradient of 0, which is that of its
    rounding error: with other numbers both can take other ways."""
    mx.random.seed(0)
    net, loss, x, y = network(), mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.nd.ones((4, 3, 6, 6)), mx.nd.arange(4) % 3
    x[:, 0] = mx.nd.arange(4).reshape((4, 1, 1))
    net(x)
    step = mx.mlir.compile(mx.mlir.lower_step(net, loss, mx.optimizer.Adam(learning_rate=0.1), x, y, stage=stage))
    parameters = {name: p.data().copy() for name, p in net.collect_params().items()}
    states = [parameters.get(a.name, np.zeros(a.shape, a.dtype)) for a in step.inputs[:-2]]
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    for _ in range(3):
        with mx.autograd.record():
            expected = loss(net(x), y).mean()
        expected.backward()
        trainer.step(1)
        found, *states = step(*states, x, y)
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), 1e-3)
    assert states[-1].asscalar() == 3


def test_a_pass_of_a_user_changes_what_runs() -> None:
    """The parameters of the module are what the pass sees: it replaces the relu's zero by 1."""
    x = mx.sym.var("x")
    module = mx.mlir.lower(mx.sym.relu(x), x=(4,))
    ir = upstream.ir
    with module.context, ir.Location.unknown():
        for op in list(module.body.operations[0].regions[0].blocks[0].operations):
            if op.name == "stablehlo.constant":
                one = ir.DenseElementsAttr.get(np.ones((), np.float32))
                op.attributes["value"] = one
    (y,) = mx.mlir.compile(module)(np.array([-1, 0.5, 2, 3], np.float32))
    np.testing.assert_array_equal(y, [1, 1, 2, 3])


def test_a_symbol_by_the_shapes_of_its_inputs() -> None:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    run = mx.mlir.compile(mx.mlir.lower(net, data=(2, 4), constants={"fc_bias": mx.nd.array([1, 2, 3])}))
    assert run.input_names == ("data", "fc_weight")
    assert run.output_names == ("fc_output",)
    (y,) = run(np.ones((2, 4), np.float32), np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(y, [[5, 6, 7]] * 2)
    for wrong, message in (({}, "'data' is not known"), ({"dat": (2, 4)}, "no input 'dat'.*'data'")):
        with pytest.raises(mx.MXNetError, match=message):
            mx.mlir.lower(net, **wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(mx.MXNetError, match=r"no stage.*'linalg'"):
        mx.mlir.lower(net, data=(2, 4), stage="linalgs")
    with pytest.raises(mx.MXNetError, match="no input 'fc_bia'"):
        mx.mlir.lower(net, data=(2, 4), constants={"fc_bia": mx.nd.ones(3)})


@pytest.mark.parametrize("stage", mx.mlir.STAGES)
def test_unsigned_integers_keep_their_type(stage: str) -> None:
    x = mx.nd.array([1, 200, 255], dtype="uint8")
    v = mx.sym.var("x")
    run = mx.mlir.compile(mx.mlir.lower(mx.sym.Group([mx.sym.relu(v), mx.sym.cast(v, "float32")]), x=x, stage=stage))
    for y, dtype in zip(run(x), ("uint8", "float32"), strict=True):
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y.asnumpy(), [1, 200, 255])


def test_arguments_are_not_written() -> None:
    """Bufferization writes a row into the argument unless forbidden to. The same result twice ended the process."""
    zero = "%c = stablehlo.constant dense<0> : tensor<i32> "
    update = (
        "%y = stablehlo.dynamic_update_slice %x, %r, %c, %c : "
        "(tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32> "
    )
    types = ", ".join(["tensor<2x3xf32>"] * 4)
    run = mx.mlir.compile(
        parsed(f"{zero}{update} return %y, %y, %x, %x : {types}", "%x: tensor<2x3xf32>, %r: tensor<1x3xf32>", types)
    )
    x, row = np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)
    for found, expected in zip(run(x, row), ([[1] * 3, [0] * 3],) * 2 + (x, x), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not x.any()


def test_functions_are_inlined() -> None:
    with upstream.context():
        module = upstream.ir.Module.parse(
            "module { func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {"
            " %y = stablehlo.add %x, %x : tensor<2xf32> return %y : tensor<2xf32> }"
            " func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {"
            " %y = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32> return %y : tensor<2xf32> } }"
        )
    (y,) = mx.mlir.compile(module)(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(y, [2, 4])


def test_what_cannot_be_compiled_is_named() -> None:
    for module, message in (
        (parsed("return %x : tensor<?xf32>", "%x: tensor<?xf32>", "tensor<?xf32>"), r"tensor<\?xf32> cannot be run"),
        (parsed("return %x : tensor<2xcomplex<f32>>", "%x: tensor<2xcomplex<f32>>", "tensor<2xcomplex<f32>>"), "compl"),
        (parsed("return %x : tensor<2xindex>", "%x: tensor<2xindex>", "tensor<2xindex>"), "index> cannot be run"),
        (
            parsed(
                "%y = stablehlo.custom_call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> return %y : tensor<2x3xf32>"
            ),
            "stablehlo.custom_call",
        ),
    ):
        with pytest.raises(mx.MXNetError, match=message):
            mx.mlir.compile(module)
    with upstream.context():
        other = upstream.ir.Module.parse("module { func.func @other() { return } }")
        late = upstream.ir.Module.parse('module attributes {mxforge.stage = "llvm"} { llvm.func @main() }')
    with pytest.raises(mx.MXNetError, match="no function main"):
        mx.mlir.compile(other)
    with pytest.raises(mx.MXNetError, match=r"no attribute mxforge\.signature"):
        mx.mlir.compile(late)
    module = mx.mlir.lower(mx.sym.relu(mx.sym.var("x")), x=(4,), stage="buffers")
    with module.context:
        module.operation.attributes["mxforge.signature"] = upstream.ir.Attribute.parse("() -> ()")
    with pytest.raises(mx.MXNetError, match="must take 0 arguments"):
        mx.mlir.compile(module)


def test_a_file_of_another_tool(tmp_path: Path) -> None:
    """What JAX computed is in the file of arrays."""
    known = dict(np.load(MODULES / "convolutional.npz"))
    run = mx.mlir.load(MODULES / "convolutional.mlirbc", argument0=(3, 8, 8, 3))
    (y,) = run(mx.nd.array(known["argument0"]))
    assert isinstance(y, mx.nd.NDArray)
    np.testing.assert_allclose(y.asnumpy(), known["result0"], 1e-4, 1e-5)
    path = tmp_path / "call.mlir"
    path.write_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %y : tensor<2xf32> }")
    with pytest.raises(mx.MXNetError, match=r"call\.mlir: use of undeclared SSA value name at line 2"):
        mx.mlir.load(path)


def test_nothing_of_mlir_loads_with_the_package() -> None:
    program = "import sys, mxforge; assert not [m for m in sys.modules if 'mlir' in m or m.startswith('torch')]"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
