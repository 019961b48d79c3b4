"""The base class of optimizers: rates and decays of each weight, update counts, updates of one weight by a rule."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import ndarray
from ..dtypes import is_half
from ..ndarray import NDArray

_C = TypeVar("_C", bound=type)

nd: Any = ndarray
"""The module of operators, untyped."""


class Optimizer:
    """An update rule: computes new weights from gradients.

    Weights are identified by an index. The learning rate of a weight is `learning_rate`, or `lr_scheduler(updates)`,
    times a factor. The factor is `lr_mult` of the Parameter in `param_dict`, or the entry of `lr_mult` for the index or
    for the name in `param_idx2name`. Weight decay (`wd`) works the same way; the factor is 0 for names that do not end
    in `_weight` or `_gamma`. Gradients are multiplied by `rescale_grad`, then clipped to
    [-clip_gradient, clip_gradient]. With `multi_precision`, the update of a weight of 16 bits is computed on a
    float32 copy.

    Subclasses of MXNet declare the name of a rule of `ir/dialects/mx/optimizer_rules.py` (`_rule_of`) and its numbers
    (`_numbers`). From these follow `update` and the program that updates all weights at once (`fused.py`). A user's
    subclass overrides `update`, and its weights are updated one by one.
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    _decaying: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")
    _rule: ClassVar[str] = ""
    _shares_numbers: ClassVar[bool] = True
    """True if `_numbers` depends on its arguments alone, so that weights can share numbers."""
    _copy_is_last: ClassVar[bool] = False
    """The state of a weight with a float32 copy: (state, copy) if True, else (copy, state)."""

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
        """Register a class under its lower-case name. A class with the same name is replaced, with a warning."""
        if not isinstance(klass, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AssertionError(f"register requires a class, not {klass!r}")
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
        """Create an optimizer by class name, in any case. An unknown name raises ValueError."""
        if name.lower() not in Optimizer.opt_registry:
            raise ValueError(f"Cannot find optimizer {name}")
        return Optimizer.opt_registry[name.lower()](**kwargs)

    # --- rates and decays -------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The current learning rate, without the factors of individual weights."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)  # type: ignore[return-value]

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate. Raises UserWarning if there is an `lr_scheduler`."""
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
        """Set factors of learning rates by index or name. Other names use the `__lr_mult__` of the symbol."""
        self.lr_mult = {**self._in_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors of weight decay by index or name.

        Other names use the `__wd_mult__` of the symbol, or 0 if they do not end in one of `_decaying`.
        """
        others: dict[Any, float] = {n: 0.0 for n in self.idx2name.values() if not n.endswith(self._decaying)}
        self.wd_mult = {**others, **self._in_symbol("__wd_mult__"), **args_wd_mult}

    def _in_symbol(self, key: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names if key in attrs.get(name, {})}

    def _factors(self, indices: Sequence[Any]) -> list[tuple[float, float]]:
        """The factors of the learning rate and of the decay of each weight."""
        params = self.param_dict
        try:
            return [(p.lr_mult, p.wd_mult) for p in [params[i] for i in indices]]
        except KeyError:
            return [
                (self._factor(i, "lr_mult", self.lr_mult), self._factor(i, "wd_mult", self.wd_mult)) for i in indices
            ]

    def _factor(self, index: Any, attribute: str, by_name: Mapping[Any, float]) -> float:
        """The factor of one weight's learning rate or decay."""
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
        """Select the update counts of a device. Each device has copies of the same weights and separate counts."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        """Count one update of a weight, or of each weight in a list."""
        for one in index if isinstance(index, list | tuple) else [index]:
            count = self._index_update_count.get(one, self.begin_num_update) + 1
            self._index_update_count[one] = count
            self.num_update = max(count, self.num_update)

    # --- rules ------------------------------------------------------------------------------------------------------

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        """The name of the rule of one weight."""
        return self._rule

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        """The numbers of a rule, for a weight with this learning rate and decay at its update number `t`."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _gradient_numbers(self, lr: float, wd: float) -> dict[str, float]:
        """The numbers that all rules read."""
        clip = self.clip_gradient or -1.0
        return {"lr": lr, "wd": wd, "rescale_grad": self.rescale_grad, "clip_gradient": clip}

    def _count_and_compute(self, index: Any) -> dict[str, float]:
        """Count an update of one weight; returns its numbers."""
        self._update_count(index)
        return self._numbers(self._get_lr(index), self._get_wd(index), self._index_update_count[index])

    def _count_and_compute_all(self, indices: Sequence[Any]) -> list[dict[str, float]]:
        """`_count_and_compute` of several weights, which are updated together."""
        return [self._count_and_compute(index) for index in indices]

    @property
    def _updates_at_once(self) -> bool:
        """True if each call updates each weight by its gradient."""
        return True

    def _gradient(self, index: Any, grad: NDArray) -> NDArray | None:
        """The gradient that the rule takes; None if the weight is not updated this time."""
        return grad

    # --- states and updates -----------------------------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Create the optimizer's state for one weight, for example its momentum."""
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """As `create_state`. With `multi_precision` a weight of 16 bits has a float32 copy, whose state this is."""
        if not self._has_copy(weight):
            self._warn_of_float16(weight)
            return self.create_state(index, weight)
        copy = weight.astype(np.float32)
        state = self.create_state(index, copy)
        return (state, copy) if self._copy_is_last else (copy, state)

    def _has_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and is_half(weight.dtype)

    def _parted(self, state: Any) -> tuple[Any, NDArray]:
        """The state and the float32 copy of a weight that has one."""
        first, second = state
        return (first, second) if self._copy_is_last else (second, first)

    def _warn_of_float16(self, weight: NDArray) -> None:
        if weight.dtype == np.float16:
            warnings.warn(
                "Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. "
                f"Consider using multi_precision=True option of the {type(self).__name__} optimizer",
                stacklevel=4,
            )

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight and its state in place. Optimizers of MXNet also take lists: of indices, weights, gradients
        and states."""
        self._apply(index, weight, grad, state)

    def _apply(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool = False) -> None:
        """Update a weight, or each weight in a list, by its rule. With `multi_precision`, see
        `update_multi_precision`."""
        if not self._rule:
            raise NotImplementedError(f"{type(self).__name__} has no update")
        if not isinstance(index, list | tuple):
            index, weight, grad, state = [index], [weight], [grad], [state]
        check_arrays(*weight, *grad)
        every = list(zip(weight, grad, state, strict=True))
        wide = [self._in_float32(*one) for one in every] if multi_precision else every
        taken = [self._gradient(i, g) for i, (_, g, _) in zip(index, wide, strict=True)]
        numbers = self._count_and_compute_all(index)
        for i, (w, _, s), g, n in zip(index, wide, taken, numbers, strict=True):
            self._update_one(i, w, g, s, n)
        _cast_copies(weight, wide)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, numbers: dict[str, float]) -> None:
        from .single_updates import update_weight

        if grad is not None:
            states = state_arrays(state)
            rule, adapted = self._adapted(index, weight, grad, states, numbers)
            update_weight(rule, weight, grad, states, adapted, getattr(self, "lazy_update", True))

    def _adapted(
        self, index: Any, weight: Any, grad: Any, states: Sequence[NDArray], numbers: dict[str, float]
    ) -> tuple[str, dict[str, float]]:
        """The rule of one weight and its numbers, which can depend on the values of the weight and the gradient."""
        return self._rule_of(index, states), numbers

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As `update`. If a weight has a float32 copy, the copy is updated and then cast to the weight's dtype."""
        several = isinstance(index, list | tuple)
        weights, grads, states = (weight, grad, state) if several else ([weight], [grad], [state])
        wide = [self._in_float32(*one) for one in zip(weights, grads, states, strict=True)]
        self.update(index, *([list(part) for part in zip(*wide, strict=True)] if several else wide[0]))
        _cast_copies(weights, wide)

    def _in_float32(self, weight: Any, grad: Any, state: Any) -> tuple[Any, Any, Any]:
        """The copy of a weight that has one, its gradient in float32, and its state; the operands of any other."""
        if not self._has_copy(weight):
            return weight, grad, state
        inner, copy = self._parted(state)
        return copy, grad.astype(np.float32), inner

    # --- pickling ---------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["param_dict"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.param_dict = {}


def _cast_copies(weights: Sequence[Any], wide: Sequence[tuple[Any, Any, Any]]) -> None:
    """Cast the float32 copies in `wide`, which were updated, to the dtype of their weights."""
    for own, (copy, _, _) in zip(weights, wide, strict=True):
        if copy is not own:
            own[:] = copy.astype(own.dtype)


def check_arrays(*arrays: Any) -> None:
    """Raise AssertionError if a weight or gradient is not an NDArray."""
    for array in arrays:
        if not isinstance(array, NDArray):
            raise AssertionError(f"weights and gradients must be NDArrays, not {type(array).__name__}")


def state_arrays(state: Any) -> tuple[NDArray, ...]:
    """The arrays of a state: an array, a tuple of arrays and None, or None."""
    return tuple(a for a in (state if isinstance(state, list | tuple) else (state,)) if a is not None)


def zeros_like(weight: NDArray, stype: str = "default", dtype: Any = None) -> Any:
    """Zeros with the shape and context of a weight."""
    return ndarray.zeros(weight.shape, weight.context, weight.dtype if dtype is None else dtype, stype)


register = Optimizer.register
create = Optimizer.create_optimizer


@register
class Test(Optimizer):
    """Adds the rescaled gradient to the weight. The state is a copy of the weight. For tests."""

    _rule = "test"
    _shares_numbers = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, dtype=np.float32)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return self._gradient_numbers(lr, wd)

    def _count_and_compute(self, index: Any) -> dict[str, float]:
        return self._gradient_numbers(0.0, 0.0)  # this optimizer counts no updates
