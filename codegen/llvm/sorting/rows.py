"""Launches that sort rows: words of a row, or of a part of one, are made, sorted and stored as results.

A row is the elements along one axis; `stride` is the distance of its elements. Units of a launch are the `parts` of
each row. A row of one part is complete after the first launch. The parts of other rows stay in the workspace, as sorted
runs, until `emit_merges` has merged them. Code is the same for all shapes, and for all dtypes of one width: their
numbers are arguments (`Numbers`).

Words depend on the `kind` of the launch: "values" are keys of elements; "order" are pairs of a key and a
position in the row; "top" are the same for the first elements of the order alone, which are much fewer than the row
has. Keys of 64 bits have no room for a position: their words have the upper half, and `ties.py` sorts those which are
equal.
"""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..routines.rows import kernel_function
from ..types import I1, I32, I64, PTR, Type
from .keys import Keys, loaded_keys
from .lanes import greatest
from .merge import merge_runs, split_merge
from .partition import padding, sort_words
from .ties import sort_ties
from .top import Part, Selection

Kind = Literal["values", "order", "top"]


Number = TypeVar("Number", int, Value)


class Numbers(NamedTuple, Generic[Number]):
    """The numbers of a launch, in the order of its arguments after the operand and the result (i64)."""

    length: Number
    """Elements of a row."""
    stride: Number
    kept: Number
    """Words of a row, or of a part, that are sorted: the first ones of the order."""
    first: Number
    """Elements of a row of the result, of the `kept` words."""
    parts: Number
    span: Number
    """Elements of a part, except the last one."""
    room: Number
    """Words in the workspace for each part."""
    other: Number
    """Words from the first buffer of the workspace to the second one."""
    negative: Number
    all: Number
    limit: Number


def word_of(kind: Kind, bits: int) -> Type:
    """The type of words."""
    return I32 if kind == "values" and bits <= 32 else I64


