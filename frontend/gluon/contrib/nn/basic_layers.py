"""Parallel layers, embeddings with sparse weights, batch normalisation across devices, pixel shuffles."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .....runtime.mpi import join
from .... import ndarray
from ....context import num_gpus
from ...hybrid_block import HybridBlock
from ...nn.containers import HybridSequential, Sequential
from ...nn.normalization import BatchNorm
from ...plain_block import Block

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class Concurrent(Sequential):
    """Calls all children on the same input and concatenates their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return ndarray.concat(*[block(x) for block in self._children.values()], dim=self.axis)  # type: ignore[attr-defined]


class HybridConcurrent(HybridSequential):
    """Calls all hybrid children on the same input and concatenates their outputs along `axis`."""

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """Returns its input."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        return x


class SparseEmbedding(Block):
    """Looks up rows of a row-sparse matrix (input_dim, output_dim). A call reads only the rows that it needs."""

    def __init__(
        self, input_dim: int, output_dim: int, dtype: Any = "float32", weight_initializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": True}
        self.weight: Any = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            grad_stype="row_sparse",
            stype="row_sparse",
        )

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        rows = self.weight.row_sparse_data(x)
        return ndarray.Embedding(x, rows, name="fwd", **self._kwargs)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        sizes = "{input_dim} -> {output_dim}, {dtype}".format(**self._kwargs)
        return f"{type(self).__name__}({sizes})"


class SyncBatchNorm(BatchNorm):
    """Batch normalisation that computes its training statistics over the batches of all workers of a job, each of which
    has one device. `num_devices` is their number, or 1 for the statistics of each worker; by default all take part."""

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            axis=1,
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            use_global_stats=use_global_stats,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            running_mean_initializer=running_mean_initializer,
            running_variance_initializer=running_variance_initializer,
            in_channels=in_channels,
            **kwargs,
        )
        self._kwargs = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": self._get_num_devices() if num_devices is None else _joined(num_devices),
            "key": self.prefix,
        }

    def _get_num_devices(self) -> int:
        workers = join().size
        if workers > 1:
            return workers
        warnings.warn(
            "Caution using SyncBatchNorm: if not using all the GPUs, please manually set num_devices",
            UserWarning,
            stacklevel=4,
        )
        return max(num_gpus(), 1)

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any
    ) -> Any:
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


def _joined(workers: int) -> int:
    """The number; if it is more than one, programs can use the group of all workers."""
    if workers > 1:
        join()
    return workers


def _factors(factor: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One factor for each spatial axis."""
    if not isinstance(factor, Sequence):
        return (int(factor),) * count
    factors = tuple(int(f) for f in factor)
    if len(factors) != count:
        raise AssertionError(f"wrong length {len(factors)}: {count} factors are required")
    return factors


class PixelShuffle1D(HybridBlock):
    """Rearranges (batch, factor * channels, width) to (batch, channels, factor * width)."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self._factor = int(factor)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        x = F.reshape(x, (0, -4, -1, self._factor, 0))
        x = F.transpose(x, (0, 1, 3, 2))
        return F.reshape(x, (0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factor})"


class PixelShuffle2D(HybridBlock):
    """Rearranges (batch, f1 * f2 * channels, h, w) to (batch, channels, f1 * h, f2 * w)."""

    def __init__(self, factor: int | Sequence[int]) -> None:
        super().__init__()
        self._factors = _factors(factor, 2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))
        x = F.transpose(x, (0, 1, 4, 2, 5, 3))
        return F.reshape(x, (0, 0, -3, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle3D(HybridBlock):
    """Rearranges (batch, f1 * f2 * f3 * channels, d, h, w) to (batch, channels, f1 * d, f2 * h, f3 * w)."""

    def __init__(self, factor: int | Sequence[int]) -> None:
        super().__init__()
        self._factors = _factors(factor, 3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # type: ignore[override]
        f1, f2, f3 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0))
        x = F.swapaxes(x, 2, 3)
        x = F.reshape(x, (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.reshape(x, (0, 0, -3, 0, 0, 0))
        x = F.swapaxes(x, 3, 4)
        x = F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0))
        x = F.reshape(x, (0, 0, 0, -3, 0, 0))
        x = F.swapaxes(x, 4, 5)
        return F.reshape(x, (0, 0, 0, 0, -3))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"
