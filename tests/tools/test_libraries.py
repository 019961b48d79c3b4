"""`mxforge compile --emit`: libraries give the bits that Python gives, and answer wrong calls with an error.

They load a shared library with ctypes, which needs no C compiler; `test_library_programs.py` compiles programs.
"""

from __future__ import annotations

import _ctypes
import ctypes
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.macho.reader import read_macho
from mxforge.frontend.gluon import nn
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.graph import GraphBuilder
from mxforge.ir.program import Program
from mxforge.ir.program_combination import Use, parallel
from mxforge.ir.types import DType, TensorType
from mxforge.passes.manager import Options as CompileOptions
from mxforge.runtime.compile import compile_program
from mxforge.runtime.compiled_folder import Argument, StoredModel
from mxforge.runtime.devices import HOST
from mxforge.runtime.freeze import freeze
from mxforge.runtime.host import machine as machine_flags
from mxforge.runtime.host.machine import cpu_flags
from mxforge.runtime.host.threads import get_num_threads
from mxforge.tools.errors import ToolError
from mxforge.tools.library import targets, write
from mxforge.tools.library.header import FUNCTIONS, PREDICT_FUNCTIONS, c_name
from mxforge.tools.library.needs import Need, needs_of
from mxforge.tools.library.tables import library_model
from mxforge.tools.main import main
from support import c_library
from support.c_library import FIXTURES, SHAPE, Library, Model, Options, compiled, images


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library") / "net", FIXTURES / "convnet", *SHAPE, "--emit", "shared")


