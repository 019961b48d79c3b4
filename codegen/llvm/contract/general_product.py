"""Emits matrix products whose extents are arguments of the launch: one piece of code for each form.

`general_form.py` defines forms.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....ir.kernel import Ref
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..loops.transposed_tiles import transpose_lanes
from ..types import I64, PTR, Type, memory_type_of
from .general_form import COLUMNS_OF_DOTS, PLACE, GeneralProduct, ProductForm
from .micro import EpilogueWriter, fence_loads
from .tiles import KERNEL_PARAMETERS, argument, grain_of
from .vector_epilogue import SUM, Access, VectorEpilogue

_HEIGHT_OF_DOTS = 2
_GRAIN_ELEMENTS = 4 << 10


def general_launches(product: GeneralProduct, target: Cpu, symbol: str) -> Emission:
    """The launches of a product. `emit_general_product` emits their code."""
    form, n = product.form, product.numbers
    groups = prod(product.groups)
    units = n["units"] * n["blocks"] * groups
    products = n["rows"] * n["columns"] * n["inner"] * groups
    launch = LaunchSpec(symbol, units, grain_of(products, units, form.lanes * target.fma_per_cycle))
    if not n["packed"]:
        return Emission((launch,), product.workspace)
    if product.is_parameter:
        return Emission((launch,), product.workspace, ((1, _packing(product)),))
    count, grain = _pack_units(product)
    return Emission((LaunchSpec(f"{symbol}.pack", count, grain), launch), product.workspace)


def _pack_units(product: GeneralProduct) -> tuple[int, int]:
    """(units of packing, units in the smallest chunk that is worth giving to another thread)."""
    n, form = product.numbers, product.form
    shared = not (n["w.group0"] or n["w.group1"])
    count = n["units"] * (1 if shared else prod(product.groups))
    return count, deferred(_pack_grain, n["inner"] * form.tile.vectors * form.lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneralPacking:
    """The packed right operand of a product, for parameters."""

    form: ProductForm
    numbers: tuple[int, ...]
    count: int
    grain: int
    nbytes: int

    def repeated(self) -> GeneralPacking:
        """See `LlvmPacking`."""
        return self

    def emit(self, module: ModuleBuilder, target: Cpu, symbol: str) -> LaunchSpec:
        _Packer(module, self.form, symbol, buffers=2).emit()
        return LaunchSpec(symbol, self.count, self.grain, numbers=self.numbers)


def _packing(product: GeneralProduct) -> GeneralPacking:
    """The packing of a parameter. Its form has no epilogue, on which packing does not depend."""
    form, n = product.form, product.numbers
    plain = Access(table=-1, block=0, dtype=form.dtype)
    none = VectorEpilogue(expr=Ref(SUM), loads=(), out=plain, dtype=form.dtype)
    numbers = product.packing_values()[: len(replace(form, epilogue=none).names())]
    count, grain = _pack_units(product)
    columns = -(-n["columns"] // form.lanes) * form.lanes
    groups = prod(product.groups) if n["w.group0"] or n["w.group1"] else 1
    return GeneralPacking(
        form=replace(form, epilogue=none),
        numbers=numbers,
        count=count,
        grain=grain,
        nbytes=columns * n["inner"] * groups * form.dtype.itemsize,
    )


def _pack_grain(work: int) -> int:
    return max(1, _GRAIN_ELEMENTS // max(1, work))


def general_symbols(form: ProductForm, symbol: str) -> tuple[str, ...]:
    """The functions of a form: one for dot products, or one that multiplies and one that packs."""
    return (symbol,) if form.dots else (symbol, f"{symbol}.pack")


def emit_general_product(module: ModuleBuilder, form: ProductForm, symbol: str) -> None:
    """Add the functions of a form."""
    if form.dots:
        _Dots(module, form, symbol).emit()
        return
    _Tiles(module, form, symbol).emit()
    _Packer(module, form, f"{symbol}.pack").emit()


class _GeneralFunction:
    """A function over units of work that reads its numbers by name."""

    def __init__(self, module: ModuleBuilder, form: ProductForm, symbol: str, buffers: int = 0) -> None:
        """The numbers are arguments after the buffers: the buffers of the product, or `buffers` of them."""
        self.module, self.form, self.symbol = module, form, symbol
        self.f = module.function(symbol, None, KERNEL_PARAMETERS)
        self.buffers = buffers or 2 + len(self.accesses)
        self.places = {name: self.buffers + i for i, name in enumerate(form.names())}
        self.scalar = memory_type_of(form.dtype)
        self.vector = self.scalar.with_lanes(form.lanes)
        self.known: dict[str, Value] = {}

    def number(self, name: str) -> Value:
        """A number of the launch, which `read_numbers` has loaded."""
        return self.known[name]

    def read_numbers(self) -> None:
        f = self.f
        for name, slot in self.places.items():
            self.known[name] = f.load(f.gep(f.args[0], slot, I64), I64)

    def at(self, start: Value, who: str, groups: tuple[Value, Value], element: Type) -> Value:
        """The address of a group of operand `who`."""
        f = self.f
        base, first, second = (self.number(f"{who}.{what}") for what in PLACE)
        return f.gep(start, base + groups[0] * first + groups[1] * second, element)

    def group(self, index: Value) -> tuple[Value, Value]:
        f = self.f
        return f.udiv(index, self.number("groups")), f.urem(index, self.number("groups"))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The result and the operands of the epilogue, in the order of their arguments, which follow left and right."""
        return (self.form.epilogue.out, *self.form.epilogue.loads)

    def make_context(self) -> Value:
        """A context with row strides of the epilogue's operands, then their addresses and column strides: see
        `EpilogueWriter`."""
        f, count = self.f, len(self.accesses)
        context = f.alloca(I64, 3 * count)
        for k in range(count):
            f.store(self.number(f"operand{k}.row"), f.gep(context, k, I64))
            f.store(self.number(f"operand{k}.column"), f.gep(context, count + 2 * k + 1, I64))
        return context

    def set_column(self, context: Value, groups: tuple[Value, Value], column: Value) -> None:
        """Set the addresses in the context to a column."""
        f, count = self.f, len(self.accesses)
        for k, access in enumerate(self.accesses):
            element = memory_type_of(access.dtype)
            start = self.at(argument(f, 2 + k), f"operand{k}", groups, element)
            address = f.gep(start, column * self.number(f"operand{k}.column"), element)
            f.store(address, f.gep(context, count + 2 * k, PTR))


