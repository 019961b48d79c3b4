"""The optimizers of SVRGModule: one for weights and, in a KVStore, one for gradients over all data."""

from __future__ import annotations

from typing import Any

from ... import optimizer as optimizers
from ...ndarray import NDArray

_OPTIONS = frozenset(
    """rescale_grad param_idx2name wd clip_gradient learning_rate lr_scheduler sym begin_num_update multi_precision
    param_dict""".split()
)
"""The parameters of every optimizer."""


@optimizers.register
class _AssignmentOptimizer(optimizers.Optimizer):
    """Writes the gradient to the weight, which holds a gradient over all data."""

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        weight[:] = grad


@optimizers.register
class _SVRGOptimizer(optimizers.Optimizer):
    """Updates weights with `default_optimizer`, an Optimizer or the name of one that gets all parameters. Keys of
    gradients over all data, which end in `_full`, are assigned."""

    def __init__(self, default_optimizer: str | optimizers.Optimizer, **kwargs: Any) -> None:
        super().__init__(**self._check_params(**kwargs))
        if isinstance(default_optimizer, str):
            default_optimizer = optimizers.create(default_optimizer, **kwargs)
        self.default_opt = default_optimizer
        self.aux_opt = optimizers.create(_AssignmentOptimizer.__name__)

    @staticmethod
    def _check_params(**kwargs: Any) -> dict[str, Any]:
        """The parameters that every optimizer has."""
        return {name: value for name, value in kwargs.items() if name in _OPTIONS}

    def _check_index(self, index: Any) -> str:
        """The name of a weight: the index itself, or that of the index."""
        return index if index in self.idx2name.values() else self.idx2name[index]

    def _responsible(self, index: Any) -> optimizers.Optimizer:
        return self.aux_opt if self._check_index(index).endswith("_full") else self.default_opt

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return self._responsible(index).create_state(index, weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._responsible(index).update(index, weight, grad, state)
