"""Writes the eight large networks of MXNet's model zoo, with weights, for benchmarks and whole-model comparisons.

Run by real MXNet 1.9.1 and not by this project: `python make_networks.py OUT_DIR [NAME ...]`.
Each NAME gives NAME-symbol.json, NAME-0000.params and NAME.npz with the input `x0` and MXNet's output `y0`, too large
to commit. Weights are random, and BatchNorm gets statistics and affine parameters that show a wrong fold.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

NETWORKS = {
    "resnet50_v1": 224,
    "mobilenet_v2_1_0": 224,
    "vgg16": 224,
    "alexnet": 224,
    "densenet121": 224,
    "inception_v3": 299,
    "squeezenet1_0": 224,
    "resnet18_v2": 224,
}
AFFINE = ("running_mean", "running_var", "gamma", "beta")


def draw_statistics(net: mx.gluon.HybridBlock) -> None:
    """Gives every BatchNorm statistics that differ from the identity."""
    for name, parameter in net.collect_params().items():
        low, high = (-0.1, 0.1) if name.endswith(("running_mean", "beta")) else (0.5, 1.5)
        if name.endswith(AFFINE):
            parameter.set_data(mx.nd.random.uniform(low, high, shape=parameter.shape))


def export(name: str, size: int, folder: Path) -> None:
    """Writes the network `name` with an input and its output, image `size` pixels square."""
    mx.random.seed(0)
    np.random.seed(0)
    net = getattr(vision, name)()
    net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    net.hybridize()
    image = mx.nd.random.uniform(-1, 1, shape=(1, 3, size, size))
    net(image)
    draw_statistics(net)
    output = net(image).asnumpy()
    net.export(str(folder / name))
    np.savez(folder / f"{name}.npz", x0=image.asnumpy(), y0=output)
    print(name, output.shape, f"std {output.std():.4g}", flush=True)


def main() -> None:
    """Exports the networks named on the command line, or all of them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        export(name, NETWORKS[name], folder)


if __name__ == "__main__":
    main()