class _Tiles(_GeneralFunction):
    """The function that multiplies. Units are (group, block of rows, panel of columns); the columns after the whole
    panels are computed in narrower tiles, and the last vector is masked."""

    def emit(self) -> None:
        f = self.f
        self.read_numbers()
        self.context = self.make_context()
        own, packed = argument(f, 1), argument(f, self.buffers + len(self.places))
        w = f.select(f.cmp("ne", self.number("packed"), 0), packed, own)
        x = argument(f, 0)
        with f.loop(f.args[1], f.args[2]) as unit:
            self._unit(unit, x, w)
        f.ret()

    def _unit(self, unit: Value, x: Value, w: Value) -> None:
        f, n = self.f, self.number
        panel, rest = f.urem(unit, n("units")), f.udiv(unit, n("units"))
        block, index = f.urem(rest, n("blocks")), f.udiv(rest, n("blocks"))
        groups = self.group(index)
        first = block * n("block")
        rows = f.smin(n("rows") - first, n("block"))
        width = self.form.tile.vectors * self.form.lanes
        left, right = self.at(x, "x", groups, self.scalar), self.at(w, "w", groups, self.scalar)

        def whole() -> tuple[()]:
            self.set_column(self.context, groups, panel * width)
            start = f.gep(right, panel * n("w.panel"), self.scalar)
            self._rows(first, rows, left, start, n("w.row"), self.form.tile.vectors, f.const(I64, width))
            return ()

        def vectors() -> tuple[()]:
            begin = done = panel * width
            for vectors in _widths(self.form.tile.vectors)[1:]:
                step = vectors * self.form.lanes
                rest = f.urem(f.sub(n("columns"), done), step)
                end = n("columns") if vectors == 1 else f.sub(n("columns"), rest)
                with f.loop(done, end, step) as column:
                    self.set_column(self.context, groups, column)
                    start = f.gep(right, n("w.tail") + f.sub(column, begin), self.scalar)
                    self._rows(first, rows, left, start, n("w.narrow"), vectors, f.sub(n("columns"), column))
                done = end
            return ()

        f.branch(f.cmp("lt", panel, n("panels")), whole, vectors)

    def _rows(self, first: Value, rows: Value, x: Value, w: Value, row: Value, vectors: int, columns: Value) -> None:
        """Cover the rows with tiles of decreasing height. `columns` is the number of columns that are left, which masks
        tiles of a single vector. The outer loop is over passes of the reduction, of which there is at least one."""
        f, n = self.f, self.number
        with f.loop(0, f.smax(n("inner"), 1), n("pass")) as k:
            steps = f.smin(n("inner") - k, n("pass"))
            left, right = f.gep(x, k * n("x.step"), self.scalar), f.gep(w, k * row, self.scalar)
            done = f.const(I64, 0)
            for height in _heights(self.form.tile.rows, vectors):
                micro = _micro(self.module, self.form, height, vectors)
                end = f.sub(rows, f.urem(f.sub(rows, done), height))
                with f.loop(done, end, height) as at:
                    point = f.add(first, at)
                    start = f.gep(left, point * n("x.row"), self.scalar)
                    strides = (n("x.row"), n("x.step"), row)
                    f.call_void(micro, start, right, self.context, steps, *strides, point, columns, k)
                done = end


