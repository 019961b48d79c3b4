"""Joined kernels: their text, their parameters, and which launches they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("triton")

from contraction_kernels import gemm_kernel
from mxforge.codegen.triton.compile import compile_triton
from mxforge.codegen.triton.emit import emit_triton
from mxforge.codegen.triton.halves import HalvesPacking
from mxforge.codegen.triton.join import MOST_WORDS, Member, chunks, join
from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.part import Part, part_of
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.ir.types import DType
from support.ttir import run_ttir


def halves(count: int, low: bool = False) -> Part:
    part = part_of(HalvesPacking(count, low).source())
    assert part is not None
    return part


def member(part: Part, number: int, count: int = 1) -> Member:
    return Member(part, (("x", number), ("y", number)), count)


def test_a_part_has_the_functions_that_it_calls() -> None:
    functions = halves(100).functions()
    assert list(functions) == ["program", halves(100).name]
    assert "tl.program_id" not in "".join(functions.values())
    assert "program(_program, WIDE)" in functions[halves(100).name]


def test_a_part_in_the_code_of_a_kernel() -> None:
    part = halves(100)
    code = KernelCode("k", "ttir", ("*fp32",), 4, 0, b"text", part=part)
    assert KernelCode.from_bytes(code.to_bytes()) == code


def test_equal_launches_have_one_kernel() -> None:
    first, second = ([member(halves(5), k), member(halves(5), k + 1)] for k in (0, 7))
    assert join(first).source.identity == join(second).source.identity
    assert join(first).source.text.count("def part") == 1


def test_arguments_that_launches_share_are_passed_once() -> None:
    part = halves(5)
    joined = join([Member(part, ("x", ("y", k)), 1) for k in range(3)])
    assert [name for name, _ in joined.source.signature].count("x_0") == 1
    assert joined.arguments[:2] == ((0, 0), (0, 1))


def test_a_kernel_has_few_parameters() -> None:
    members = [member(halves(5), k) for k in range(400)]
    parts = chunks(members)
    assert [i for chunk in parts for i in chunk] == list(range(400))
    assert len(parts) == 3
    assert all(len(join([members[i] for i in chunk]).source.signature) <= MOST_WORDS for chunk in parts)


def test_results() -> None:
    """Launches of three sizes, in a kernel that reads and writes memory in wide pieces as each of them does."""
    import numpy as np

    sizes = (1000, 3000, 1000, 10)
    joined = join([member(halves(n), k, -(-n // 1024)) for k, n in enumerate(sizes)])
    compiled = compile_triton(joined.source, SM90)
    assert compiled.resources.stack == 0
    generator = np.random.default_rng(0)
    x = [generator.standard_normal(n).astype(np.float32) for n in sizes]
    y = [np.zeros_like(a) for a in x]
    memory = {("x", k): a for k, a in enumerate(x)} | {("y", k): a for k, a in enumerate(y)}
    arguments = [a if isinstance(a, int) else memory[("x", "y")[a[1]], a[0]] for a in joined.arguments]
    run_ttir(compiled.ttir, joined.source.programs(), arguments)
    for before, after in zip(x, y, strict=True):
        bits = (before.view(np.int32) + 0x1000) & -0x2000
        np.testing.assert_array_equal(after, bits.view(np.float32))


def test_products_keep_their_stages() -> None:
    """Joined products have the asynchronous copies and the tensor-core instructions of all of them."""
    kernels = [gemm_kernel((), n, n, n, DType.BF16) for n in (256, 1024)]
    schedules = [
        replace(schedule_triton(kernel, SM90), num_stages=n) for n, kernel in zip((4, 3), kernels, strict=True)
    ]
    sources = [emit_triton(kernel, schedule) for kernel, schedule in zip(kernels, schedules, strict=True)]
    parts = [part_of(source) for source in sources]
    joined = join([Member(part, (k, 10 + k, 20 + k), 1) for k, part in enumerate(parts) if part is not None])
    separate, together = [compile_triton(source, SM90) for source in sources], compile_triton(joined.source, SM90)
    assert together.resources.stack == 0
    assert together.shared == max(kernel.shared for kernel in separate)
    for instruction in ("cp.async.cg.shared.global", "cp.async.wait_group", "wgmma.mma_async", "mma.sync"):
        assert together.ptx.count(instruction) == sum(kernel.ptx.count(instruction) for kernel in separate)
