"""Prints the peak memory of a process that trains resnet50_v1 for three steps.

python tests/peak_memory.py mxforge|mxnet static|eager       runs in an environment that has the library, Python 3.9 too
"""

import importlib
import os
import sys
import time
from pathlib import Path

IMAGES, SIZE, STEPS = 8, 224, 3
THREADS = {"OMP_NUM_THREADS": "2", "MXFORGE_NUM_THREADS": "2"}


def peak() -> int:
    """The largest resident memory of this process so far, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def main(library: str, mode: str) -> None:
    os.environ.update(THREADS)
    mx = importlib.import_module(library)
    net = mx.gluon.model_zoo.vision.resnet50_v1()
    net.initialize(mx.init.Xavier())
    if mode == "static":
        net.hybridize(static_alloc=True, static_shape=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    images = mx.nd.random.uniform(shape=(IMAGES, 3, SIZE, SIZE))
    labels = mx.nd.array(list(range(IMAGES)))
    for step in range(STEPS):
        start = time.perf_counter()
        with mx.autograd.record():
            value = loss(net(images), labels)
        value.backward()
        trainer.step(IMAGES)
        mx.nd.waitall()
        print(f"step {step}: {peak()} MiB at most, {time.perf_counter() - start:.2f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
