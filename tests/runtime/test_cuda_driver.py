"""The CUDA driver: what is missing and how to get it, forks, and the forms of its calls."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.records import COPY, FILL
from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.runtime import idle
from mxforge.runtime.cuda import driver
from mxforge.runtime.cuda.device import CudaDevice
from mxforge.runtime.cuda.launches import CudaKernel, _Graph
from mxforge.runtime.launch_list import BoundLaunch
from processes import run_apart

pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
from support import fake_cuda_objects as fakes
from support import fake_gpu
from support.fake_cuda import FakeCuda

pytestmark = pytest.mark.any_processor
nd = mx.nd
MISSING = "cuda-bindings is not installed: pip install mxforge[cuda]"


def cannot_load(flags: int) -> None:
    raise RuntimeError("libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    "module, message",
    [
        (None, r"the package cuda-bindings is not installed: pip install mxforge\[cuda\]"),
        (
            SimpleNamespace(cuInit=cannot_load),
            r"\(libcuda.so.1\) cannot be loaded: install NVIDIA's driver, version 525",
        ),
        (FakeCuda(version=11040), r"the NVIDIA driver is for CUDA 11.4: install NVIDIA's driver, version 525 or newer"),
        (FakeCuda(devices=0), r"the NVIDIA driver finds no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES"),
    ],
)
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, module: Any, message: str) -> None:
    fake_gpu.install(monkeypatch, module)
    assert mx.context.num_gpus() == 0
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match=rf"gpu\(0\) cannot be used: .*{message}.*\. Use cpu\(\)\.") as caught:
            nd.ones((2,), ctx=mx.gpu(0))
        assert "\n" not in str(caught.value)
    assert nd.ones((2,)).asnumpy().tolist() == [1, 1]


def test_nothing_of_it_is_imported_with_mxforge(tmp_path: Path) -> None:
    run_apart(
        "import sys, mxforge as mx; mx.nd.ones((2,)).asnumpy()\n"
        "late = 'cuda', 'mxforge.runtime.cuda', 'mxforge.codegen.triton'\n"
        "assert not [module for module in sys.modules if module.startswith(late)]",
        tmp_path,
    )


def test_a_forked_child_cannot_use_gpus(fake_cuda: FakeCuda) -> None:
    x = nd.ones((3,), ctx=mx.gpu(0))
    x.wait_to_read()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        texts: list[str] = []
        y = x
        for use in (x.asnumpy, lambda: y + y, lambda: nd.ones((2,), ctx=mx.gpu(1))):
            try:
                use()
                texts.append("no error")
            except BaseException as error:
                texts.append(f"{type(error).__name__}: {error}")
        with idle.returned_to_the_system():
            del x  # programs on the host do this
        texts.append(str(nd.ones((2,)).asnumpy().tolist()))
        os.write(writing, "\n".join(texts).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    assert os.waitpid(child, 0)[1] == 0
    assert len(lines) == 4 and lines[-1] == "[1.0, 1.0]"
    for line in lines[:-1]:
        assert line.startswith("MXNetError: this process was forked after CUDA had started"), line
    assert x.asnumpy().tolist() == [1] * 3, "the parent goes on"


def test_the_data_loader_works_in_forked_workers(fake_cuda: FakeCuda) -> None:
    nd.ones((3,), ctx=mx.gpu(0)).wait_to_read()
    data = mx.gluon.data.ArrayDataset(np.arange(12, dtype=np.float32).reshape(6, 2))
    batches = [b.as_in_context(mx.gpu(0)) for b in mx.gluon.data.DataLoader(data, batch_size=2, num_workers=2)]
    assert np.concatenate([b.asnumpy() for b in batches]).tolist() == np.arange(12).reshape(6, 2).tolist()


def test_the_fake_driver_has_the_functions_of_the_real_one() -> None:
    """Names and parameters of functions, codes, and fields of structures."""
    real = pytest.importorskip("cuda.bindings.driver", reason=MISSING)
    functions = [name for name in dir(FakeCuda) if re.match("cu[A-Z]", name)]
    for name in functions:
        if name in ("cuuint64_t",):
            continue
        line = getattr(real, name).__doc__.splitlines()[0]
        names = [re.split(r"[ *]", part.split(":")[0])[-1] for part in _parameters(line)]
        code = getattr(FakeCuda, name)
        code = getattr(code, "__wrapped__", code).__code__
        assert names == [*code.co_varnames[1 : code.co_argcount]], line
    for enum in (fakes.CUresult, fakes.CUdevice_attribute, fakes.CUmemPool_attribute, fakes.CUfunction_attribute):
        for member in enum:
            assert int(getattr(getattr(real, enum.__name__), member.name)) == member
    for enum in (fakes.CUmemorytype, fakes.CUmemLocationType, fakes.CUmemAccess_flags):
        for member in enum:
            assert int(getattr(getattr(real, enum.__name__), member.name)) == member


def _parameters(line: str) -> Iterator[str]:
    """The parameters in a signature; types can contain commas."""
    inside = line[line.index("(") + 1 : line.rindex(")")]
    for part in re.split(r", (?![^\[]*\])", inside):
        if part:
            name = part.split(":")[0]
            yield name


def test_the_structures_of_the_real_driver_take_the_parameters_of_nodes() -> None:
    real = pytest.importorskip("cuda.bindings.driver", reason=MISSING)
    graph: Any = object.__new__(_Graph)
    graph._device = SimpleNamespace(driver=real)
    graph._launches = SimpleNamespace(arguments=lambda launch: [4096, 8192][: 2 if launch.kernel == COPY else 1])
    step: Any = None
    copy = graph._copy(BoundLaunch(step, COPY, 100, 0, 2))
    assert (int(copy.dstDevice), int(copy.srcDevice), copy.WidthInBytes, copy.Height) == (4096, 8192, 100, 1)
    assert int(copy.srcMemoryType) == int(copy.dstMemoryType) == fakes.CUmemorytype.CU_MEMORYTYPE_DEVICE
    fill = graph._fill(BoundLaunch(step, FILL, 100, 0, 1))
    assert (int(fill.dst), fill.value, fill.elementSize, fill.width, fill.height) == (4096, 0, 1, 100, 1)
    pointers = (ctypes.c_void_p * 2)(1, 2)
    kernel = CudaKernel("k", real.CUfunction(4096), 128, 1024, 2, None)
    node = graph._kernel(BoundLaunch(step, kernel, 7, 0, 2), pointers)
    assert (node.gridDimX, node.gridDimY, node.gridDimZ) == (7, 1, 1)
    assert (node.blockDimX, node.blockDimY, node.blockDimZ, node.sharedMemBytes) == (128, 1, 1, 1024)
    assert node.kernelParams == ctypes.addressof(pointers) and int(node.func) == 4096


def test_parameters_of_a_cubin() -> None:
    """A cubin has the parameters of the kernel and those that Triton adds, at most two."""
    pytest.importorskip("triton")
    from mxforge.codegen.driver import compile_graph
    from mxforge.codegen.triton.target import SM90
    from mxforge.ir.dialects.core import CoreBuilder
    from rewriting import tensor

    b = CoreBuilder("sum")
    program = compile_graph(b.build([b.add(b.input(tensor(64)), b.input(tensor(64)))]), SM90)
    kernel = KernelCode.from_bytes(program.code[0])
    count = CudaDevice.parameters_of(None, kernel)  # type: ignore[arg-type]
    assert len(kernel.parameters) < count <= len(kernel.parameters) + fake_gpu.ADDED
    with pytest.raises(ValueError, match="is ttir"):
        _load(KernelCode("k", "ttir", ("*fp32",), 4, 0, b"text"))


def _load(kernel: KernelCode) -> None:
    device: Any = SimpleNamespace(target=SimpleNamespace(form="cubin"), name="gpu(0)")
    CudaDevice.load_code(device, kernel.to_bytes())


def test_errors_are_named(fake_cuda: FakeCuda) -> None:
    with pytest.raises(driver.CudaError, match="CUDA_ERROR_INVALID_DEVICE: invalid device") as caught:
        driver.ok(driver.start().cuDeviceGet(5))
    assert caught.value.code == 101
    assert sys.modules["cuda.bindings.driver"] is fake_cuda