def _widths(vectors: int) -> list[int]:
    """Widths of the tiles, in vectors: whole panels first, then those that cover the remaining columns. The last width
    is always 1, so that any number of columns is covered. Each width is one more function to compile."""
    return [vectors, *(w for w in (4, 1) if 2 * w <= vectors)]


def _heights(rows: int, vectors: int) -> list[int]:
    return [rows, *(h for h in (4, 2, 1) if h < rows and (h != 2 or vectors > 1))]


_MICRO = [
    *((name, PTR, "") for name in ("x", "w", "context")),
    *((name, I64, "") for name in ("inner", "x_row", "x_step", "w_row", "point", "columns", "begin")),
]


def _micro(module: ModuleBuilder, form: ProductForm, rows: int, vectors: int) -> str:
    """The symbol of the tile of this size: it sums over a pass of the reduction from `begin` on and computes the
    epilogue."""
    from ....ir.hashing import structural_hash

    name = f"open.{rows}x{vectors}.{structural_hash(form)[:12]}"
    if not module.has_function(name):
        f = module.function(name, None, _MICRO, linkage="internal", attributes="nounwind noinline")
        _emit_micro(f, form, rows, vectors)
        f.ret()
    return "@" + name


def _emit_micro(f: FunctionBuilder, form: ProductForm, rows: int, vectors: int) -> None:
    x, w, context, inner, x_row, x_step, w_row, point, columns, begin = f.args
    scalar = memory_type_of(form.dtype)
    vector = scalar.with_lanes(form.lanes)
    mask = f.rest_mask(f.const(I64, 0), columns, form.lanes) if vectors == 1 else None
    starts = [f.gep(x, x_row * i, scalar) for i in range(rows)]
    writer = _writer(f, form, context, form.lanes, mask)
    at = [_row_offsets(f, form, context, point + i) for i in range(rows)]
    first = [f.const(vector, 0.0)] * (rows * vectors)
    if form.resumes:
        tile = [(i, j) for i in range(rows) for j in range(vectors)]
        first = f.branch(f.cmp("eq", begin, 0), lambda: first, lambda: [writer.stored(j, at[i]) for i, j in tile])
    with f.carry_loop(0, inner, [w, f.const(I64, 0), *first]) as loop:
        weights, offset, *sums = loop.values
        places = [f.gep(weights, j * form.lanes, scalar) for j in range(vectors)]
        loaded = [f.load(p, vector) if mask is None else f.masked_load(p, vector, mask) for p in places]
        for i, start in enumerate(starts):
            fence_loads(f)
            value = f.splat(f.load(f.gep(start, offset, scalar), scalar), vector)
            for j, weight in enumerate(loaded):
                sums[i * vectors + j] = f.fma(value, weight, sums[i * vectors + j])
        loop.next(f.gep(weights, w_row, scalar), f.add(offset, x_step), *sums)
    totals = loop.results[2:]
    for i in range(rows):
        for j in range(vectors):
            writer.store(totals[i * vectors + j], j, at[i])


