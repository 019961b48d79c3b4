"""Which nodes become one region, for each kind, and which must stay separate."""

from __future__ import annotations

import pytest
from mxforge.ir.dialects.core import ConvWeightGradient, CoreBuilder, Fused
from mxforge.ir.graph import Graph, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, TensorType
from mxforge.passes.assign_layouts import AssignLayouts
from mxforge.passes.fuse import Fuse, Kind, kind_of
from rewriting import assert_rewrites, assert_same_values, run_pass, tensor

FUSE = Fuse()
F32 = DType.F32


def regions(graph: Graph) -> list[tuple[str, list[str]]]:
    """The kind of each region with the ops in its body; the op of every other node."""
    found: list[tuple[str, list[str]]] = []
    for node in graph.nodes:
        if isinstance(node.op, Fused):
            found.append((node.op.kind, [_short(n.op) for n in node.op.body.nodes]))
        else:
            found.append(("", [_short(node.op)]))
    return found


def _short(op: object) -> str:
    return str(getattr(getattr(op, "op", None), "value", None) or op.name.rpartition(".")[2])  # type: ignore[attr-defined]


def fused(graph: Graph) -> list[tuple[str, list[str]]]:
    """The regions of the fused graph, which has the values of the graph."""
    result = run_pass(FUSE, graph)
    assert_same_values(graph, result, 1e-5)
    return regions(result)


def test_pointwise_nodes_are_one_region_with_its_numbers() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(2, 3)), b.input(tensor(3))
    assert_rewrites(
        FUSE,
        b.build([b.mul(b.add(b.exp(x), b.broadcast_to(y, (2, 3))), 2.0)]),
        """
        (%arg0: 2x3xf32, %arg1: 3xf32):
          %0 = exp(%arg0) : 2x3xf32
          %1 = broadcast(%arg1) [1] : 2x3xf32
          %2 = add(%0, %1) : 2x3xf32
          %3 = dense<2.0> : f32
          %4 = broadcast(%3) [] : 2x3xf32
          %5 = mul(%2, %4) : 2x3xf32
          return %5
        ->
        (%arg0: 2x3xf32, %arg1: 3xf32):
          %0 = fused(%arg0, %arg1) ({
          (%arg2: 2x3xf32, %arg3: 3xf32):
            %1 = exp(%arg2) : 2x3xf32
            %2 = broadcast(%arg3) [1] : 2x3xf32
            %3 = add(%1, %2) : 2x3xf32
            %4 = dense<2.0> : f32
            %5 = broadcast(%4) [] : 2x3xf32
            %6 = mul(%3, %5) : 2x3xf32
            yield %6
          }) {kind = "pointwise"} : 2x3xf32
          return %0
        """,
    )


def softmax(b: CoreBuilder, x: Value) -> Value:
    shape = x.type.shape
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), shape)))
    return b.div(e, b.broadcast_to(b.sum(e, 1, keepdims=True), shape))


def test_softmax_with_pointwise_work_before_and_after_is_one_region() -> None:
    b = CoreBuilder()
    graph = b.build([b.sqrt(softmax(b, b.mul(b.input(tensor(4, 6)), 3.0)))])
    ((kind, body),) = fused(graph)
    assert kind == "row"
    assert [n for n in body if n not in ("broadcast", "constant", "reshape")] == [
        "mul", "max", "sub", "exp", "add", "div", "sqrt",
    ]  # fmt: skip


def test_a_contraction_is_fused_with_the_chain_after_it() -> None:
    b = CoreBuilder()
    x, w, bias = b.input(tensor(4, 6)), b.input(tensor(5, 6)), b.input(tensor(5))
    y = b.dot(x, w, (), (), (1,), (1,))
    graph = b.build([b.maximum(b.add(y, b.broadcast_along(bias, (4, 5), 1)), 0.0)])
    assert fused(graph) == [("contract", ["dot", "broadcast", "add", "constant", "broadcast", "max"])]