class RowLaunch:
    """The arguments of a launch: operand, result, `Numbers`, workspace, then more numbers."""

    def __init__(self, f: FunctionBuilder, kind: Kind, bits: int, more: int = 0) -> None:
        self.f, self.kind, self.bits = f, kind, bits
        self.element, self.word = Type.of(f"i{bits}"), word_of(kind, bits)
        count = len(Numbers._fields)
        self.x, self.result = (f.load(f.gep(f.args[0], i, PTR), PTR) for i in range(2))
        loaded = [f.load(f.gep(f.args[0], 2 + i, I64), I64) for i in range(count)]
        self.n = Numbers(*loaded)
        self.work = f.load(f.gep(f.args[0], 2 + count, I64), PTR)
        self.more = [f.load(f.gep(f.args[0], 3 + count + i, I64), I64) for i in range(more)]
        self.least, self.is_near = f.const(I64, 0), f.const(I1, 0)
        self.keys: Keys = loaded_keys(f, (loaded[-3], loaded[-2], loaded[-1]), self.element)

    def first_of(self, row: Value, length: Operand) -> Value:
        """The position of a row's first element in a tensor with rows of `length`."""
        f, stride = self.f, self.n.stride
        return f.add(f.mul(f.mul(f.udiv(row, stride), length), stride), f.urem(row, stride))

    def contiguous(self, count: Value, lanes: int) -> Value:
        """How many of `count` elements vectors of `lanes` cover; 0 if the elements of rows are not neighbours."""
        f = self.f
        return f.select(f.cmp("eq", self.n.stride, 1), f.mul(f.udiv(count, lanes), lanes), 0)

    # -- words

    def load_words(self, start: Value, low: Value, count: Value, data: Value) -> None:
        """Store the words of `count` elements of a row, which starts at address `start`, from position `low` on."""
        f, lanes = self.f, self.f.module.target.lanes(self.word.bits)
        full = self.contiguous(count, lanes)
        for begin, end, step in ((f.const(I64, 0), full, lanes), (full, count, 1)):
            with f.loop(begin, end, step) as i:
                bits = f.load(f.gep(start, f.mul(low + i, self.n.stride), self.element), self.element.with_lanes(step))
                f.store(self.words(bits, low + i), f.gep(data, i, self.word))

    def words(self, bits: Value, position: Value) -> Value:
        """The words of elements at `position` and after it."""
        f = self.f
        if self.kind == "values":
            return f.convert(self.keys.keys(f, bits, equal_zeros=False), self.word.element)
        type = self.word.with_lanes(bits.type.lanes)
        return f.shl(self.uppers(bits), 32) | (f.splat(position, type) + f.iota(type))

    def uppers(self, bits: Value) -> Value:
        """The upper halves of words, as i64: keys of up to 32 bits, the distances of 64-bit keys from the least one of
        the row if these have 32 bits, else the upper halves of keys."""
        f = self.f
        keys = self.keys.keys(f, bits, equal_zeros=True)
        if self.bits <= 32:
            return f.convert(keys, "i64")
        type, halves = keys.type, f.ashr(keys, 32)
        return f.select(self.is_near, keys - f.splat(self.least, type) - (1 << 31), halves)

    def measure(self, start: Value) -> None:
        """Find the least key of a row of 64-bit integers, and whether all are near it. Words of this row follow."""
        if self.bits < 64 or self.kind == "values":
            return
        f, lanes = self.f, self.f.module.target.lanes(64)
        length = f.mul(f.add(self.n.length, 0), f.convert(f.cmp("eq", self.n.negative, 0), "i64", signed=False))
        full = self.contiguous(length, lanes)
        bounds = [f.const(I64.with_lanes(lanes), n) for n in (greatest(I64), -greatest(I64) - 1)]
        for begin, end, step in ((f.const(I64, 0), full, lanes), (full, length, 1)):
            with f.carry_loop(begin, end, bounds, step) as loop:
                place = f.gep(start, f.mul(loop.index, self.n.stride), I64)
                keys = self.keys.keys(f, f.load(place, I64.with_lanes(step)), equal_zeros=True)
                loop.next(f.smin(loop.values[0], keys), f.smax(loop.values[1], keys))
            bounds = [f.reduce("smin", loop.results[0]), f.reduce("smax", loop.results[1])]
        self.least = bounds[0]
        self.is_near = f.cmp("ult", bounds[1] - bounds[0], 1 << 32) & f.cmp("gt", length, 0)

    def store_results(self, data: Value, row: Value, begin: Value, end: Value) -> None:
        """Store the results [begin, end) of a row, whose words are at `data`."""
        f, element = self.f, self.element if self.kind == "values" else I32
        lanes = f.module.target.lanes(self.word.bits)
        first = self.first_of(row, self.n.first)
        middle = begin + self.contiguous(end - begin, lanes)
        for low, high, step in ((begin, middle, lanes), (middle, end, 1)):
            with f.loop(low, high, step) as i:
                words = f.load(f.gep(data, i, self.word), self.word.with_lanes(step))
                result = f.convert(words, element.element)
                if self.kind == "values":
                    result = self.keys.elements(f, result)
                f.store(result, f.gep(self.result, first + f.mul(i, self.n.stride), element))