def _writer(f: FunctionBuilder, form: ProductForm, context: Value, lanes: int, mask: Value | None) -> EpilogueWriter:
    tables = 1 + len(form.epilogue.loads)
    return EpilogueWriter(
        f, form.epilogue, tables=tables, context=context, lanes=lanes, valid=lambda j: lanes, mask=mask
    )


def _row_offsets(f: FunctionBuilder, form: ProductForm, context: Value, row: Value) -> dict[int, Value]:
    """The offset of a row in each operand of the epilogue that has rows."""
    tables = [a.table for a in (form.epilogue.out, *form.epilogue.loads) if a.table >= 0]
    return {t: row * f.load(f.gep(context, t, I64), I64) for t in tables}


class _Packer(_GeneralFunction):
    """The function that packs the right operand for the tiles: whole panels, then single vectors. Units are (group,
    panel). Packing during a run writes to the workspace; packing of a parameter has the arguments (source, packed)."""

    def emit(self) -> None:
        f, n = self.f, self.number
        self.read_numbers()
        for_parameter = self.buffers == 2
        source = argument(f, 0 if for_parameter else 1)
        packed = argument(f, 1 if for_parameter else self.buffers + len(self.places))
        width = self.form.tile.vectors * self.form.lanes
        with f.loop(f.args[1], f.args[2]) as unit:
            panel, index = f.urem(unit, n("units")), f.udiv(unit, n("units"))
            groups = self.group(index)
            start = self.at(source, "source", groups, self.scalar)
            target = self.at(packed, "w", groups, self.scalar)
            is_whole = f.cmp("lt", panel, n("panels"))
            row = f.select(is_whole, n("w.row"), n("w.narrow"))
            begin = f.gep(target, panel * n("w.panel"), self.scalar)
            first = panel * width
            end = f.smin(first + width, n("columns"))
            with f.loop(first, end, self.form.lanes) as column:
                self._vector(start, column, f.gep(begin, f.sub(column, first), self.scalar), row)
        f.ret()

    def _vector(self, source: Value, column: Value, target: Value, row: Value) -> None:
        """Pack one vector of columns, for all steps of the reduction."""
        f, n, lanes = self.f, self.number, self.form.lanes
        mask = f.rest_mask(column, n("columns"), lanes)
        start = f.gep(source, column * n("source.column"), self.scalar)
        wide = I64.with_lanes(lanes)
        lanes_at = f.iota(wide) * f.splat(n("source.column"), wide)
        done = f.const(I64, 0) if self.form.in_rows else self._squares(source, column, target, row)
        with f.loop(done, n("inner")) as k:
            place = f.gep(start, k * n("source.step"), self.scalar)
            if self.form.in_rows:
                value = f.masked_load(place, self.vector, mask)
            else:
                value = f.gather(place, lanes_at, self.scalar, mask)
            f.store(value, f.gep(target, k * row, self.scalar))

    def _squares(self, source: Value, column: Value, target: Value, row: Value) -> Value:
        """Pack with tiles that are transposed in registers, if columns are contiguous along the reduction. Returns the
        number of steps that are done."""
        f, n, lanes = self.f, self.number, self.form.lanes
        last = n("columns") - 1
        starts = [f.gep(source, f.smin(f.add(column, c), last) * n("source.column"), self.scalar) for c in range(lanes)]
        whole = f.sub(n("inner"), f.urem(n("inner"), lanes))
        whole = f.select(f.cmp("eq", n("source.step"), 1), whole, f.const(I64, 0))
        with f.loop(0, whole, lanes) as k:
            square = [f.load(f.gep(start, k, self.scalar), self.vector) for start in starts]
            for i, vector in enumerate(transpose_lanes(f, square, self.vector)):
                f.store(vector, f.gep(target, f.add(k, i) * row, self.scalar))
        return whole


