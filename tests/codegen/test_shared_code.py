"""Code that programs share stays with a program that uses it, also if the process drops it before the program is
assembled."""

from __future__ import annotations

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.llvm import shared
from mxforge.codegen.llvm.program_emitter import LlvmEmitter
from mxforge.ir.caches import Cache


def test_programs_keep_code_that_the_process_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    assemble = LlvmEmitter.code

    def code(emitter: LlvmEmitter) -> tuple[bytes, ...]:
        monkeypatch.setattr(shared, "_code", Cache("shared code of a test", 1 << 10, len, 64 << 20))
        return assemble(emitter)

    monkeypatch.setattr(LlvmEmitter, "code", code)
    net = mx.gluon.nn.HybridSequential()
    for channels in (5, 7):
        net.add(mx.gluon.nn.Conv2D(channels, 3, padding=1), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Activation("relu"))
    net.initialize()
    net.hybridize()
    for batch in (3, 2, 4, 5):
        x = mx.nd.random.uniform(shape=(batch, 3, 9, 8 + batch))
        x.attach_grad()
        with mx.autograd.record(train_mode=False):
            y = net(x)
        y.backward()
        gradient = x.grad
        assert gradient is not None and np.isfinite(gradient.asnumpy()).all()
