"""Values without own memory, pieces inside their concatenation, and offsets that never overlap."""

from __future__ import annotations

import random

import numpy as np
import pytest
from mxforge.codegen.llvm.target import AVX512
from mxforge.ir.assign_offsets import ALIGNMENT, Block, assign_offsets
from mxforge.ir.dialects.core import Concat, CoreBuilder, Fused, Relayout, Reshape, Slice
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType, Layout
from mxforge.passes.assign_layouts import AssignLayouts
from mxforge.passes.fuse import Fuse
from mxforge.passes.manager import Context
from mxforge.passes.plan_memory import Sharing, View, physical_strides, share_memory
from rewriting import tensor

F32 = DType.F32


def planned(graph: Graph, *, layouts: bool = False) -> tuple[Graph, Sharing]:
    context = Context(AVX512)
    if layouts:
        graph = AssignLayouts().run(graph, context)
    fused = Fuse().run(graph, context)
    return fused, share_memory(fused)


def root(sharing: Sharing, value: Value) -> tuple[Value, int]:
    view = sharing.resolve(value)
    return view.base, view.offset


def pieces(graph: Graph, sharing: Sharing) -> list[int]:
    """Positions of the operands of each concatenation that are computed inside the result."""
    return sorted(position for _, position in sharing.placed)


# -- views


def test_reshapes_share_their_operands_memory() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    graph, sharing = planned(b.build([b.reshape(b.reshape(x, (24,)), (2, 12)), b.reshape(x, (4, 1, 6))]))
    assert all(root(sharing, v) == (x, 0) for v in graph.outputs)


@pytest.mark.parametrize(
    ("shape", "start", "stop", "offset"),
    [
        ((5, 6), (2, 0), (4, 6), 12),
        ((1, 5, 6), (0, 2, 0), (1, 3, 6), 12),
        ((5, 6), (0, 0), (5, 6), 0),
        ((1, 1, 6), (0, 0, 2), (1, 1, 5), 2),
    ],
)
def test_slices_of_a_leading_axis_are_views(
    shape: tuple[int, ...], start: tuple[int, ...], stop: tuple[int, ...], offset: int
) -> None:
    b = CoreBuilder()
    x = b.input(tensor(*shape))
    graph, sharing = planned(b.build([b.slice(x, start, stop)]))
    assert root(sharing, graph.outputs[0]) == (x, offset)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [((0, 1), (5, 4), (1, 1)), ((0, 0), (5, 6), (2, 1)), ((1, 1), (2, 3), (1, 1))],
    ids=["inner axis", "steps", "two axes"],
)
def test_other_slices_are_copied(start: tuple[int, int], stop: tuple[int, int], step: tuple[int, int]) -> None:
    b = CoreBuilder()
    graph, sharing = planned(b.build([b.slice(b.input(tensor(5, 6)), start, stop, step)]))
    assert root(sharing, graph.outputs[0]) == (graph.outputs[0], 0)


def test_a_view_of_a_view_adds_offsets() -> None:
    b = CoreBuilder()
    x = b.input(tensor(5, 6))
    row = b.reshape(b.slice_axis(x, 0, 2, 4), (12,))
    graph, sharing = planned(b.build([b.slice_axis(row, 0, 3, 5)]))
    assert root(sharing, graph.outputs[0]) == (x, 15)


def relayout_of_a_pixel(channels: int, halo: int = 0) -> tuple[Graph, Sharing, Value]:
    b = CoreBuilder()
    x = b.input(tensor(2, channels, 1, 1))
    graph, sharing = planned(b.build([b.relayout(b.relayout(x, Layout(8, ((halo, halo),) * 2)), None)]))
    return graph, sharing, x


def test_blocks_of_one_pixel_are_row_major() -> None:
    graph, sharing, x = relayout_of_a_pixel(16)
    assert root(sharing, graph.outputs[0]) == (x, 0)