def test_pointwise_work_after_a_weight_gradient_is_another_region() -> None:
    b = CoreBuilder()
    x, dy, before = (b.input(tensor(*shape)) for shape in ((2, 4, 5, 5), (2, 3, 5, 5), (3, 4, 1, 1)))
    gradient = b.add_node(ConvWeightGradient((1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)), x, dy)
    assert fused(b.build([b.add(before, gradient)])) == [
        ("contract", ["conv_weight_gradient"]),
        ("pointwise", ["add"]),
    ]


def test_two_contractions_stay_apart() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(4, 6)), b.input(tensor(5, 6))
    graph = b.build([b.add(b.dot(x, w, (), (), (1,), (1,)), b.dot(b.neg(x), w, (), (), (1,), (1,)))])
    kinds = sorted(kind for kind, _ in fused(graph))
    assert kinds == ["contract", "contract", "pointwise"]


def test_a_window_is_fused_with_the_chain_after_it() -> None:
    b = CoreBuilder()
    x = b.input(tensor(1, 2, 6, 6))
    pooled = b.reduce_window(ReduceOp.ADD, x, (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4)
    assert fused(b.build([b.mul(pooled, 0.25)])) == [("window", ["add", "constant", "broadcast", "mul"])]


def test_a_mask_of_the_chain_after_a_contraction_joins_it() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(4, 6)), b.input(tensor(4, 8))
    zero = b.broadcast(b.constant(0.0, F32), (4, 8), ())
    product = b.dot(x, b.input(tensor(6, 8)), (), (), (1,), (0,))
    graph = b.build([b.select(b.gt(b.add(y, 0.5), zero), product, zero)])
    assert [kind for kind, _ in fused(graph)] == ["contract"]


def test_what_a_contraction_reads_itself_stays_apart() -> None:
    b = CoreBuilder()
    x = b.exp(b.input(tensor(4, 4)))
    kinds = sorted(kind for kind, _ in fused(b.build([b.dot(x, b.input(tensor(4, 4)), (), (), (1,), (0,))])))
    assert kinds == ["contract", "pointwise"]


def test_numbers_of_one_row_are_computed_in_the_region_of_rows() -> None:
    b = CoreBuilder()
    x, scale = b.input(tensor(4, 6)), b.input(tensor(4))
    total = b.mul(b.sum(x, (1,)), b.exp(scale))
    assert [kind for kind, _ in fused(b.build([b.sub(x, b.broadcast(total, (4, 6), (0,)))]))] == ["row"]


def test_moves_join_pointwise_nodes_of_one_reader() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    before = b.build([b.transpose(b.exp(x))])
    assert fused(before) == [("pointwise", ["exp", "transpose"])]
    b = CoreBuilder()
    behind = b.build([b.exp(b.slice(b.input(tensor(4, 6)), (0, 1), (4, 6), (1, 2)))])
    assert fused(behind) == [("pointwise", ["slice", "exp"])]


def test_a_pad_reads_a_value_in_memory() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    graph = b.build([b.pad(b.exp(x), b.constant(0.0, F32), (1, 0), (0, 1))])
    assert fused(graph) == [("pointwise", ["exp"]), ("move", ["constant", "pad"])]


def test_a_concatenation_is_a_separate_region() -> None:
    b = CoreBuilder()
    x, y = b.input(tensor(2, 3)), b.input(tensor(2, 4))
    graph = b.build([b.neg(b.concat([b.exp(x), y], 1))])
    assert fused(graph) == [("pointwise", ["exp"]), ("join", ["concat"]), ("pointwise", ["neg"])]


def test_opaque_nodes_are_unchanged() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    values, _ = b.sort([b.exp(x), b.iota((4, 6), F32, 1)], 1)
    graph = b.build([b.neg(b.reshape(values, (24,)))])
    assert fused(graph) == [
        ("pointwise", ["iota"]), ("pointwise", ["exp"]), ("", ["sort"]), ("", ["reshape"]), ("pointwise", ["neg"]),
    ]  # fmt: skip


