"""Compilation: its cost for each node is the same for small and large networks, and equal regions are lowered once."""

from __future__ import annotations

import random
import time
from cProfile import Profile
from typing import cast

import pytest
from mxforge import sym
from mxforge.codegen import region_kernels
from mxforge.codegen.assemble import assemble
from mxforge.codegen.compiler import KernelCompiler
from mxforge.codegen.control import compile_control
from mxforge.codegen.emission import Emission, LaunchSpec
from mxforge.codegen.lower import lower_region
from mxforge.codegen.target import Emitter
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.assign_offsets import Block, assign_offsets
from mxforge.ir.graph import Graph
from mxforge.ir.settings import Settings
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.plan_memory import share_memory
from mxforge.passes.training import training_graphs
from mxforge.runtime.host.machine import host_target


class NoCode:
    """Emits no code, so that only what precedes it is measured."""

    chained_bytes = 0

    def emit(self, *_: object) -> Emission:
        return Emission((LaunchSpec("kernel", 1, 1),))

    emit_node = emit

    def emit_clearing(self, *_: object) -> None:
        return None


def network(blocks: int) -> Graph:
    """Residual blocks of a convolution, then steps of a recurrent cell, whose states are joined."""
    image = sym.var("image")
    for i in range(blocks):
        y = sym.Convolution(image, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name=f"conv{i}")
        image = sym.elemwise_add(image, sym.Activation(sym.BatchNorm(y, name=f"norm{i}"), act_type="relu"))
    state, states = sym.mean(image, axis=(2, 3)), []
    weight, bias = sym.var("weight", shape=(8, 8)), sym.var("bias", shape=(8,))
    for _ in range(blocks):
        state = sym.tanh(sym.FullyConnected(state, weight, bias, num_hidden=8))
        states.append(sym.expand_dims(state, axis=1))
    loss = sym.MakeLoss(sym.sum(sym.concat(*states, dim=1)))
    shapes, _, auxiliary = loss.infer_shape(image=(2, 8, 4, 4))
    assert shapes is not None and auxiliary is not None
    known = dict(zip(loss.list_arguments() + loss.list_auxiliary_states(), shapes + auxiliary, strict=True))
    function = SymbolFunction(loss, [name for name in known if name != "image"])
    return function.graph(tuple(TensorType(known[name], DType.F32) for name in function.names))


def compile_all(graph: Graph) -> int:
    """All stages of a training step but the emission of code. Returns the number of nodes that they compile."""
    target = host_target(1)
    context = Context(target, Options(training=True), settings=Settings())
    split = training_graphs(graph, [i for i in sorted(graph.parameters) if i not in graph.updates], context)
    for part in (split.forward, split.backward):
        fused = run_passes(target.passes, part, context)
        sharing = share_memory(fused)
        steps = KernelCompiler(cast("Emitter", NoCode()), context, [], compile_control).steps(fused, sharing)
        assemble(fused, sharing, steps, (), part.names())
    return len(split.forward.nodes) + len(split.backward.nodes)


def cost(blocks: int, runs: int) -> tuple[int, float, float]:
    """The number of nodes, and for each of them the calls of functions and the least CPU time of some profiled runs."""
    graph, times, calls, nodes = network(blocks), list[float](), 0, 0
    for _ in range(runs):
        profile = Profile(subcalls=False, builtins=False)
        start = time.thread_time()
        nodes = profile.runcall(compile_all, graph)
        times.append(time.thread_time() - start)
        calls = sum(entry.callcount for entry in profile.getstats())
    return nodes, calls / nodes, min(times) / nodes


def test_the_cost_for_each_node_does_not_grow_with_the_network() -> None:
    """Calls are counted, because times depend on the machine's load and on the sizes of its caches."""
    compile_all(network(1))
    nodes, calls, seconds = cost(7, 2)
    many, calls_of_many, seconds_of_many = cost(68, 1)
    assert 400 < nodes < 600, nodes
    assert 5000 < many < 6000, many
    assert calls_of_many < 1.1 * calls
    assert seconds_of_many < 3 * seconds, "a loop that calls no function is quadratic"


def test_equal_regions_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = 0

    def counted(*args: object, **named: object) -> object:
        nonlocal lowered
        lowered += 1
        return lower_region(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(region_kernels, "lower_region", counted)
    compile_all(network(4))
    few, lowered = lowered, 0
    compile_all(network(9))
    assert 0 < lowered <= few + 5, "each further state is another slice of them all"


@pytest.mark.parametrize("seed", range(20))
def test_blocks_in_use_at_the_same_time_do_not_overlap(seed: int) -> None:
    """Each block is at the lowest place that is free at its time: the blocks before it have its size or more."""
    draw = random.Random(seed)
    blocks: list[Block] = []
    for _ in range(60):
        start = draw.randrange(30)
        nbytes = draw.choice([0, 4, 64, 100, 256, 1000])
        blocks.append(Block(nbytes, start, start + draw.choice([0, 0, 1, 2, 5, 1 << 60])))
    top, _ = assign_offsets(blocks)
    for block in blocks:
        others = [b for b in blocks if b is not block and b.start <= block.end and block.start <= b.end]
        assert all(_end(b) <= block.offset or _end(block) <= b.offset for b in others if b.nbytes and block.nbytes)
        larger = [b for b in others if (-b.nbytes, b.start) <= (-block.nbytes, block.start)]
        assert block.offset == 0 or any(_end(b) == block.offset for b in larger), "no gap before it"
        assert _end(block) <= top


def _end(block: Block) -> int:
    return block.offset + -(-block.nbytes // 64) * 64
