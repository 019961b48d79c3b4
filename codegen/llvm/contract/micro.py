"""The micro-kernel of contractions: computes a register tile, some points times some vectors of channels.

All sums of the tile are in registers while it adds up a part of the reduction, or all of it. The reduction is a loop
over a table of input offsets, with `unroll` products per step. Points are addressed through tables of offsets too. So
one body serves any window, stride, halo and shape, matrix products, and the products of a Winograd transform. Kernels
of a module share bodies by name: numbers in which they differ are passed at run time, as `n`, tables and the context.

The context is an array of 8-byte slots: the addresses of the tables, then for the result and for each operand of the
epilogue its address at the panel's first channel and the stride between blocks of channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I1, I8, I32, I64, PTR, Type, memory_type_of, type_of
from .vector_epilogue import Access, Operand, VectorEpilogue, constantly, evaluate, sum_name


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroKernel:
    """`element` is the type of input and sums, `weights` that of the weights in memory; `tables` is the number of point
    tables, of which the first is the input's.

    `rest` are products after the last step. `split`: sums are loaded from `acc` unless this is the first part of the
    reduction, and stored there unless it is the last, which has the rest. `in_place`: weights are rows with a stride,
    not a packed panel. `valid`: the number of channels of the panel that are not padding (0: all). `parts`: vectors
    next to each other hold so many sums of the same channels. `ahead`: each product prefetches the weights
    so many bytes after its own.
    """

    element: str
    weights: str
    lanes: int
    rows: int
    vectors: int
    unroll: tuple[int, ...]
    tables: int
    epilogue: VectorEpilogue
    rest: tuple[int, ...] = ()
    split: bool = False
    prefetches: bool = False
    ahead: int = 0
    in_place: bool = False
    valid: int = 0
    parts: int = 1

    @property
    def name(self) -> str:
        digest = hashlib.blake2s(repr(self).encode(), digest_size=6).hexdigest()
        return f"tile.{self.rows}x{self.vectors}.{digest}"


_UNROLLED = 4
"""Products in an iteration of the inner loop. Two are too few to hide the loop; with eight, networks take 1 to 5 %
longer (measured on Zen 5)."""

LINE_BYTES = 64
"""The size of a cache line."""

PARAMETERS = ("n", "x", "steps", "w", "row", "acc", "context", "point", "next", "lines", "first", "last")
_TYPES = {"n": I64, "row": I64, "point": I64, "lines": I64, "first": I1, "last": I1}


def micro_kernel(module: ModuleBuilder, spec: MicroKernel) -> str:
    """The symbol of the body, which is emitted if the module does not have it. Its parameters are `PARAMETERS`: the
    number of steps (at least one), address of the input, table of the steps' offsets, weights, stride between rows of
    weights that are read in place, sums, context, first point (an index into the tables), weights to prefetch,
    cache lines of them in each step, and whether this part of the reduction is the first and the last.
    """
    return module.inner(spec.name, lambda owner: _Body(owner, spec).emit())


class _Body:
    def __init__(self, module: ModuleBuilder, spec: MicroKernel) -> None:
        parameters = [(p, _TYPES.get(p, PTR), "") for p in PARAMETERS]
        self.f = module.function(spec.name, None, parameters, linkage="internal", attributes="nounwind noinline")
        self.args = dict(zip(PARAMETERS, self.f.args, strict=True))
        self.spec = spec
        self.scalar, self.weight = Type.of(spec.element), Type.of(spec.weights)
        self.vector = Type.of(spec.element, spec.lanes)

    def emit(self) -> None:
        f, spec = self.f, self.spec
        x_offsets = self._offsets(0)
        inputs = [f.gep(self.args["x"], o, self.scalar) for o in x_offsets]
        if spec.parts > 1:
            self._prefetch_operands()
        weights, sums = self._reduce(inputs, self._first_sums())

        def finish() -> tuple[()]:
            return self._finish(self._add_rest(inputs, weights, sums))

        if not spec.split:
            finish()
        else:
            f.branch(self.args["last"], finish, lambda: self._store_sums(sums))
        f.ret()

    def _offsets(self, table: int) -> list[Value]:
        """The offsets of this tile's points in one table."""
        f, start = self.f, self._table(table)
        return [f.convert(f.load(f.gep(start, i, I32), I32), "i64") for i in range(self.spec.rows)]

    def _table(self, table: int) -> Value:
        """The address of the offset of this tile's first point."""
        f = self.f
        return f.gep(f.load(f.gep(self.args["context"], table, PTR), PTR), self.args["point"], I32)

    def _sum_address(self, i: int, j: int) -> Value:
        return self.f.gep(self.args["acc"], (i * self.spec.vectors + j) * self.spec.lanes, self.scalar)

    def _first_sums(self) -> list[Value]:
        f, spec = self.f, self.spec
        places = [(i, j) for i in range(spec.rows) for j in range(spec.vectors)]
        zeros = [f.const(self.vector, 0.0) for _ in places]
        if not spec.split:
            return zeros
        return list(
            f.branch(
                self.args["first"], lambda: zeros, lambda: [f.load(self._sum_address(*p), self.vector) for p in places]
            )
        )

    def _store_sums(self, sums: list[Value]) -> tuple[()]:
        for k, value in enumerate(sums):
            self.f.store(value, self._sum_address(*divmod(k, self.spec.vectors)))
        return ()

    def _reduce(self, inputs: list[Value], sums: list[Value]) -> tuple[Value, list[Value]]:
        """(address of the weights after the last step, sums)."""
        f = self.f
        with f.carry_loop(0, self.args["n"], [self.args["w"], *sums]) as loop:
            weights, acc = loop.values[0], list(loop.values[1:])
            rows = self._rows(inputs, loop.index)
            if self.spec.prefetches:
                self._prefetch(loop.index)
            loop.next(*self._products(rows, weights, acc))
        return loop.results[0], list(loop.results[1:])

    def _rows(self, inputs: list[Value], step: Value) -> list[Value]:
        """The addresses of the inputs of a step."""
        f = self.f
        offset = f.convert(f.load(f.gep(self.args["steps"], step, I32), I32), "i64")
        return [f.gep(p, offset, self.scalar) for p in inputs]

    def _add_rest(self, inputs: list[Value], weights: Value, sums: list[Value]) -> list[Value]:
        """The sums with the products that follow the last step."""
        rest = self.spec.rest
        return self._unrolled(self._rows(inputs, self.args["n"]), weights, [*sums], rest)[1:] if rest else sums

    def _products(self, rows: list[Value], weights: Value, acc: list[Value]) -> list[Value]:
        """[address of the next row of weights, *sums] after the products of one step: in an inner loop if the inputs
        of the step are adjacent, which is less code to compile and to fetch, and otherwise unrolled."""
        f, places = self.f, self.spec.unroll
        if places != tuple(range(len(places))) or len(places) <= _UNROLLED or len(places) % _UNROLLED:
            return self._unrolled(rows, weights, acc, places)
        with f.carry_loop(0, len(places), [weights, *acc], _UNROLLED) as loop:
            here = [f.gep(row, loop.index, self.scalar) for row in rows]
            loop.next(*self._unrolled(here, loop.values[0], list(loop.values[1:]), range(_UNROLLED)))
        return list(loop.results)

    def _unrolled(self, rows: list[Value], weights: Value, acc: list[Value], places: Sequence[int]) -> list[Value]:
        """As `_products`, for the inputs at `places`, without a loop."""
        f, spec = self.f, self.spec
        for u, place in enumerate(places):
            fence_loads(f)
            weights = self._product(weights, u, [f.gep(row, place, self.scalar) for row in rows], acc)
        if not spec.in_place:
            weights = f.gep(weights, len(places) * spec.vectors * spec.lanes, self.weight)
        return [weights, *acc]

    def _product(self, weights: Value, u: int, rows: list[Value], acc: list[Value]) -> Value:
        """acc += input * weights for one element of the reduction. Returns the address of the next row of weights."""
        f, spec = self.f, self.spec
        start = 0 if spec.in_place else u * spec.vectors * spec.lanes
        w = [self._weight(f.gep(weights, start + j * spec.lanes, self.weight), j) for j in range(spec.vectors)]
        if spec.ahead:
            self._prefetch_ahead(f.gep(weights, start, self.weight))
        for i, row in enumerate(rows):
            x = f.splat(f.load(row, self.scalar), self.vector)
            for j in range(spec.vectors):
                k = i * spec.vectors + j
                acc[k] = f.fma(x, w[j], acc[k])
        return f.gep(weights, self.args["row"], self.weight) if spec.in_place else weights

    def _weight(self, address: Value, j: int) -> Value:
        count = self._valid(j) if self.spec.in_place else self.spec.lanes
        narrow = _load_lanes(self.f, address, self.weight.with_lanes(self.spec.lanes), count)
        return self.f.convert(narrow, self.scalar.element)

    def _prefetch(self, step: Value) -> None:
        f, lines = self.f, self.args["lines"]
        with f.loop(0, lines) as line:
            f.prefetch(f.gep(self.args["next"], (step * lines + line) * (LINE_BYTES // self.weight.bytes), self.weight))

    def _prefetch_ahead(self, weights: Value) -> None:
        """Prefetch weights of a later product: as many lines as one product reads."""
        f, spec = self.f, self.spec
        for line in range(0, spec.vectors * spec.lanes * self.weight.bytes, LINE_BYTES):
            f.prefetch(f.gep(weights, spec.ahead + line, I8))

    def _prefetch_operands(self) -> None:
        """Prefetch what the epilogue reads at these points: the inputs of gates were computed long before."""
        f, spec = self.f, self.spec
        width = spec.vectors // spec.parts * spec.lanes
        for k, access in enumerate(spec.epilogue.loads, 1):
            if access.table < 0:
                continue
            element = memory_type_of(access.dtype)
            base = f.load(f.gep(self.args["context"], spec.tables + 2 * k, PTR), PTR)
            for offset in self._offsets(access.table):
                row = f.gep(base, offset, element)
                for j in (*range(0, width, LINE_BYTES // element.bytes), width - 1):  # rows need not begin with a line
                    f.prefetch(f.gep(row, j, element))

    # Epilogue and stores

    def _valid(self, j: int) -> int:
        """The number of channels of vector j that are not padding."""
        if not self.spec.valid:
            return self.spec.lanes
        return max(0, min(self.spec.lanes, self.spec.valid - j * self.spec.lanes))

    def _finish(self, sums: list[Value]) -> tuple[()]:
        spec = self.spec
        writer = EpilogueWriter(
            self.f,
            spec.epilogue,
            tables=spec.tables,
            context=self.args["context"],
            lanes=spec.lanes,
            valid=self._valid,
        )
        if spec.parts > 1:
            return self._finish_rows(writer, sums)
        offsets = {t: self._offsets(t) for t in writer.used_tables()}
        for i in range(spec.rows):
            at = {t: o[i] for t, o in offsets.items()}
            for j in range(spec.vectors):
                writer.store(sums[i * spec.vectors + j], j, at)
        return ()

    def _finish_rows(self, writer: EpilogueWriter, sums: list[Value]) -> tuple[()]:
        """As `_finish`, in a loop over the rows, whose sums are in memory: epilogues of several sums are long, and
        leave no registers for the sums of other rows."""
        f, spec = self.f, self.spec
        stored = f.alloca(self.vector, len(sums))
        for k, value in enumerate(sums):
            f.store(value, f.gep(stored, k, self.vector))
        with f.loop(0, spec.rows) as i:
            at = {t: f.convert(f.load(f.gep(self._table(t), i, I32), I32), "i64") for t in writer.used_tables()}
            row = f.gep(stored, i * spec.vectors, self.vector)
            for j in range(spec.vectors // spec.parts):
                first, *more = (
                    f.load(f.gep(row, j * spec.parts + part, self.vector), self.vector) for part in range(spec.parts)
                )
                writer.store(first, j, at, more)
        return ()


def fence_loads(f: FunctionBuilder, always: bool = False) -> None:
    """Prevent LLVM from moving loads across this point on targets whose arithmetic cannot read memory, or `always`: it
    would load the operands of all steps first and spill sums.
    """
    if always or f.module.target.triple.startswith("aarch64"):
        f.lines.append('  call void asm sideeffect "", "~{memory}"()')


def _load_lanes(f: FunctionBuilder, address: Value, vector: Type, count: int) -> Value:
    if count == vector.lanes:
        return f.load(address, vector)
    if count == 0:
        return f.const(vector, 0)
    return f.masked_load(address, vector, f.first_lanes(vector.lanes, count))


class EpilogueWriter:
    """Evaluates the epilogue on a vector of a panel and stores the result. Addresses are read from the context."""

    def __init__(
        self,
        f: FunctionBuilder,
        epilogue: VectorEpilogue,
        *,
        tables: int,
        context: Value,
        lanes: int,
        valid: Callable[[int], int],
        mask: Value | None = None,
    ) -> None:
        """`valid` returns the number of channels of a vector that are not padding; `mask` selects them at run time."""
        self.mask = mask
        self.f, self.epilogue, self.lanes = f, epilogue, lanes
        self._count = valid
        count = len(epilogue.accesses)
        self.bases = [f.load(f.gep(context, tables + 2 * k, PTR), PTR) for k in range(count)]
        self.strides = [f.load(f.gep(context, tables + 2 * k + 1, PTR), I64) for k in range(count)]
        self.same: dict[tuple[int, int], Value] = {}

    def used_tables(self) -> list[int]:
        return sorted({a.table for a in self.epilogue.accesses if a.table >= 0})

    def preload(self, j: int) -> None:
        """Load operands that do not depend on the point, before a loop over points."""
        for k, access in enumerate(self.epilogue.loads):
            if access.table < 0:
                self._reader(k, j, {})()

    def store(self, total: Value, j: int, at: dict[int, Value], more: Sequence[Value] = ()) -> None:
        """Evaluate the epilogue on the sums `total` of vector j, and on those of further parts, and store its results;
        `at` is the point's offset in each table."""
        epilogue, f = self.epilogue, self.f
        operands: dict[str, tuple[Operand, DType]] = {
            f"l{k}": (self._reader(k, j, at), a.dtype) for k, a in enumerate(epilogue.loads)
        }
        for part, value in enumerate((total, *more)):
            operands[sum_name(part)] = (constantly(value), epilogue.dtype)
        for name, expr in epilogue.steps:
            value, dtype = evaluate(f, expr, self.lanes, operands)
            operands[name] = (constantly(value), dtype)
        values = [evaluate(f, expr, self.lanes, operands)[0] for _, expr, _ in epilogue.results]
        for (k, _, out), value in zip(epilogue.results, values, strict=True):
            self._write(_as_memory(f, value, out), self._address(k, out, j, at), out, self._count(j))

    def _write(self, value: Value, address: Value, out: Access, count: int) -> None:
        f = self.f
        if self.mask is not None:
            f.masked_store(value, address, self.mask)
        elif count == self.lanes:
            f.store(value, address)
        elif out.padded:
            zero = f.const(value.type, 0)
            f.store(f.select(f.first_lanes(self.lanes, count), value, zero) if count else zero, address)
        elif count:
            f.masked_store(value, address, f.first_lanes(self.lanes, count))

    def stored(self, j: int, at: dict[int, Value]) -> Value:
        """Vector j of the result, loaded from memory."""
        out = self.epilogue.out
        address, type = self._address(0, out, j, at), memory_type_of(out.dtype, self.lanes)
        return self.f.load(address, type) if self.mask is None else self.f.masked_load(address, type, self.mask)

    def _reader(self, k: int, j: int, at: dict[int, Value]) -> Callable[[], Value]:
        access = self.epilogue.loads[k]

        def read() -> Value:
            if access.table >= 0:
                return self._read(k, access, j, at)
            key = (k, j if access.block else 0)
            if key not in self.same:
                self.same[key] = self._read(k, access, j, at)
            return self.same[key]

        return read

    def _read(self, k: int, access: Access, j: int, at: dict[int, Value]) -> Value:
        f = self.f
        address = self._address(1 + k, access, j, at)
        memory = memory_type_of(access.dtype, self.lanes)
        count = self._count(j)
        if access.block == 0:
            value = f.splat(f.load(address, memory.scalar), memory)
        elif access.gathered:
            lanes = f.iota(I64.with_lanes(self.lanes)) * f.splat(self.strides[1 + k], I64.with_lanes(self.lanes))
            mask = f.first_lanes(self.lanes, count) if self.mask is None else self.mask
            value = f.gather(address, lanes, memory.scalar, mask)
        elif self.mask is not None:
            value = f.masked_load(address, memory, self.mask)
        else:
            value = _load_lanes(f, address, memory, self.lanes if access.padded else count)
        return f.convert(value, "i1") if type_of(access.dtype).element == "i1" else value

    def _address(self, k: int, access: Access, j: int, at: dict[int, Value]) -> Value:
        f = self.f
        element = memory_type_of(access.dtype)
        address = self.bases[k] if access.table < 0 else f.gep(self.bases[k], at[access.table], element)
        if access.block == 0 or j == 0:
            return address
        if access.block == 1 and not access.gathered:
            return f.gep(address, j * self.lanes, element)
        if access.gathered:
            return f.gep(address, self.strides[k] * (j * self.lanes), element)
        blocks, rest = divmod(j * self.lanes, access.block)
        return f.gep(f.gep(address, self.strides[k] * blocks, element) if blocks else address, rest, element)


def _as_memory(f: FunctionBuilder, value: Value, access: Access) -> Value:
    return f.convert(value, memory_type_of(access.dtype).element, signed=False) if value.type.element == "i1" else value
