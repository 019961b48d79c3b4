"""Blocked layouts around convolutions: which values get them, how wide halos are, and where copies are inserted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.kinds import WinogradGradientSchedule, WinogradSchedule
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.codegen.lower import lower_region
from mxforge.ir.dialects.core import ConvWeightGradient, CoreBuilder, Fused, Relayout
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.target import ConvSizes, ConvWindow
from mxforge.ir.types import DType, Layout
from mxforge.passes.assign_layouts import AssignLayouts
from mxforge.passes.fuse import Fuse
from rewriting import assert_rewrites, assert_same_values, assert_unchanged, run_pass, tensor

LAYOUTS = AssignLayouts()
NONE = (0, 0)
NO_HALO = (NONE, NONE)


def conv(b: CoreBuilder, x: Value, filters: int, kernel: int = 3, padding: int = 1, **attributes: int) -> Value:
    groups = attributes.get("groups", 1)
    weight = b.input(tensor(filters, x.type.shape[1] // groups, kernel, kernel, dtype=x.type.dtype), parameter=True)
    stride = attributes.get("stride", 1)
    return b.conv(x, weight, (stride, stride), ((padding, padding),) * 2, groups=groups)


def layouts(graph: Graph, name: str) -> list[Layout | None]:
    """The layouts of the results of all nodes with this op, in order."""
    return [n.outputs[0].type.layout for n in graph.nodes if n.op.name == f"core.{name}"]


def test_blocks_between_convolutions() -> None:
    b = CoreBuilder()
    y = b.tanh(conv(b, b.input(tensor(1, 16, 8, 8)), 32))
    assert_rewrites(
        LAYOUTS,
        b.build([conv(b, y, 16, 1, 0)]),
        """
        (%arg0: 1x16x8x8xf32, %arg1: 32x16x3x3xf32, %arg2: 16x32x1x1xf32):
          %0 = conv(%arg0, %arg1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x32x8x8xf32
          %1 = tanh(%0) : 1x32x8x8xf32
          %2 = conv(%1, %arg2) {strides = [1, 1], padding = [0, 0, 0, 0]} : 1x16x8x8xf32
          return %2
        ->
        (%arg0: 1x16x8x8xf32, %arg1: 32x16x3x3xf32, %arg2: 16x32x1x1xf32):
          %0 = relayout(%arg0) {block = 16, halo = [1, 1, 1, 1]} : 1x16x8x8xf32 in blocks of 16, halo 1, 1, 1, 1
          %1 = conv(%0, %arg1) {strides = [1, 1], padding = [1, 1, 1, 1]} : 1x32x8x8xf32 in blocks of 16
          %2 = tanh(%1) : 1x32x8x8xf32 in blocks of 16
          %3 = conv(%2, %arg2) {strides = [1, 1], padding = [0, 0, 0, 0]} : 1x16x8x8xf32 in blocks of 16
          %4 = relayout(%3) : 1x16x8x8xf32
          return %4
        """,
    )


def test_the_block_is_a_vector_but_no_less_than_eight() -> None:
    assert [t.blocked_layout.block for t in (AVX512, AVX2, NEON)] == [16, 8, 8]


def test_a_halo_is_the_union_of_the_readers_halos() -> None:
    b = CoreBuilder()
    x = conv(b, b.input(tensor(1, 16, 9, 9)), 16, 1, 0)
    graph = b.build([conv(b, x, 16, 5, 2, stride=2), conv(b, x, 16, 3, 1, stride=2), conv(b, x, 16, 1, 0)])
    result = run_pass(LAYOUTS, graph)
    assert layouts(result, "conv")[0] == Layout(16, ((2, 2), (2, 2)))
    assert_same_values(graph, result, 1e-5)


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.cpu)
@pytest.mark.parametrize(("size", "channels"), [(7, 64), (9, 16), (13, 64), (33, 64), (9, 1024), (2, 64)])
def test_halos_have_room_for_the_tiles_that_the_schedule_takes(size: int, channels: int, target: CpuTarget) -> None:
    b = CoreBuilder()
    x = conv(b, b.input(tensor(1, 16, size, size)), channels, 1, 0)
    graph = run_pass(Fuse(), run_pass(LAYOUTS, b.build([conv(b, x, 64)]), target))
    last = [n.op for n in graph.nodes if isinstance(n.op, Fused) and n.op.kind == "contract"][-1]
    layout = last.body.inputs[0].type.layout
    schedule = schedule_contraction(lower_region(last), target)
    tile = schedule.output if isinstance(schedule, WinogradSchedule) else 1
    assert layout is not None and layout.halo == ((1, 1 + -size % tile),) * 2


def test_tiles_are_chosen_by_size() -> None:
    sizes = ConvSizes(dtype=DType.F32, accumulator=DType.F32, images=1, groups=1, channels=64, filters=64, windows=())

    def tile(outputs: int, **changes: object) -> int:
        window = ConvWindow(outputs=outputs, taps=3, stride=1, dilation=1, interior=1)
        found = replace(sizes, windows=(window, window), **changes)  # type: ignore[arg-type]
        return AVX512.conv_tile(found, weight_gradient=False)

    assert (tile(56), tile(7), tile(2)) == (4, 2, 1)
    assert tile(56, groups=2) == tile(56, channels=8) == tile(56, accumulator=DType.F64) == 1


@pytest.mark.parametrize(
    ("taps", "chosen"), [((1, 7), 3), ((7, 1), 3), ((5, 5), 3), ((1, 3), 4), ((7, 7), 0), ((3, 5), 0)]
)
def test_tiles_are_chosen_by_window(taps: tuple[int, int], chosen: int) -> None:
    """The halo has room for tiles along the axes that have several taps."""
    b = CoreBuilder()
    x = conv(b, b.input(tensor(1, 16, 17, 17)), 64, 1, 0)
    pad = tuple((n // 2, n // 2) for n in taps)
    weights = b.input(tensor(64, 64, *taps), parameter=True)
    graph = run_pass(LAYOUTS, b.build([b.conv(x, weights, (1, 1), pad)]), AVX512)
    tile = [chosen if n > 1 and chosen else 1 for n in taps]
    room = tuple((lo, hi + -17 % t) for (lo, hi), t in zip(pad, tile, strict=True))
    assert layouts(graph, "conv")[0] == Layout(16, room)


def test_few_input_channels_stay_row_major() -> None:
    b = CoreBuilder()
    graph = b.build([conv(b, b.input(tensor(1, 3, 8, 8)), 16)])
    result = run_pass(LAYOUTS, graph)
    assert [n.op.name for n in result.nodes] == ["core.conv", "core.relayout"]
    assert_same_values(graph, result, 1e-5)


@pytest.mark.parametrize("channels", [16, 3])
def test_a_weight_gradient_reads_blocks_and_writes_rows(channels: int) -> None:
    """Few channels of the data stay row-major."""
    b = CoreBuilder()
    op = ConvWeightGradient((3, 3), (1, 1), ((1, 1), (0, 2)), (1, 1))
    graph = b.build([b.add_node(op, b.input(tensor(1, channels, 8, 8)), b.input(tensor(1, 16, 8, 8)))])
    result = run_pass(LAYOUTS, graph)
    data = [Layout(16, ((1, 1), (0, 2)))] if channels == 16 else []
    assert layouts(result, "relayout") == [*data, Layout(16, (NONE, NONE))]
    assert layouts(result, "conv_weight_gradient") == [None]
    assert_same_values(graph, result, 1e-5)


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.cpu)
@pytest.mark.parametrize(("size", "channels"), [(7, 64), (9, 16), (13, 64), (2, 64), (8, 8)])
def test_operands_of_weight_gradients_have_room_for_tiles(size: int, channels: int, target: CpuTarget) -> None:
    b = CoreBuilder()
    x = conv(b, b.input(tensor(2, 16, size, size)), channels, 1, 0)
    dy = conv(b, b.input(tensor(2, 16, size, size)), 32, 1, 0)
    gradient = b.add_node(ConvWeightGradient((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)), x, dy)
    graph = run_pass(Fuse(), run_pass(LAYOUTS, b.build([gradient]), target))
    last = [n.op for n in graph.nodes if isinstance(n.op, Fused) and n.op.kind == "contract"][-1]
    halos = [v.type.layout.halo for v in last.body.inputs if v.type.layout]
    schedule = schedule_contraction(lower_region(last), target)
    room = -size % 4 if isinstance(schedule, WinogradGradientSchedule) else 0
    assert isinstance(schedule, WinogradGradientSchedule) is (size > 2 and channels > 8)
    assert halos[-1] == ((0, room),) * 2
    assert channels < target.channel_block or halos[0] == ((1, 1 + room),) * 2


def test_pieces_of_a_concatenation_share_its_halo() -> None:
    b = CoreBuilder()
    x = conv(b, b.input(tensor(1, 16, 6, 6)), 16, 1, 0)
    pieces = [conv(b, x, 16, 1, 0), conv(b, x, 32, 1, 0)]
    graph = b.build([conv(b, b.concat(pieces, 1), 16, 5, 2)])
    result = run_pass(LAYOUTS, graph)
    wide = Layout(16, ((2, 2), (2, 2)))
    assert layouts(result, "conv")[1:3] == [wide, wide]
    assert layouts(result, "concat") == [wide]
    assert_same_values(graph, result, 1e-5)


def test_only_the_last_piece_may_fill_a_block_partly() -> None:
    for channels, blocked in (((16, 20), True), ((20, 16), False)):
        b = CoreBuilder()
        x = conv(b, b.input(tensor(1, 16, 6, 6)), 16, 1, 0)
        graph = b.build([conv(b, b.concat([conv(b, x, n, 1, 0) for n in channels], 1), 16)])
        result = run_pass(LAYOUTS, graph)
        assert (layouts(result, "concat")[0] is not None) is blocked
        assert_same_values(graph, result, 1e-5)


def test_pooling_keeps_blocks_where_it_slides_over_space() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 16, 8, 8)), 16)
    spatial = b.reduce_window(ReduceOp.MAX, y, (1, 1, 2, 2), (1, 1, 2, 2), (NONE,) * 4)
    across = b.reduce_window(ReduceOp.ADD, spatial, (1, 5, 1, 1), (1, 1, 1, 1), (NONE, (2, 2), NONE, NONE))
    graph = b.build([across])
    result = run_pass(LAYOUTS, graph)
    assert layouts(result, "reduce_window") == [Layout(16, (NONE, NONE)), None]
    assert_same_values(graph, result, 1e-5)


def operands(graph: Graph, name: str) -> list[Layout | None]:
    """The layouts of the first operands of all nodes with this op, in order."""
    return [n.inputs[0].type.layout for n in graph.nodes if n.op.name == f"core.{name}"]


@pytest.mark.parametrize(("axes", "in_blocks"), [((2, 3), True), ((0, 2, 3), True), ((1,), False), ((0, 2), False)])
def test_sums_of_channels_over_space_read_blocks_others_do_not(axes: tuple[int, ...], in_blocks: bool) -> None:
    """Other sums would be rounded differently."""
    b = CoreBuilder()
    y = conv(b, b.input(tensor(2, 16, 8, 8)), 16)
    graph = b.build([b.sum(y, axes), b.reshape(y, (2, 1024))])
    result = run_pass(LAYOUTS, graph)
    (operand,) = operands(result, "reduce")
    assert (operand is not None, operands(result, "reshape")) == (in_blocks, [None])
    assert_same_values(graph, result, 1e-4)


def test_readers_that_accept_blocks_need_no_copy() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(2, 16, 8, 6)), 32)
    moved = [b.transpose(y, (0, 2, 3, 1)), b.transpose(y, (0, 1, 3, 2)), b.reverse(y, (2,))]
    cut = [b.slice(y, (0, 16, 1, 0), (2, 30, 8, 6)), b.pad(y, b.constant(0.0, DType.F32), [0, 0, 1, 0], [0, 0, 0, 2])]
    graph = b.build([*moved, *cut, b.max(y, (1,)), b.min(y, (3,)), b.max(y, (0, 2, 3))])
    result = run_pass(LAYOUTS, graph)
    assert sum(isinstance(n.op, Relayout) for n in result.nodes) == 1  # for the input
    assert_same_values(graph, result, 1e-5)


def test_readers_that_split_channels_need_a_copy() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(2, 16, 8, 6)), 32)
    graph = b.build([b.reverse(y, (1,)), b.slice(y, (0, 5, 0, 0), (2, 30, 8, 6))])
    result = run_pass(LAYOUTS, graph)
    assert operands(result, "reverse") == operands(result, "slice") == [None]
    assert_same_values(graph, result, 1e-5)


def test_moves_between_convolutions_stay_in_blocks() -> None:
    b = CoreBuilder()
    y = b.reverse(conv(b, b.input(tensor(2, 16, 8, 6)), 32), (3,))
    y = b.pad(b.slice(y, (0, 16, 0, 0), (2, 32, 8, 6)), b.constant(0.0, DType.F32), [0, 0, 1, 1], [0, 0, 1, 1])
    graph = b.build([conv(b, y, 16, 3, 0)])
    result = run_pass(LAYOUTS, graph)
    assert all(layouts(result, name)[0] is not None for name in ("reverse", "slice", "pad"))
    assert_same_values(graph, result, 1e-5)


def test_the_cheaper_side_is_copied() -> None:
    """Blocks are converted before an addition whose sum leaves the graph; rows before one that a convolution reads."""
    for goes_on in (False, True):
        b = CoreBuilder()
        total = b.add(conv(b, b.input(tensor(1, 3, 8, 8)), 16), b.input(tensor(1, 16, 8, 8)))
        graph = b.build([conv(b, total, 16) if goes_on else total])
        result = run_pass(LAYOUTS, graph)
        assert {layout is not None for layout in layouts(result, "pointwise")} == {goes_on}
        assert_same_values(graph, result, 1e-4)


def test_readers_of_a_copy_share_its_cost() -> None:
    """The reshape needs rows in any case, so other outputs of the graph are computed in rows too."""
    b = CoreBuilder()
    y = b.exp(conv(b, b.input(tensor(1, 3, 8, 8)), 16))
    graph = b.build([b.reshape(y, (1024,)), b.neg(y)])
    result = run_pass(LAYOUTS, graph)
    assert layouts(result, "pointwise") == [Layout(16, (NONE, NONE)), None]
    assert len(layouts(result, "relayout")) == 1
    assert_same_values(graph, result, 1e-5)


def test_a_pass_over_blocks_keeps_the_format_as_long_as_it_can() -> None:
    """A copy costs the same before and after an elementwise node: the node keeps the convolution's format."""
    b = CoreBuilder()
    graph = b.build([b.tanh(conv(b, b.exp(b.input(tensor(1, 16, 8, 8))), 16))])
    assert layouts(run_pass(LAYOUTS, graph), "pointwise") == [None, Layout(16, (NONE, NONE))]


def test_readers_share_one_copy() -> None:
    b = CoreBuilder()
    x = b.input(tensor(1, 16, 8, 8))
    y = conv(b, x, 16)
    graph = b.build([b.add(y, x), b.mul(y, x), b.transpose(y), b.reverse(y, (1,))])
    result = run_pass(LAYOUTS, graph)
    copies = [n for n in result.nodes if isinstance(n.op, Relayout)]
    assert len({(n.inputs[0], n.op) for n in copies}) == len(copies)
    assert_same_values(graph, result, 1e-5)


def test_inputs_and_outputs_are_row_major() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 16, 8, 8)), 16)
    graph = b.build([y, b.exp(y), y])
    result = run_pass(LAYOUTS, graph)
    assert all(t.layout is None for t in (*result.input_types(), *result.output_types()))
    assert result.outputs[0] is result.outputs[2]
    assert_same_values(graph, result, 1e-4)