@pytest.fixture(scope="module")
def library(folder: Path) -> Library:
    return Library(folder, "convnet")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same model in Python."""
    return mx.load_compiled(compiled(tmp_path_factory.mktemp("folder") / "net", FIXTURES / "convnet", *SHAPE))


@pytest.fixture
def model(library: Library) -> Iterator[Model]:
    made = Model(library)
    yield made
    made.close()


def test_the_files(folder: Path) -> None:
    names = ["convnet.cmake", "convnet.h", "convnet.hpp", "libconvnet.so", "mxforge.h"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "data [1..4..6, 3, 32, 32]" in (folder / "convnet.h").read_text()


def test_batches_give_the_bits_of_python(model: Model, reference: Any) -> None:
    for batch in (4, 1, 6, 4):
        np.testing.assert_array_equal(model(images(batch))[0], reference(images(batch))[0])
    assert model.library.inputs(model.context, None)[0].shape == (4, 3, 32, 32)


def test_the_default_shape_is_the_best_one(model: Model) -> None:
    assert model.library.inputs(model.context, None)[0].shape == (4, 3, 32, 32)
    assert model.library.run(model.context) == c_library.NOT_SET
    assert model.library.error(model.context) == "input 'data' has no value"


def test_outputs_in_the_memory_of_the_caller(model: Model, reference: Any) -> None:
    (expected,) = reference(images(4))
    name = model.library.outputs(model.context, None)[0].name
    own = np.zeros_like(expected)
    assert model.library.bind(model.context, name, own.ctypes.data, own.nbytes - 4) == c_library.INVALID
    assert model.library.bind(model.context, name, own.ctypes.data, own.nbytes) == c_library.OK
    np.testing.assert_array_equal(model(images(4))[0], expected)
    np.testing.assert_array_equal(own, expected)
    assert model.library.get(model.context, name).contents.data == own.ctypes.data


WRONG: Sequence[tuple[str, Any, str]] = (
    ("name", lambda m, x: m.library.set(m.context, b"dta", x.ctypes.data, x.nbytes), "convnet has no input 'dta'"),
    ("no name", lambda m, x: m.library.set(m.context, None, x.ctypes.data, x.nbytes), "the name of an input is NULL"),
    ("bytes", lambda m, x: m.library.set(m.context, b"data", x.ctypes.data, 7), "has 7 bytes: data (4, 3, 32, 32) of"),
    ("memory", lambda m, x: m.library.set(m.context, b"data", None, x.nbytes), "the memory of input 'data' is NULL"),
    ("shape", lambda m, _: reshape(m, 7, 3, 32, 32), "does not take data (7, 3, 32, 32): it takes data [1..4..6, 3,"),
    ("rank", lambda m, _: reshape(m, *([1] * 70)), "has an invalid rank"),
    ("no shape", lambda m, _: m.library.reshape(m.context, b"data", None, 4), "is NULL"),
    ("output", lambda m, _: m.library.bind(m.context, b"y", None, 0), "convnet has no output 'y': it has"),
    ("context", lambda m, _: m.library.run(None), "the context is NULL"),
)


def reshape(model: Model, *shape: int) -> int:
    return model.library.reshape(model.context, b"data", (ctypes.c_int64 * len(shape))(*shape), len(shape))


@pytest.mark.parametrize(("call", "text"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_calls(model: Model, call: Any, text: str) -> None:
    assert call(model, images(4)) == c_library.INVALID
    assert text in model.library.error(model.context)
    assert model.library.get(model.context, b"nothing") is not True
    assert model(images(4))[0].shape[0] == 4
    assert model.library.error(model.context) == ""


def test_a_library_can_be_unloaded(folder: Path, reference: Any, tmp_path: Path) -> None:
    shutil.copy(folder / "libconvnet.so", tmp_path)
    for _ in range(3):
        loaded = Library(tmp_path, "convnet")
        assert str(tmp_path) in Path("/proc/self/maps").read_text()
        own = Model(loaded)
        np.testing.assert_array_equal(own(images(4))[0], reference(images(4))[0])
        own.close()
        _ctypes.dlclose(loaded.handle)
        assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_wrong_options(library: Library) -> None:
    size = ctypes.sizeof(Options)
    for options, text in (
        (Options(size - 8), "begin with MXF_OPTIONS"),
        (Options(size, threads=-1), "negative"),
        (Options(size, allocate=1), "one of allocate and release"),
    ):
        assert library.create(ctypes.byref(options)) is None
        assert text in library.error()
    model = Model(library)
    assert library.error(model.context) == "", "the last call did not fail"
    model.close()


def test_null_everywhere(library: Library) -> None:
    library.destroy(None)
    for call in (library.inputs, library.outputs):
        assert not call(None, None)
    assert not library.get(None, None)
    assert library.seed(None, 1) == library.set(None, None, None, 0) == c_library.INVALID
    assert library.error() == "the context is NULL"


def test_contexts_of_several_threads(library: Library, reference: Any) -> None:
    expected = {batch: reference(images(batch))[0] for batch in (1, 4)}
    failures: list[str] = []

    def work(batch: int) -> None:
        own = Model(library)
        for _ in range(20):
            if (own(images(batch))[0] != expected[batch]).any():
                failures.append(f"batch {batch}")
        own.close()

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (1, 4, 4, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def running_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def becomes(condition: Callable[[], bool]) -> bool:
    """True if the condition holds within some seconds: the system lists a thread a little longer than it runs."""
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_threads_on_and_off(library: Library, reference: Any) -> None:
    (expected,) = reference(images(4))
    before = running_threads()
    alone = Model(library, threads=1)
    np.testing.assert_array_equal(alone(images(4))[0], expected)
    assert becomes(lambda: running_threads() <= before)
    if get_num_threads() > 1:
        shared = Model(library, threads=2)
        np.testing.assert_array_equal(shared(images(4))[0], expected)
        during = running_threads()
        shared.close()
        assert becomes(lambda: running_threads() < during)
    alone.close()


def test_threads_of_the_caller(library: Library, reference: Any) -> None:
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
    calls: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, task, ctypes.c_void_p)
    def parallel(user: int, tasks: int, run: Any, argument: int) -> None:
        calls.append(tasks)
        for number in reversed(range(tasks)):
            run(argument, number)

    (expected,) = reference(images(6))
    before = running_threads()
    own = Model(library, threads=2, parallel=ctypes.cast(parallel, ctypes.c_void_p).value)
    np.testing.assert_array_equal(own(images(6))[0], expected)
    assert becomes(lambda: running_threads() <= before)
    assert set(calls) == ({2} if get_num_threads() > 1 else set())
    own.close()


def test_the_callers_allocator(library: Library, reference: Any) -> None:
    blocks: dict[int, Any] = {}

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    def allocate(user: int, nbytes: int) -> int | None:
        if nbytes > limit:
            return None
        block = (ctypes.c_char * (nbytes + 64))()
        address = (ctypes.addressof(block) + 63) // 64 * 64
        ctypes.memset(address, 255, nbytes)
        blocks[address] = block, nbytes
        return address

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    def release(user: int, address: int, nbytes: int) -> None:
        assert blocks.pop(address)[1] == nbytes

    limit = 1 << 30
    addresses = {"allocate": ctypes.cast(allocate, ctypes.c_void_p).value}
    addresses["release"] = ctypes.cast(release, ctypes.c_void_p).value
    own = Model(library, **addresses)
    for batch in (4, 6):
        np.testing.assert_array_equal(own(images(batch))[0], reference(images(batch))[0])
    assert blocks
    own.close()
    assert not blocks
    limit = 4096
    own = Model(library, **addresses)
    with pytest.raises(RuntimeError, match="there is no memory for"):
        own(images(4))
    own.close()
    assert not blocks
    limit = 0
    with pytest.raises(RuntimeError, match="there is no memory for a context"):
        Model(library, **addresses)


# ---------------------------------------------------------------------------- other processors


def test_a_processor_that_lacks_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Need("imaginary", 0x7FFFFFFF, 0, 1, 1)
    monkeypatch.setattr(write, "needs_of", lambda triple, features: [*needs_of(triple, features), absent])
    made = compiled(tmp_path / "net", FIXTURES / "convnet", *SHAPE, "--emit", "shared")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^this processor lacks instructions that the library uses: imaginary$"):
            Model(Library(made, "convnet"))


def test_each_feature_of_a_target_can_be_checked() -> None:
    for machine, flags in (("x86_64", "flags"), ("aarch64", "Features")):
        every = " ".join((*machine_flags._X86_SSE, *machine_flags._X86_AVX2, *machine_flags._X86_AVX512))
        info = {flags: every if machine == "x86_64" else " ".join(machine_flags._AARCH64)}
        target = machine_flags.target_from_cpuinfo(machine, info, {}, 1)
        assert len(needs_of(target.triple, target.features)) >= len(target.features.split(","))
    with pytest.raises(ToolError, match="cannot check at run time for unknown"):
        needs_of("x86_64-unknown-linux-gnu", "+avx,+unknown")


def test_weights_are_packed_at_run_time_for_a_processor_that_this_machine_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs here: the target is one that this machine only seems not to have."""
    level = ("--target", "x86-64-v3")
    if "avx2" not in cpu_flags():
        pytest.skip("it needs a processor with AVX2")
    folder = compiled(tmp_path / "folder", FIXTURES / "convnet", *SHAPE, *level)
    expected = {batch: mx.load_compiled(folder)(images(batch))[0] for batch in (4, 1)}
    monkeypatch.setattr(targets, "cpu_flags", frozenset)
    made = compiled(tmp_path / "net", FIXTURES / "convnet", *SHAPE, *level, "--emit", "shared")
    for _ in range(2):  # the memory is freed with the last context, and prepared again
        contexts = [Model(Library(made, "convnet")) for _ in range(2)]
        for own in contexts:
            for batch in (4, 1):
                np.testing.assert_allclose(own(images(batch))[0], expected[batch], 1e-4, 1e-5)
        for own in contexts:
            own.close()