@pytest.mark.parametrize(("channels", "halo"), [(12, 0), (16, 1)])
def test_blocks_with_gaps_are_not(channels: int, halo: int) -> None:
    graph, sharing, x = relayout_of_a_pixel(channels, halo)
    assert root(sharing, graph.outputs[0])[0] is not x


# -- prepared values


def test_values_that_depend_only_on_parameters_are_prepared() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(3)), b.input(tensor(3), parameter=True)
    table = b.constant([1.0, 2.0, 3.0], F32)
    folded = b.sort(b.mul(w, table), 0)[0]
    graph, sharing = planned(b.build([b.add(x, folded)]))
    made = [(n.op.name, n.outputs[0] in sharing.prepared) for n in graph.nodes]
    assert made == [("core.constant", True), ("core.fused", True), ("core.sort", True), ("core.fused", False)]
    assert x not in sharing.prepared
    assert w in sharing.prepared


# -- pieces of concatenations


def test_values_with_effects_are_not_prepared() -> None:
    b, branch = CoreBuilder(), CoreBuilder()
    w, pred = b.input(tensor(3), parameter=True), b.input(tensor(dtype=DType.BOOL), parameter=True)
    y = branch.input(tensor(3))
    calling = branch.build(branch.host_callback(lambda a: [a], [tensor(3)], y))
    (called,) = b.cond(pred, calling, calling, w)
    plain = b.exp(w)
    assert share_memory(b.build([called, plain])).prepared == {w, pred, plain}


def concat_graph(batch: int = 1, **how: bool) -> tuple[Graph, Sharing]:
    b = CoreBuilder()
    x = b.input(tensor(batch, 3, 4))
    first, second = b.exp(x), b.neg(x)
    whole = b.concat([first, second], 1)
    results = [b.tanh(b.transpose(whole))]
    if how.get("also_read"):
        results.append(b.sum(first, (2,)))
    if how.get("also_result"):
        results.append(first)
    return planned(b.build(results))


@pytest.mark.parametrize("batch", [1, 2])
def test_pieces_are_computed_in_their_place(batch: int) -> None:
    graph, sharing = concat_graph(batch)
    assert pieces(graph, sharing) == [0, 1]
    places = [sharing.resolve(v) for v in sharing.views if not sharing.views[v].renamed]
    strides = (24, 4, 1) if batch > 1 else None
    assert [(v.offset, v.strides) for v in places] == [(0, strides), (12, strides)]


def test_a_piece_with_other_readers_can_be_placed() -> None:
    assert pieces(*concat_graph(also_read=True)) == [0, 1]


def test_an_output_of_the_graph_has_its_own_memory() -> None:
    assert pieces(*concat_graph(also_result=True)) == [1]


def test_one_value_twice_is_copied_twice() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(1, 3, 4)))
    assert pieces(*planned(b.build([b.concat([y, y], 1)]))) == []


def test_inputs_constants_and_prepared_values_are_copied() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 3)), b.input(tensor(1, 3), parameter=True)
    graph = b.build([b.concat([x, b.exp(w), b.constant([[1.0, 2.0]], F32), b.exp(x)], 1)])
    assert pieces(*planned(graph)) == [3]


def test_opaque_nodes_write_their_own_memory() -> None:
    b = CoreBuilder()
    x = b.input(tensor(1, 3))
    assert pieces(*planned(b.build([b.concat([b.sort(x, 1)[0], b.exp(x)], 1)]))) == [1]


def test_a_reshaped_piece_is_placed_if_it_is_contiguous() -> None:
    for batch, placed in ((1, [0]), (2, [])):
        b = CoreBuilder()
        x, y = b.input(tensor(batch, 6)), b.input(tensor(batch, 3, 2))
        graph = b.build([b.concat([b.reshape(b.exp(x), (batch, 3, 2)), y], 1)])
        assert pieces(*planned(graph)) == placed


