"""The LLVM text emitter: its text is exact and deterministic, and its code runs correctly."""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
import pytest
from mxforge.codegen.llvm.compile import compile_object, emit_assembly
from mxforge.codegen.llvm.emitter import FunctionBuilder, ModuleBuilder
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget
from mxforge.codegen.llvm.types import BF16, F16, F32, F64, I1, I8, I32, I64, PTR, Type, constant, table_constant
from mxforge.runtime.host.loader import load_object
from mxforge.runtime.host.machine import host_target


def run_on_arrays(module: ModuleBuilder, name: str, *arrays: np.ndarray) -> None:
    """Compile for this machine and call `name` with the arrays' addresses."""
    loaded = load_object(compile_object(module.text(), host_target()))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(loaded.address(name))
    function(*[a.ctypes.data for a in arrays])


def begin(count: int) -> tuple[ModuleBuilder, FunctionBuilder]:
    module = ModuleBuilder(host_target())
    return module, module.function("f", None, [(f"p{k}", PTR, "noalias") for k in range(count)])


@pytest.mark.parametrize(
    ("type", "number", "text"),
    [
        (F32, 0.1, "0x3FB99999A0000000"),
        (F32, -0.0, "0x8000000000000000"),
        (F32, math.inf, "0x7FF0000000000000"),
        (F32, 1e39, "0x7FF0000000000000"),
        (F32, 1e-45, "0x36A0000000000000"),
        (F64, 0.1, "0x3FB999999999999A"),
        (F64, -math.nan, "0x7FF8000000000000"),
        (F16, 65504, "0xH7BFF"),
        (F16, -math.inf, "0xHFC00"),
        (BF16, 1.0, str(0x3F80)),  # the bits of a bfloat, as an i16
        (BF16, 1.00390625, str(0x3F80)),  # a tie goes to even
        (BF16, math.nan, str(0x7FC0)),
        (I8, 200, "-56"),
        (I64, -(1 << 63), "-9223372036854775808"),
        (I1, True, "true"),
        (PTR, 0, "null"),
        (F32.with_lanes(4), 0.0, "splat (float 0x0000000000000000)"),
        (F32.with_lanes(4), -0.0, "splat (float 0x8000000000000000)"),
        (I32.with_lanes(8), 7, "splat (i32 7)"),
    ],
)
def test_constants_are_exact(type: Type, number: float, text: str) -> None:
    assert constant(type, number) == text


def test_text_is_repeatable_and_deduplicated() -> None:
    def build() -> str:
        module, f = begin(1)
        x = f.load(f.args[0], F32.with_lanes(4), nontemporal=True)
        a, b = f.table(I32, [1, 2, 3]), f.table(I32, [1, 2, 3])
        assert a.text == b.text
        f.store(f.fma(f.fma(x, x, x), 2.0, x), f.args[0])
        f.ret()
        return module.text()

    assert build() == build()
    assert build().count("declare") == 1
    assert build().count("@table") == 1


def test_mistakes_raise() -> None:
    module, f = begin(1)
    x = f.load(f.args[0], F32)
    with pytest.raises(TypeError, match="differ in type"):
        f.add(x, f.load(f.args[0], I32))
    with pytest.raises(TypeError, match="bitcast"):
        f.and_(x, x)
    with pytest.raises(ValueError, match="not finished"):
        module.text()
    with pytest.raises(AssertionError, match="already"):
        module.function("f", None, [])
    with pytest.raises(TypeError, match="returns"):
        f.ret(x)
    with pytest.raises(TypeError, match="run time"):
        assert f.cmp("gt", x, 0)
    with pytest.raises(ValueError, match="use `when`"):
        f.masked_store(x, f.args[0], f.lane_mask(f.const(I64, 0), 1, 1))


def test_contraction_is_an_option_of_a_function() -> None:
    module, f = begin(1)
    g = module.function("g", None, [("x", F32, "")], contract=True)
    x = f.load(f.args[0], F32)
    assert "contract" not in "".join((x * 2.0 + 1.0).builder.lines)
    assert "contract" in "".join((g.args[0] * 2.0 + 1.0).builder.lines)


def test_loops_branches_and_carried_values() -> None:
    module, f = begin(2)
    source, out = f.args
    with f.carry_loop(0, 10, [f.const(F32, 0.0), f.const(I64, 0)]) as loop:
        x = f.load(f.gep(source, loop.index, F32), F32)
        total, odd = loop.values
        is_odd = f.cmp("ne", f.and_(loop.index, 1), 0)
        (term,) = f.branch(is_odd, lambda: (-x,), lambda: (x * 2.0,))
        loop.next(total + term, odd + f.convert(is_odd, "i64"))
    total, odd = loop.results
    f.store(total, out)
    f.store(f.convert(odd, "float"), f.gep(out, 1, F32))
    (halved,) = f.while_loop([total], lambda v: f.cmp("gt", v, 1.0), lambda v: (v * 0.5,))
    f.store(halved, f.gep(out, 2, F32))
    with f.when(f.cmp("gt", total, 1e9), unlikely=True):
        f.store(f.const(F32, -1.0), out)
    with f.loop(3, 7, 2) as i:
        f.store(f.convert(i, "float"), f.gep(out, i, F32))
    f.ret()
    source_array, result = np.arange(1, 11, dtype=np.float32), np.zeros(8, np.float32)
    run_on_arrays(module, "f", source_array, result)
    total = np.sum(np.where(np.arange(10) % 2 == 1, -source_array, source_array * 2))
    np.testing.assert_array_equal(result, [total, 5, 20 / 32, 3, 0, 5, 0, 0])