def test_a_value_of_two_readers_is_computed_once() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(4, 6)))
    graph = b.build([b.transpose(y), b.reverse(y, (0,))])
    assert [body for _, body in fused(graph)] == [["exp"], ["transpose"], ["reverse"]]


def test_a_diamond_of_one_space_is_one_region() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(4, 6)))
    assert fused(b.build([b.add(b.neg(y), b.tanh(y))])) == [("pointwise", ["exp", "neg", "tanh", "add"])]


def test_results_that_leave_the_graph_are_stored() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(4, 6)))
    graph = b.build([y, b.neg(y)])
    assert fused(graph) == [("pointwise", ["exp", "neg"])]


def test_a_result_that_leaves_the_graph_joins_no_region_that_moves_elements() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(4, 6)))
    graph = b.build([y, b.transpose(b.neg(y))])
    assert fused(graph) == [("pointwise", ["exp"]), ("pointwise", ["neg", "transpose"])]


def test_states_of_an_update_are_results_of_one_region() -> None:
    b = CoreBuilder()
    weight, grad, mean, var = (b.input(tensor(4, 6)) for _ in range(4))
    new_mean, new_var = b.add(mean, grad), b.add(var, b.mul(grad, grad))
    graph = b.build([b.sub(weight, b.div(new_mean, b.sqrt(new_var))), new_mean, new_var])
    assert len(fused(graph)) == 1


def test_results_are_computed_in_the_order_of_the_graph() -> None:
    """Whatever their order among the outputs: what only the first one reads is not kept for long."""
    b = CoreBuilder()
    x, w = b.input(tensor(4, 4)), b.input(tensor(4, 4))

    def product(y: Value) -> Value:
        return b.dot(y, w, (), (), (1,), (0,))

    first = product(x)
    early, second = b.sum(b.exp(first), (0,)), product(first)
    late = b.sum(b.exp(second), (1,))
    result = run_pass(FUSE, b.build([late, early]))
    assert [kind for kind, _ in regions(result)] == ["contract", "row", "contract", "row"]
    assert [v.node for v in result.outputs] == [result.nodes[3], result.nodes[1]]


def test_a_result_may_leave_through_a_broadcast() -> None:
    b = CoreBuilder()
    y = b.exp(b.input(tensor(6)))
    spread = b.broadcast_to(y, (4, 6))
    graph = b.build([spread, b.neg(y)])
    assert fused(graph) == [("pointwise", ["exp", "neg"]), ("pointwise", ["broadcast"])]


def test_virtual_nodes_are_copied_into_each_region() -> None:
    b = CoreBuilder()
    x, scale = b.input(tensor(4, 6)), b.broadcast_to(b.input(tensor(6)), (4, 6))
    graph = b.build([b.mul(x, scale), b.sum(b.add(x, scale), (1,))])
    assert fused(graph) == [("pointwise", ["broadcast", "mul"]), ("row", ["broadcast", "add", "add"])]


def test_no_region_waits_for_itself() -> None:
    """exp -> sort -> add and exp -> add: joining exp and add would enclose the sort."""
    b = CoreBuilder()
    y = b.exp(b.input(tensor(4, 6)))
    ordered, _ = b.sort([y, b.iota((4, 6), F32, 1)], 1)
    graph = b.build([b.add(y, ordered)])
    assert ("pointwise", ["add"]) in fused(graph)


def test_no_two_regions_wait_for_each_other() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 4))
    total = b.broadcast_to(b.sum(x, (1,), keepdims=True), (4, 4))
    other = b.dot(total, x, (), (), (1,), (0,))
    graph = b.build([b.add(b.mul(x, total), other)])
    result = run_pass(FUSE, graph)
    assert_same_values(graph, result, 1e-4)
    assert len(result.nodes) == len(regions(result)) >= 2