def test_a_piece_with_a_renamed_reader_stays_contiguous() -> None:
    for batch, placed in ((1, [0]), (2, [])):
        b = CoreBuilder()
        x, y = b.input(tensor(batch, 6)), b.input(tensor(batch, 3))
        piece = b.exp(x)
        graph = b.build([b.concat([piece, y], 1), b.exp(b.transpose(b.reshape(piece, (batch, 3, 2))))])
        assert pieces(*planned(graph)) == placed


def dense_block(batch: int, layers: int = 3) -> tuple[Graph, Sharing]:
    """As in DenseNet: every layer reads the concatenation of all before it."""
    b = CoreBuilder()
    x = b.input(tensor(batch, 16, 4, 4))
    whole = b.exp(x)
    for _ in range(layers):
        w = b.input(tensor(16, whole.type.shape[1], 3, 3), parameter=True)
        y = b.conv(whole, w, (1, 1), ((1, 1), (1, 1)))
        whole = b.concat([whole, y], 1)
    return planned(b.build([b.sum(whole, (2, 3))]), layouts=True)


@pytest.mark.parametrize("batch", [1, 2])
def test_nested_concatenations_are_stored_in_the_outermost(batch: int) -> None:
    graph, sharing = dense_block(batch)
    joins = [n.outputs[0] for n in graph.nodes if n.op.attributes().get("kind") == "join"]
    assert len(joins) == 3
    assert {root(sharing, v)[0] for v in joins[:2]} <= {joins[-1], *joins[:2]}
    for value, view in sharing.views.items():
        assert view.base is not value


def addresses(sharing: Sharing, value: Value) -> tuple[Value, np.ndarray]:
    """The value that owns the memory, and the place in it of each physical element of `value`."""
    view = sharing.resolve(value)
    shape = value.type.shape if value.type.layout is None else value.type.layout.physical_shape(value.type.shape)
    steps = view.strides or physical_strides(value.type)
    assert len(steps) == len(shape)
    places = sum((i * s for i, s in zip(np.ix_(*map(range, shape)), steps, strict=True)), np.array(0))
    return view.base, np.asarray(places) + view.offset


def assert_consistent(graph: Graph, sharing: Sharing) -> None:
    """Every element that two values share has the same meaning in both."""
    for node in graph.nodes:
        op = node.op
        if isinstance(op, Fused) and len(op.body.nodes) == 1:
            op = op.body.nodes[0].op
        for i, operand in enumerate(node.inputs):
            whole, operand_whole = addresses(sharing, node.outputs[0]), addresses(sharing, operand)
            if isinstance(op, Concat) and (node.outputs[0], i) in sharing.placed:
                lengths = [addresses(sharing, v)[1].shape[op.axis] for v in node.inputs]
                part = range(sum(lengths[:i]), sum(lengths[: i + 1]))
                assert whole[0] is operand_whole[0]
                assert np.array_equal(np.take(whole[1], part, op.axis), operand_whole[1])
            elif isinstance(op, Reshape | Relayout) and whole[0] is operand_whole[0]:
                assert np.array_equal(whole[1].ravel(), operand_whole[1].ravel())
            elif isinstance(op, Slice) and whole[0] is operand_whole[0]:
                begin = tuple(slice(a, z, s) for a, z, s in zip(op.start, op.stop, op.step, strict=True))
                assert np.array_equal(whole[1], operand_whole[1][begin])
    for value in sharing.views:
        base, places = addresses(sharing, value)
        assert places.min() >= 0
        assert places.max() < base.type.physical_size


@pytest.mark.parametrize("batch", [1, 2])
def test_a_dense_block_is_consistent(batch: int) -> None:
    assert_consistent(*dense_block(batch))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("axes", [(1, 1), (1, 2), (2, 1), (2, 2), (0, 1), (1, 0)])
def test_concatenations_along_different_axes_are_consistent(batch: int, axes: tuple[int, int]) -> None:
    b = CoreBuilder()
    x = b.input(tensor(batch, 3, 4))
    inner = b.concat([b.exp(x), b.neg(x)], axes[0])
    shape = list(inner.type.shape)
    shape[axes[1]] = 5
    whole = b.concat([b.tanh(b.input(tensor(*shape))), inner], axes[1])
    assert_consistent(*planned(b.build([b.exp(b.transpose(whole))])))


