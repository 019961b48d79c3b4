"""Finds the inputs of a model that are parameters and have no value."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..frontend.symbol.network import Network
from ..ir.suggestions import see
from .errors import ToolError
from .models import Model

_ROLES = frozenset(("weight", "bias", "gamma", "beta", "parameters"))
_STATISTICS = ("moving_mean", "moving_var", "running_mean", "running_var")
_SUFFIXES = tuple(f"_{name}" for name in (*sorted(_ROLES), *_STATISTICS))
_SHOWN = 3


def require_parameters(model: Model, known: Collection[str], allow_missing: bool) -> None:
    """ToolError if parameters of the model have no value, unless that is allowed; they are then inputs of the program.

    `known` are the inputs that the user named: these are data, whatever they are called.
    """
    needed = [name for name in parameter_names(model) if name not in known]
    missing = [name for name in needed if name not in model.parameters]
    if not missing or allow_missing:
        return
    content = f"contains {len(needed) - len(missing)}" if model.params else "does not exist; it should contain all"
    what = f"{model.params or model.searched} {content} of the {len(needed)} parameters of {model.name}"
    ways = "pass their file as --params FILE, or --allow-missing to make them inputs"
    raise ToolError(f"{what}; without value: {_shown(missing)} ({ways}){see('command-line')}")


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def parameter_names(model: Model) -> list[str]:
    """The inputs of the model that operators use as parameters, or that are named as MXNet's layers name theirs."""
    used = _parameters(model.network)
    return [name for name in model.symbol.list_inputs() if name in used or name.endswith(_SUFFIXES)]


def _parameters(network: Network) -> set[str]:
    names: set[str] = set()
    for node in network.nodes:
        if node.is_variable:
            continue
        for role, entry in zip(node.input_names(), node.inputs, strict=True):
            if entry.node.is_variable and (role in _ROLES or role in node.operator.auxiliary):
                names.add(entry.node.name)
    return names
