"""Quicksort of a row of words: vectorized partitions, networks for short parts, merges where pivots divide badly."""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ..arithmetic import Operand, Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I64, PTR, Type
from .lanes import compacted, copy_words, count_lanes, first_mask, greatest, load_first, store_first, vector_of
from .merge import merge_runs
from .network import sort_vectors

_PARTS = 128  # on the stack: twice the partitions from a row to a network, as the smaller part is sorted first
_SAMPLES = 3  # vectors of words whose median is the pivot


def padding(word: Type, target: Cpu) -> int:
    """Words after the scratch memory of a sort that it can overwrite."""
    return target.lanes(word.bits)


def sort_words(module: ModuleBuilder, word: Type) -> str:
    """The symbol of `sort(ptr data, ptr scratch, i64 n, i64 first)`, an inner kernel: the `first` smallest of n words
    become the first, in order. The order of the others is undefined. The scratch memory has room for n words and
    `padding`."""
    name = f"mxf_sort{word.bits}"
    return module.inner(name, lambda inner: _Quicksort.of(inner, word).emit(name))


@dataclass(frozen=True, slots=True)
class _Quicksort:
    """The functions of a sort. `vectors` is the number of vectors that a network sorts."""

    module: ModuleBuilder
    word: Type
    vector: Type
    vectors: int

    @staticmethod
    def of(module: ModuleBuilder, word: Type) -> _Quicksort:
        return _Quicksort(module, word, vector_of(word, module.target), module.target.vector_registers // 2)

    @property
    def short(self) -> int:
        """Words of a part that a network sorts."""
        return self.vectors * self.vector.lanes

    def emit(self, name: str) -> None:
        """Parts of the row wait on a stack: (begin, end, partitions left)."""
        parameters = (("data", PTR, ""), ("scratch", PTR, ""), ("n", I64, ""), ("first", I64, ""))
        f = self.module.function(name, None, parameters, linkage="internal")
        data, scratch, n, first = f.args
        stack = f.alloca(I64, 3 * _PARTS)

        def push(top: Value, begin: Value, end: Value, budget: Value) -> Value:
            for k, x in enumerate((begin, end, budget)):
                f.store(x, f.gep(stack, top * 3 + k, I64))
            return top + f.convert(f.cmp("lt", begin, f.smin(end, first)), "i64", signed=False)

        def divide(top: Value, begin: Value, end: Value, budget: Value) -> Value:
            start = f.gep(data, begin, self.word)
            middle, rest = self._divided(f, start, scratch, end - begin, begin, end)
            left_is_longer = f.cmp("gt", middle - begin, end - rest)
            longer = f.select(left_is_longer, begin, rest), f.select(left_is_longer, middle, end)
            shorter = f.select(left_is_longer, rest, begin), f.select(left_is_longer, end, middle)
            return push(push(top, *longer, budget - 1), *shorter, budget - 1)

        def waits(top: Value) -> Value:
            return f.cmp("gt", top, 0)

        def sort_top(top: Value) -> tuple[Value]:
            top = top - 1
            begin, end, budget = (f.load(f.gep(stack, top * 3 + k, I64), I64) for k in range(3))
            is_short, is_bad = f.cmp("le", end - begin, self.short), f.cmp("eq", budget, 0)

            def finish() -> tuple[Value]:
                self._finish(f, f.gep(data, begin, self.word), scratch, end - begin)
                return (top,)

            return (f.branch(is_short | is_bad, finish, lambda: (divide(top, begin, end, budget),))[0],)

        budget = f.mul(f.sub(64, f.op(f"call i64 {self._ctlz()}(i64 {n.text}, i1 false)", I64)), 2)
        top = push(f.const(I64, 0), f.const(I64, 0), n, budget)
        f.while_loop([top], waits, sort_top)
        f.ret()

    def _ctlz(self) -> str:
        return self.module.declare_raw("llvm.ctlz.i64", "i64", "i64, i1")

    def _divided(
        self, f: FunctionBuilder, start: Value, scratch: Value, size: Value, begin: Value, end: Value
    ) -> tuple[Value, Value]:
        """Partition a part [begin, end): the end of its first part and the begin of its second. Words between them, all
        equal, are in their places."""
        pivot = f.call(self._pivot(), self.word, start, size)
        lower = f.call(self._partition(), I64, start, scratch, size, pivot)

        def equal() -> tuple[Value, Value]:
            """No word is smaller than the pivot."""
            is_greatest = f.cmp("eq", pivot, greatest(self.word))
            above = f.select(is_greatest, pivot, pivot + 1)
            same = f.call(self._partition(), I64, start, scratch, size, above)
            return begin + 0, f.select(is_greatest, end, begin + same)

        return f.branch(f.cmp("eq", lower, 0), equal, lambda: (begin + lower, begin + lower))  # type: ignore[return-value]

    def _finish(self, f: FunctionBuilder, start: Value, scratch: Value, size: Value) -> None:
        """Sort a part without partitions."""

        def run(symbol: str, *others: Value) -> tuple[()]:
            f.call_void(symbol, start, *others, size)
            return ()

        def short() -> tuple[()]:
            fits = f.cmp("le", size, self.short // 2)
            half, whole = (self._network(n) for n in (self.vectors // 2, self.vectors))
            f.branch(fits, lambda: run(half), lambda: run(whole))
            return ()

        f.branch(f.cmp("le", size, self.short), short, lambda: run(self._merge_sort(), scratch))

    # -- functions

    def _network(self, vectors: int) -> str:
        """`network(ptr data, i64 n)`: sort at most so many vectors of words."""
        name = f"mxf_network{self.word.bits}.{vectors}"

        def emit() -> None:
            f = self.module.function(name, None, (("data", PTR, ""), ("n", I64, "")), linkage="internal")
            data, n = f.args
            places = [
                (f.gep(data, k * self.vector.lanes, self.word), n - k * self.vector.lanes) for k in range(vectors)
            ]
            rows = sort_vectors(f, [load_first(f, p, left, self.vector) for p, left in places])
            for row, (pointer, left) in zip(rows, places, strict=True):
                store_first(f, row, pointer, left)
            f.ret()

        return self.module.helper(name, emit)

    def _pivot(self) -> str:
        """`pivot(ptr data, i64 n) -> word`: the median of words from all parts of a row of at least `short`."""
        name = f"mxf_pivot{self.word.bits}"

        def emit() -> None:
            f = self.module.function(name, self.word, (("data", PTR, ""), ("n", I64, "")), linkage="internal")
            data, n = f.args
            lanes = self.vector.lanes
            step = f.udiv(n, _SAMPLES * lanes)
            offsets = f.mul(f.iota(I64.with_lanes(lanes)), f.splat(f.mul(step, _SAMPLES), I64.with_lanes(lanes)))
            a, b, c = (f.gather(f.gep(data, step * k, self.word), offsets, self.word) for k in range(_SAMPLES))
            low, high = f.smin(a, b), f.smax(a, b)
            (medians,) = sort_vectors(f, [f.smax(low, f.smin(high, c))])
            f.ret(f.extract(medians, lanes // 2))

        return self.module.helper(name, emit)

    def _partition(self) -> str:
        """`partition(ptr data, ptr scratch, i64 n, word pivot) -> i64`: move words below the pivot before the others;
        their number. The lower words are stored over words that are already read, the others in the scratch memory."""
        name = f"mxf_partition{self.word.bits}"

        def emit() -> None:
            parameters = (("data", PTR, ""), ("scratch", PTR, ""), ("n", I64, ""), ("pivot", self.word, ""))
            f = self.module.function(name, I64, parameters, linkage="internal")
            data, scratch, n, pivot = f.args
            lanes, bound = self.vector.lanes, f.splat(pivot, self.vector)
            full = f.mul(f.udiv(n, lanes), lanes)
            with f.carry_loop(0, full, [f.const(I64, 0)], lanes) as loop:
                (lower,) = loop.values
                value = f.load(f.gep(data, loop.index, self.word), self.vector)
                below = f.cmp("lt", value, bound)
                f.store(compacted(f, value, below), f.gep(data, lower, self.word))
                f.store(compacted(f, value, ~below), f.gep(scratch, loop.index - lower, self.word))
                loop.next(lower + count_lanes(f, below))
            (lower,) = loop.results
            left = n - full
            value, inside = load_first(f, f.gep(data, full, self.word), left, self.vector), first_mask(f, left, lanes)
            below = f.cmp("lt", value, bound) & inside
            f.store(compacted(f, value, ~below & inside), f.gep(scratch, full - lower, self.word))
            last = count_lanes(f, below)
            store_first(f, compacted(f, value, below), f.gep(data, lower, self.word), last)
            lower = lower + last
            copy_words(f, scratch, f.gep(data, lower, self.word), n - lower, self.vector)
            f.ret(lower)

        return self.module.helper(name, emit)

    def _merge_sort(self) -> str:
        """`merge_sort(ptr data, ptr scratch, i64 n)`: sort runs by networks and merge them."""
        name = f"mxf_merge_sort{self.word.bits}"

        def emit() -> None:
            parameters = (("data", PTR, ""), ("scratch", PTR, ""), ("n", I64, ""))
            f = self.module.function(name, None, parameters, linkage="internal")
            data, scratch, n = f.args
            with f.loop(0, n, self.short) as i:
                f.call_void(self._network(self.vectors), f.gep(data, i, self.word), n - i)

            def has_runs(width: Value, *_: Value) -> Value:
                return f.cmp("lt", width, n)

            def merge_pairs(width: Value, source: Value, target: Value) -> tuple[Value, Value, Value]:
                with f.loop(0, n, f.mul(width, 2)) as low:
                    self._merge_pair(f, source, target, low, width, n)
                return f.mul(width, 2), target, source

            start = [f.const(I64, self.short), data, scratch]
            _, sorted_at, _ = f.while_loop(start, has_runs, merge_pairs)
            with f.when(f.cmp("ne", sorted_at, data)):
                copy_words(f, scratch, data, n, self.vector)
            f.ret()

        return self.module.helper(name, emit)

    def _merge_pair(
        self, f: FunctionBuilder, source: Value, target: Value, low: Value, width: Operand, n: Value
    ) -> None:
        middle = f.smin(low + width, n)
        high = f.smin(middle + width, n)
        at = [f.gep(p, i, self.word) for p, i in ((source, low), (source, middle), (target, low))]
        f.call_void(merge_runs(self.module, self.word), at[0], middle - low, at[1], high - middle, at[2])