def test_masks_gather_shuffles_and_reductions() -> None:
    module, f = begin(2)
    source, out = f.args
    v4, scratch = F32.with_lanes(4), f.alloca(F32, 4)
    mask = f.lane_mask(f.const(I64, 6), 9, 4)
    x = f.masked_load(f.gep(source, 6, F32), v4, mask, 5.0)
    f.store(x, scratch)
    f.masked_store(f.load(scratch, v4) + 1.0, out, mask)
    gathered = f.gather(source, f.iota(I32.with_lanes(4), 7, -2), F32)
    f.store(gathered, f.gep(out, 4, F32))
    f.store(f.reduce("add", gathered), f.gep(out, 8, F32))
    f.store(f.reduce("max", f.concat(gathered, x)), f.gep(out, 9, F32))
    f.store(f.convert(f.any(f.cmp("gt", gathered, 6.5)), "float"), f.gep(out, 10, F32))
    f.store(f.convert(f.all(f.cmp("gt", gathered, 6.5)), "float"), f.gep(out, 11, F32))
    f.store(f.insert(f.splat(f.extract(x, 0), v4), 9.0, 2), f.gep(out, 12, F32))
    f.store_fence()
    f.ret()
    result = np.full(16, -1, np.float32)
    run_on_arrays(module, "f", np.arange(9, dtype=np.float32), result)
    np.testing.assert_array_equal(result, [7, 8, 9, -1, 7, 5, 3, 1, 16, 8, 1, 0, 6, 6, 9, 6])


@pytest.mark.parametrize("lanes", [1, 4])
def test_minimum_and_maximum_keep_nans(lanes: int) -> None:
    module, f = begin(3)
    type = F32.with_lanes(lanes)
    with f.loop(0, 4, lanes) as i:
        a, b = (f.load(f.gep(p, i, F32), type) for p in f.args[:2])
        f.store(f.max(a, b), f.gep(f.args[2], i, F32))
        f.store(f.min(a, b), f.gep(f.args[2], i + 4, F32))
    f.ret()
    a, b = (np.array(x, np.float32) for x in ([1, np.nan, 3, np.nan], [2, 1, np.nan, np.nan]))
    result = np.zeros(8, np.float32)
    run_on_arrays(module, "f", a, b, result)
    np.testing.assert_array_equal(result, np.concatenate([np.maximum(a, b), np.minimum(a, b)]))


VALUES = np.array([0.0, -0.0, 1.5, -1.5, 2.5, 100.7, -100.7, 127.0], np.float64)
KINDS = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", KINDS)
def test_conversions_agree_with_c(source: str, lanes: int) -> None:
    module, f = begin(1 + len(KINDS))
    with f.loop(0, 8, lanes) as i:
        x = f.load(f.gep(f.args[0], i, Type.of(source)), Type.of(source, lanes))
        for pointer, kind in zip(f.args[1:], KINDS, strict=True):
            f.store(f.convert(x, kind), f.gep(pointer, i, Type.of(kind)))
    f.ret()
    given = VALUES.astype(KINDS[source])
    results = [np.zeros(8, dtype) for dtype in KINDS.values()]
    run_on_arrays(module, "f", given, *results)
    for result in results:
        np.testing.assert_array_equal(result, given.astype(result.dtype))


@pytest.mark.parametrize("lanes", [1, 8])
def test_unsigned_bool_and_bfloat_conversions(lanes: int) -> None:
    module, f = begin(6)
    with f.loop(0, 8, lanes) as i:
        x = f.load(f.gep(f.args[0], i, F32), F32.with_lanes(lanes))
        f.store(f.convert(x, "i8", signed=False), f.gep(f.args[1], i, I8))
        f.store(f.convert(x, "i32", signed=False), f.gep(f.args[2], i, I32))
        f.store(f.convert(f.convert(x, "i1"), "i8"), f.gep(f.args[3], i, I8))
        brief = f.convert(x, "bfloat")
        f.store(brief, f.gep(f.args[4], i, BF16))
        f.store(f.convert(brief, "float"), f.gep(f.args[5], i, F32))
    f.ret()
    given = np.array([0.0, -1.0, 255.0, 3.999, np.pi, 1.00390625, 1.01171875, 65000.0], np.float32)
    results = [np.zeros(8, t) for t in (np.uint8, np.uint32, np.uint8, np.uint16, np.float32)]
    run_on_arrays(module, "f", given, *results)
    bits = given.view(np.uint32)
    brief = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint32)
    expected = [given.astype(np.int32).astype(np.uint8), given.astype(np.int64).astype(np.uint32), given != 0, brief]
    for result, reference in zip(results, [*expected, (brief << 16).view(np.float32)], strict=True):
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=["avx2", "avx512", "aarch64"])
def test_no_conversion_calls_a_library(target: CpuTarget) -> None:
    module = ModuleBuilder(target)
    kinds = ["half", "bfloat", "float", "double", "i8", "i16", "i32", "i64"]
    for source, result, signed in itertools.product(kinds, [*kinds, "i1"], (True, False)):
        f = module.function(f"{source}_to_{result}_{signed}", None, [("p", PTR, ""), ("q", PTR, "")])
        y = f.convert(f.load(f.args[0], Type.of(source, 8)), result, signed)
        f.store(f.convert(y, "i8") if result == "i1" else y, f.args[1])
        f.ret()
    words = {line.split()[0] for line in emit_assembly(module.text(), target).splitlines() if line.strip()}
    assert not words & {"callq", "bl"}


def test_tables_are_bytes_modulo_their_width() -> None:
    assert table_constant(I32, [1, -1, 1 << 31]) == r'[12 x i8] c"\01\00\00\00\ff\ff\ff\ff\00\00\00\80"'
    assert table_constant(I8, []) == '[0 x i8] c""'
    with pytest.raises(ValueError, match="integers"):
        table_constant(I32, [1.5])
