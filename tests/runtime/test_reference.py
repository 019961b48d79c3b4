"""The reference target as a device: the tensors that it reads and writes."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import mxforge as mx
x = mx.nd.array([[1, 2.2], [-3.3, 1e-20]]).astype("bfloat16")
x.attach_grad()
with mx.autograd.record():
    y = x * x
y.backward()
print(y.asnumpy().tolist(), x.grad.asnumpy().tolist())
"""


def test_bfloat16_tensors_are_read_and_written() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={**os.environ, **target}, capture_output=True, text=True, check=True
        ).stdout
        for target in ({"MXFORGE_TARGET": "reference"}, {})
    ]
    assert printed[0] == printed[1]
    assert printed[0].startswith("[[1.0, 4.84375]")
