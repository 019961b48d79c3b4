"""Writes StableHLO modules that JAX exports, and what JAX computes with them: jax_modules/NAME.mlir or .mlirbc, and
NAME.npz with its inputs and outputs.

    python make_jax_modules.py        with JAX 0.10.2
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

FOLDER = Path(__file__).parent / "jax_modules"


def recurrent(words: Any, inner: Any, state: Any) -> Any:
    """Two layers over a sequence, with softmax."""

    def step(before: Any, word: Any) -> Any:
        after = jnp.tanh(word @ inner + before)
        return after, after

    last, states = jax.lax.scan(step, state, jnp.tanh(words))
    return jax.nn.softmax(last), states


def convolutional(weights: Any) -> Any:
    """Convolution, batch norm, pooling and a product; the weights are constants of the module."""
    filters, scale, shift, product = weights

    def network(images: Any) -> Any:
        numbers = "NHWC", "HWIO", "NHWC"
        x = jax.lax.conv_general_dilated(images, filters, (1, 1), "SAME", dimension_numbers=numbers)
        mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
        x = jax.nn.relu((x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jax.nn.log_softmax(x.reshape(x.shape[0], product.shape[0]) @ product)

    return network


def positions(x: Any, at: Any) -> Any:
    """Sorts, selects, gathers, scatters and sums up to each element; loops, branches and random numbers."""
    largest, places = jax.lax.top_k(x, 3)

    def halve(state: Any) -> Any:
        step, value, written = state
        return step + 1, value / 2, written.at[step].set(value.sum())

    loop = jax.lax.while_loop(lambda state: state[0] < 5, halve, (0, x, jnp.zeros(8)))
    chosen = jax.lax.switch(at[0], [lambda v: v, jnp.cos, lambda v: -v], x)
    bits = jax.random.bits(jax.random.key(3), (2, 3))
    return {
        "top": (largest, places),
        "sorted": (jnp.argsort(x, 0), jnp.sort(x, 1)),
        "taken": (x[at], x.at[jnp.concatenate([at, at])].add(1.5), x.at[at, 1:3].max(0.25)),
        "sums": (jnp.cumsum(x, 1), jax.lax.cummax(x, 0), jnp.bincount(at, length=6)),
        "loop": loop,
        "chosen": (chosen, jax.scipy.special.erf(x), bits),
    }


def write(name: str, function: Any, arrays: dict[str, Any], shapes: Any = None, artifact: bool = False) -> None:
    """Export a function of arrays, whose shapes can be symbolic."""
    extents = shapes or [a.shape for a in arrays.values()]
    described = [jax.ShapeDtypeStruct(s, a.dtype) for s, a in zip(extents, arrays.values())]
    exported = export.export(jax.jit(function))(*described)
    if artifact:
        (FOLDER / f"{name}.mlirbc").write_bytes(exported.mlir_module_serialized)
    else:
        (FOLDER / f"{name}.mlir").write_text(str(exported.mlir_module()))
    results = jax.tree.leaves(jax.jit(function)(*arrays.values()))
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays, **{f"result{i}": r for i, r in enumerate(results)})


def main() -> None:
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # no folders of this machine
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    write("recurrent", recurrent, {"words": random(4, 2, 8), "inner": random(8, 8), "state": random(2, 8)})
    weights = random(3, 3, 3, 8), random(8), random(8), random(128, 10)
    batch = export.symbolic_shape("batch, 8, 8, 3")
    write("convolutional", convolutional(weights), {"argument0": random(3, 8, 8, 3)}, [batch], artifact=True)
    write("positions", positions, {"x": random(6, 7), "at": np.array([1, 4, 1], np.int32)})


if __name__ == "__main__":
    main()
