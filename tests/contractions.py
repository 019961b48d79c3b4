"""Runs kernels of contractions on NumPy arrays: packs operands, changes layouts, launches on several workers, and reads
the result.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
from mxforge.codegen.emission import Emission, LaunchSpec
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.contract.emit import emit_contraction, schedule_contraction
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.schedule.kinds import ContractionSchedule
from mxforge.codegen.llvm.target import CpuTarget
from mxforge.ir.kernel import Buffer, Kernel
from mxforge.ir.types import Layout
from mxforge.runtime.host.loader import load_object
from mxforge.runtime.host.machine import host_target

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
HOST = replace(host_target(threads=2))


def aligned(count: int, dtype: np.dtype | type = np.float32, fill: float = 0.0) -> np.ndarray:
    """An array of `count` elements, aligned to 64 bytes."""
    dtype = np.dtype(dtype)
    raw = np.zeros(count * dtype.itemsize + 128, np.uint8)
    start = -raw.ctypes.data % 64
    found = raw[start : start + count * dtype.itemsize].view(dtype)
    found[:] = fill
    return found


def physical(buffer: Buffer, value: np.ndarray | None) -> np.ndarray:
    """Memory with `value` (zeros for None) in the buffer's layout. With strides it is a part of a larger block."""
    shape = tuple(int(n) for n in buffer.shape)
    extents = buffer.layout.physical_shape(shape) if buffer.layout else shape
    strides = buffer.strides or tuple(int(np.prod(extents[k + 1 :])) for k in range(len(extents)))
    room = sum((n - 1) * int(s) for n, s in zip(extents, strides, strict=True)) + 1
    memory = aligned(room, buffer.dtype.numpy)
    view = np.lib.stride_tricks.as_strided(memory, extents, [int(s) * memory.itemsize for s in strides])
    if value is not None:
        inner(view, buffer.layout, shape)[...] = blocked(value, buffer.layout) if buffer.layout else value
    return memory


def inner(view: np.ndarray, layout: Layout | None, shape: tuple[int, ...]) -> np.ndarray:
    if layout is None:
        return view
    return view[
        (slice(None), slice(None), *(slice(lo, lo + n) for n, (lo, _) in zip(shape[2:], layout.halo, strict=True)))
    ]