@pytest.mark.parametrize("seed", range(30))
def test_random_chains_of_views_are_consistent(seed: int) -> None:
    r = random.Random(seed)
    b = CoreBuilder()
    values = [b.input(tensor(r.choice((1, 2)), 4, 6))]
    for _ in range(15):
        x = r.choice(values)
        match r.randrange(4):
            case 0:
                y = b.exp(x)
            case 1:
                shape = list(x.type.shape)
                r.shuffle(shape)
                y = b.reshape(x, shape)
            case 2:
                axis = r.randrange(3)
                y = b.slice_axis(x, axis, 0, max(1, x.type.shape[axis] - 1))
            case _:
                axis = r.randrange(3)
                same = [v for v in values if _fits(v, x, axis)]
                y = b.concat([r.choice(same), x], axis)
        values.append(y)
    graph, sharing = planned(b.build([b.transpose(values[-1]), b.neg(values[-2])]))
    assert_consistent(graph, sharing)


def _fits(a: Value, b: Value, axis: int) -> bool:
    return all(k == axis or n == m for k, (n, m) in enumerate(zip(a.type.shape, b.type.shape, strict=True)))


def test_physical_strides() -> None:
    assert physical_strides(tensor(2, 3, 4)) == (12, 4, 1)
    assert physical_strides(tensor(2, 12, 4, 4).with_layout(Layout(8, ((1, 1), (0, 2))))) == (576, 288, 48, 8, 1)


def test_resolving_keeps_the_strides_of_the_outermost_whole() -> None:
    b = CoreBuilder()
    whole, middle, piece = (b.input(tensor(2, n, 4)) for n in (8, 4, 2))
    views = {middle: View(whole, 16, (32, 4, 1)), piece: View(middle, 8, (16, 4, 1))}
    assert Sharing(views, frozenset(), frozenset()).resolve(piece) == View(whole, 24, (32, 4, 1))


# -- offsets


def overlaps(a: Block, b: Block) -> bool:
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


@pytest.mark.parametrize("seed", range(20))
def test_blocks_in_use_at_the_same_time_never_overlap(seed: int) -> None:
    r = random.Random(seed)
    blocks: list[Block] = []
    for _ in range(r.randint(1, 60)):
        start = r.randint(0, 30)
        end = r.choice((start, start + r.randint(0, 10), 1 << 60))
        blocks.append(Block(r.randint(0, 5000), start, end, r.choice((None, None, "a", "b"))))
    for block in blocks:
        if block.zeroed:
            block.nbytes = 320 if block.zeroed == "a" else 4000  # blocks with one key have one size
    total, scratch = assign_offsets(blocks)
    assert all((a.offset + a.nbytes <= scratch) is not bool(a.zeroed) for a in blocks if a.nbytes)
    for i, a in enumerate(blocks):
        assert a.offset % ALIGNMENT == 0
        assert 0 <= a.offset <= a.offset + a.nbytes <= total
        for b in blocks[:i]:
            together = a.start <= b.end and b.start <= a.end
            assert not (together and overlaps(a, b))
            if overlaps(a, b) and (a.zeroed or b.zeroed):
                assert (a.zeroed, a.offset) == (b.zeroed, b.offset)


def test_memory_is_reused() -> None:
    chain = [Block(1000, i, i + 1) for i in range(10)]
    assert assign_offsets(chain) == (2 * 1024, 2 * 1024)


def test_no_zeroed_block_is_in_shared_memory() -> None:
    plain, zeroed = Block(1000, 0, 1), Block(640, 0, 1, "halo")
    assert assign_offsets([plain, zeroed], 4096) == (4096 + 640, 4096)
    assert (plain.offset, zeroed.offset) == (0, 4096)


def test_no_blocks_take_no_memory() -> None:
    assert assign_offsets([]) == (0, 0)
