"""Executables: native records patched per run, preparation by version, copies, threads, and the disk cache."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mxforge.codegen.llvm.compile import compile_object
from mxforge.ir.caches import clear_caches
from mxforge.ir.dialects.core.builder import CoreBuilder
from mxforge.ir.graph import Graph
from mxforge.ir.places import reading, writing
from mxforge.ir.program import Computation, Copy, Launch, Place, Program, Space, Step
from mxforge.ir.settings import Settings
from mxforge.ir.types import DType, TensorType
from mxforge.ir.verifier import verify_program
from mxforge.passes.manager import Options
from mxforge.runtime.compile import disk_key, executable_for
from mxforge.runtime.compiler_identity import compiler_identity, identity_of
from mxforge.runtime.device import DeviceAddress, DeviceError
from mxforge.runtime.devices import HOST
from mxforge.runtime.host import executable as executables
from mxforge.runtime.host.arena import ScratchPool
from mxforge.runtime.host.executable import Executable, listen
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.reference import ReferenceExecutable

# add: c[i] = a[i] + b[i] in i64; the arguments are a, b, c and an unused number.
KERNELS = """
define void @add(ptr %arguments, i64 %begin, i64 %end, i32 %worker) {
entry:
  %a = load ptr, ptr %arguments
  %pb = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %pb
  %pc = getelementptr ptr, ptr %arguments, i64 2
  %c = load ptr, ptr %pc
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%next, %body]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %ea = getelementptr i64, ptr %a, i64 %i
  %eb = getelementptr i64, ptr %b, i64 %i
  %ec = getelementptr i64, ptr %c, i64 %i
  %x = load i64, ptr %ea
  %y = load i64, ptr %eb
  %z = add i64 %x, %y
  store i64 %z, ptr %ec
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}
"""
LENGTH = 4
VECTOR = TensorType((LENGTH,), DType.I64)
IN = [Place(Space.INPUT, i) for i in range(3)]
OUT = [Place(Space.OUTPUT, i) for i in range(3)]
ARENA, PREPARED, CONSTANT = (Place(s) for s in (Space.ARENA, Space.PREPARED, Space.CONSTANT))


@pytest.fixture(scope="module")
def code() -> bytes:
    target = host_target()
    return compile_object(f'target triple = "{target.triple}"\n{KERNELS}', target)


def launch(*places: Place) -> Launch:
    *sources, _ = places
    accesses = (*(reading(VECTOR.nbytes) for _ in sources), writing(VECTOR.nbytes))
    return Launch("add", (*places, 7), LENGTH, 1000, accesses=accesses)


def program(
    code: bytes,
    inputs: int,
    outputs: int,
    steps: Sequence[Step],
    prepare: Sequence[Launch] = (),
) -> Program:
    constants = np.full(LENGTH, 100).tobytes()
    types = (VECTOR,) * inputs, (VECTOR,) * outputs
    size = VECTOR.nbytes
    return Program("p", *types, frozenset({0}), tuple(steps), tuple(prepare), size, size, constants, (code,))


def run(executable: Executable, inputs: Sequence[np.ndarray], outputs: int, version: int = 0) -> list[np.ndarray]:
    results = [np.zeros(LENGTH, np.int64) for _ in range(outputs)]
    executable.run([a.ctypes.data for a in inputs], [r.ctypes.data for r in results], version)
    return results


def vector(start: int) -> np.ndarray:
    return np.arange(start, start + LENGTH)


def test_places_of_every_space(code: bytes) -> None:
    steps = [launch(IN[0], IN[1], ARENA), launch(ARENA, CONSTANT, OUT[0])]
    executable = Executable(program(code, 2, 1, steps))
    for start in (0, 10, 20):
        assert (run(executable, [vector(start), vector(1)], 1)[0] == vector(start) + vector(1) + 100).all()


def with_scratch(code: bytes, constants: int = 1) -> Program:
    """x, y -> x + y + 100 `constants`, by way of scratch memory."""
    steps = [launch(IN[0], IN[1], ARENA), *[launch(ARENA, CONSTANT, ARENA)] * (constants - 1)]
    return replace(program(code, 2, 1, [*steps, launch(ARENA, CONSTANT, OUT[0])]), scratch_bytes=VECTOR.nbytes)


def test_idle_programs_keep_no_scratch_memory(code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ScratchPool()
    monkeypatch.setattr(executables, "scratch_pool", pool)
    programs = [Executable(with_scratch(code, count)) for count in (1, 2)]
    for _ in range(2):
        for count, executable in enumerate(programs, start=1):
            assert (run(executable, [vector(3), vector(1)], 1)[0] == vector(3) + vector(1) + 100 * count).all()
    assert [e.idle_bytes() for e in programs] == [0, 0] and pool.idle_bytes() == VECTOR.nbytes
    pool.release()
    assert (run(programs[0], [vector(5), vector(1)], 1)[0] == vector(5) + vector(1) + 100).all()


def test_runs_at_once_have_scratch_memory_each(code: bytes) -> None:
    wrong: list[int] = []

    def work(start: int) -> None:
        for k in range(300):
            a = vector(start + k)
            if (run(executable, [a, a], 1)[0] != 2 * a + 200).any():
                wrong.append(start)

    executable = Executable(with_scratch(code, 2))
    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_borrowed_instance_and_a_direct_call_have_scratch_memory(code: bytes) -> None:
    executable = Executable(with_scratch(code))
    direct, instance = executable.direct_call(), executable.take_instance()
    a, b, c = vector(1), vector(2), vector(0)
    direct(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    assert (c == a + b + 100).all()
    instance.run([a.ctypes.data, a.ctypes.data, c.ctypes.data], 0, None)
    assert (c == 2 * a + 100).all()
    executable.give_instance(instance)
    assert (run(executable, [b, b], 1)[0] == 2 * b + 100).all()


def test_a_program_is_freed_with_its_last_reference(code: bytes) -> None:
    """No cycle of references keeps its memory until a garbage collection."""
    executable = Executable(program(code, 2, 1, [launch(IN[0], IN[1], OUT[0])]))
    run(executable, [vector(1), vector(1)], 1)
    gone = weakref.ref(executable)
    gc.disable()
    try:
        del executable
        assert gone() is None
    finally:
        gc.enable()


def test_prepared_values_follow_the_version(code: bytes) -> None:
    executable = Executable(program(code, 1, 1, [launch(PREPARED, CONSTANT, OUT[0])], [launch(IN[0], IN[0], PREPARED)]))
    weight = vector(0)
    assert (run(executable, [weight], 1, 1)[0] == 2 * vector(0) + 100).all()
    weight += 5
    assert (run(executable, [weight], 1, 1)[0] == 2 * vector(0) + 100).all()
    assert (run(executable, [weight], 1, 2)[0] == 2 * vector(5) + 100).all()


def test_results_that_no_launch_computes_are_copied(code: bytes) -> None:
    copies = [Copy(OUT[0], IN[0], VECTOR.nbytes), Copy(OUT[1], CONSTANT, VECTOR.nbytes)]
    first, second = run(Executable(program(code, 1, 2, copies)), [vector(3)], 2)
    assert (first == vector(3)).all() and (second == 100).all()


def test_direct_call_agrees_with_run(code: bytes) -> None:
    executable = Executable(program(code, 2, 1, [launch(IN[0], IN[1], OUT[0])]))
    direct = executable.direct_call()
    a, b, c = vector(1), vector(2), vector(0)
    direct(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    assert (c == a + b).all()
    assert (run(executable, [b, b], 1)[0] == 2 * b).all()
    direct(a.ctypes.data, a.ctypes.data, c.ctypes.data)
    assert (c == 2 * a).all()


def test_direct_calls_of_several_launches(code: bytes) -> None:
    steps = [launch(IN[0], IN[0], ARENA), launch(ARENA, IN[1], OUT[0]), launch(OUT[0], CONSTANT, OUT[1])]
    direct = Executable(program(code, 2, 2, steps)).direct_call()
    x, y, first, second = (vector(k) for k in range(4))
    for _ in range(2):
        direct(x.ctypes.data, y.ctypes.data, first.ctypes.data, second.ctypes.data)
        assert (first == 2 * x + y).all() and (second == first + 100).all()
        x += 7


def test_direct_calls_copy(code: bytes) -> None:
    steps = [launch(IN[0], IN[0], OUT[0]), Copy(OUT[1], OUT[0], VECTOR.nbytes), launch(OUT[1], IN[0], OUT[0])]
    direct = Executable(program(code, 1, 2, steps)).direct_call()
    x, first, second = (vector(k) for k in range(3))
    direct(x.ctypes.data, first.ctypes.data, second.ctypes.data)
    assert (first == 3 * x).all() and (second == 2 * x).all()


def test_a_direct_call_prepares_each_time(code: bytes) -> None:
    steps = [launch(PREPARED, IN[0], OUT[0])]
    direct = Executable(program(code, 1, 1, steps, [launch(IN[0], IN[0], PREPARED)])).direct_call()
    x, y = vector(1), vector(0)
    for _ in range(2):
        direct(x.ctypes.data, y.ctypes.data)
        assert (y == 3 * x).all()
        x += 1


def test_a_direct_call_refuses_what_it_cannot_run(code: bytes) -> None:
    direct = Executable(program(code, 1, 1, [launch(IN[0], IN[0], OUT[0])])).direct_call()
    x, y = vector(1), vector(0)
    with pytest.raises(DeviceError, match="another device"):
        direct(x.ctypes.data, DeviceAddress("other", 1))
    with pytest.raises(TypeError):
        direct(x.ctypes.data)
    with pytest.raises(DeviceError):  # a version, which this function does not have
        direct(x.ctypes.data, y.ctypes.data, "version")
    listen(lambda *_: None)
    try:
        with pytest.raises(DeviceError, match="launches are observed"):
            direct(x.ctypes.data, y.ctypes.data)
    finally:
        listen(None)
    assert (y == vector(0)).all()
    gc.collect()
    direct(x.ctypes.data, y.ctypes.data)
    assert (y == 2 * x).all()


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_bound_call_prepares_when_it_is_told(code: bytes, is_direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_direct:
        monkeypatch.setattr(Executable, "_is_direct", False)
    steps = [launch(PREPARED, IN[0], OUT[0])]
    executable = Executable(program(code, 2, 1, steps, [launch(IN[1], IN[1], PREPARED)]))
    weight, x, y = vector(0), vector(3), vector(0)
    run, prepare = executable.bound_call({1: weight.ctypes.data})
    assert prepare is not None
    prepare(1)
    before = 2 * weight
    for _ in range(2):
        run(x.ctypes.data, y.ctypes.data)
        assert (y == before + x).all()
        weight += 50
    prepare(2)
    with pytest.raises(DeviceError):
        run(DeviceAddress("other", 1), y.ctypes.data)
    run(x.ctypes.data, y.ctypes.data)
    assert (y == 2 * weight + x).all()


def test_bound_calls_of_a_program_have_memory_each(code: bytes) -> None:
    """Two owners of parameters share a program."""
    steps = [launch(PREPARED, IN[1], OUT[0]), launch(PREPARED, PREPARED, OUT[1])]
    executable = Executable(program(code, 2, 2, steps, [launch(IN[0], IN[0], PREPARED)]))
    weights, x = [vector(1), vector(5)], vector(3)
    calls = [executable.bound_call({0: w.ctypes.data}) for w in weights]
    for _, prepare in calls:
        assert prepare is not None
        prepare(0)
    for weight, (run, _) in zip(weights, calls, strict=True):
        first, second = vector(0), vector(0)
        run(x.ctypes.data, first.ctypes.data, second.ctypes.data)
        assert (first == 2 * weight + x).all() and (second == 4 * weight).all()


@pytest.mark.parametrize("grain", [1, 3, 1000])
def test_groups_run_their_launches_in_pieces(code: bytes, grain: int) -> None:
    count = 5
    places = [Place(Space.OUTPUT, i) for i in range(count)]
    sums = [launch(IN[0], IN[1], place) for place in places]
    doubled = [launch(places[0], place, place) for place in places[1:]]
    steps = [replace(step, grain=grain) for step in (*sums, *doubled)]
    made = replace(program(code, 2, count, steps), groups=(len(sums), len(doubled)))
    verify_program(made, {"add"})
    first, *others = run(Executable(made), [vector(0), vector(1)], count)
    assert (first == vector(0) + vector(1)).all()
    assert all((other == 2 * first).all() for other in others)


def test_a_listener_sees_groups(code: bytes) -> None:
    steps = [launch(IN[0], IN[1], OUT[0]), launch(IN[0], IN[1], OUT[1]), launch(OUT[0], OUT[1], OUT[2])]
    made = Executable(replace(program(code, 2, 3, steps), groups=(2, 1)))
    seen: list[Computation | None] = []
    listen(lambda program, launch, begin, end: seen.append(launch))
    try:
        run(made, [vector(0), vector(1)], 3)
    finally:
        listen(None)
    assert seen == [steps[0], steps[2], None]


def test_wrong_number_of_tensors_is_an_error(code: bytes) -> None:
    with pytest.raises(ValueError, match="takes 2 inputs and 1 outputs"):
        Executable(program(code, 2, 1, [])).run([0], [0])


def test_threads_do_not_share_an_instance(code: bytes) -> None:
    steps = [launch(IN[0], IN[1], ARENA), launch(ARENA, CONSTANT, OUT[0])]
    executable = Executable(program(code, 2, 1, steps))
    wrong: list[int] = []

    def work(start: int) -> None:
        for _ in range(300):
            if (run(executable, [vector(start), vector(start)], 1)[0] != 2 * vector(start) + 100).any():
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_launches_are_listed_on_request(
    code: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mxforge.runtime.host.executable.settings", lambda: Settings(debug=2))
    executable = Executable(program(code, 2, 1, [launch(IN[0], IN[1], ARENA), launch(ARENA, CONSTANT, OUT[0])]))
    assert (run(executable, [vector(3), vector(1)], 1)[0] == vector(3) + vector(1) + 100).all()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("us  add over 4 in chunks of 1000" in line for line in lines)


def sum_of_squares() -> Graph:
    b = CoreBuilder("sum_of_squares")
    x = b.input(TensorType((3, 5), DType.F32), "x")
    return b.build([b.sum(b.mul(x, x), (1,))])


def check_sum_of_squares(executable: Executable | ReferenceExecutable) -> None:
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    y = np.zeros(3, np.float32)
    executable.run([x.ctypes.data], [y.ctypes.data])
    np.testing.assert_allclose(y, (x * x).sum(1), rtol=1e-6)


def test_reference_agrees() -> None:
    check_sum_of_squares(ReferenceExecutable(sum_of_squares()))


def test_equal_graphs_share_an_executable() -> None:
    found = executable_for(sum_of_squares())
    assert executable_for(sum_of_squares()) is found
    assert executable_for(sum_of_squares(), Options(training=True)) is not found
    check_sum_of_squares(found)  # type: ignore[arg-type]


def test_a_program_is_loaded_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    executable_for(sum_of_squares())
    clear_caches()

    def compile_again(*_: object) -> None:
        raise AssertionError("compiled although the disk has it")

    monkeypatch.setattr("mxforge.runtime.compile.compile_program", compile_again)
    check_sum_of_squares(executable_for(sum_of_squares()))  # type: ignore[arg-type]


def test_a_damaged_program_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = disk_key(sum_of_squares(), Options(), HOST.target)
    kept: dict[str, bytes] = {}

    class Disk:
        """One program; kernels are not stored."""

        def get(self, key: str) -> bytes | None:
            return kept.get(key)

        def put(self, key: str, data: bytes) -> None:
            if key == program:
                kept[key] = data

    monkeypatch.setattr("mxforge.runtime.compile.default_cache", Disk)
    clear_caches()
    check_sum_of_squares(executable_for(sum_of_squares()))  # type: ignore[arg-type]
    good = kept[program]
    kept[program] = good[:-3]
    clear_caches()
    check_sum_of_squares(executable_for(sum_of_squares()))  # type: ignore[arg-type]
    assert kept[program] == good


def test_keys_distinguish_targets_and_options() -> None:
    graph, target = sum_of_squares(), host_target()
    other = host_target(threads=target.threads + 1)
    keys = {disk_key(graph, o, t) for o in (Options(), Options(training=True)) for t in (target, other)}
    assert len(keys) == 4 and len(compiler_identity()) == 64


def test_the_identity_of_a_compiler_follows_the_content_of_its_files(tmp_path: Path) -> None:
    """Another time or place of equal files is the same compiler."""

    def package(name: str, text: str, seconds: int) -> str:
        for folder in ("ir", "passes/inner", "codegen"):
            (tmp_path / name / folder).mkdir(parents=True, exist_ok=True)
        path = tmp_path / name / "passes" / "inner" / "one.py"
        path.write_text(text)
        os.utime(path, (seconds, seconds))
        return identity_of(tmp_path / name)

    first = package("a", "x = 1", 100)
    assert package("a", "x = 1", 200) == package("b", "x = 1", 300) == first
    assert package("a", "x = 2", 400) != first


WARM = """
import sys
import mxforge as mx
from mxforge import gluon, nd
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(3, in_units=7), gluon.nn.BatchNorm(in_channels=3), gluon.nn.Dropout(0.5))
net.initialize(mx.init.One())
net.hybridize()
small = gluon.nn.Dense(2, in_units=7)
small.initialize(mx.init.One())
small.hybridize(static_alloc=True, static_shape=True)
small(nd.array([[1.0] * 7]))
core = [name for name in ("mxforge.ir.dialects.core", "mxforge.ir.kernel") if name in sys.modules]
x = nd.ones((3, 7)) + 2
with mx.autograd.train_mode():
    trained = net(x)
bound = mx.sym.exp(mx.sym.Variable("x")).bind(mx.cpu(), {"x": x})
bound.forward()
compilers = ("llvmlite", "mxforge.passes.pipeline", "mxforge.passes.decompose", "mxforge.codegen.driver")
print(x.sum().asscalar(), net(x).shape, core + [name for name in compilers if name in sys.modules])
"""


def test_a_warm_start_runs_no_pass_and_imports_no_llvm() -> None:
    runs = [subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout.startswith("63.0 (3, 3) ['mxforge.ir.dialects.core', 'mxforge.ir.kernel', 'llvmlite'")
    assert runs[1].stdout == "63.0 (3, 3) []\n"


def test_a_program_whose_memory_was_freed_prepares_it_again(code: bytes) -> None:
    executable = Executable(program(code, 1, 1, [launch(PREPARED, CONSTANT, OUT[0])], [launch(IN[0], IN[0], PREPARED)]))
    for _ in range(2):
        assert (run(executable, [vector(3)], 1, 1)[0] == 2 * vector(3) + 100).all()
        assert executable.idle_bytes() == 2 * VECTOR.nbytes
        executable.release()
        assert executable.idle_bytes() == 0
