"""The error for an access to a name that a module does not have."""

from __future__ import annotations

from .modules import ABSENT_MODULES


def attribute_error(root: str, module: str, name: str) -> AttributeError:
    """The AttributeError for a name that `module` (a path below the package `root`) does not have."""
    full_name = f"{root}.{module}" if module else root
    text = f"module {full_name!r} has no attribute {name!r}"
    if module in ABSENT_MODULES:
        text += f": {ABSENT_MODULES[module]}"
    return AttributeError(text, name=name)