class _Dots(_GeneralFunction):
    """The function for dot products. Units are (group, block of columns); vectors run along the reduction."""

    def emit(self) -> None:
        f, n = self.f, self.number
        self.read_numbers()
        self.context = self.make_context()
        x, w = argument(f, 0), argument(f, 1)
        with f.loop(f.args[1], f.args[2]) as unit:
            block, index = f.urem(unit, n("units")), f.udiv(unit, n("units"))
            groups = self.group(index)
            first = block * COLUMNS_OF_DOTS
            self.set_column(self.context, groups, first)
            left, right = self.at(x, "x", groups, self.scalar), self.at(w, "source", groups, self.scalar)
            last = n("columns") - 1
            columns = [
                f.gep(right, f.smin(f.add(first, c), last) * n("source.column"), self.scalar)
                for c in range(COLUMNS_OF_DOTS)
            ]
            mask = f.rest_mask(first, n("columns"), COLUMNS_OF_DOTS)
            self._rows(left, columns, mask)
        f.ret()

    def _rows(self, x: Value, columns: list[Value], mask: Value) -> None:
        f, n = self.f, self.number
        done, height = f.const(I64, 0), _HEIGHT_OF_DOTS
        while height:
            end = f.sub(n("rows"), f.urem(f.sub(n("rows"), done), height))
            with f.loop(done, end, height) as row:
                points = [f.add(row, i) for i in range(height)]
                self._dots([f.gep(x, p * n("x.row"), self.scalar) for p in points], columns, points, mask)
            done, height = end, height // 2

    def _dots(self, rows: list[Value], columns: list[Value], points: list[Value], mask: Value) -> None:
        f, form = self.f, self.form
        sums = self._sums(rows, columns)
        writer = _writer(f, form, self.context, COLUMNS_OF_DOTS, mask)
        for i, point in enumerate(points):
            total = f.const(self.scalar.with_lanes(COLUMNS_OF_DOTS), 0.0)
            for c in range(COLUMNS_OF_DOTS):
                total = f.insert(total, f.reduce("add", sums[i * COLUMNS_OF_DOTS + c]), c)
            writer.store(total, 0, _row_offsets(f, form, self.context, point))

    def _sums(self, rows: list[Value], columns: list[Value]) -> list[Value]:
        f, n, lanes = self.f, self.number, self.form.lanes
        whole = f.sub(n("inner"), f.urem(n("inner"), lanes))
        zeros = [f.const(self.vector, 0.0)] * (len(rows) * len(columns))
        with f.carry_loop(0, whole, zeros, lanes) as loop:
            loop.next(*self._multiply(rows, columns, loop.index, list(loop.values), None))
        with f.carry_loop(whole, n("inner"), list(loop.results), lanes) as rest:
            mask = f.rest_mask(rest.index, n("inner"), lanes)
            rest.next(*self._multiply(rows, columns, rest.index, list(rest.values), mask))
        return list(rest.results)

    def _multiply(
        self, rows: list[Value], columns: list[Value], at: Value, sums: list[Value], mask: Value | None
    ) -> list[Value]:
        f = self.f

        def read(start: Value) -> Value:
            place = f.gep(start, at, self.scalar)
            return f.load(place, self.vector) if mask is None else f.masked_load(place, self.vector, mask)

        left = [read(row) for row in rows]
        for c, column in enumerate(columns):
            weight = read(column)
            for i, value in enumerate(left):
                sums[i * len(columns) + c] = f.fma(value, weight, sums[i * len(columns) + c])
        return sums