def test_private_outputs_are_stored_as_they_are_computed() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(2, 16, 8, 8)), 16)
    relu = b.maximum(y, 0.0)
    graph = replace(b.build([conv(b, relu, 16), y, relu]), private=frozenset((1, 2)))
    result = run_pass(LAYOUTS, graph)
    assert [v.type.layout for v in result.outputs] == [None, Layout(16, NO_HALO), result.outputs[2].type.layout]
    assert result.outputs[2].type.layout == operands(result, "conv")[1] != Layout(16, NO_HALO)
    assert result.private == graph.private


@pytest.mark.parametrize(("halo", "copies"), [(2, 0), (0, 1)])
def test_an_input_in_blocks_is_read_in_place_if_its_halo_suffices(halo: int, copies: int) -> None:
    b = CoreBuilder()
    stored = b.input(tensor(2, 16, 8, 8).with_layout(Layout(16, ((halo, 2), (halo, 2)))))
    x = b.add_node(Relayout(None), stored)
    graph = b.build([conv(b, x, 16), b.sum(x, (0, 2, 3))])
    result = run_pass(LAYOUTS, graph)
    inner = [n for n in result.nodes if isinstance(n.op, Relayout) and n.inputs[0] is result.inputs[0]]
    assert len(inner) == copies
    assert all(layout is not None for layout in operands(result, "reduce"))