def test_rows_of_other_spaces_stay_apart() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    graph = b.build([b.add(b.sum(x, (0, 1)), b.max(b.max(x, (1,)), (0,)))])
    kinds = [kind for kind, _ in fused(graph)]
    assert kinds.count("row") == 3


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (1, 2)])
def test_a_row_keeps_results_of_the_rows_inside(axes: tuple[int, ...]) -> None:
    b = CoreBuilder()
    x = b.input(tensor(3, 4, 5))
    graph = b.build([b.sqrt(b.sum(b.square(x), axes))])
    ((kind, body),) = fused(graph)
    assert kind == "row"
    assert body[-1] == "sqrt"


def test_blocked_and_row_major_nodes_stay_apart() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(1, 16, 6, 6)), b.input(tensor(16, 16, 3, 3), parameter=True)
    y = b.conv(b.tanh(x), w, (1, 1), ((1, 1), (1, 1)))
    graph = b.build([b.exp(b.maximum(y, 0.0))])
    result = run_pass(FUSE, run_pass(AssignLayouts(), graph))
    assert_same_values(graph, result, 1e-4)
    assert regions(result) == [
        ("pointwise", ["tanh", "relayout"]),
        ("contract", ["conv", "constant", "broadcast", "max", "exp"]),
        ("move", ["relayout"]),
    ]


def test_a_name_and_a_line_stay_with_the_region() -> None:
    b = CoreBuilder()
    b.location = "net.py:3"
    graph = b.build([b.neg(b.exp(b.input(tensor(4))))])
    graph.nodes[-1].name = "last"
    (region,) = run_pass(FUSE, graph).nodes
    assert (region.name, region.location) == ("last", "net.py:3")


def test_kinds_of_nodes() -> None:
    b = CoreBuilder()
    x = b.input(TensorType((4, 1, 6), F32))
    kinds = [
        (b.constant(1.0, F32), Kind.VIRTUAL),
        (b.constant([1.0, 2.0], F32), Kind.OPAQUE),
        (b.reshape(x, (4, 6)), Kind.VIRTUAL),
        (b.reshape(x, (24,)), Kind.OPAQUE),
        (b.cumulative(ReduceOp.ADD, x, 2), Kind.OPAQUE),
    ]
    assert [kind_of(v.node) for v, _ in kinds if v.node] == [kind for _, kind in kinds]


def test_deep_graphs_do_not_exhaust_the_stack() -> None:
    b = CoreBuilder()
    y = b.input(tensor(4))
    for i in range(3000):
        y = b.neg(y) if i % 3 else b.reshape(b.reshape(y, (2, 2)), (4,))
    assert len(run_pass(FUSE, b.build([y])).nodes) == 3000


def _sums(b: CoreBuilder, x: Value, axis: int) -> Value:
    return b.reduce(ReduceOp.ADD, x, axis)


def _pairs(b: CoreBuilder, x: Value) -> Value:
    """Squared distances without their products: sums of each pair of rows."""
    s = _sums(b, b.mul(x, x), 1)
    return b.add(b.broadcast(s, (4, 4), (0,)), b.broadcast(s, (4, 4), (1,)))


def _transposed(b: CoreBuilder, x: Value) -> Value:
    s = b.reduce(ReduceOp.ADD, b.broadcast(x, (4, 4, 3), (0, 1)), 2)
    return b.add(s, b.transpose(s))


