"""The gradient requests of a module's arguments, and the contexts of its groups of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..context import Context


class _Names(Protocol):
    arg_names: list[str]
    param_names: list[str]
    fixed_param_names: list[str]
    inputs_need_grad: bool


def gradient_requests(group: _Names, data_names: Sequence[str], grad_req: Any) -> dict[str, str]:
    """The gradient request ('write', 'add' or 'null') of each argument.

    A str `grad_req` applies to parameters that are not fixed, and to data if `inputs_need_grad`; others are 'null'. A
    list has one request per argument. A dictionary overrides the default 'write' by name.
    """
    if isinstance(grad_req, list | tuple):
        if len(grad_req) != len(group.arg_names):
            raise AssertionError(f"{len(grad_req)} requests for {len(group.arg_names)} arguments")
        return dict(zip(group.arg_names, grad_req, strict=True))
    if not isinstance(grad_req, str | Mapping):
        raise ValueError("grad_req must be one of str, list, tuple, or dict.")
    common = grad_req if isinstance(grad_req, str) else "write"
    differentiable = {name for name in group.param_names if name not in group.fixed_param_names}
    if group.inputs_need_grad:
        differentiable.update(data_names)
    requests = {name: common if name in differentiable else "null" for name in group.arg_names}
    return requests if isinstance(grad_req, str) else {**requests, **grad_req}


def groups_by_context(group2ctxs: Any, count: int) -> list[dict[str, Context] | None]:
    """For each of `count` contexts, a dictionary from group of nodes (`ctx_group`) to context, or None."""
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, list):
        if len(group2ctxs) != count:
            raise AssertionError(f"length of group2ctxs should be {count}")
        return group2ctxs
    if not isinstance(group2ctxs, Mapping):
        raise AssertionError("group2ctxs should be a list of dictionaries, or a dictionary of contexts")
    groups: list[dict[str, Context] | None] = [{} for _ in range(count)]
    for name, contexts in group2ctxs.items():
        listed = [contexts] if isinstance(contexts, Context) else list(contexts)
        listed = listed * count if len(listed) == 1 else listed
        if len(listed) != count:
            raise AssertionError(f"length of group2ctxs[{name}] should be {count} or 1")
        for own, context in zip(groups, listed, strict=True):
            own[name] = context  # type: ignore[index]
    return groups