def emit_rows(module: ModuleBuilder, symbol: str, kind: Kind, bits: int) -> None:
    """Emit the launch that sorts each part of each row."""
    f = kernel_function(module, symbol)
    launch = RowLaunch(f, kind, bits)
    n, word = launch.n, launch.word
    sort = sort_words(module, word)
    with f.loop(f.args[1], f.args[2]) as unit:
        row, part = f.udiv(unit, n.parts), f.urem(unit, n.parts)
        is_whole = f.cmp("eq", n.parts, 1)
        low = f.mul(part, n.span)
        count = f.smin(n.span, f.sub(n.length, low))
        place = f.mul(
            f.select(is_whole, f.convert(f.args[3], "i64"), unit), f.add(n.room, padding(word, module.target))
        )
        data, scratch = (f.gep(launch.work, at, word) for at in (place, f.add(place, n.other)))
        start = f.gep(launch.x, launch.first_of(row, n.length), launch.element)
        launch.measure(start)
        if kind == "values" and word.bits == bits:  # in the result, if its rows are contiguous
            in_place = is_whole & f.cmp("eq", n.stride, 1)
            data = f.select(in_place, f.gep(launch.result, f.mul(row, n.length), word), data)
        with f.when(f.cmp("gt", count, 0)):
            first = f.smin(count, n.kept)
            if kind == "top":
                Selection(f, launch, sort, Part(start, low, count, first, data, scratch)).emit()
            else:
                launch.load_words(start, low, count, data)
                f.call_void(sort, data, scratch, count, first)
            with f.when(is_whole):
                if kind == "order" and bits == 64:
                    sort_ties(f, launch, sort, start, data, scratch, count)
                launch.store_results(data, row, f.const(I64, 0), f.smin(count, n.first))
    f.ret()


def emit_merges(module: ModuleBuilder, symbol: str, kind: Kind, bits: int) -> None:
    """Emit the launch that merges pairs of runs of `width` parts, from one buffer of the workspace to the other. Each
    unit merges a piece of the result. Further numbers: `width`, the distance from the workspace to the buffer that is
    read and to the one that is written (words), and whether rows are complete now: then results are stored."""
    f = kernel_function(module, symbol)
    launch = RowLaunch(f, kind, bits, 4)
    n, word = launch.n, launch.word
    width, source, target, is_last = launch.more
    merge = merge_runs(module, word)
    room = f.add(n.room, padding(word, module.target))
    with f.loop(f.args[1], f.args[2]) as unit:
        row, piece = f.udiv(unit, n.parts), f.urem(unit, n.parts)
        pieces = f.mul(width, 2)
        number, part = f.urem(piece, pieces), f.mul(f.udiv(piece, pieces), pieces)
        base = f.mul(f.add(f.mul(row, n.parts), part), room)

        def words_of(part: Value) -> Value:
            """The words of a run."""
            elements = f.smin(f.mul(width, n.span), f.sub(n.length, f.mul(part, n.span)))
            return f.smax(f.smin(elements, n.kept), 0)

        na, nb = words_of(part), words_of(f.add(part, width))
        a = f.gep(launch.work, f.add(source, base), word)
        b = f.gep(a, f.mul(width, room), word)
        result = f.gep(launch.work, f.add(target, base), word)
        total = f.smin(na + nb, n.kept)
        begin, end = (f.udiv(f.mul(total, number + k), pieces) for k in range(2))
        i, j = (split_merge(f, a, na, b, nb, count, word) for count in (begin, end))
        left, right = f.gep(a, i, word), f.gep(b, begin - i, word)
        f.call_void(merge, left, j - i, right, end - begin - (j - i), f.gep(result, begin, word))
        with f.when(f.cmp("ne", is_last, 0)):
            launch.store_results(result, row, begin, end)
    f.ret()


def emit_ties(module: ModuleBuilder, symbol: str, kind: Kind, bits: int) -> None:
    """Emit the launch that sorts the ties of merged rows of 64-bit keys, and stores the results. Units are rows.
    Further numbers: the distance from the workspace to the words, and to the other buffer."""
    f = kernel_function(module, symbol)
    launch = RowLaunch(f, kind, bits, 2)
    n, sort = launch.n, sort_words(module, I64)
    with f.loop(f.args[1], f.args[2]) as row:
        place = f.mul(f.mul(row, n.parts), f.add(n.room, padding(I64, module.target)))
        data, scratch = (f.gep(launch.work, f.add(place, distance), I64) for distance in launch.more)
        start = f.gep(launch.x, launch.first_of(row, n.length), launch.element)
        launch.measure(start)
        length = f.add(n.length, 0)
        sort_ties(f, launch, sort, start, data, scratch, length)
        launch.store_results(data, row, f.const(I64, 0), f.smin(length, n.first))
    f.ret()
