"""The number of files that an addition touches: each addition is made and used in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import mxforge
import pytest

ROOT = Path(mxforge.__file__).resolve().parent
PACKAGE = ("codegen", "frontend", "ir", "passes", "runtime", "tools", "__init__.py", "__main__.py")


class Copy:
    """A copy of the package for additions. `touched` holds the files that were changed by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.package = folder, folder / "mxforge"
        self.touched: set[str] = set()
        for name in PACKAGE:
            source, target = ROOT / name, self.package / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def insert(self, file: str, anchor: str, text: str) -> None:
        """Insert `text` before the only line that starts with `anchor`; "" is the end of the file."""
        path = self.package / file
        before = path.read_text()
        if anchor:
            assert before.count(f"\n{anchor}") == 1, f"{file} has no single line {anchor!r}"
            head, tail = before.split(f"\n{anchor}")
            path.write_text(f"{head}\n{text}{anchor}{tail}")
        else:
            path.write_text(f"{before.rstrip()}\n\n\n{text}")
        self.touched.add(file)

    def create(self, file: str, text: str) -> None:
        path = self.package / file
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.touched.add(file)

    def run(self, *arguments: str, target: str = "cpu") -> None:
        """Run Python on the copy. AssertionError with its stderr if it fails."""
        folders = {"PYTHONPATH": str(self.folder), "MXFORGE_CACHE_DIR": str(self.folder / "cache")}
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **folders, "MXFORGE_TARGET": target},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def use(self, program: str) -> None:
        """Run a program on the copy, interpreted and compiled."""
        for target in ("reference", "cpu"):
            self.run("-c", dedent(program), target=target)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


SOFT_THRESHOLD = '''\
@operator("scratch_threshold")
class ScratchThreshold(Elementwise):
    """Moves each element towards zero by `lambd`, and to zero where it is closer than that."""

    lambd: Float = 0.5

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        (x,) = inputs
        return b.mul(b.sign(x), b.maximum(b.sub(b.abs(x), self.lambd), 0.0))
'''

USE_OF_AN_OPERATOR = """
import numpy as np
import mxforge as mx

x = mx.nd.array([-2.0, -0.25, 0.0, 3.0])
expected = [-1.5, 0.0, 0.0, 2.5]
assert mx.nd.scratch_threshold(x, lambd=0.5).asnumpy().tolist() == expected
out = mx.sym.scratch_threshold(mx.sym.var("x"), lambd="0.5")
assert mx.sym.load_json(out.tojson()).bind(mx.cpu(), {"x": x}).forward()[0].asnumpy().tolist() == expected


class Net(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.scratch_threshold(F.relu(x), lambd=1)


net = Net()
net.hybridize()
assert net(x).asnumpy().tolist() == [0.0, 0.0, 0.0, 2.0]
assert "lambd : float" in mx.nd.scratch_threshold.__doc__ and "scratch_threshold" in dir(mx.nd)
"""


def test_an_operator_touches_one_file(copy: Copy) -> None:
    copy.insert("ir/dialects/mx/nn_activation.py", "", SOFT_THRESHOLD)
    copy.run("-m", "mxforge.tools.make_stubs")  # rewrites the index of operators and the stubs
    copy.use(USE_OF_AN_OPERATOR)
    assert len(copy.touched) == 1


SOFTSIGN = """\
    ScalarOp.SCRATCH: ScalarRule(
        lambda x: x / (1 + np.abs(x)),
        gradients.over(lambda b, x, y: b.square(b.add(b.abs(x), 1))),
        lambda b, x: b.div(x, b.add(b.abs(x), 1)),
    ),
"""

USE_OF_AN_OPERATION = """
import numpy as np
import mxforge as mx
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.mx.operator import Elementwise, operator
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.differentiate import vjp_graph


@operator("scratch_softsign")
class ScratchSoftsign(Elementwise):
    def decompose(self, b, *inputs: Value) -> Value:
        return b.scalar(ScalarOp.SCRATCH, *inputs)


x = np.array([-3.0, -0.5, 0.0, 1.0], np.float32)
expected = x / (1 + np.abs(x))
np.testing.assert_allclose(mx.nd.scratch_softsign(mx.nd.array(x)).asnumpy(), expected, rtol=1e-6)
bound = mx.sym.exp(mx.sym.scratch_softsign(mx.sym.var("x"))).bind(mx.cpu(), {"x": mx.nd.array(x)})
np.testing.assert_allclose(bound.forward()[0].asnumpy(), np.exp(expected), rtol=1e-6)

b = CoreBuilder()
graph = b.build([b.scalar(ScalarOp.SCRATCH, b.input(TensorType((4,), DType.F32)))])
(gradient,) = evaluate_graph(vjp_graph(graph), [x, np.ones(4, np.float32)])
np.testing.assert_allclose(gradient, 1 / (1 + np.abs(x)) ** 2, rtol=1e-6)
"""


