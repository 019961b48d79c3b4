"""Matrix products whose extents are arguments of the launch: divides a product into a form and numbers.

The form determines the code: dtypes, whether the columns of the right operand are contiguous, and the epilogue (which
operands it reads along rows, along columns, or both). The numbers are arguments: extents, strides, blocks, and whether
the right operand is packed. `general_product.py` emits the code of a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.kernel import Kernel, Ref
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred, is_symbolic
from ....ir.types import DType
from ...lower_contract import epilogue_in_float32
from ..cpu import Cpu
from ..schedule.contract import sum_lanes
from ..schedule.describe import NO_AXIS, ContractionError, GemmShape, describe_contraction, extent_of
from ..schedule.kinds import RegisterTile
from ..schedule.product import operand
from ..schedule.registers import tile_of
from ..schedule.segments import collapse
from ..schedule.strides import Walk
from .epilogue import Epilogue, Operand, make_epilogue
from .vector_epilogue import SUM, Access, VectorEpilogue, access_of

COLUMNS_OF_DOTS = 8
"""The number of dot products that are computed together."""

_ROWS_OF_DOTS = 16
"""Up to this many rows a product is computed as dot products, without packing, if both operands are contiguous along
the reduction."""

_FEW_ROWS = 4
"""The same for parameters, which a run does not pack: up to this many rows the time is that of reading them once."""

_ROWS_IN_PLACE = 16
_BYTES_IN_PLACE = 128 << 10
"""Up to this many rows, or bytes of the right operand, packing gains nothing if its rows are contiguous."""

_PANEL_SHARE = 0.4
"""The largest share of the L2 cache for a panel of the right operand; rows of the left operand take the rest."""

_ROWS_OF_BLOCK = 512
"""The most rows in a unit of work, which reads a panel once for all its rows."""

_UNITS_OF_THREAD = 16
"""Units per thread: with several, threads finish at about the same time."""

EXTENTS = ("rows", "columns", "inner", "groups", "block", "blocks", "panels", "units", "packed", "pass")
X_STRIDES = ("row", "step")
W_STRIDES = (
    "panel",
    "row",
    "tail",
    "narrow",
)  # between panels, between rows of a panel, to the tail, between rows of the tail
SOURCE_STRIDES = ("column", "step")
EPILOGUE_STRIDES = ("row", "column")
PLACE = ("base", "group0", "group1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductForm:
    """The properties of a product on which the code depends. `dots`: it is computed as dot products of few rows.
    `in_rows`: columns of the right operand are contiguous.
    """

    dtype: DType
    lanes: int
    tile: RegisterTile
    dots: bool
    in_rows: bool
    epilogue: VectorEpilogue

    @property
    def resumes(self) -> bool:
        """True if the result stores the sums themselves, so that a later pass can load them and continue."""
        return self.epilogue.expr == Ref(SUM) and self.epilogue.out.dtype is self.dtype

    def names(self) -> tuple[str, ...]:
        """The names of the numbers of a launch, in order."""
        operands = [(f"operand{k}", EPILOGUE_STRIDES) for k in range(1 + len(self.epilogue.loads))]
        places = [("x", X_STRIDES), ("w", W_STRIDES), ("source", SOURCE_STRIDES), *operands]
        return (*EXTENTS, *(f"{who}.{what}" for who, strides in places for what in (*PLACE, *strides)))


@dataclass(frozen=True, kw_only=True)
class GeneralProduct:
    """A product as form and numbers. `operands` are positions of the kernel's buffers: left operand, right operand,
    result, then the loads of the epilogue."""

    form: ProductForm
    operands: tuple[int, ...]
    numbers: dict[str, int]
    groups: tuple[int, int]
    workspace: int
    is_parameter: bool
    """True if the right operand changes rarely: a run does not pack it."""

    @property
    def has_known_weights(self) -> bool:
        """True if only the number of rows may change: a schedule for these columns is faster, and serves all rows."""
        return self.is_parameter and is_symbolic(self.numbers["rows"])

    def values(self) -> tuple[int, ...]:
        known = {**self.numbers, "packed": 0} if self.is_parameter else self.numbers
        return tuple(known.get(name, 0) for name in self.form.names())

    def packing_values(self) -> tuple[int, ...]:
        """The numbers on which packing depends; 0 for the others."""
        used = ("columns", "inner", "groups", "panels", "units")
        names = self.form.names()
        return tuple(self.numbers[n] if n in used or n.startswith(("w.", "source.")) else 0 for n in names)


def general_product(kernel: Kernel, target: Cpu, parameters: frozenset[str] = frozenset()) -> GeneralProduct | None:
    """The form and the numbers of a kernel that is a matrix product in float32 or float64 of row-major operands, whose
    epilogue is computed from registers; None for any other kernel. `parameters` names buffers that change rarely."""
    try:
        shape = describe_contraction(epilogue_in_float32(kernel))
        if not isinstance(shape, GemmShape) or not shape.is_uniform or shape.dtype not in (DType.F32, DType.F64):
            return None
        if len(kernel.stages) > 1 or len(shape.parts) > 1:
            return None
        return _FormBuilder(shape, target, shape.rhs.buffer in parameters).product()
    except ContractionError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    groups: tuple[int, int]
    rows: int
    columns: int
    inner: int


class _FormBuilder:
    def __init__(self, shape: GemmShape, target: Cpu, is_parameter: bool) -> None:
        self.shape, self.target, self.kernel, self.is_parameter = shape, target, shape.kernel, is_parameter
        self.lanes = sum_lanes(shape.dtype, 1, target)

    def product(self) -> GeneralProduct | None:
        shape = self.shape
        batches, rows = shape.batches or (NO_AXIS,), shape.rows or (NO_AXIS,)
        columns = extent_of(self.kernel, shape.column)
        groups, points = self._extents(batches), self._extents(rows)
        walk = Walk(groups=batches, points=rows, channel=shape.column)
        epilogue = make_epilogue(self.kernel, walk, groups=groups, points=points, channels=columns)
        if epilogue.separate:
            return None
        left, right = operand(shape, shape.lhs), operand(shape, shape.rhs)
        views = epilogue.views
        group_strides = [tuple(at.strides.get(a, 0) for a in batches) for at in (left, right)]
        groups, collapsed = collapse(groups, [*group_strides, *(v.groups for v in views)])
        points, walked = collapse(points, [tuple(left.strides.get(a, 0) for a in rows), *(v.points for v in views)])
        inner, steps = collapse(
            self._extents(shape.inner or (NO_AXIS,)),
            [tuple(at.strides.get(a, 0) for a in shape.inner or (NO_AXIS,)) for at in (left, right)],
        )
        if max(len(groups) - 1, len(points), len(inner)) > 1:
            return None
        outer = prod(groups) // groups[-1] if groups[-1] else 1
        sizes = _Sizes(groups=(outer, groups[-1]), rows=points[-1], columns=columns, inner=inner[-1])
        strides = [(0, *s)[-2:] for s in collapsed]
        numbers = self._places("x", left.base, strides[0], row=walked[0][0], step=steps[0][0])
        column = right.strides.get(shape.column, 0) if columns > 1 else 1
        numbers |= self._places("source", right.base, strides[1], column=column, step=steps[1][0])
        for k, (view, at, row) in enumerate(zip(views, strides[2:], walked[1:], strict=True)):
            numbers |= self._places(f"operand{k}", view.base, at, row=row[0], column=view.stride)
        return self._assembled(epilogue, sizes, numbers)

    def _extents(self, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(extent_of(self.kernel, a) for a in axes)

    def _places(self, who: str, base: int, groups: tuple[int, ...], **strides: int) -> dict[str, int]:
        fields = {"base": base, "group0": groups[0], "group1": groups[1], **strides}
        return {f"{who}.{what}": number for what, number in fields.items()}

    def _assembled(self, epilogue: Epilogue, sizes: _Sizes, numbers: dict[str, int]) -> GeneralProduct:
        out, *loads = (self._access(k, o, numbers) for k, o in enumerate(epilogue.operands))
        code = VectorEpilogue(expr=epilogue.expr, loads=tuple(loads), out=out, dtype=self.shape.dtype)
        in_rows = numbers["source.column"] == 1
        along = numbers["x.step"] == 1 and numbers["source.step"] == 1
        dots = along and self._prefers_dots(sizes.rows) and (not in_rows or sizes.columns == 1)
        tile = self._single_row_tile() if in_rows and sizes.rows == 1 else self._tile()
        dtype = self.shape.dtype
        form = ProductForm(
            dtype=dtype, lanes=self.lanes, tile=tile, dots=dots, in_rows=in_rows and not dots, epilogue=code
        )
        numbers |= self._extent_numbers(form, sizes)
        numbers |= self._weights(form, sizes, numbers)
        index = self.kernel.buffers.index
        buffers = (index(self.kernel.buffer(self.shape.lhs.buffer)), index(self.kernel.buffer(self.shape.rhs.buffer)))
        packs = numbers["packed"] and not self.is_parameter
        workspace = self._packed_group(sizes) * self._packed_groups(sizes, numbers) if packs else 8
        return GeneralProduct(
            form=form,
            operands=(*buffers, *(o.slot for o in epilogue.operands)),
            numbers=numbers,
            groups=sizes.groups,
            workspace=workspace * dtype.itemsize,
            is_parameter=self.is_parameter,
        )

    def _prefers_dots(self, rows: int) -> bool:
        """True if dot products with the right operand in place are faster than tiles. For parameters they are not if
        the number of rows is symbolic, and so more than one."""
        return not is_symbolic(rows) and rows <= _FEW_ROWS if self.is_parameter else rows <= _ROWS_OF_DOTS

    def _tile(self) -> RegisterTile:
        return tile_of(3 if self.target.vector_registers >= 32 else 2, 1 << 16, self.target)

    def _single_row_tile(self) -> RegisterTile:
        """The tile for a single row: enough sums to hide latency, and long pieces of the right operand's rows."""
        return RegisterTile(1, 12 if self.target.vector_registers >= 32 else 6)

    def _access(self, k: int, operand: Operand, numbers: dict[str, int]) -> Access:
        return access_of(operand.view, k if numbers[f"operand{k}.row"] else -1, operand.dtype)

    def _extent_numbers(self, form: ProductForm, sizes: _Sizes) -> dict[str, int]:
        packed = not form.dots and not (form.in_rows and self._reads_in_place(sizes))
        width = form.tile.vectors * self.lanes
        panels, units = sizes.columns // width, -(-sizes.columns // width)
        if form.dots:
            units, (block, blocks) = -(-sizes.columns // COLUMNS_OF_DOTS), (sizes.rows, 1)
        else:
            threads = self.target.threads
            block, blocks = deferred(_row_blocks, form.tile.rows, sizes.rows, units * prod(sizes.groups), threads)
        values = (sizes.rows, sizes.columns, sizes.inner, sizes.groups[1], block, blocks, panels, units, int(packed))
        return dict(zip(EXTENTS, (*values, self._pass(form, sizes)), strict=True))

    def _pass(self, form: ProductForm, sizes: _Sizes) -> int:
        """The number of steps of the reduction in a pass over all rows of a block, so that the panel stays in the L2
        cache. Between passes sums are stored. The order of additions, and so every bit, is the same for any number."""
        step = form.tile.vectors * form.lanes * form.dtype.itemsize
        most = max(1, int(self.target.l2_bytes * _PANEL_SHARE) // step)
        return deferred(_steps_of_pass, sizes.inner, most if form.resumes else 0)

    def _reads_in_place(self, sizes: _Sizes) -> bool:
        small = sizes.inner * sizes.columns * self.shape.dtype.itemsize <= _BYTES_IN_PLACE
        return small or (not self.is_parameter and sizes.rows <= _ROWS_IN_PLACE)

    def _packed_group(self, sizes: _Sizes) -> int:
        """The number of elements of one group's packed right operand."""
        return -(-sizes.columns // self.lanes) * self.lanes * sizes.inner

    def _packed_groups(self, sizes: _Sizes, numbers: dict[str, int]) -> int:
        return prod(sizes.groups) if numbers["source.group0"] or numbers["source.group1"] else 1

    def _weights(self, form: ProductForm, sizes: _Sizes, numbers: dict[str, int]) -> dict[str, int]:
        """The place of the right operand: packed in panels and vectors, or in place."""
        width = form.tile.vectors * self.lanes
        if numbers["packed"]:
            size = self._packed_group(sizes)
            shared = self._packed_groups(sizes, numbers) == 1
            groups = (0, 0) if shared else (sizes.groups[1] * size, size)
            panel, tail = sizes.inner * width, numbers["panels"] * sizes.inner * width
            narrow = -(-(sizes.columns - numbers["panels"] * width) // self.lanes) * self.lanes
            return self._places("w", 0, groups, panel=panel, row=width, tail=tail, narrow=narrow)
        step, groups = numbers["source.step"], (numbers["source.group0"], numbers["source.group1"])
        places = {"panel": width, "row": step, "tail": numbers["panels"] * width, "narrow": step}
        return self._places("w", numbers["source.base"], groups, **places)


def _row_blocks(tile_rows: int, rows: int, units: int, threads: int) -> tuple[int, int]:
    """(rows in a unit of work, number of such blocks), so that every thread has several units."""
    block = _ROWS_OF_BLOCK
    if threads > 1:
        count = -(-_UNITS_OF_THREAD * threads // max(1, units))
        block = min(block, max(2 * tile_rows, -(-rows // count)))
    block = -(-block // tile_rows) * tile_rows
    return block, max(1, -(-rows // block))


def _steps_of_pass(inner: int, most: int) -> int:
    """The number of steps in each of equal passes, at most `most`; a single pass if `most` is 0."""
    passes = -(-inner // most) if most else 1
    return max(1, -(-inner // passes)) if passes else 1
