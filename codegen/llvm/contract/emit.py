"""The entry points of the package: chooses a schedule for a contraction, and emits its launches.

`KINDS` lists the kinds of schedules, in order of preference.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ....ir.kernel import Kernel, Store, dtype_of
from ...emission import Emission, LaunchSpec, Packing
from ..cpu import Cpu
from ..emitter import ModuleBuilder
from ..schedule.contract import (
    conv_sizes,
    schedule_depthwise,
    schedule_direct,
    schedule_dots,
    schedule_product,
    schedule_winograd,
    winograd_reach,
)
from ..schedule.describe import (
    NO_AXIS,
    ContractionError,
    ConvShape,
    GemmShape,
    WeightGradientShape,
    describe_contraction,
    extent_of,
)
from ..schedule.kinds import (
    ContractionSchedule,
    DepthwiseGradientSchedule,
    DepthwiseSchedule,
    GemvSchedule,
    TileSchedule,
    WeightGradientSchedule,
    WinogradGradientSchedule,
    WinogradSchedule,
)
from ..schedule.spaces import tuned_schedule
from ..schedule.strides import Walk
from ..schedule.weight_gradient import (
    schedule_depthwise_gradient,
    schedule_weight_gradient,
    schedule_winograd_gradient,
)
from ..types import Type, type_of
from .conv import Grouping, InputPlace, conv_problem, conv_walk, copied_place, input_place
from .copy_input import emit_copy
from .depthwise import DepthwiseNest, depthwise_filters
from .depthwise_gradient import emit_depthwise_gradient
from .elementwise import SumsWalk, emit_elementwise
from .epilogue import Epilogue, Operand, make_epilogue
from .gemm import emit_widening, gemm_problem, is_widened, widened_elements
from .gemv import emit_gemv, gemv_packing
from .kind import ScheduleKind
from .line_taps import line_taps
from .packed_rows import packed_rows
from .packing import packed_panels
from .problem import Problem
from .space_to_depth import emit_space_to_depth
from .split_gemv import emit_split_gemv
from .tiles import emit_tiles, panel_kinds, workspace_bytes, workspace_slot
from .weight_gradient import emit_weight_gradient
from .winograd import WinogradNest
from .winograd_gradient import emit_winograd_gradient
from .winograd_layout import winograd_filters, winograd_kinds, winograd_workspace

_ALIGN = 64


def schedule_contraction(kernel: Kernel, target: Cpu, parameters: frozenset[str] = frozenset()) -> ContractionSchedule:
    """The schedule of `kernel` on `target`: the tuned one, else that of the first kind that supports it. `parameters`
    names the buffers that rarely change: packing them costs nothing per run. ContractionError if no kind supports it.
    """
    shape = describe_contraction(kernel)
    tuned = tuned_schedule(kernel, target, parameters)
    if isinstance(tuned, ContractionSchedule):
        return tuned
    for kind in KINDS:
        schedule = kind.choose(shape, target, parameters) if isinstance(shape, kind.contraction) else None
        if schedule is not None:
            return schedule
    names = " by ".join(dtype_of(kernel, e).value for e in (shape.contract.lhs, shape.contract.rhs))
    raise ContractionError(f"{kernel.name}: no schedule supports products of {names} in {shape.accumulator.value}")


def emit_contraction(
    kernel: Kernel, schedule: ContractionSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    """Add functions `symbol...` that compute `kernel` to `module`. ContractionError if the schedule is not one for this
    kind of contraction.
    """
    shape = describe_contraction(kernel)
    for kind in KINDS:
        if isinstance(shape, kind.contraction) and isinstance(schedule, kind.schedule):
            return kind.emit(shape, schedule, target, module, symbol)
    raise ContractionError(f"{kernel.name}: {type(schedule).__name__} does not fit a {type(shape).__name__}")


def direct_place(shape: ConvShape, target: Cpu) -> InputPlace:
    """The input of direct convolution. A copy of an input with few channels is row-major; its reduction is unrolled
    along the window's last axis.
    """
    x = shape.kernel.buffer(shape.x.buffer)
    block = x.layout.block if x.layout else target.channel_block
    return input_place(shape, 1 if shape.groups * shape.channels < block and x.layout is None else block)


def _emit_direct(shape: ConvShape, schedule: TileSchedule, target: Cpu, module: ModuleBuilder, symbol: str) -> Emission:
    kernel = shape.kernel
    slot = workspace_slot(kernel)
    place = direct_place(shape, target)
    problem = conv_problem(shape, place, slot, line_taps(shape))
    epilogue, used = place_sums(problem.epilogue, _sum_count(problem), place.elements if place.copied else 0)
    problem = replace(problem, epilogue=epilogue)
    size = -(-used * Type.of(problem.element).bytes // _ALIGN) * _ALIGN
    copies = [emit_copy(module, shape, place, slot, 0, target, f"{symbol}.copy")] if place.copied else []
    launch = emit_tiles(module, problem, schedule, symbol, (slot, size))
    finish = _finish(module, kernel, shape.store, _conv_sums(shape, epilogue.out, problem.groups[0]), epilogue, symbol)
    kinds, group_size = panel_kinds(problem, schedule)
    packing = packed_panels(problem, schedule.lanes, kinds, group_size)
    workspace = size + workspace_bytes(problem, schedule, target)
    return Emission((*copies, launch, *finish), workspace, ((problem.w_slot, packing),))


def _emit_depthwise(
    shape: ConvShape, schedule: DepthwiseSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel, slot = shape.kernel, workspace_slot(shape.kernel)
    if not shape.is_depthwise or shape.group is None:
        raise ContractionError(
            f"{kernel.name}: a depthwise schedule requires one input and one output channel per group"
        )
    x = kernel.buffer(shape.x.buffer)
    place = input_place(shape, x.layout.block if x.layout else target.channel_block, blocked=True)
    axes = (shape.batch, *(w.out for w in shape.windows))
    points = tuple(extent_of(kernel, a) for a in axes)
    walk = Walk(
        groups=(NO_AXIS,), points=axes, channel=shape.filter, grouped=shape.group, filters=1, merged=shape.groups
    )
    epilogue = make_epilogue(kernel, walk, groups=(1,), points=points, channels=shape.groups)
    count = prod(points) * shape.groups
    epilogue, used = place_sums(epilogue, count, place.elements if place.copied else 0)
    sums = SumsWalk(
        out=epilogue.out,
        groups=1,
        points=tuple(zip(axes, points, strict=True)),
        channels=((shape.group, shape.groups), (shape.filter, 1)),
    )
    finish = _finish(module, kernel, shape.store, sums, epilogue, symbol)
    copies = [emit_copy(module, shape, place, slot, 0, target, f"{symbol}.copy")] if place.copied else []
    x_slot = slot if place.copied else kernel.buffers.index(x)
    launch = DepthwiseNest(module, schedule, shape, place, epilogue, x_slot=x_slot).emit(symbol)
    element = type_of(shape.accumulator).element
    packing = depthwise_filters(shape, schedule, element)
    w_slot = kernel.buffers.index(kernel.buffer(shape.w.buffer))
    return Emission((*copies, launch, *finish), used * Type.of(element).bytes, ((w_slot, packing),))


def _emit_winograd(
    shape: ConvShape, schedule: WinogradSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel, slot = shape.kernel, workspace_slot(shape.kernel)
    x = kernel.buffer(shape.x.buffer)
    block = x.layout.block if x.layout else target.channel_block
    sizes, reach = conv_sizes(shape), winograd_reach(shape, schedule.output)
    place = (
        copied_place(shape.images, sizes.space_to_depth.channels, block, reach)
        if sizes.is_strided
        else input_place(shape, block, reach, blocked=True)
    )
    problem = conv_problem(shape, place, slot)
    walk = conv_walk(shape, Grouping(groups=1, merged=1, channels=shape.channels, filters=shape.filters))
    points = tuple(extent_of(kernel, a) for a in walk.points)
    epilogue = make_epilogue(kernel, walk, groups=(1,), points=points, channels=shape.filters)
    used = place.elements if place.copied else 0
    epilogue, used = place_sums(epilogue, _sum_count(problem), used)
    finish = _finish(module, kernel, shape.store, _conv_sums(shape, epilogue.out, 1), epilogue, symbol)
    copies = [_winograd_copy(module, shape, place, slot, target, f"{symbol}.copy")] if place.copied else []
    used = -(-used // 16) * 16
    kinds = winograd_kinds(problem, schedule)
    nest = WinogradNest(
        module, schedule, shape, place, epilogue, kinds, x_slot=problem.x_slot, work_slot=slot, used=used
    )
    packing = winograd_filters(shape, schedule, kinds, place.block, problem)
    size = used + winograd_workspace(shape, schedule, place.block, target)
    launches = (*copies, *nest.emit(symbol), *finish)
    return Emission(launches, size * 4, ((problem.w_slot, packing),), saves_products=True)


def _winograd_copy(
    module: ModuleBuilder, shape: ConvShape, place: InputPlace, slot: int, target: Cpu, symbol: str
) -> LaunchSpec:
    if conv_sizes(shape).is_strided:
        return emit_space_to_depth(module, shape, place, slot, symbol)
    return emit_copy(module, shape, place, slot, 0, target, symbol)


def _emit_dots(shape: GemmShape, schedule: GemvSchedule, target: Cpu, module: ModuleBuilder, symbol: str) -> Emission:
    problem = gemm_problem(shape)
    epilogue, used = place_sums(problem.epilogue, _sum_count(problem), 0)
    problem = replace(problem, epilogue=epilogue)
    size = -(-used * Type.of(problem.element).bytes // _ALIGN) * _ALIGN
    finish = _finish(module, shape.kernel, shape.store, _product_sums(shape, problem), epilogue, symbol)
    packing = gemv_packing(problem, schedule)
    packings = ((problem.w_slot, packing),) if packing else ()
    emit = emit_split_gemv if schedule.part else emit_gemv
    return Emission((emit(module, problem, schedule, symbol), *finish), size, packings)


def _emit_product(
    shape: GemmShape, schedule: TileSchedule, target: Cpu, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel = shape.kernel
    slot = workspace_slot(kernel)
    left = packed_rows(shape) if schedule.pack_rows else None
    problem = gemm_problem(shape, left)
    epilogue, used = place_sums(problem.epilogue, _sum_count(problem), widened_elements(shape))
    problem = replace(problem, epilogue=epilogue)
    widen = [emit_widening(module, shape, f"{symbol}.widen")] if is_widened(shape) else []
    size = -(-used * Type.of(problem.element).bytes // _ALIGN) * _ALIGN
    finish = _finish(module, kernel, shape.store, _product_sums(shape, problem), epilogue, symbol)
    launch = emit_tiles(module, problem, schedule, symbol, (slot, size))
    kinds, group_size = panel_kinds(problem, schedule)
    packed = packed_panels(problem, schedule.lanes, kinds, group_size)
    packings: list[tuple[int, Packing]] = [(problem.w_slot, packed)] if schedule.pack else []
    if left is not None:
        packings.append((problem.x_slot, left))
    return Emission((*widen, launch, *finish), size + workspace_bytes(problem, schedule, target), tuple(packings))


def _finish(
    module: ModuleBuilder, kernel: Kernel, store: Store, sums: SumsWalk, epilogue: Epilogue, symbol: str
) -> list[LaunchSpec]:
    """The launch that computes a separate epilogue from the sums; none if the epilogue is not separate."""
    return [emit_elementwise(module, kernel, store, sums, f"{symbol}.finish")] if epilogue.separate else []


def place_sums(epilogue: Epilogue, count: int, used: int) -> tuple[Epilogue, int]:
    """Place `count` sums of a separate epilogue after the first `used` elements of the workspace. Returns the epilogue
    and the number of elements in use."""
    if not epilogue.separate:
        return epilogue, used
    start = -(-used // 16) * 16
    return epilogue.with_base(start), start + count


def _sum_count(problem: Problem) -> int:
    return problem.count * problem.channels * prod(problem.groups)


def _product_sums(shape: GemmShape, problem: Problem) -> SumsWalk:
    sized = {a.name: extent_of(shape.kernel, a.name) for a in shape.kernel.axes}
    return SumsWalk(
        out=problem.epilogue.out,
        groups=shape.count(shape.batches),
        points=tuple((a, sized[a]) for a in shape.rows),
        channels=((shape.column, extent_of(shape.kernel, shape.column)),),
        batches=tuple((a, sized[a]) for a in shape.batches),
    )


def _conv_sums(shape: ConvShape, out: Operand, groups: int) -> SumsWalk:
    kernel = shape.kernel
    axes = (shape.batch, *(w.out for w in shape.windows))
    group = ((shape.group, shape.groups),) if shape.group else ()
    return SumsWalk(
        out=out,
        groups=groups,
        points=tuple((a, extent_of(kernel, a)) for a in axes),
        channels=(*group, (shape.filter, shape.filters)),
    )


KINDS: tuple[ScheduleKind[Any, Any], ...] = (
    ScheduleKind(
        contraction=GemmShape,
        schedule=GemvSchedule,
        choose=lambda shape, target, parameters: schedule_dots(shape, target),
        emit=_emit_dots,
    ),
    ScheduleKind(contraction=GemmShape, schedule=TileSchedule, choose=schedule_product, emit=_emit_product),
    ScheduleKind(
        contraction=ConvShape,
        schedule=DepthwiseSchedule,
        choose=lambda shape, target, parameters: schedule_depthwise(shape, target),
        emit=_emit_depthwise,
    ),
    ScheduleKind(
        contraction=ConvShape,
        schedule=WinogradSchedule,
        choose=lambda shape, target, parameters: schedule_winograd(shape, target),
        emit=_emit_winograd,
    ),
    ScheduleKind(
        contraction=ConvShape,
        schedule=TileSchedule,
        choose=lambda shape, target, parameters: schedule_direct(shape, target),
        emit=_emit_direct,
    ),
    ScheduleKind(
        contraction=WeightGradientShape,
        schedule=DepthwiseGradientSchedule,
        choose=lambda shape, target, parameters: schedule_depthwise_gradient(shape, target),
        emit=emit_depthwise_gradient,
    ),
    ScheduleKind(
        contraction=WeightGradientShape,
        schedule=WinogradGradientSchedule,
        choose=lambda shape, target, parameters: schedule_winograd_gradient(shape, target),
        emit=emit_winograd_gradient,
    ),
    ScheduleKind(
        contraction=WeightGradientShape,
        schedule=WeightGradientSchedule,
        choose=lambda shape, target, parameters: schedule_weight_gradient(shape, target),
        emit=emit_weight_gradient,
    ),
)
"""The kinds of schedules, in order of preference. A new kind is a new module and an entry here."""