@pytest.mark.parametrize(("emitted", "file"), [("object", "convnet.o"), ("c", "convnet_code.o")])
def test_objects_for_macos(emitted: str, file: str, tmp_path: Path) -> None:
    target = ("--target", "aarch64-macos", "--emit", emitted)
    made = compiled(tmp_path / "net", FIXTURES / "convnet", *SHAPE, *target, "--predict-api")
    found = read_macho((made / file).read_bytes())
    symbols = {found.symbols.name(i): i for i in np.flatnonzero(~found.symbols.is_local).tolist()}
    public = {name for name, i in symbols.items() if found.symbols.section[i]}
    if emitted == "object":
        assert public == {f"convnet_{name}" for name in FUNCTIONS} | set(PREDICT_FUNCTIONS)
        assert symbols.keys() - public >= {"pthread_create", "vsnprintf", "mmap"}
        assert not symbols.keys() & {"getauxval", "sched_getaffinity", "syscall", "__errno_location"}
    else:
        assert public == {"convnet_data", "convnet_predict_data"}
    (content,) = (s.content for s in found.sections.values() if s.is_code)
    assert content is not None
    code = content.view("<u4")
    add = (code & 0xFF000000) == 0x91000000  # add (immediate): the compiler's most frequent instruction
    assert add.any() and not (code[add] & 31 == 18).any(), "x18 belongs to the system"


