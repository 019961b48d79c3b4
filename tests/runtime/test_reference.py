"""The reference target as a device: the tensors that it reads and writes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.any_processor

PROGRAM = """
import mxforge as mx
x = mx.nd.array([[1, 2.2], [-3.3, 1e-20]]).astype("bfloat16")
x.attach_grad()
with mx.autograd.record():
    y = x * x
y.backward()
print(y.asnumpy().tolist(), x.grad.asnumpy().tolist())
"""


WITHOUT_AVX2 = """
from mxforge.runtime.host import device
def unsupported(threads=None):
    raise RuntimeError("this machine lacks avx2")
device.host_target = unsupported
"""
MORE = """
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(3, activation="relu"), mx.gluon.nn.BatchNorm())
net.initialize()
net.hybridize()
trainer = mx.gluon.Trainer(net.collect_params(), "adam")
with mx.autograd.record():
    loss = net(mx.nd.ones((4, 2)))
loss.backward()
trainer.step(4)
mx.nd.waitall()
"""


def test_machines_that_mxforge_cannot_compile_for_interpret() -> None:
    program = WITHOUT_AVX2 + PROGRAM + MORE
    environment = {**os.environ, "MXFORGE_TARGET": "reference"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_bfloat16_tensors_are_read_and_written() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={**os.environ, **target}, capture_output=True, text=True, check=True
        ).stdout
        for target in ({"MXFORGE_TARGET": "reference"}, {})
    ]
    assert printed[0] == printed[1]
    assert printed[0].startswith("[[1.0, 4.84375]")
