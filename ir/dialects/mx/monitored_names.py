"""The names of operator inputs that executors pass to monitors: MXNet has no names for the inputs of many operators."""

from __future__ import annotations

from .operator import Operator

# Operators with one input `data` whose name MXNet keeps.
_NAMED = frozenset(
    """
    log_softmax Dropout SwapAxis squeeze tile repeat reverse depth_to_space space_to_depth Pad diag _image_to_tensor
    _image_normalize im2col col2im GridGenerator moments _contrib_MultiBoxPrior L2Normalization LRN SliceChannel
    _split_v2 Pooling Pooling_v1 all_finite _ravel_multi_index _unravel_index MakeLoss _contrib_quadratic
    _contrib_index_array _contrib_fft _contrib_ifft
    """.split()
)


def monitored_names(op: Operator, given: int) -> tuple[str, ...]:
    """The names of the `given` inputs. They are numbered for operators without FListInputNames in MXNet: weight
    updates, and most operators with one input."""
    first = type(op).inputs[0] if type(op).inputs else ""
    plain = type(op).inputs == ("data",) and op.mx_name() not in _NAMED
    if plain or first == "weight":
        return tuple(f"input{i}" for i in range(given))
    return op.input_names(given)