def blocked(value: np.ndarray, layout: Layout) -> np.ndarray:
    """An array (N, C, spatial) in the layout [N][C / block][spatial][block]."""
    n, c, *space = value.shape
    padded = np.zeros((n, -(-c // layout.block) * layout.block, *space), value.dtype)
    padded[:, :c] = value
    return np.moveaxis(padded.reshape(n, -1, layout.block, *space), 2, -1)


def logical(buffer: Buffer, memory: np.ndarray) -> np.ndarray:
    """The inverse of `physical`. Asserts that halos and channel padding are still zero."""
    shape = tuple(int(n) for n in buffer.shape)
    extents = buffer.layout.physical_shape(shape) if buffer.layout else shape
    strides = buffer.strides or tuple(int(np.prod(extents[k + 1 :])) for k in range(len(extents)))
    view = np.lib.stride_tricks.as_strided(memory, extents, [int(s) * memory.itemsize for s in strides]).copy()
    if buffer.layout is None:
        return view
    body = inner(view, buffer.layout, shape)
    channels = np.moveaxis(body, -1, 2)
    whole = channels.reshape(shape[0], -1, *shape[2:])
    value = whole[:, : shape[1]].copy()
    assert not whole[:, shape[1] :].any(), "channel padding is not zero"
    body[:] = 0
    assert not view.any(), "the halo was written"
    return value


class Compiled:
    """A module's object, loaded in this process."""

    def __init__(self, text: str, target: CpuTarget, optimize: int = 1) -> None:
        self.object = load_object(compile_object(text, target, optimize=optimize))

    def function(self, symbol: str):
        return FUNCTION(self.object.symbols[symbol])


class Runner:
    """A compiled kernel with its own memory. `run()` launches it; `output()` is the result as a logical array."""

    def __init__(
        self,
        kernel: Kernel,
        target: CpuTarget = HOST,
        schedule: ContractionSchedule | None = None,
        values: dict[str, np.ndarray] | None = None,
    ) -> None:
        self.kernel, self.target = kernel, target
        self.schedule = schedule or schedule_contraction(kernel, target, frozenset(("w", "b")))
        module = ModuleBuilder(target)
        self.emission: Emission = emit_contraction(kernel, self.schedule, target, module, "kernel")
        packings: list[tuple[str, Any]] = [(kernel.buffers[i].name, p) for i, p in self.emission.packings]
        self.packs = [(b, p, p.emit(module, target, f"pack.{b}")) for b, p in packings]
        self.text = module.text()
        self.code = Compiled(self.text, target)
        self.memory = {b.name: physical(b, (values or {}).get(b.name)) for b in kernel.buffers}
        self.sources = dict(self.memory)
        for name, packing, launch in self.packs:
            self.memory[name] = aligned(-(-packing.nbytes // 4) + 16)
            self.launch(launch, [self.sources[name], self.memory[name]])
        self.workspace = aligned(self.emission.workspace // 4 + 16, fill=np.nan)
        arguments = [self.memory[b.name] for b in kernel.buffers]
        self.arguments = [*arguments, self.workspace]
        self.calls = [(self.code.function(s.symbol), s) for s in self.emission.launches]
        self.table = np.array([a.ctypes.data for a in self.arguments], np.uint64)

    def launch(self, spec: LaunchSpec, arguments: list[np.ndarray]) -> None:
        table = np.array([a.ctypes.data for a in arguments], np.uint64)
        self.call(self.code.function(spec.symbol), spec, table)

    def call(self, function, spec: LaunchSpec, table: np.ndarray) -> None:
        """Call the kernel in chunks, from last to first: no chunk may depend on an earlier one."""
        threads = self.target.threads
        edges = [spec.count * k // threads for k in range(threads + 1)]
        for worker in reversed(range(threads)):
            if edges[worker] < edges[worker + 1]:
                function(table.ctypes.data, edges[worker], edges[worker + 1], worker)

    def run(self) -> np.ndarray:
        for function, spec in self.calls:
            self.call(function, spec, self.table)
        return self.output()

    def output(self) -> np.ndarray:
        out = self.kernel.buffers[-1]
        return logical(out, self.memory[out.name])


def conv_reference(x: np.ndarray, w: np.ndarray, spec) -> np.ndarray:
    """Convolution in float64."""
    rank = x.ndim - 2
    dilation, interior = spec.dilation or (1,) * rank, spec.interior or (1,) * rank
    n, c, *size = x.shape
    wide = np.zeros((n, c, *((s - 1) * i + 1 for s, i in zip(size, interior, strict=True))))
    wide[(slice(None), slice(None), *(slice(None, None, i) for i in interior))] = x
    pads = [(0, 0), (0, 0), *((max(0, lo), max(0, hi)) for lo, hi in zip(spec.low, spec.high, strict=True))]
    wide = np.pad(wide, pads)
    crop = [
        slice(max(0, -lo), wide.shape[k + 2] - max(0, -hi))
        for k, (lo, hi) in enumerate(zip(spec.low, spec.high, strict=True))
    ]
    wide = wide[(slice(None), slice(None), *crop)]
    out = spec.out_size(size, w.shape[2:])
    g = spec.groups
    y = np.zeros((n, w.shape[0], *out))
    for tap in np.ndindex(*w.shape[2:]):
        cut = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, spec.stride, strict=True)
        )
        part = wide[(slice(None), slice(None), *cut)].reshape(n, g, c // g, *out)
        weights = w[(slice(None), slice(None), *tap)].reshape(g, w.shape[0] // g, -1).astype(np.float64)
        y += np.einsum("ngc...,goc->ngo...", part, weights).reshape(y.shape)
    return y
