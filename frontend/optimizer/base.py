"""What all optimizers share: rates and decays of each weight, counts of updates, and the table of classes by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import ndarray
from ..ndarray import NDArray

_C = TypeVar("_C", bound=type)

nd: Any = ndarray
"""The module of operators, which are its attributes by their names."""


class Optimizer:
    """Says how a gradient changes a weight.

    Weights are known by an index. Their rate is `learning_rate` or what `lr_scheduler` says for the number of updates,
    times a factor: that of the Parameter in `param_dict`, or of `lr_mult` by index or by the name in `param_idx2name`.
    Decays (`wd`) likewise; names that end neither in `_weight` nor in `_gamma` decay by 0. Gradients are multiplied by
    `rescale_grad`, then clipped to [-clip_gradient, clip_gradient]. With `multi_precision` a float16 weight has a
    float32 copy that is updated.
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    _decaying: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: dict[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: dict[Any, Any] | None = None,
    ) -> None:
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if lr_scheduler is None and learning_rate is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None and lr_scheduler.base_lr != learning_rate:
            print(
                UserWarning(
                    "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer."
                )
            )
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        if not isinstance(param_idx2name or {}, dict):
            raise AssertionError("param_idx2name should be a dict of param indexes to names.")
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.allow_np_array = False
        self.set_lr_mult({})
        self.set_wd_mult({})

    # --- by name ----------------------------------------------------------------------------------------------------

    @staticmethod
    def register(klass: _C) -> _C:
        """Make a class known under its name in lower case."""
        if not isinstance(klass, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AssertionError(f"register takes a class, not {klass!r}")
        name = klass.__name__.lower()
        existing = Optimizer.opt_registry.get(name)
        if existing is not None:
            warnings.warn(
                f"WARNING: New optimizer {klass.__module__}.{klass.__name__} is overriding existing optimizer "
                f"{existing.__module__}.{existing.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass  # type: ignore[assignment]
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """An optimizer by the name of its class, in any case."""
        if name.lower() not in Optimizer.opt_registry:
            raise ValueError(f"Cannot find optimizer {name}")
        return Optimizer.opt_registry[name.lower()](**kwargs)

    # --- rates and decays -------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate now, without the factors of single weights."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)  # type: ignore[return-value]

    def set_learning_rate(self, lr: float) -> None:
        """Set the rate; UserWarning is raised where a schedule sets it."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that set_learning_rate can mutate the "
                "value of the learning rate of the optimizer only when the LRScheduler of the optimizer is undefined."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """Raises DeprecationWarning, as in MXNet: use `set_lr_mult`."""
        raise DeprecationWarning("set_lr_scale is deprecated: use set_lr_mult")

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set factors of rates by index or name; those in the symbol's attributes hold for other names."""
        self.lr_mult = {**self._in_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors of decays by index or name; weights alone decay by default."""
        others: dict[Any, float] = {n: 0.0 for n in self.idx2name.values() if not n.endswith(self._decaying)}
        self.wd_mult = {**others, **self._in_symbol("__wd_mult__"), **args_wd_mult}

    def _in_symbol(self, key: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names if key in attrs.get(name, {})}

    def _factor(self, index: Any, attribute: str, by_name: Mapping[Any, float]) -> float:
        """What one weight's rate or decay is multiplied by."""
        if index in self.param_dict:
            return getattr(self.param_dict[index], attribute)
        if index in by_name:
            return by_name[index]
        return by_name.get(self.idx2name[index], 1.0) if index in self.idx2name else 1.0

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        rate = self.learning_rate
        return [rate * self._factor(index, "lr_mult", self.lr_mult) for index in indices]

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return [self.wd * self._factor(index, "wd_mult", self.wd_mult) for index in indices]

    def _get_wd(self, index: Any) -> float:
        return self._get_wds([index])[0]

    # --- counts of updates ------------------------------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        """Count updates of the weights on another device, which has copies of the same weights."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        """Count one update of the weight, or of each weight in a list."""
        for one in index if isinstance(index, list | tuple) else [index]:
            count = self._index_update_count.get(one, self.begin_num_update) + 1
            self._index_update_count[one] = count
            self.num_update = max(count, self.num_update)

    # --- states and updates -----------------------------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """What the optimizer keeps for one weight."""
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """As `create_state`; for a float16 weight with `multi_precision` a float32 copy, and the state of that."""
        if self._has_copy(weight):
            copy = weight.astype(np.float32)
            return copy, self.create_state(index, copy)
        self._warn_of_float16(weight)
        return self.create_state(index, weight)

    def _has_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and weight.dtype == np.float16

    def _warn_of_float16(self, weight: NDArray) -> None:
        if weight.dtype == np.float16:
            warnings.warn(
                "Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. "
                f"Consider using multi_precision=True option of the {type(self).__name__} optimizer",
                stacklevel=4,
            )

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change the weight and the state in place, by the gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As `update`; a float16 weight with a float32 copy takes the copy's new values."""
        if not self._has_copy(weight):
            self.update(index, weight, grad, state)
            return
        copy, inner = state
        self.update(index, copy, grad.astype(np.float32), inner)
        weight[:] = copy.astype(weight.dtype)

    def _begin(self, index: Any, weight: Any, grad: Any) -> tuple[float, float]:
        """Count an update of one weight; gives its rate and decay."""
        check_arrays(weight, grad)
        self._update_count(index)
        return self._get_lr(index), self._get_wd(index)

    def _options(self) -> dict[str, float]:
        """What the operators that update weights are told about gradients."""
        clip = {"clip_gradient": self.clip_gradient} if self.clip_gradient else {}
        return {"rescale_grad": self.rescale_grad, **clip}

    def _clipped(self, grad: NDArray) -> NDArray:
        """A gradient within the limits."""
        return grad if self.clip_gradient is None else nd.clip(grad, -self.clip_gradient, self.clip_gradient)

    # --- pickling ---------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["param_dict"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.param_dict = {}


def check_arrays(*arrays: Any) -> None:
    """AssertionError where a weight or gradient is no array."""
    for array in arrays:
        if not isinstance(array, NDArray):
            raise AssertionError(f"weights and gradients are NDArrays, not {type(array).__name__}")


def zeros_like(weight: NDArray, stype: str = "default", dtype: Any = None) -> Any:
    """A state of zeros for a weight."""
    return ndarray.zeros(weight.shape, weight.context, weight.dtype if dtype is None else dtype, stype)


register = Optimizer.register
create = Optimizer.create_optimizer


@register
class Test(Optimizer):
    """Adds the rescaled gradient; the state is the weight. For tests."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, dtype=np.float32)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        weight[:] += grad * self.rescale_grad
        state[:] = weight
