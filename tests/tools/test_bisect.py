"""`mxforge bisect` names the pass, the kernel or the memory that is wrong, of models, of training and of scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.codegen import assemble, compiler, labels
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.kernel import Const, Kernel, Scalar, Store
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes import manager, training
from mxforge.passes.fold_batchnorm import FoldBatchNorm
from mxforge.passes.inline_calls import InlineCalls
from mxforge.tools.bisect.compare import compare
from mxforge.tools.bisect.script import main

from .conftest import FIXTURES

CONVNET = [FIXTURES / "convnet", "--input-shape", "data=2,3,32,32"]
F32 = TensorType((4,), DType.F32)


def off(graph: Graph, number: int = 0) -> Graph:
    """The graph with an output that is 1 % too large."""
    b = CoreBuilder(graph.name)
    b.inputs, b.nodes = list(graph.inputs), list(graph.nodes)
    outputs = list(graph.outputs)
    outputs[number] = b.mul(outputs[number], 1.01)
    return replace(graph, nodes=tuple(b.nodes), outputs=tuple(outputs))


def break_pass(monkeypatch: pytest.MonkeyPatch, kind: type[manager.Pass], number: int = 0) -> None:
    right = kind.run
    monkeypatch.setattr(kind, "run", lambda self, graph, context: off(right(self, graph, context), number))


def break_kernels(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    """Add 1 to what the kernels of a layer store."""
    change_kernels(monkeypatch, lambda node: layer in labels.layer_names(node))


def change_kernels(monkeypatch: pytest.MonkeyPatch, is_wrong: Callable[[Any], bool]) -> None:
    """Add 1 to what the kernels of some nodes store."""
    right: Callable[..., Any] = compiler.KernelCompiler._kernels
    made: list[Kernel] = []  # emissions are found by the identity of their kernels

    def changed(self: Any, node: Any, op: Any) -> Any:
        kernels = right(self, node, op)
        if not is_wrong(node):
            return kernels
        made.extend([_plus_one(kernel) for kernel, _ in kernels])
        return list(zip(made[-len(kernels) :], [values for _, values in kernels], strict=True))

    monkeypatch.setattr(compiler.KernelCompiler, "_kernels", changed)


def _plus_one(kernel: Kernel) -> Kernel:
    stages = [
        replace(s, value=Scalar(ScalarOp.ADD, (s.value, Const(1, DType.F32)))) if isinstance(s, Store) else s
        for s in kernel.stages
    ]
    return replace(kernel, stages=tuple(stages))


@pytest.mark.parametrize("name", ["convnet", "mlp", "tagger"])
@pytest.mark.parametrize("training_step", [False, True])
def test_nothing_is_found_in_right_models(mxforge: Any, name: str, training_step: bool) -> None:
    inputs = ["--input", FIXTURES / f"{name}.npz", *(["--training"] if training_step else [])]
    done = mxforge("bisect", FIXTURES / name, *inputs)
    assert done.status == 0, done.out
    assert "no pass and no kernel changes the numbers beyond rounding" in done.out and "WRONG" not in done.out
    assert ("backward graph" in done.out) is training_step


def test_a_wrong_pass_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_pass(monkeypatch, FoldBatchNorm)
    done = mxforge("bisect", *CONVNET)
    assert done.status == 1
    assert "convnet: the pass fold-batchnorm (passes/fold_batchnorm.py) changes the numbers" in done.out
    assert "WRONG" in done.out and "kernels" not in done.out
    report = json.loads(mxforge("bisect", *CONVNET, "--json").out)
    assert report["fault"]["kind"] == "pass" and report["stages"][-1]["step"] == "fold-batchnorm"
    assert report["stages"][-1]["largest"] == pytest.approx(0.01, rel=0.03)
    assert mxforge("bisect", *CONVNET, "--tolerance", "0.1").status == 0


def test_a_wrong_kernel_is_named_with_its_layers(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_kernels(monkeypatch, "convnet_dense0_fwd")
    done = mxforge("bisect", *CONVNET)
    assert done.status == 1
    assert "convnet: a kernel computes wrong numbers" in done.out
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.startswith("  ")}
    assert "convnet_dense0_fwd" in lines["layers"] and "FullyConnected" in lines["operators"]
    assert "Schedule" in lines["schedule"] and "core.dot" in done.out
    kernel = json.loads(mxforge("bisect", *CONVNET, "--json").out)["fault"]["kernel"]
    assert kernel["layers"] == ["convnet_dense0_fwd"] and kernel["launches"]


def test_memory_that_is_overwritten_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_at_0(blocks: Any, end: int = 0) -> tuple[int, int]:
        for block in blocks:
            block.offset = 0
        total = max((block.nbytes for block in blocks), default=0) + end
        return total, total

    monkeypatch.setattr(assemble, "assign_offsets", all_at_0)
    done = mxforge("bisect", *CONVNET)
    assert done.status == 1
    assert json.loads(mxforge("bisect", *CONVNET, "--json").out)["fault"]["kind"] in ("memory", "kernel")


@pytest.mark.parametrize(("kind", "graph"), [(InlineCalls, "joint graph"), (FoldBatchNorm, "forward graph")])
def test_a_wrong_pass_of_training_is_named(
    mxforge: Any, monkeypatch: pytest.MonkeyPatch, kind: type[manager.Pass], graph: str
) -> None:
    break_pass(monkeypatch, kind)
    done = mxforge("bisect", *CONVNET, "--training")
    assert done.status == 1
    assert f"convnet, {graph}: the pass {kind.name} " in done.out


def test_a_wrong_partition_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = training.partition

    def wrong(*args: Any, **kwargs: Any) -> Any:
        split = right(*args, **kwargs)
        return replace(split, backward=off(split.backward))

    monkeypatch.setattr(training, "partition", wrong)
    done = mxforge("bisect", *CONVNET, "--training")
    assert done.status == 1 and "the partition (passes/partition.py) changes the numbers" in done.out


def test_a_wrong_kernel_of_the_backward_graph_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forward: list[bool] = []
    right: Callable[..., Any] = compiler.KernelCompiler.steps

    def steps(self: Any, graph: Graph, sharing: Any) -> Any:
        forward.append(not graph.name.endswith("_backward"))
        return right(self, graph, sharing)

    monkeypatch.setattr(compiler.KernelCompiler, "steps", steps)
    change_kernels(monkeypatch, lambda node: not forward[-1])
    done = mxforge("bisect", *CONVNET, "--training")
    assert done.status == 1 and "convnet, backward graph: a kernel computes wrong numbers" in done.out


def test_weights_in_bfloat16_are_rounded_on_purpose(mxforge: Any) -> None:
    done = mxforge("bisect", *CONVNET, "--weights", "bf16")
    assert done.status == 0, done.out
    assert "narrow-weights" in done.out


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["nothing.py"], 1, "nothing.py: no such file"),
        ([*CONVNET, "--runs", "2"], 2, "only for a script"),
        ([FIXTURES / "convnet"], 2, "--input-shape data=D,D,..."),
        ([*CONVNET, "--tolerance", "0"], 2, "--tolerance"),
    ],
)
def test_wrong_arguments(mxforge: Any, arguments: list[Any], status: int, text: str) -> None:
    done = mxforge("bisect", *arguments)
    assert done.status == status and text in done.err and done.err.count("\n") == 1


def test_a_compiled_folder_has_no_graph(mxforge: Any, compiled: Path) -> None:
    done = mxforge("bisect", compiled)
    assert done.status == 2 and "bisect the model it was made from" in done.err


# -- scripts

SCRIPT = """
import sys
import mxnet as mx
from mxnet import autograd, gluon

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"), gluon.nn.Dense(3))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd")
for n in (2, 3):
    with autograd.record():
        loss = (net(mx.nd.ones((n, 3, 8, 8))) ** 2).mean()
    loss.backward()
    trainer.step(n)