OTHER_ROWS = {
    "rows by columns": lambda b, x: b.sub(x, b.broadcast(_sums(b, x, 0), (4, 4), (0,))),
    "columns by rows": lambda b, x: b.sub(x, b.broadcast(_sums(b, x, 1), (4, 4), (1,))),
    "pairs": _pairs,
    "transposed": _transposed,
    "through a reshape": lambda b, x: b.sub(x, b.broadcast_to(b.reshape(_sums(b, x, 1), (1, 4)), (4, 4))),
    "scaled first": lambda b, x: b.sub(x, b.broadcast(b.exp(_sums(b, x, 1)), (4, 4), (1,))),
    "two readers": lambda b, x: b.add(
        b.sub(x, b.broadcast(s := _sums(b, x, 1), (4, 4), (0,))), b.neg(b.broadcast(s, (4, 4), (1,)))
    ),
}


@pytest.mark.parametrize("case", OTHER_ROWS)
def test_reductions_of_other_rows_are_of_another_region(case: str) -> None:
    """The space is square, so shapes do not distinguish the axes."""
    b = CoreBuilder()
    found = fused(b.build([OTHER_ROWS[case](b, b.input(tensor(4, 4)))]))
    assert len(found) > 1


def test_rows_of_a_square_space_are_one_region() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 4))
    centred = b.sub(x, b.broadcast_to(b.mean(x, 1, keepdims=True), (4, 4)))
    scale = b.rsqrt(b.mean(b.mul(centred, centred), 1, keepdims=True))
    (found,) = fused(b.build([b.mul(centred, b.broadcast_to(scale, (4, 4)))]))
    assert found[0] == "row"


def test_moves_of_parameters_join_the_convolution_that_reads_them() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(2, 3, 5, 5)), b.input(tensor(3, 4, 3, 3), "weights", parameter=True)
    exchanged = b.reverse(b.transpose(b.slice(w, (0, 0, 0, 0), (3, 4, 2, 3)), (1, 0, 2, 3)), (2, 3))
    graph = b.build([b.conv(x, exchanged, (1, 1), ((1, 1), (1, 1)))])
    assert fused(graph) == [("contract", ["slice", "transpose", "reverse", "conv"])]


def test_moves_of_other_weights_are_regions() -> None:
    b = CoreBuilder()
    x, w = b.input(tensor(2, 3, 5, 5)), b.input(tensor(3, 4, 3, 3))
    graph = b.build([b.conv(x, b.transpose(w, (1, 0, 2, 3)), (1, 1), ((1, 1), (1, 1)))])
    assert fused(graph) == [("move", ["transpose"]), ("contract", ["conv"])]


def normalized_gradients(b: CoreBuilder, shape: tuple[int, int], heavy: bool = False) -> list[Value]:
    """A sum by columns and rows, both of a normalized operand, whose statistics are operands."""
    x, g, mean = b.input(tensor(*shape)), b.input(tensor(*shape)), b.input(tensor(shape[0]))
    centred = b.sub(x, b.broadcast_along(mean, shape, 0))
    value = b.exp(centred) if heavy else b.mul(centred, 0.5)
    rows = b.broadcast_to(b.sum(b.mul(b.mul(g, 2.0), value), 1, keepdims=True), shape)
    return [b.mul(value, rows), b.sum(b.mul(g, value), 0)]


def test_reductions_compute_a_few_simple_operations_again() -> None:
    b = CoreBuilder()
    found = fused(b.build(normalized_gradients(b, (4, 6))))
    assert [(kind, ops.count("sub"), ops.count("add")) for kind, ops in found] == [("row", 1, 1), ("row", 1, 1)]


def test_a_value_that_takes_long_is_stored_for_its_readers() -> None:
    b = CoreBuilder()
    found = fused(b.build(normalized_gradients(b, (4, 6), heavy=True)))
    assert [kind for kind, _ in found] == ["pointwise", "row", "row"]


def test_an_output_that_reductions_read_is_computed_once() -> None:
    b = CoreBuilder()
    x = b.input(tensor(4, 6))
    value = b.mul(x, 0.5)
    found = fused(b.build([value, b.sum(value, 0), b.sum(value, 1)]))
    assert [kind for kind, _ in found] == ["pointwise", "row", "row"]
