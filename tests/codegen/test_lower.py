"""Printed kernels of regions: index maps, rows, windows, contractions, locals and expressions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mxforge.codegen.lower import LoweringError, lower_concat, lower_region
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Value
from mxforge.ir.kernel import AxisKind, Kernel, Local, ReduceOp
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.ir.verifier import verify_kernel
from rewriting import assert_text, kernel_text, tensor

F32 = DType.F32
Body = Callable[[CoreBuilder], Value]


def lowered(kind: str, make: Callable[[CoreBuilder], Value | list[Value]]) -> Kernel:
    """The verified kernel of a region with this body."""
    b = CoreBuilder("region")
    made = make(b)
    kernel = lower_region(Fused(b.build(made if isinstance(made, list) else [made]), kind))
    verify_kernel(kernel)
    return kernel


def test_pointwise_nodes_become_one_expression() -> None:
    def body(b: CoreBuilder) -> Value:
        x, y = b.input(tensor(2, 3)), b.input(tensor(3))
        return b.mul(b.add(x, b.broadcast_to(y, (2, 3))), 2.0)

    assert_text(
        kernel_text(lowered("pointwise", body)),
        """
        %x0 = 2x3xf32
        %x1 = 3xf32
        %y0 = 2x3xf32
        %i0 = parallel axis of 2
        %i1 = parallel axis of 3
        store %y0 ({
          %0 = load %x0[i0, i1] : f32
          %1 = load %x1[i1] : f32
          %2 = add(%0, %1) : f32
          %3 = 2.0 : f32
          %4 = mul(%2, %3) : f32
          yield %4
        }) at [i0, i1]
        """,
    )


def test_an_expensive_value_with_two_readers_becomes_a_local() -> None:
    def body(b: CoreBuilder) -> Value:
        y = b.exp(b.input(tensor(4)))
        return b.mul(y, b.add(y, 1.0))

    assert_text(
        kernel_text(lowered("pointwise", body)),
        """
        %x0 = 4xf32
        %y0 = 4xf32
        %i0 = parallel axis of 4
        %t0 = local(%i0) ({
          %0 = load %x0[i0] : f32
          %1 = exp(%0) : f32
          yield %1
        }) {name = "t0"} : f32
        store %y0 ({
          %2 = 1.0 : f32
          %3 = add(%t0, %2) : f32
          %4 = mul(%t0, %3) : f32
          yield %4
        }) at [i0]
        """,
    )


def test_index_maps_change_the_index() -> None:
    def body(b: CoreBuilder) -> Value:
        x = b.input(tensor(4, 6))
        sliced = b.slice(b.reverse(b.transpose(x), (0,)), (1, 0), (6, 4), (2, 3))
        return b.add(b.cast(b.iota((3, 2), DType.I32, 1), F32), sliced)

    assert_text(
        kernel_text(lowered("pointwise", body)),
        """
        %x0 = 4x6xf32
        %y0 = 3x2xf32
        %i0 = parallel axis of 3
        %i1 = parallel axis of 2
        store %y0 ({
          %0 = position(%i1)
          %1 = cast(%0) : i32
          %2 = cast(%1) : f32
          %3 = load %x0[i1 * 3, i0 * -2 + 4] : f32
          %4 = add(%2, %3) : f32
          yield %4
        }) at [i0, i1]
        """,
    )


def test_padding_is_a_load_with_another_value() -> None:
    def body(b: CoreBuilder) -> Value:
        return b.pad(b.input(tensor(4, 6)), b.constant(1.5, F32), (1, 0), (0, -2))

    assert_text(
        kernel_text(lowered("move", body)),
        """
        %x0 = 4x6xf32
        %y0 = 5x4xf32
        %i0 = parallel axis of 5
        %i1 = parallel axis of 4
        store %y0 ({
          %0 = load %x0[i0 + -1, i1] else 1.5 : f32
          yield %0
        }) at [i0, i1]
        """,
    )


def test_gathered_indices_are_clamped() -> None:
    def body(b: CoreBuilder) -> Value:
        return b.gather(b.input(tensor(5, 3)), b.input(tensor(2, 1, dtype=DType.I32)), (0,))

    assert_text(
        kernel_text(lowered("move", body)),
        """
        %x0 = 5x3xf32
        %x1 = 2x1xi32
        %y0 = 2x3xf32
        %i0 = parallel axis of 2
        %i1 = parallel axis of 3
        store %y0 ({
          %0 = load %x1[i0, 0] : i32
          %1 = cast(%0)
          %2 = 0
          %3 = max(%1, %2)
          %4 = 4
          %5 = min(%3, %4)
          %6 = index(%5) : index
          %7 = load %x0[g6, i1] : f32
          yield %7
        }) at [i0, i1]
        """,
    )


def softmax(b: CoreBuilder, shape: tuple[int, ...]) -> Value:
    x = b.input(tensor(*shape))
    e = b.exp(b.sub(x, b.broadcast_to(b.max(x, 1, keepdims=True), shape)))
    return b.div(e, b.broadcast_to(b.sum(e, 1, keepdims=True), shape))


def test_reductions_of_a_row_share_its_axis() -> None:
    assert_text(
        kernel_text(lowered("row", lambda b: softmax(b, (4, 6)))),
        """
        %x0 = 4x6xf32
        %y0 = 4x6xf32
        %i0 = parallel axis of 4
        %r1 = reduce axis of 6
        %t0 = local(%i0) ({
          %0 = reduce(%r1) ({
            %1 = load %x0[i0, r1] : f32
            yield %1
          }) {op = "max"} : f32
          yield %0
        }) {name = "t0"} : f32
        %t1 = local(%i0, %r1) ({
          %2 = load %x0[i0, r1] : f32
          %3 = sub(%2, %t0) : f32
          %4 = exp(%3) : f32
          yield %4
        }) {name = "t1"} : f32
        %t2 = local(%i0) ({
          %5 = reduce(%r1) ({
            yield %t1
          }) {op = "add"} : f32
          yield %5
        }) {name = "t2"} : f32
        store %y0 ({
          %6 = div(%t1, %t2) : f32
          yield %6
        }) at [i0, r1]
        """,
    )


@pytest.mark.parametrize("shape", [(1, 6), (1, 6, 5), (4, 6, 1), (1, 1, 1), (3, 1, 5)])
def test_rows_of_extent_one_have_no_axis(shape: tuple[int, ...]) -> None:
    """A value that was read directly and through a reshape was computed twice."""
    kernel = lowered("row", lambda b: softmax(b, shape))
    rows = [a.extent for a in kernel.axes if a.kind is AxisKind.PARALLEL]
    assert rows == [n for k, n in enumerate(shape) if n != 1 and k != 1]
    assert sum(isinstance(s, Local) for s in kernel.stages) == 3


@pytest.mark.parametrize("keepdims", [False, True])
def test_results_of_rows_keep_their_dimensions(keepdims: bool) -> None:
    for shape in ((4, 6, 5), (1, 6, 5), (4, 6, 1), (1, 6, 1)):
        kernel = lowered("row", lambda b, s=shape: b.sqrt(b.sum(b.input(tensor(*s)), (1,), keepdims)))
        assert [b.shape for b in kernel.buffers if b.written] == [
            (shape[0], 1, shape[2]) if keepdims else (shape[0], shape[2])
        ]


def test_windows_reduce_padded_loads() -> None:
    def body(b: CoreBuilder) -> Value:
        window = ((1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 0)))
        return b.reduce_window(ReduceOp.MAX, b.input(tensor(2, 5, 9, 9)), *window)

    assert_text(
        kernel_text(lowered("window", body)),
        """
        %x0 = 2x5x9x9xf32
        %y0 = 2x5x5x4xf32
        %i0 = parallel axis of 2
        %i1 = parallel axis of 5
        %i2 = parallel axis of 5
        %i3 = parallel axis of 4
        %r0 = reduce axis of 3
        %r1 = reduce axis of 3
        store %y0 ({
          %0 = reduce(%r0, %r1) ({
            %1 = load %x0[i0, i1, i2 * 2 + r0 + -1, i3 * 2 + r1 + -1] else 0xFFF0000000000000 : f32
            yield %1
          }) {op = "max"} : f32
          yield %0
        }) at [i0, i1, i2, i3]
        """,
    )


def test_a_grouped_convolution_has_an_axis_of_groups() -> None:
    def body(b: CoreBuilder) -> Value:
        y = b.conv(b.input(tensor(1, 4, 6)), b.input(tensor(6, 2, 3)), (2,), ((1, 1),), groups=2)
        return b.maximum(y, 0.0)

    assert_text(
        kernel_text(lowered("contract", body)),
        """
        %x0 = 1x4x6xf32
        %x1 = 6x2x3xf32
        %y0 = 1x6x3xf32
        %i0 = parallel axis of 1
        %g = parallel axis of 2
        %i1 = parallel axis of 3
        %i2 = parallel axis of 3
        %r0 = reduce axis of 2
        %r1 = reduce axis of 3
        store %y0 ({
          %0 = contract(%g, %i0, %i2, %i1, %r0, %r1) ({
            %p0 = window(%i2, %r1) {extent = 6, stride = 2, dilation = 1, low = 1, interior = 1} : index
            %1 = load %x0[i0, g * 2 + r0, p0] : f32
            %2 = load %x1[g * 3 + i1, r0, r1] : f32
            yield %1, %2
          }) {kind = "convolution", accumulator = f32, roles [1, 2, 1, 2]} : f32
          %3 = 0.0 : f32
          %4 = max(%0, %3) : f32
          yield %4
        }) at [i0, g * 3 + i1, i2]
        """,
    )


def test_a_transposed_convolution_reads_between_zeros() -> None:
    def body(b: CoreBuilder) -> Value:
        return b.conv(b.input(tensor(1, 2, 3)), b.input(tensor(2, 2, 2)), (1,), ((1, 1),), lhs_dilation=(2,))

    assert_text(
        kernel_text(lowered("contract", body)),
        """
        %x0 = 1x2x3xf32
        %x1 = 2x2x2xf32
        %y0 = 1x2x6xf32
        %i0 = parallel axis of 1
        %i1 = parallel axis of 2
        %i2 = parallel axis of 6
        %r0 = reduce axis of 2
        %r1 = reduce axis of 2
        store %y0 ({
          %0 = contract(%i0, %i2, %i1, %r0, %r1) ({
            %p0 = window(%i2, %r1) {extent = 3, stride = 1, dilation = 1, low = 1, interior = 2} : index
            %1 = load %x0[i0, r0, p0] : f32
            %2 = load %x1[i1, r0, r1] : f32
            yield %1, %2
          }) {kind = "convolution", accumulator = f32, roles [0, 2, 1, 2]} : f32
          yield %0
        }) at [i0, i1, i2]
        """,
    )


def test_a_batched_product() -> None:
    assert_text(
        kernel_text(lowered("contract", lambda b: b.matmul(b.input(tensor(2, 3, 4)), b.input(tensor(2, 4, 5))))),
        """
            %x0 = 2x3x4xf32
            %x1 = 2x4x5xf32
            %y0 = 2x3x5xf32
            %i0 = parallel axis of 2
            %i1 = parallel axis of 3
            %i2 = parallel axis of 5
            %r0 = reduce axis of 4
            store %y0 ({
              %0 = contract(%i0, %i1, %i2, %r0) ({
                %1 = load %x0[i0, i1, r0] : f32
                %2 = load %x1[i0, r0, i2] : f32
                yield %1, %2
              }) {kind = "product", accumulator = f32, roles [1, 1, 1, 1]} : f32
              yield %0
            }) at [i0, i1, i2]
            """,
    )


def test_a_piece_of_a_concatenation_is_copied_to_its_offset() -> None:
    strides = (None, (64, 8, 1))
    kernel = lower_concat(tensor(2, 5, 8), tensor(2, 8, 8), 1, 3, "copy", strides)
    verify_kernel(kernel)
    assert_text(
        kernel_text(kernel),
        """
        %x0 = 2x5x8xf32
        %y0 = 2x8x8xf32 [64, 8, 1]
        %i0 = parallel axis of 2
        %i1 = parallel axis of 5
        %i2 = parallel axis of 8
        store %y0 ({
          %0 = load %x0[i0, i1, i2] : f32
          yield %0
        }) at [i0, i1 + 3, i2]
        """,
    )


def test_a_value_at_gathered_rows_does_not_depend_on_the_other_axes() -> None:
    def body(b: CoreBuilder) -> Value:
        root, rows = b.sqrt(b.input(tensor(5, 3))), b.input(TensorType((5,), DType.I64))
        return b.add(root, b.take(root, rows, 0))

    kernel = lowered("move", body)
    assert [stage.axes for stage in kernel.stages if isinstance(stage, Local)] == [("i0", "i1")] * 2


def test_layouts_belong_only_to_buffers() -> None:
    layout = Layout(8, ((1, 1),))
    kernel = lowered("move", lambda b: b.relayout(b.input(tensor(1, 12, 4)), layout))
    assert [buffer.layout for buffer in kernel.buffers] == [None, layout]
    assert [buffer.shape for buffer in kernel.buffers] == [(1, 12, 4)] * 2


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("pointwise", lambda b: b.sort(b.input(tensor(4)), 0)[0], "core.sort has no kernel"),
        ("pointwise", lambda b: [b.exp(b.input(tensor(4))), b.exp(b.input(tensor(5)))], "results of shapes"),
    ],
    ids=["no rule", "two spaces"],
)
def test_ops_without_a_kernel_raise_an_error(kind: str, body: Body, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        lowered(kind, body)