print("done", sys.argv[1:], __name__)
sys.exit(3)
"""


@pytest.fixture
def in_script(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs a script with arguments through the command line, and returns the status and the output."""
    import subprocess
    import sys

    def run(text: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "script.py").write_text(text)
        command = [sys.executable, "-m", "mxforge", "bisect", *arguments[:1], str(tmp_path / "script.py"), "--n", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_right_script_has_its_own_status(in_script: Any) -> None:
    status, out = in_script(SCRIPT)
    assert status == 3, out
    assert "done ['--n', '1'] __main__" in out
    assert "programs compared, and none is wrong" in out


BREAK = """
import mxforge.tools.bisect  # the package can be changed before the script compiles
from dataclasses import replace
from mxforge.codegen import assemble, compiler, labels
from mxforge.ir.kernel import Const, Scalar, Store
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType
right, made = compiler.KernelCompiler._kernels, []  # emissions are found by the identity of their kernels
def wrong(self, node, op):
    kernels = right(self, node, op)
    if not any("dense" in name for name in labels.layer_names(node)):
        return kernels
    def plus(k):
        made.append(replace(k, stages=tuple(
            replace(s, value=Scalar(ScalarOp.ADD, (s.value, Const(1, DType.F32)))) if isinstance(s, Store) else s
            for s in k.stages)))
        return made[-1]
    return [(plus(k), v) for k, v in kernels]
compiler.KernelCompiler._kernels = wrong
"""


def test_a_wrong_kernel_of_a_script_is_named_and_ends_it(in_script: Any) -> None:
    status, out = in_script(BREAK + SCRIPT)
    assert status == 1
    assert "a kernel computes wrong numbers" in out and "dense0_fwd" in out and "done" not in out
    status, out = in_script(BREAK + SCRIPT, "--json")
    assert json.loads(out)["fault"]["kernel"]["operators"] in (["FullyConnected"], [])


BREAK_PARTITION = """
from dataclasses import replace
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.passes import training
right = training.partition
def wrong(*args, **kwargs):
    split = right(*args, **kwargs)
    graph, b = split.backward, CoreBuilder(split.backward.name)
    b.inputs, b.nodes = list(graph.inputs), list(graph.nodes)
    outputs = (b.mul(graph.outputs[0], 1.01), *graph.outputs[1:])
    return replace(split, backward=replace(graph, nodes=tuple(b.nodes), outputs=outputs))
training.partition = wrong
"""


def test_a_wrong_pass_of_a_scripts_gradient_is_named(in_script: Any) -> None:
    status, out = in_script(BREAK_PARTITION + SCRIPT.replace("mx.nd.ones((", "mx.nd.random.normal(shape=("))
    assert status == 1 and "done" not in out
    assert "joint graph: the partition (passes/partition.py) changes the numbers" in out


def test_exceptions_of_the_script_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "a.py").write_text("raise KeyError('own')")
    with pytest.raises(KeyError, match="own"):
        main(['{"tolerance": null, "runs": 1, "json": false}', str(tmp_path / "a.py")])


