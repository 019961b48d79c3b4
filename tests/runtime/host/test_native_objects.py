"""The objects of the C sources: up to date, linked without Python, free of data races, and compiled again where gcc is.

`pool_stress.c` is a program of its own, without Python, that uses the pool from several threads at once.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from mxforge.codegen import records as layout
from mxforge.codegen.elf.reader import ObjectFile, read_object
from mxforge.codegen.llvm import pool as numbers
from mxforge.codegen.macho.reader import read_any
from mxforge.runtime.device import DeviceError
from mxforge.runtime.host.loader import LoadedObject, load_object, resolve_libc
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.host.native_objects import (
    AARCH64,
    CUDA_LAUNCHES,
    MACOS,
    MODEL,
    OBJECTS,
    POOL,
    PREDICT,
    PYTHON_CALLS,
    SOURCES,
    X86_64,
    machine_of,
    native_object,
    object_file,
)
from mxforge.runtime.host.threads import ThreadPool
from mxforge.tools import make_native
from mxforge.tools.library.header import FUNCTIONS, PREDICT_FUNCTIONS
from mxforge.tools.make_native import DIGEST_SECTION, CompilerMissing, compile_source, source_digest
from mxforge.tools.make_native import OBJECTS as OF_MACHINE

pytestmark = pytest.mark.any_processor

ROOT = Path(__file__).resolve().parents[3]
STRESS = Path(__file__).with_name("pool_stress.c")
MACHINES = tuple(OF_MACHINE)
LINUX = (X86_64, AARCH64)
EACH = [(name, machine) for machine, names in OF_MACHINE.items() for name in names]
MACHINE = machine_of(host_target().triple)
C_LIBRARY = {
    *("pthread_create", "pthread_join", "pthread_setaffinity_np", "pthread_sigmask", "sigfillset"),
    *("sched_getaffinity", "sched_getcpu", "sched_yield", "clock_gettime", "syscall"),
    *("mmap", "madvise", "calloc", "free", "memcpy", "memset", "__errno_location"),
}
MODEL_LIBRARY = {
    *("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_once", "pthread_key_create"),
    *("pthread_getspecific", "pthread_setspecific", "sched_getaffinity", "__sched_cpucount", "mmap", "munmap"),
    *("fopen", "fclose", "__isoc99_fscanf", "snprintf", "vsnprintf"),
    *("malloc", "memcmp", "memcpy", "memset", "strcmp", "strncmp", "strlen", "getauxval", "calloc", "free"),
}
DARWIN = {
    *("__error", "clock_gettime_nsec_np", "sysconf"),
    *("pthread_atfork", "pthread_cond_broadcast", "pthread_cond_wait", "pthread_mutex_lock", "pthread_mutex_unlock"),
}
PYTHON = {"PyLong_AsVoidPtr", "PyErr_Occurred", "PyErr_SetString", "PyErr_BadArgument", "Py_IncRef"}
PUBLIC = {"mxf_open", "mxf_run", "mxf_resize", "mxf_stop", "mxf_threads", *layout.KERNELS}


def undefined(found: ObjectFile) -> set[str]:
    """The external symbols that code refers to."""
    symbols = {int(i) for table in found.relocations for i in table.symbol if found.symbols.section[i] == 0}
    return {found.symbols.name(i) for i in symbols - {0}}


def defined(found: ObjectFile) -> set[str]:
    symbols = found.symbols
    return {symbols.name(i) for i in range(len(symbols)) if symbols.section[i] > 0 and not symbols.is_local[i]}


@pytest.mark.parametrize(("name", "machine"), EACH)
def test_objects_belong_to_the_sources(name: str, machine: str) -> None:
    found = read_any(native_object(name, machine))
    assert found.architecture.name.replace("-", "_") == machine.partition("-")[0]
    content = next(s.content for s in found.sections.values() if s.name == DIGEST_SECTION)
    assert content is not None
    assert content.tobytes().rstrip(b"\0").decode() == source_digest(machine), (
        "run: python -m mxforge.tools.make_native"
    )


def test_the_package_has_these_objects_and_no_others() -> None:
    assert set(OBJECTS.glob("*.o")) == {object_file(*each) for each in EACH}
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert packaged["mxforge.runtime.host"] == ["objects/*.o", "objects/*.kernels", "native/*.c", "native/*.h"]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_pool_needs_only_the_c_library(machine: str) -> None:
    found = read_any(native_object(POOL, machine))
    assert undefined(found) <= C_LIBRARY | (DARWIN if machine == MACOS else set())
    assert defined(found) == PUBLIC


@pytest.mark.parametrize("machine", MACHINES)
def test_models_need_the_pool_and_the_c_library(machine: str) -> None:
    own = {f"model_{name}" for name in FUNCTIONS}
    found = read_any(native_object(MODEL, machine))
    assert undefined(found) <= MODEL_LIBRARY | PUBLIC | {"model_data"} | (DARWIN if machine == MACOS else set())
    assert defined(found) == own
    found = read_any(native_object(PREDICT, machine))
    assert undefined(found) <= MODEL_LIBRARY | own | {"predict_data"}
    assert defined(found) == set(PREDICT_FUNCTIONS)


@pytest.mark.parametrize("machine", LINUX)
def test_calls_from_python_need_the_pool_and_pythons_stable_interface(machine: str) -> None:
    assert undefined(read_object(native_object(PYTHON_CALLS, machine))) == PYTHON | {numbers.RUN}


@pytest.mark.parametrize("machine", LINUX)
def test_launches_on_cuda_need_nothing(machine: str) -> None:
    found = read_object(native_object(CUDA_LAUNCHES, machine))
    assert undefined(found) == set()
    assert defined(found) == {"mxf_cuda_start", "mxf_cuda_replay"}


def test_numbers_are_those_of_the_c_header() -> None:
    defines = re.findall(r"^#define MXF_(\w+) (\d+)", (SOURCES / "pool.h").read_text(), re.MULTILINE)
    known = ({**vars(numbers), **vars(layout)} | {"COPIED": None}).items()  # the host chooses how much a thread copies
    assert {name: int(value) for name, value in defines} == {
        name: value for name, value in known if re.match("[A-Z]+$|[A-Z][A-Z_]+$", name) and isinstance(value, int)
    }


def run_records(pool: LoadedObject, *records: tuple[int, int, int, int]) -> None:
    words = np.array(records, np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(pool.address(numbers.RUN))
    run(words.ctypes.data, len(records))


def test_the_pool_loads_and_runs_without_python() -> None:
    """No function of Python is within its reach. It works alone until it is opened, then with a worker."""
    pool = load_object(this_machines(POOL), lambda name: 0 if name.startswith("Py") else resolve_libc(name))
    pool.keep_forever()
    source, target = np.arange(100_000.0), np.zeros(100_000)
    pointers = np.array([target.ctypes.data, source.ctypes.data], np.int64)
    copy = pool.address(layout.COPY), int(pointers.ctypes.data), target.nbytes, 1000
    run_records(pool, copy)
    assert (target == source).all()
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)(pool.address("mxf_open"))(2, 1000) == 0
    source += 1
    run_records(pool, copy, copy)
    assert (target == source).all()
    ctypes.CFUNCTYPE(None)(pool.address("mxf_stop"))()


def this_machines(name: str) -> bytes:
    return native_object(name, MACHINE)


# ---------------------------------------------------------------------------- with a C compiler

WARNINGS = ("-Wall", "-Wextra", "-Werror")


def gcc(arguments: Sequence[str | Path], output: Path) -> Path:
    """Compile and link a program for this machine."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing")
    command = [compiler, "-std=gnu11", "-g", *WARNINGS, "-pthread", "-I", SOURCES, *arguments, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@pytest.mark.parametrize(("name", "machine"), EACH)
def test_sources_compile_without_warnings(name: str, machine: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        data = compile_source(name, machine)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    assert capfd.readouterr() == ("", "")
    made, committed = read_any(data), read_any(native_object(name, machine))
    assert (defined(made), undefined(made) - {"memset"}) == (defined(committed), undefined(committed) - {"memset"})


def test_the_committed_object_and_a_new_one_run_alike(tmp_path: Path) -> None:
    try:
        made = compile_source(POOL, MACHINE)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    printed: list[str] = []
    for name, data in (("committed", native_object(POOL, MACHINE)), ("made", made)):
        (tmp_path / f"{name}.o").write_bytes(data)
        program = gcc([STRESS, tmp_path / f"{name}.o"], tmp_path / name)
        done = subprocess.run([program, "200"], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout)
    assert printed[0].endswith("done\n")
    assert printed[0] == printed[1]


@pytest.fixture(params=["committed", "made"])
def threads(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    """A pool of two threads, of the objects in the package and of new ones."""
    try:
        load = native_object if request.param == "committed" else compile_source
        pool = ThreadPool(2, load(POOL, MACHINE), load(PYTHON_CALLS, MACHINE))
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    yield pool
    pool.close()


def test_calls_from_python_write_addresses_and_refuse_others(threads: ThreadPool) -> None:
    source, target = np.arange(100_000.0), np.zeros(100_000)
    pointers = np.zeros(2, np.int64)
    words = np.array([threads.kernels[layout.COPY], pointers.ctypes.data, target.nbytes - 8, 1000], np.int64)
    patches = [(0, int(pointers.ctypes.data), 8), (1, int(pointers.ctypes.data) + 8, 8)]
    records, owner, version = (int(words.ctypes.data), 1), (pointers, words), object()
    call = threads.direct_calls.function(records, 2, patches, owner)
    bound = threads.direct_calls.function(records, 2, patches, owner, version)
    addresses = int(target.ctypes.data), int(source.ctypes.data)
    for run in (lambda: call(*addresses), lambda: bound(*addresses, version)):
        target[:] = -1
        run()
        assert target[0] == -1
        assert (target[1:] == source[1:]).all()
    target[:] = -1
    for refused in (lambda: call("0", addresses[1]), lambda: call(*addresses, None), lambda: bound(*addresses, None)):
        with pytest.raises(DeviceError, match="memory of another device"):
            refused()
    with pytest.raises(TypeError):
        call(addresses[0])
    threads.direct_calls.refuse(True)
    with pytest.raises(DeviceError, match="launches are observed"):
        call(*addresses)
    threads.direct_calls.refuse(False)
    assert (target == -1).all()


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_native.shutil, "which", lambda name: None)
    with pytest.raises(CompilerMissing, match=r"^aarch64-linux-gnu-gcc is missing: .* \(Debian: gcc-aarch64-linux"):
        compile_source(POOL, AARCH64)
    with pytest.raises(CompilerMissing, match=r"^clang is missing: .* for aarch64-macos \(Debian: clang\)$"):
        compile_source(POOL, MACOS)


# ---------------------------------------------------------------------------- ThreadSanitizer


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for programs with ThreadSanitizer. Skips where gcc lacks it, or where the system refuses its memory."""
    folder = tmp_path_factory.mktemp("sanitized")
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing")
    for command in ([compiler, "-fsanitize=thread", "empty.c", "-o", "empty"], ["./empty"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"ThreadSanitizer does not work here: {done.stderr.strip()}")
    return folder


def stress(folder: Path, pool: str, rounds: int) -> subprocess.CompletedProcess[str]:
    """Run the program with ThreadSanitizer and this text of the pool."""
    (folder / "pool.c").write_text(pool)
    program = gcc(["-O1", "-fsanitize=thread", STRESS, folder / "pool.c"], folder / "stress")
    return subprocess.run([program, str(rounds)], capture_output=True, text=True, timeout=300, check=False)


def test_the_pool_has_no_data_race(sanitized: Path) -> None:
    done = stress(sanitized, (SOURCES / "pool.c").read_text(), 300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("done\n")


# Each set of weaker orders lets a thread see the description of a launch too early or too late, or two threads own the
# workers. A launch begins with two stores; a worker that sees either of them sees what came before.
BEGIN = {
    "(&pool->ranges, ranges, memory_order_release)": "(&pool->ranges, ranges, memory_order_relaxed)",
    "(&pool->epoch, 1);\n    if": "_explicit(&pool->epoch, 1, memory_order_relaxed);\n    if",
}
DONE = {"atomic_fetch_add(&pool->done, size)": "atomic_fetch_add_explicit(&pool->done, size, memory_order_relaxed)"}
BUSY = {"(&pool->busy, 0, memory_order_release)": "(&pool->busy, 0, memory_order_relaxed)"}
SPIN = {"(atomic_load_explicit(word, memory_order_acquire)": "(atomic_load_explicit(word, memory_order_relaxed)"}


@pytest.mark.parametrize("weaker", [BEGIN, DONE, BUSY, SPIN], ids=["begin", "done", "busy", "spin"])
def test_the_sanitizer_reports_weaker_orders(sanitized: Path, weaker: dict[str, str]) -> None:
    """So the program that finds no race is able to find one."""
    text = (SOURCES / "pool.c").read_text()
    for order, other in weaker.items():
        assert text.count(order) == 1
        text = text.replace(order, other)
    assert "ThreadSanitizer: data race" in stress(sanitized, text, 60).stderr