def test_a_scalar_operation_touches_two_files(copy: Copy) -> None:
    copy.insert("ir/scalar.py", "    # unary, any number", '    SCRATCH = "scratch"\n')
    copy.insert("ir/dialects/core/scalar_rules.py", "    ScalarOp.NEG:", SOFTSIGN)
    copy.use(USE_OF_AN_OPERATION)
    assert len(copy.touched) == 2


EVERY_OTHER = '''\
@dataclass(frozen=True)
class EveryOther(Primitive):
    """The elements 0, 2, 4, ... along an axis."""

    name = "core.every_other"
    axis: int

    def infer(self, *types: TensorType) -> Types:
        (x,) = operands(types, 1)
        shape = tuple(-(-n // 2) if k == self.axis else n for k, n in enumerate(x.shape))
        return (TensorType(shape, x.dtype),)

    def evaluate(self, *arrays: Array) -> Arrays:
        return (np.take(arrays[0], range(0, arrays[0].shape[self.axis], 2), self.axis),)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        (x,), g = node.inputs, cotangents[0]
        at = [int(k == self.axis) for k in range(x.type.rank)]
        high = [is_axis * (1 - n % 2) for is_axis, n in zip(at, x.type.shape, strict=True)]
        return [b.pad(g, b.constant(0, g.type.dtype), [0] * x.type.rank, high, at)]
'''
EVERY_OTHER_RULE = """\
def _every_other(low: Region, node: Node, index: Index) -> Expr:
    assert isinstance(node.op, EveryOther)
    mapped = tuple(_shift(i, 2 if k == node.op.axis else 1, 0) for k, i in enumerate(index))
    return low.read(node.inputs[0], mapped)


"""

USE_OF_A_PRIMITIVE = """
import numpy as np
import mxforge as mx
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.shape import EveryOther
from mxforge.ir.dialects.mx.operator import Operator, operator
from mxforge.ir.graph import Value
from mxforge.ir.parser import parse_graph
from mxforge.ir.printer import print_graph
from mxforge.ir.types import DType, TensorType
from mxforge.passes.differentiate import vjp_graph


@operator("scratch_every_other")
class ScratchEveryOther(Operator):
    def decompose(self, b, *inputs: Value) -> Value:
        return b.node(EveryOther(1), *inputs).outputs[0]


x = np.arange(20, dtype=np.float32).reshape(4, 5)
found = mx.nd.exp(mx.nd.scratch_every_other(mx.nd.array(x)))
np.testing.assert_allclose(found.asnumpy(), np.exp(x[:, ::2]), rtol=1e-6)
bound = mx.sym.scratch_every_other(mx.sym.sqrt(mx.sym.var("x"))).bind(mx.cpu(), {"x": mx.nd.array(x)})
np.testing.assert_allclose(bound.forward()[0].asnumpy(), np.sqrt(x[:, ::2]), rtol=1e-6)

b = CoreBuilder()
graph = b.build([b.node(EveryOther(1), b.input(TensorType((4, 5), DType.F32))).outputs[0]])
assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
(gradient,) = evaluate_graph(vjp_graph(graph), [x, np.ones((4, 3), np.float32)])
assert gradient.tolist() == [[1, 0, 1, 0, 1]] * 4
"""


def test_a_primitive_touches_three_files(copy: Copy) -> None:
    """The declaration, the kind of kernel, and how the result is read at an index."""
    copy.insert("ir/dialects/core/shape.py", "", EVERY_OTHER)
    copy.insert("passes/kinds.py", "class Kind(Enum):", "from ..ir.dialects.core.shape import EveryOther\n\n\n")
    copy.insert("passes/kinds.py", "    Slice: Kind.MOVE,", "    EveryOther: Kind.MOVE,\n")
    copy.insert("codegen/lower_rules.py", "RULES: dict", "from ..ir.dialects.core.shape import EveryOther\n\n\n")
    copy.insert("codegen/lower_rules.py", "    Slice: _slice,", "    EveryOther: _every_other,\n")
    copy.insert("codegen/lower_rules.py", "def _reverse(", EVERY_OTHER_RULE)
    copy.use(USE_OF_A_PRIMITIVE)
    assert len(copy.touched) == 3