def test_a_shared_library_for_macos_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = *SHAPE, "--target", "aarch64-macos", "--emit", "shared", "-o", tmp_path / "out"
    error = refusal(capsys, FIXTURES / "convnet", *arguments)
    assert "pass --emit object, and run there clang -dynamiclib convnet.o -o libconvnet.dylib" in error
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------- programs with special steps


def library_of(net: Any, inputs: Sequence[Any], folder: Path, threads: int = 0) -> tuple[Model, Any]:
    """A block as a library, and in Python."""
    net.hybridize()
    net(*inputs)
    net.export(str(folder / "net"))
    shapes = [f"data{i if len(inputs) > 1 else ''}={','.join(map(str, x.shape))}" for i, x in enumerate(inputs)]
    options = [option for shape in shapes for option in ("--input-shape", shape)]
    compiled(folder / "library", folder / "net", *options, "--emit", "shared")
    own = Model(Library(folder / "library", "net"), seed=7, threads=threads)
    return own, mx.load_compiled(compiled(folder / "folder", folder / "net", *options))


class Draws(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x + F.random.normal(shape=(4, 5)), F.random.uniform(shape=(3,))


def test_random_numbers_are_those_of_the_seed(tmp_path: Path) -> None:
    own, model = library_of(Draws(), [mx.nd.zeros((4, 5))], tmp_path)
    x = np.ones((4, 5), np.float32)
    mx.random.seed(7)
    for _ in range(2):
        for found, expected in zip(own(x), model(x), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert own.library.seed(own.context, 7) == c_library.OK
    mx.random.seed(7)
    np.testing.assert_array_equal(own(x)[0], model(x)[0])


class Repeats(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        outputs, state = F.contrib.foreach(lambda row, s: (row * s, s + row), x, F.sum(x, axis=0) * 0 + 1)
        done, _ = F.contrib.while_loop(lambda s: F.sum(s) < 900, lambda s: (s, s * 2), [state], max_iterations=6)
        return outputs, F.contrib.cond(F.sum(state) > 0, lambda: state * 3, lambda: state - 3), done


@pytest.mark.parametrize("threads", [0, 1])
def test_loops_and_branches(threads: int, tmp_path: Path) -> None:
    own, model = library_of(Repeats(), [mx.nd.zeros((5, 40))], tmp_path, threads=threads)
    for sign in (1, -1):
        x = sign * np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32) ** 2
        for found, expected in zip(own(x), model(x), strict=True):
            np.testing.assert_array_equal(found, expected)


def moved(size: int) -> Program:
    """Replaces its first input, a state, by half of it plus the second, minus its mean."""
    b = GraphBuilder("moved")
    state, y = (b.input(TensorType((size,), DType.F32)) for _ in range(2))
    mean = b.node(lookup("mean").parse({"keepdims": True}), y).outputs[0]
    apart = b.node(lookup("broadcast_sub").parse({}), y, mean).outputs[0]
    half = b.node(lookup("_mul_scalar").parse({"scalar": 0.5}), state).outputs[0]
    graph = replace(b.build([b.node(lookup("elemwise_add").parse({}), half, apart).outputs[0]]), updates=(0,))
    return compile_program(graph, CompileOptions(), HOST)


def test_states_and_groups_of_launches(tmp_path: Path) -> None:
    programs = [moved(size) for size in (9, 200, 50_000)]
    types = [t for program in programs for t in program.inputs]
    together = parallel("all", types, [Use(p, (2 * i, 2 * i + 1)) for i, p in enumerate(programs)])
    assert together.state == (0, 2, 4) and any(n > 1 for n in together.groups)
    arguments = tuple(Argument(f"x{i}", type) for i, type in enumerate(types))
    stored = StoredModel("all", arguments, (), *freeze(together, {}))
    write.write_library(tmp_path, library_model(stored), HOST.requirements(), "shared")
    own = Model(Library(tmp_path, "all"))
    arrays = [np.random.default_rng(i).standard_normal(t.shape, np.float32) for i, t in enumerate(types)]
    given = [a.copy() for a in arrays]
    for array, argument in zip(given, arguments, strict=True):
        own.library.set(own.context, argument.name.encode(), array.ctypes.data, array.nbytes)
    for _ in range(2):
        assert own.library.run(own.context) == c_library.OK
        for i in (0, 2, 4):
            arrays[i] = arrays[i] / 2 + arrays[i + 1] - arrays[i + 1].mean()
            np.testing.assert_allclose(own.library.inputs(own.context, None)[i].array(), arrays[i], 1e-4, 1e-5)
    for i in (0, 2, 4):
        assert (given[i] != own.library.inputs(own.context, None)[i].array()).any()
    own.close()


class Sums(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return x + y


def test_shapes_that_do_not_agree(tmp_path: Path) -> None:
    net = Sums()
    net.hybridize()
    net(mx.nd.zeros((2, 4)), mx.nd.zeros((2, 4)))
    net.export(str(tmp_path / "net"))
    shapes = ("--input-shape", "data0=1..2..3,4", "data1=1..2..3,4", "--emit", "shared")
    own = Model(Library(compiled(tmp_path / "library", tmp_path / "net", *shapes), "net"))
    for rows in (3, 1):
        ones = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(own(ones, ones)[0], 2 * ones)
    with pytest.raises(RuntimeError, match=r"net has no program for data0 \(3, 4\), data1 \(2, 4\); it takes data0 \["):
        own(np.ones((3, 4), np.float32), np.ones((2, 4), np.float32))
    own.close()


class Picks(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.take(F.arange(5), x, mode="raise")


def test_values_for_which_an_operator_is_not_defined(tmp_path: Path) -> None:
    own, _ = library_of(Picks(), [mx.nd.zeros((3,))], tmp_path)
    np.testing.assert_array_equal(own(np.array([1, 4, 0], np.float32))[0], [1, 4, 0])
    with pytest.raises(RuntimeError, match="take: indices are out of bounds for axis 0"):
        own(np.array([1, 5, 0], np.float32))
    np.testing.assert_array_equal(own(np.array([2, 2, 2], np.float32))[0], [2, 2, 2])


class Doubles(mx.operator.CustomOp):
    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], in_data[0] * 2)


@mx.operator.register("doubles_in_python")
class DoublesProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Doubles:
        return Doubles()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The error of a compilation."""
    capsys.readouterr()
    assert main(["compile", *map(str, arguments)]) in (1, 2)
    return capsys.readouterr().err


def test_what_python_computes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    symbol = mx.sym.Custom(mx.sym.var("data"), op_type="doubles_in_python", name="twice")
    symbol.save(str(tmp_path / "net-symbol.json"))
    error = refusal(capsys, tmp_path / "net", "-o", tmp_path / "out", "--input-shape", "data=3,5", "--emit", "shared")
    assert "net: a library has no Python, which computes twice" in error
    assert not (tmp_path / "out").exists()


def test_refused_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, shape = FIXTURES / "convnet", ("--input-shape", "data=1,3,32,32")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    out = "-o", str(tmp_path / "out")
    for arguments, text in (
        (("-o", str(tmp_path / "full"), "--emit", "c"), "already exists"),
        ((*out, "--target", "aarch64-linux"), "is for libraries: pass --emit shared, object or c"),
        ((*out, "--target", "cuda-sm90", "--emit", "shared"), "--emit shared is for programs on the CPU"),
    ):
        assert text in refusal(capsys, model, *shape, *arguments)


def test_names_of_models_become_names_in_c() -> None:
    names = {"net": "net", "res-net.v1": "res_net_v1", "7": "model_7", "int": "model_int", "_x": "model__x"}
    taken = {name: f"model_{name}" for name in ("mxforge", "mxf", "std")}  # mxforge.h, mxf_run, namespace std
    assert {name: c_name(name) for name in {**names, **taken}} == {**names, **taken}
