"""Programs in C and C++ that use the libraries of `mxforge compile --emit`, also for AArch64 and with sanitizers.

They are skipped where no C compiler is installed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.elf import merge
from mxforge.codegen.macho.reader import read_any
from mxforge.tools import make_native
from support.c_library import FIXTURES, SHAPE, compiled

MACOS = ("--target", "aarch64-macos")
ROOT = Path(mx.__file__).resolve().parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library") / "net", FIXTURES / "convnet", *SHAPE, "--emit", "shared")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as source, with the C predict API."""
    made = tmp_path_factory.mktemp("source") / "net"
    return compiled(made, FIXTURES / "convnet", *SHAPE, "--emit", "c", "--predict-api")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same model in Python."""
    return mx.load_compiled(compiled(tmp_path_factory.mktemp("folder") / "net", FIXTURES / "convnet", *SHAPE))


PROGRAM = r"""
#include <stdio.h>
#include "convnet.h"

int main(void)
{
    convnet_context *context = convnet_create(NULL);
    static float x[4 * 3 * 32 * 32];
    for (int i = 0; i < 4 * 3 * 32 * 32; i++)
        x[i] = (float)i / 4096;
    if (!context || convnet_set(context, "data", x, sizeof x) || convnet_run(context)) {
        puts(convnet_error(context));
        return 1;
    }
    const mxf_tensor *y = convnet_outputs(context, NULL);
    fwrite(y->data, 1, y->bytes, stdout);
    convnet_destroy(context);
    return 0;
}
"""

PROGRAM_CPP = r"""
#include <cstdio>
#include "convnet.hpp"

int main()
{
    convnet model;
    std::vector<float> x(4 * 3 * 32 * 32);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<float>(i) / 4096;
    model.set("data", x);
    model.run();
    const mxf_tensor &y = model.get(NAME);
    std::fwrite(y.data, 1, y.bytes, stdout);
    try {
        model.set("other", x);
    } catch (const std::runtime_error &) {
        return 0;
    }
    return 1;
}
"""


@pytest.mark.parametrize("emitted", ["shared", "object", "c", "c++"])
def test_programs(emitted: str, folder: Path, source: Path, reference: Any, tmp_path: Path) -> None:
    compiler = shutil.which("g++" if emitted == "c++" else "gcc")
    if compiler is None:
        pytest.skip("gcc is missing")
    made = {"c": source, "object": tmp_path / "net"}.get(emitted, folder)
    if emitted == "object":
        compiled(made, FIXTURES / "convnet", *SHAPE, "--emit", emitted, "--predict-api")
    x = (np.arange(4 * 3 * 32 * 32, dtype=np.float32) / 4096).reshape(4, 3, 32, 32)
    (expected,) = reference(x)
    name = reference.output_names[0]
    program = tmp_path / ("main.cpp" if emitted == "c++" else "main.c")
    program.write_text(PROGRAM_CPP.replace("NAME", f'"{name}"') if emitted == "c++" else PROGRAM)
    files: dict[str, list[str | Path]] = {
        "object": [made / "convnet.o"],
        "c": [made / "convnet.c", made / "convnet_predict.c", made / "convnet_code.o"],
    }
    linked = files.get(emitted, [made / "libconvnet.so", f"-Wl,-rpath,{made}"])
    standard = "-std=c++11" if emitted == "c++" else "-std=c11"
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
    options = [standard, "-O1", *warnings, "-I", made, "-pthread", "-o", tmp_path / "run"]
    command = [compiler, *options, program, *linked, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = subprocess.run([tmp_path / "run"], capture_output=True, check=True).stdout
    np.testing.assert_array_equal(np.frombuffer(found, np.float32).reshape(expected.shape), expected)


STRESS = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "convnet.h"

static float x[6 * 3 * 32 * 32], expected[10];
static convnet_context *shared;

static void *work(void *number)
{
    for (long i = (long)number; i < (long)number + 12; i++) {
        mxf_options options = MXF_OPTIONS;
        options.threads = (int32_t)(i % 3);
        convnet_context *own = convnet_create(&options);
        int64_t shape[] = {1 + i % 6, 3, 32, 32};
        size_t bytes = (size_t)shape[0] * 3 * 32 * 32 * sizeof *x;
        if (!own || convnet_shape(own, "data", shape, 4) || convnet_set(own, "data", x, bytes) || convnet_run(own))
            return (void *)convnet_error(own);
        const mxf_tensor *y = convnet_outputs(own, NULL);
        if (i % 6 == 3 && memcmp(y->data, expected, sizeof expected))
            return "other results";
        convnet_destroy(own);
        mxf_status status = convnet_run(shared);
        if (status != MXF_OK && status != MXF_BUSY)
            return "another status";
    }
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 6 * 3 * 32 * 32; i++)
        x[i] = (float)(i % 97) / 97;
    shared = convnet_create(NULL);
    convnet_set(shared, "data", x, 4 * 3 * 32 * 32 * 4);
    convnet_run(shared);
    memcpy(expected, convnet_outputs(shared, NULL)->data, sizeof expected);
    pthread_t threads[5];
    const char *problem = NULL;
    for (long i = 0; i < 5; i++)
        pthread_create(threads + i, NULL, work, (void *)i);
    for (int i = 0; i < 5; i++) {
        void *text;
        pthread_join(threads[i], &text);
        problem = text ? text : problem;
    }
    convnet_destroy(shared);
    puts(problem ? problem : "done");
    return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_contexts_have_no_data_race_and_no_wrong_access(sanitizer: str, source: Path, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing")
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    flags = (f"-fsanitize={sanitizer}", "-O1", "-g")
    for command in ([compiler, *flags, tmp_path / "empty.c", "-o", tmp_path / "empty"], [tmp_path / "empty"]):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(f"gcc's sanitizer {sanitizer} does not work here")
    (tmp_path / "main.c").write_text(STRESS)
    files = [tmp_path / "main.c", source / "convnet.c", source / "convnet_code.o"]
    subprocess.run([compiler, *flags, "-I", source, *files, "-pthread", "-lm", "-o", tmp_path / "run"], check=True)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_the_program_of_the_page(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing")
    for suffix in ("-symbol.json", "-0000.params"):
        shutil.copy(FIXTURES / f"convnet{suffix}", tmp_path / f"classifier{suffix}")
    made = compiled(
        tmp_path / "library", tmp_path / "classifier", "--input-shape", "data=1,3,32,32", "--emit", "shared"
    )
    page = (ROOT / "docs" / "deploy-c.md").read_text()
    source = page.partition("```c\n")[2].partition("```\n")[0].replace("SIDE = 64", "SIDE = 32")
    (tmp_path / "image.c").write_text(source)
    files = [tmp_path / "image.c", made / "libclassifier.so", f"-Wl,-rpath,{made}"]
    command = [compiler, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", made, *files, "-o", tmp_path / "image"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    (tmp_path / "x.ppm").write_bytes(b"P6\n32 32\n255\n" + pixels.tobytes())
    done = subprocess.run([tmp_path / "image", tmp_path / "x.ppm"], capture_output=True, text=True, check=False)
    folder = compiled(tmp_path / "folder", tmp_path / "classifier", "--input-shape", "data=1,3,32,32")
    (scores,) = mx.load_compiled(folder)(pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255)
    assert done.stdout == f"class {scores.argmax()}: {scores.max():g}\n", done.stderr
    assert subprocess.run([tmp_path / "image"], capture_output=True, check=False).returncode == 1


def test_a_library_for_aarch64(tmp_path: Path, reference: Any) -> None:
    """It runs under qemu-user, and its weights are packed when it is loaded."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("it needs qemu-user and a C compiler for AArch64 (Debian: qemu-user gcc-aarch64-linux-gnu)")
    made = tmp_path / "net"
    compiled(made, FIXTURES / "convnet", *SHAPE, "--emit", "shared", "--target", "aarch64-linux", "--threads", "2")
    (tmp_path / "main.c").write_text(PROGRAM)
    files = [tmp_path / "main.c", made / "libconvnet.so", f"-Wl,-rpath,{made}"]
    done = subprocess.run([compiler, "-O1", "-I", made, *files, "-o", tmp_path / "run"], check=False)
    assert done.returncode == 0
    command = [emulator, "-L", "/usr/aarch64-linux-gnu", tmp_path / "run"]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    (expected,) = reference((np.arange(4 * 3 * 32 * 32, dtype=np.float32) / 4096).reshape(4, 3, 32, 32))
    np.testing.assert_allclose(np.frombuffer(found, np.float32).reshape(expected.shape), expected, 1e-4, 1e-5)