# -- comparisons


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0),
        ([1, 2, 3, 4.0001], [1, 2, 3, 4], 0),
        ([1, 2.1, 3, 4], [1, 2, 3, 4], 1),
        ([np.nan, 2, np.inf, 4], [np.nan, 2, np.inf, 4], 0),
        ([np.nan, 2, 3, 4], [1, 2, 3, 4], 1),
        ([-np.inf, 2, 3, 4], [np.inf, 2, 3, 4], 1),
        ([0, 0, 0, 0], [0, 0, 0, 0], 0),
    ],
)
def test_what_counts_as_rounding(found: list[float], expected: list[float], wrong: int) -> None:
    difference = compare("y", F32, np.array(found, np.float32), np.array(expected, np.float32))
    assert difference.count == wrong and difference.is_wrong is bool(wrong)


def test_integers_must_be_equal() -> None:
    found = compare(
        "y", TensorType((2,), DType.I32), np.array([1, 10**6], np.int32), np.array([1, 10**6 + 1], np.int32)
    )
    assert found.index == (1,) and (found.found, found.expected) == (10**6, 10**6 + 1)


def test_results_near_zero_are_compared_with_their_operands() -> None:
    found, expected = np.array([1e-7, 0, 0, 0], np.float32), np.zeros(4, np.float32)
    assert compare("y", F32, found, expected).is_wrong
    assert not compare("y", F32, found, expected, noise=1e-6).is_wrong