EXPANDED = """
    def expand(self, b: CoreBuilder, *operands: Value) -> Value:
        (x,) = operands
        return b.slice(x, [0] * x.type.rank, x.type.shape, [1 + (k == self.axis) for k in range(x.type.rank)])
"""


def test_a_primitive_that_expands_touches_one_file(copy: Copy) -> None:
    copy.insert("ir/dialects/core/shape.py", "", EVERY_OTHER + EXPANDED)
    copy.use(USE_OF_A_PRIMITIVE)
    assert len(copy.touched) == 1


USE_OF_A_TARGET = """
import mxforge as mx

assert mx.context.num_gpus() == 1
x = mx.nd.array([[1, 2, 3], [4, 5, 6]], ctx=mx.gpu(0))
assert mx.nd.softmax(x).sum(axis=1).asnumpy().tolist() == [1, 1] and (x + 1).context == mx.gpu(0)
"""


def test_a_target_touches_one_file_besides_its_folder(copy: Copy) -> None:
    """The folder is the first code block of docs/add-a-target.md; the registration is one line."""
    page = (ROOT / "docs" / "add-a-target.md").read_text()
    folder = page.partition("```python\n")[2].partition("```")[0]
    copy.create("codegen/toy/__init__.py", folder)
    copy.insert("runtime/devices.py", "}", '    "gpu": "mxforge.codegen.toy",\n')
    copy.use(USE_OF_A_TARGET)
    assert {file for file in copy.touched if not file.startswith("codegen/toy/")} == {"runtime/devices.py"}


SCRATCH_KIND = '''\
"""1x1 convolutions one sum at a time."""

from dataclasses import dataclass

from ...lower_contract import contract_as_sum
from ..schedule.describe import ConvShape
from ..schedule.kinds import ContractionSchedule
from ..loops.emit import emit_loops
from .kind import ScheduleKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchSchedule(ContractionSchedule):
    taps: int


def choose(shape, target, parameters):
    return ScratchSchedule(taps=1) if shape.taps == 1 and shape.groups == 1 else None


def emit(shape, schedule, target, module, symbol):
    assert schedule.taps == 1
    return emit_loops(contract_as_sum(shape.kernel), target, module, f"{symbol}.scratch")


SCRATCH = ScheduleKind(contraction=ConvShape, schedule=ScratchSchedule, choose=choose, emit=emit)
'''

USE_OF_A_SCHEDULE_KIND = """
import numpy as np
import mxforge as mx
from mxforge.codegen.driver import compile_graph
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.host.machine import host_target

rng = np.random.default_rng(0)
for taps, kind in ((1, "scratch"), (3, "")):
    x, w = rng.standard_normal((1, 3, 5, 4)), rng.standard_normal((4, 3, taps, taps))
    y = mx.nd.Convolution(mx.nd.array(x), mx.nd.array(w), kernel=(taps, taps), num_filter=4, no_bias=True)
    b = CoreBuilder()
    operands = (b.input(TensorType(a.shape, DType.F32)) for a in (x, w))
    program = compile_graph(b.build([b.conv(*operands, (1, 1), ((0, 0),) * 2)]), host_target(1), Options())
    assert any(launch.symbol.endswith(".scratch") for launch in program.launches) == bool(kind)
    window = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))
    np.testing.assert_allclose(y.asnumpy(), np.einsum("nchwkl,ockl->nohw", window, w), rtol=1e-4, atol=1e-5)
"""


def test_a_schedule_kind_touches_two_files(copy: Copy) -> None:
    """The module, and the registry."""
    copy.create("codegen/llvm/contract/scratch.py", SCRATCH_KIND)
    registry = "codegen/llvm/contract/emit.py"
    copy.insert(registry, "KINDS: tuple", "from .scratch import SCRATCH\n\n")
    copy.insert(registry, "    ScheduleKind(contraction=GemmShape, schedule=TileSchedule", "    SCRATCH,\n")
    copy.use(USE_OF_A_SCHEDULE_KIND)
    assert len(copy.touched) == 2