def test_the_code_of_an_object_for_macos(tmp_path: Path, reference: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels, tables and weights run on Linux under qemu-user: converted to ELF, with the C code for Linux."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("it needs qemu-user and a C compiler for AArch64 (Debian: qemu-user gcc-aarch64-linux-gnu)")
    made = compiled(tmp_path / "net", FIXTURES / "convnet", *SHAPE, *MACOS, "--emit", "c")
    monkeypatch.setattr(merge, "read_object", read_any)
    code = merge.link_object([(made / "convnet_code.o").read_bytes()], {"convnet_data": "convnet_data"})
    (tmp_path / "code.o").write_bytes(code)
    (tmp_path / "main.c").write_text(PROGRAM)
    files = [tmp_path / "main.c", made / "convnet.c", tmp_path / "code.o", "-lm"]
    command = [compiler, "-O1", "-pthread", "-static", "-I", made, *files, "-o", tmp_path / "run"]
    assert subprocess.run(command, check=False).returncode == 0
    found = subprocess.run([emulator, tmp_path / "run"], capture_output=True, check=True).stdout
    (expected,) = reference((np.arange(4 * 3 * 32 * 32, dtype=np.float32) / 4096).reshape(4, 3, 32, 32))
    np.testing.assert_allclose(np.frombuffer(found, np.float32).reshape(expected.shape), expected, 1e-4, 1e-5)


def test_the_c_code_of_a_library_compiles_for_macos(tmp_path: Path) -> None:
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("it needs clang (Debian: clang)")
    made = compiled(tmp_path / "net", FIXTURES / "convnet", *SHAPE, *MACOS, "--emit", "c", "--predict-api")
    headers = make_native.darwin_headers(tmp_path / "headers")
    flags = ["-Wall", "-Wextra", "-Werror", "-ffreestanding", *make_native.DARWIN, *headers]
    for name in ("convnet", "convnet_predict"):
        command = [clang, *flags, "-I", make_native.SOURCES, "-c", made / f"{name}.c", "-o", tmp_path / f"{name}.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = read_any((tmp_path / f"{name}.o").read_bytes())
        assert "convnet_run" in {found.symbols.name(i) for i in range(len(found.symbols))}
