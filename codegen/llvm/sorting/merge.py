"""Merges of sorted runs of words, a vector at a time, and the positions that divide a merge into pieces."""

from __future__ import annotations

from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I64, PTR, Type
from .lanes import load_first, store_first, vector_of
from .network import merge_vectors


def merge_runs(module: ModuleBuilder, word: Type) -> str:
    """The symbol of `merge(ptr a, i64 na, ptr b, i64 nb, ptr result)`: the words of two sorted runs in order.

    A vector holds the greatest words read so far. It is merged with the next vector of the run whose next word is
    smaller, and the smaller half of these is final.
    """
    name = f"mxf_merge{word.bits}"
    return module.inner(name, lambda inner: _emit_merge(inner, word, name))


def _emit_merge(module: ModuleBuilder, word: Type, name: str) -> None:
    parameters = (("a", PTR, ""), ("na", I64, ""), ("b", PTR, ""), ("nb", I64, ""), ("result", PTR, ""))
    f = module.function(name, None, parameters, linkage="internal")
    a, na, b, nb, result = f.args
    vector = vector_of(word, module.target)
    lanes, total = vector.lanes, na + nb
    most = f.const(word, (1 << (word.bits - 1)) - 1)

    def head(pointer: Value, i: Value, n: Value) -> Value:
        """The next word of a run."""
        last = f.smax(n - 1, 0)
        inside = f.cmp("lt", i, n)
        return f.select(inside, f.load(f.gep(pointer, f.smin(i, last), word), word), most)

    def take(i: Value, j: Value) -> tuple[Value, Value, Value]:
        """The next vector, and how many words of each run are read then."""
        first = f.cmp("lt", i, na) & (f.cmp("ge", j, nb) | f.cmp("le", head(a, i, na), head(b, j, nb)))
        pointer = f.select(first, f.gep(a, i, word), f.gep(b, j, word))
        taken = load_first(f, pointer, f.select(first, na - i, nb - j), vector)
        return taken, f.select(first, i + lanes, i), f.select(first, j, j + lanes)

    with f.when(f.cmp("gt", total, 0)):
        zero = f.const(I64, 0)
        held, i, j = take(zero, zero)
        full = f.mul(f.udiv(total - 1, lanes), lanes)
        with f.carry_loop(0, full, [held, i, j], lanes) as loop:
            held, i, j = loop.values
            taken, i, j = take(i, j)
            low, high = merge_vectors(f, held, taken)
            f.store(low, f.gep(result, loop.index, word))
            loop.next(high, i, j)
        held, i, j = loop.results
        taken, *_ = take(i, j)
        low, _ = merge_vectors(f, held, taken)
        store_first(f, low, f.gep(result, full, word), total - full)
    f.ret()


def split_merge(f: FunctionBuilder, a: Value, na: Value, b: Value, nb: Value, count: Value, word: Type) -> Value:
    """How many of the first `count` words of a merge are words of run a: by bisection; of equal words those of a are
    first."""

    def open(low: Value, high: Value) -> Value:
        return f.cmp("lt", low, high)

    def halve(low: Value, high: Value) -> tuple[Value, Value]:
        middle = f.lshr(low + high, 1)
        other = count - middle - 1
        before = f.cmp("le", f.load(f.gep(a, middle, word), word), f.load(f.gep(b, other, word), word))
        return f.select(before, middle + 1, low), f.select(before, high, middle)

    return f.while_loop([f.smax(count - nb, 0), f.smin(count, na)], open, halve)[0]
