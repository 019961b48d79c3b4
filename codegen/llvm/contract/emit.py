"""Emits the launches of a contraction's kernel under its schedule: the package's entry."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.kernel import Kernel
from ....ir.schedule import ContractionSchedule, DepthwiseSchedule, GemvSchedule, TileSchedule, WinogradSchedule
from ....ir.target import CpuTarget
from ...emission import Emission, LaunchSpec
from ...schedule.contract import preferred_block, winograd_reach
from ...schedule.describe import NO_AXIS, ContractionError, ConvShape, GemmShape, describe_contraction, extent_of
from ...schedule.strides import Walk
from ..emitter import ModuleBuilder
from ..types import Type, type_of
from .conv import Grouping, InputPlace, conv_problem, conv_walk, input_place
from .copy_input import emit_copy
from .depthwise import DepthwiseNest, depthwise_filters
from .elementwise import SumsWalk, emit_elementwise
from .ending import Ending, end_of
from .gemm import emit_widening, gemm_problem, is_widened, widened_elements
from .gemv import emit_gemv
from .packing import packed_panels
from .problem import Problem
from .tiles import emit_tiles, panel_kinds, workspace_bytes, workspace_slot
from .winograd import WinogradNest, winograd_filters, winograd_kinds, winograd_workspace

_ALIGN = 64


def emit_contraction(
    kernel: Kernel, schedule: ContractionSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    """Functions `symbol...` in `module` that compute `kernel`. Raises ContractionError when kernel and schedule do not
    fit.
    """
    shape = describe_contraction(kernel)
    match schedule, shape:
        case TileSchedule(), ConvShape():
            return _emit_direct(shape, schedule, target, module, symbol)
        case DepthwiseSchedule(), ConvShape():
            return _emit_depthwise(shape, schedule, target, module, symbol)
        case WinogradSchedule(), ConvShape():
            return _emit_winograd(shape, schedule, target, module, symbol)
        case TileSchedule() | GemvSchedule(), GemmShape():
            return _emit_product(shape, schedule, target, module, symbol)
        case _:
            raise ContractionError(f"{kernel.name}: {type(schedule).__name__} does not fit a {type(shape).__name__}")


def direct_place(shape: ConvShape, target: CpuTarget) -> InputPlace:
    """Where direct convolution reads: copies of inputs with few channels stay row-major, unrolled along the window's
    last axis.
    """
    x = shape.kernel.buffer(shape.x.buffer)
    block = x.layout.block if x.layout else preferred_block(target)
    return input_place(shape, 1 if shape.groups * shape.channels < block and x.layout is None else block)


def _emit_direct(
    shape: ConvShape, schedule: TileSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel = shape.kernel
    slot = workspace_slot(kernel)
    place = direct_place(shape, target)
    problem, ending = conv_problem(shape, place, slot)
    launches: list[LaunchSpec] = []
    room = place.elements if place.copied else 0
    if place.copied:
        launches.append(emit_copy(module, shape, place, slot, 0, target, f"{symbol}.copy"))
    problem, used = place_sums(problem, ending, room)
    size = -(-used * Type.of(problem.kind).bytes // _ALIGN) * _ALIGN
    launches.append(emit_tiles(module, problem, schedule, symbol, (slot, size)))
    if ending.separate:
        launches.append(
            emit_elementwise(module, kernel, shape.store, _conv_sums(shape, problem, slot), f"{symbol}.finish")
        )
    kinds, group_size = panel_kinds(problem, schedule)
    packing = packed_panels(problem, schedule.lanes, kinds, group_size)
    return Emission(tuple(launches), size + workspace_bytes(problem, schedule, target), ((problem.w_slot, packing),))


def _emit_depthwise(
    shape: ConvShape, schedule: DepthwiseSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel, slot = shape.kernel, workspace_slot(shape.kernel)
    if not shape.is_depthwise or shape.group is None:
        raise ContractionError(f"{kernel.name}: a depthwise schedule needs one channel in and out of each group")
    x = kernel.buffer(shape.x.buffer)
    place = input_place(shape, x.layout.block if x.layout else preferred_block(target), blocked=True)
    kind = type_of(shape.accumulator).kind
    axes = (shape.batch, *(w.out for w in shape.windows))
    walk = Walk((NO_AXIS,), axes, shape.filter, shape.group, 1, shape.groups)
    points = tuple(extent_of(kernel, a) for a in axes)
    ending = end_of(kernel, shape.store, walk, (1,), points, shape.groups)
    used = place.elements if place.copied else 0
    finish: list[LaunchSpec] = []
    if ending.separate:
        start = -(-used // 16) * 16
        ending = replace(ending, out=replace(ending.out, base=start))
        used = start + prod(points) * shape.groups
        sums = SumsWalk(
            slot,
            ending.out,
            ending.sum_dtype,
            1,
            tuple(zip(axes, points, strict=True)),
            ((shape.group, shape.groups), (shape.filter, 1)),
        )
        finish.append(emit_elementwise(module, kernel, shape.store, sums, f"{symbol}.finish"))
    copies = [emit_copy(module, shape, place, slot, 0, target, f"{symbol}.copy")] if place.copied else []
    x_slot = slot if place.copied else kernel.buffers.index(x)
    launch = DepthwiseNest(shape, place, ending, schedule, module, x_slot, kind).emit(symbol)
    packing = depthwise_filters(shape, schedule, kind)
    w_slot = kernel.buffers.index(kernel.buffer(shape.w.buffer))
    return Emission((*copies, launch, *finish), used * Type.of(kind).bytes, ((w_slot, packing),))


def _emit_winograd(
    shape: ConvShape, schedule: WinogradSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel, slot = shape.kernel, workspace_slot(shape.kernel)
    x = kernel.buffer(shape.x.buffer)
    place = input_place(
        shape,
        x.layout.block if x.layout else preferred_block(target),
        winograd_reach(shape, schedule.output),
        blocked=True,
    )
    problem, _ = conv_problem(shape, place, slot)
    walk = conv_walk(shape, Grouping(1, 1, shape.channels, shape.filters))
    ending = end_of(kernel, shape.store, walk, (1,), tuple(extent_of(kernel, a) for a in walk.points), shape.filters)
    used = place.elements if place.copied else 0
    finish: list[LaunchSpec] = []
    if ending.separate:
        problem, used = place_sums(problem, ending, used)
        ending = replace(ending, out=replace(ending.out, base=problem.out.base))
        finish.append(
            emit_elementwise(module, kernel, shape.store, _conv_sums(shape, problem, slot), f"{symbol}.finish")
        )
    copies = [emit_copy(module, shape, place, slot, 0, target, f"{symbol}.copy")] if place.copied else []
    used = -(-used // 16) * 16
    kinds = winograd_kinds(problem, schedule)
    nest = WinogradNest(shape, place, ending, schedule, kinds, module, (problem.x_slot, slot, used))
    packing = winograd_filters(shape, schedule, kinds, place.block, problem)
    size = used + winograd_workspace(shape, schedule, place.block, target)
    return Emission((*copies, *nest.emit(symbol), *finish), size * 4, ((problem.w_slot, packing),))


def _emit_product(
    shape: GemmShape, schedule: TileSchedule | GemvSchedule, target: CpuTarget, module: ModuleBuilder, symbol: str
) -> Emission:
    kernel = shape.kernel
    slot = workspace_slot(kernel)
    problem, ending = gemm_problem(shape)
    problem, used = place_sums(problem, ending, widened_elements(shape))
    widen = [emit_widening(module, shape, f"{symbol}.widen")] if is_widened(shape) else []
    size = -(-used * Type.of(problem.kind).bytes // _ALIGN) * _ALIGN
    finish: list[LaunchSpec] = []
    if ending.separate:
        finish.append(
            emit_elementwise(module, kernel, shape.store, _product_sums(shape, problem, slot), f"{symbol}.finish")
        )
    if isinstance(schedule, GemvSchedule):
        return Emission((*widen, emit_gemv(module, problem, schedule, symbol), *finish), size)
    launch = emit_tiles(module, problem, schedule, symbol, (slot, size))
    kinds, group_size = panel_kinds(problem, schedule)
    packed = packed_panels(problem, schedule.lanes, kinds, group_size)
    packings = ((problem.w_slot, packed),) if schedule.pack else ()
    return Emission((*widen, launch, *finish), size + workspace_bytes(problem, schedule, target), packings)


def _product_sums(shape: GemmShape, problem: Problem, slot: int) -> SumsWalk:
    sized = {a.name: extent_of(shape.kernel, a.name) for a in shape.kernel.axes}
    points = tuple((a, sized[a]) for a in shape.rows)
    batches = tuple((a, sized[a]) for a in shape.batches)
    return SumsWalk(
        slot,
        problem.out,
        problem.dtype,
        shape.count(shape.batches),
        points,
        ((shape.column, extent_of(shape.kernel, shape.column)),),
        batches,
    )


def place_sums(problem: Problem, ending: Ending, used: int) -> tuple[Problem, int]:
    """Put separate sums behind `used` elements of the workspace; returns the elements used then."""
    if not ending.separate:
        return problem, used
    start = -(-used // 16) * 16
    count = problem.count * problem.channels
    for n in problem.groups:
        count *= n
    return replace(problem, out=replace(problem.out, base=start)), start + count


def _conv_sums(shape: ConvShape, problem: Problem, slot: int) -> SumsWalk:
    kernel = shape.kernel
    axes = (shape.batch, *(w.out for w in shape.windows))
    channels = (*(((shape.group, shape.groups),) if shape.group else ()), (shape.filter, shape.filters))
    points = tuple((a, extent_of(kernel, a)) for a in axes)
    return SumsWalk(slot, problem.out, problem.dtype, problem.groups[0], points, channels)