def test_an_input_in_blocks_is_copied_for_readers_of_rows() -> None:
    b = CoreBuilder()
    x = b.add_node(Relayout(None), b.input(tensor(2, 16, 8, 8).with_layout(Layout(16, NO_HALO))))
    y = conv(b, b.input(tensor(2, 16, 8, 8)), 16)
    result = run_pass(LAYOUTS, b.build([b.reshape(x, (2, 1024)), y]))
    assert operands(result, "reshape") == [None]


def test_other_dtypes_stay_row_major() -> None:
    for dtype in (DType.F16, DType.I32):
        b = CoreBuilder()
        graph = b.build([conv(b, b.input(tensor(1, 16, 8, 8, dtype=dtype)), 16)])
        assert_unchanged(LAYOUTS, graph)


def test_casts_leave_the_blocks() -> None:
    b = CoreBuilder()
    y = conv(b, b.input(tensor(1, 16, 8, 8)), 16)
    graph = b.build([b.cast(y, DType.I32), b.gt(y, 0.0)])
    result = run_pass(LAYOUTS, graph)
    assert layouts(result, "cast") == [None]
    assert_same_values(graph, result, 1e-4)


def test_vectors_and_volumes() -> None:
    b = CoreBuilder()
    line = b.conv(b.input(tensor(1, 16, 9)), b.input(tensor(16, 16, 3), parameter=True), (1,), ((1, 1),))
    volume = b.input(tensor(1, 16, 4, 4, 4))
    solid = b.conv(volume, b.input(tensor(16, 16, 3, 3, 3), parameter=True), (1,) * 3, ((1, 1),) * 3)
    graph = b.build([line, solid])
    result = run_pass(LAYOUTS, graph)
    assert layouts(result, "conv") == [Layout(16, (NONE,)), Layout(16, (NONE,) * 3)]
    assert_same_values(graph, result, 1e-5)


@pytest.mark.parametrize(("window", "stride", "in_blocks"), [(3, 2, True), (1, 4, False)])
def test_a_gradient_of_windows_is_computed_in_blocks_if_copies_pay(window: int, stride: int, in_blocks: bool) -> None:
    b = CoreBuilder()
    extent = (9 - window) // stride + 1
    x, g = b.input(tensor(2, 16, 9, 9)), b.input(tensor(2, 16, extent, extent))
    y = b.select_and_scatter(x, g, (1, 1, window, window), (1, 1, stride, stride), (NONE,) * 4)
    result = run_pass(LAYOUTS, b.build([y]))
    assert (operands(result, "select_and_scatter") != [None]) == in_blocks


def test_graphs_without_convolutions_stay() -> None:
    b = CoreBuilder()
    assert_unchanged(LAYOUTS, b.build([b.exp(b.input(tensor(1, 16, 8, 8)))]))
