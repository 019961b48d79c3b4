"""Names of launches: the names of the layers that a kernel computes."""

from __future__ import annotations

from itertools import groupby

import mxforge as mx
import pytest
from compiled import compiled, launches_of
from mxforge.frontend.symbol.to_graph import symbol_to_graph
from mxforge.ir.caches import clear_caches
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.program import Program
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.host.executable import Executable
from rewriting import tensor


def graph_of(symbol: mx.sym.Symbol, **shapes: tuple[int, ...]) -> Graph:
    arguments, _, states = symbol.infer_shape(**shapes)
    assert arguments is not None and states is not None
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: TensorType(tuple(s), DType.F32) for n, s in zip(names, [*arguments, *states], strict=True)}
    return symbol_to_graph(symbol, types, [n for n in names if n not in shapes], "net")


def labels(program: Program) -> list[str]:
    return list(dict.fromkeys(program.label(launch) for launch in program.computations))


def conv(x: mx.sym.Symbol, name: str, filters: int = 16) -> mx.sym.Symbol:
    return mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True, name=name)


def relu(x: mx.sym.Symbol, name: str) -> mx.sym.Symbol:
    return mx.sym.Activation(x, act_type="relu", name=name)


def network(prefix: str = "") -> mx.sym.Symbol:
    """Three convolutions; all ReLUs share one zero, and all batch norms one epsilon."""
    x = mx.sym.var("data")
    for i in range(3):
        x = mx.sym.BatchNorm(conv(x, f"{prefix}conv{i}"), fix_gamma=False, name=f"{prefix}bn{i}")
        x = relu(x, f"{prefix}relu{i}")
    return mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg", name=f"{prefix}pool")


def test_a_region_is_named_after_its_layers() -> None:
    program = compiled(graph_of(network(), data=(1, 16, 8, 8)))
    convolutions = [f"conv{i} + bn{i} + relu{i}" for i in range(3)]
    assert labels(program) == ["data (layout)", *convolutions, "pool"]
    packs = [label for label in map(program.label, launches_of(program.prepare)) if label.endswith("(pack)")]
    assert packs == [f"{c} (pack)" for c in convolutions]


def test_kinds_of_launches() -> None:
    program = compiled(graph_of(network(), data=(1, 16, 8, 8)))
    # The number of launches of a convolution depends on the schedule, and so on the processor.
    assert [kind for kind, _ in groupby(launch.kind for launch in program.computations)] == [
        "layout",
        "contract",
        "row",
    ]
    assert {launch.kind for launch in launches_of(program.prepare)} == {"pointwise", "pack"}


def test_names_are_equal_in_training() -> None:
    program = compiled(graph_of(network(), data=(2, 16, 8, 8)), Options(training=True))
    layers = {part for label in labels(program) for part in label.removesuffix(" (layout)").split(" + ")}
    assert layers == {"data", "pool"} | {f"{kind}{i}" for kind in ("conv", "bn", "relu") for i in range(3)}
    own = [label for label in labels(program) if label.startswith("bn2")]
    assert own and not any("bn0" in label or "relu0" in label for label in own)


def test_a_relayout_is_named_after_its_layer() -> None:
    x = mx.sym.var("data")
    y = mx.sym.Flatten(relu(conv(x, "first", 32), "rectify"), name="flat")
    program = compiled(graph_of(mx.sym.exp(y, name="last"), data=(1, 3, 8, 8)))
    assert labels(program) == ["first + rectify (layout)", "first + rectify", "rectify (layout)", "last"]


def test_a_rewritten_node_keeps_its_name() -> None:
    """A division by a sum becomes a multiplication, and an argmax becomes two reductions."""
    x = mx.sym.var("data")
    y = mx.sym.broadcast_div(x, mx.sym.sum(x, axis=1, keepdims=True, name="total"), name="share")
    assert labels(compiled(graph_of(y, data=(4, 9)))) == ["total + share"]
    assert labels(compiled(graph_of(mx.sym.argmax(x, axis=1, name="best"), data=(4, 9)))) == ["best"]


def test_layers_without_a_name_are_named_after_the_program() -> None:
    b = CoreBuilder("Convolution")
    y = b.conv(b.input(tensor(1, 16, 8, 8)), b.input(tensor(16, 16, 3, 3), parameter=True), (1, 1), ((1, 1), (1, 1)))
    spread = b.broadcast(b.input(tensor(3)), (3, 4), (0,))
    program = compiled(b.build([y, spread]))
    assert set(labels(program)) == {"Convolution (layout)", "Convolution"}


@pytest.mark.usefixtures("forgotten")
def test_a_program_from_the_disk_has_the_names_of_the_requesting_graph() -> None:
    first, second = (graph_of(network(prefix), data=(1, 16, 8, 8)) for prefix in ("a_", "b_"))
    programs: list[Program] = []
    for graph in (first, second):
        executable = executable_for(graph)
        assert isinstance(executable, Executable)
        programs.append(executable.program)
        clear_caches()
    assert [label.replace("b_", "a_") for label in labels(programs[1])] == labels(programs[0])
    assert "b_conv1 + b_bn1 + b_relu1" in labels(programs[1])
    assert programs[0].code == programs[1].code


@pytest.fixture
def forgotten() -> None:
    clear_caches()
