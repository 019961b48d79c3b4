"""The forms in which a random program runs, and the comparison with the reference target's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxforge as mx
import numpy as np
from mxforge.ir.caches import clear_caches
from mxforge.runtime.host.threads import get_num_threads, set_num_threads
from random_programs import Array, Program

Results = list[Array]
Form = Callable[[], Results]


class Block(mx.gluon.HybridBlock):
    """A program as a hybridized block."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def hybrid_forward(self, F: Any, x: Any, *inputs: Any) -> list[Any]:
        return self.program.run(F, [x, *inputs])


def check(program: Program) -> None:
    """Assert that every form returns the expected arrays, and the same bits when it runs again.

    Programs with scalars or empty arrays run with NumPy's shape semantics too.
    """
    unusual = any(not x.shape or 0 in x.shape for x in (*program.inputs, *program.expected))
    for numpy_shapes in (False, True) if unusual else (False,):
        with mx.util.np_shape(numpy_shapes):
            _check(program, " with NumPy's shapes" if numpy_shapes else "")


def _check(program: Program, mode: str) -> None:
    for form, run in forms(program):
        name = f"{form}{mode}"
        first = run()
        compare(program, name, first)
        same_bits(name, first, run())
        if has_threads():
            compare(program, f"{name}, one thread", with_one_thread(run))
    _check_resized(program, mode)


def _check_resized(program: Program, mode: str) -> None:
    """The first extents are specialised, others run dynamic programs; each gives the same bits at every call. Some
    programs run eagerly too, where each operator has programs for any extents."""
    block = Block(program)
    block.hybridize()
    programs = [program, *program.resized] if program.resized else []
    ways: dict[str, Callable[[Program], Results]] = {"hybridized": lambda p: results(block, p.inputs)}
    if program.seed % 3 == 0 and all(map(_runs, programs)):
        ways["eager"] = eager
    for way, run in ways.items():
        found = [run(p) for p in programs]
        for p, first in zip(programs, found, strict=True):
            name = f"{way}, shapes {[x.shape for x in p.inputs]}{mode}"
            compare(p, name, first)
            same_bits(name, first, run(p))


def _runs(program: Program) -> bool:
    """False if a step that no output depends on refuses these extents: an eager program runs it too."""
    try:
        eager(program)
    except mx.MXNetError:
        return False
    return True


def forms(program: Program) -> list[tuple[str, Form]]:
    """The forms by name."""
    return [
        ("eager", lambda: eager(program)),
        ("hybridized", hybridized(program)),
        ("bound", bound(program)),
        ("cached", cached(program)),
    ]


def arrays(inputs: Sequence[Array]) -> list[Any]:
    return [mx.nd.array(x, dtype=x.dtype) for x in inputs]


def eager(program: Program) -> Results:
    return [y.asnumpy() for y in program.run(mx.nd, arrays(program.inputs))]


def hybridized(program: Program) -> Form:
    block = Block(program)
    static = bool(program.seed % 2)
    block.hybridize(static_alloc=static, static_shape=static)

    return lambda: results(block, program.inputs)


def results(block: Block, inputs: Sequence[Array]) -> Results:
    made = block(*arrays(inputs))
    return [y.asnumpy() for y in (made if isinstance(made, list | tuple) else [made])]


def bound(program: Program) -> Form:
    names = [f"x{i}" for i in range(len(program.inputs))]
    variables = [mx.sym.var(n, shape=x.shape, dtype=x.dtype) for n, x in zip(names, program.inputs, strict=True)]
    group = mx.sym.Group(program.run(mx.sym, variables))
    given = dict(zip(names, arrays(program.inputs), strict=True))
    executor = group.bind(mx.current_context(), {n: given[n] for n in group.list_arguments()})
    return lambda: [y.asnumpy() for y in executor.forward(is_train=False)]


def cached(program: Program) -> Form:
    """A bound executor whose program is loaded from the disk cache, where `bound` stored it."""

    def run() -> Results:
        clear_caches()
        return bound(program)()

    return run


def has_threads() -> bool:
    """Whether several threads compute the results."""
    return mx.current_context().device_type == "cpu" and get_num_threads() > 1


def with_one_thread(run: Form) -> Results:
    threads = get_num_threads()
    set_num_threads(1)
    try:
        return run()
    finally:
        set_num_threads(threads)


def compare(program: Program, form: str, found: Sequence[Array]) -> None:
    """AssertionError unless the arrays agree with the expected ones: integers exactly, floats within the tolerance."""
    assert len(found) == len(program.expected), f"{form}: {len(found)} outputs"
    for number, y, wanted in zip(program.outputs, found, program.expected, strict=True):
        where = f"{form}: v{number}"
        assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype), f"{where}: {y.dtype}{y.shape}"
        scale = max(1.0, float(np.abs(wanted.astype(np.float64)).max(initial=0)))
        tolerance = program.tolerance * scale if wanted.dtype.kind == "f" else 0
        worst = float(np.abs(y.astype(np.float64) - wanted.astype(np.float64)).max(initial=0))
        assert worst <= tolerance, f"{where}: differs by {worst:.3g}, tolerance {tolerance:.3g}"


def same_bits(form: str, first: Sequence[Array], second: Sequence[Array]) -> None:
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        assert a.tobytes() == b.tobytes(), f"{form}: output {i} differs when it runs again"
