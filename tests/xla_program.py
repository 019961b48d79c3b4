"""Compiles and runs modules of StableHLO with XLA, in a process of its own: JAX forbids to fork after it was imported.

python xla_program.py FOLDER    runs N.mlir on the arrays of N.npz, in order, and writes the results to N-results.npz
"""

# pyright: reportMissingImports=false
# (JAX is no dependency of the tests)

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)


def main(folder: Path) -> None:
    device: Any = jax.devices("cpu")[0]
    options: Any = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices: Any = xla_client.DeviceList((device,))
    for module in sorted(folder.glob("*.mlir")):
        executable = device.client.compile_and_load(module.read_bytes(), devices, options)
        with np.load(module.with_suffix(".npz")) as arrays:
            operands = [jax.device_put(arrays[f"arr_{i}"], device) for i in range(len(arrays))]
        results = [np.asarray(result) for result in executable.execute(operands)]
        np.savez(folder / f"{module.stem}-results.npz", *results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
