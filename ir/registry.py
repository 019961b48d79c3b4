"""The registry of dialects: how the printer spells an op and how the parser builds it again.

In MLIR's IRDL, an operation's name holds lower-case letters, digits and single underscores, and an operation cannot
take any number of operands of different types. So an op is printed in lower case: `mx.MakeLoss` (which is not
`mx.make_loss`) as `mx.makeloss`, `mx._plus_scalar` as `mx.plus_scalar_`. An op whose number of operands or results
varies carries both numbers (and its number of regions, if more than one): `core.concat` of three tensors is
`core.concat_3_1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module

from .graph import Attribute, Graph, Op
from .lazy_dataclass import dataclass


@dataclass(frozen=True)
class Dialect:
    """A dialect's description.

    `operations` lists its op classes. `is_variadic` is true for a class whose printed name carries counts. `build(name,
    attributes, regions)` creates an op from printed attributes; KeyError, TypeError or ValueError if that fails.
    """

    prefix: str
    operations: Callable[[], Iterable[type[Op]]]
    is_variadic: Callable[[type[Op]], bool]
    build: Callable[[str, Mapping[str, Attribute], tuple[Graph, ...]], Op]


_DIALECTS: dict[str, Dialect] = {}
_COUNTS = re.compile(r"(.+?)(?:_\d+){2,3}")


def register_dialect(dialect: Dialect) -> None:
    """Register a dialect; it replaces an earlier one with the same prefix."""
    _DIALECTS[dialect.prefix] = dialect
    _spelled.cache_clear()
    _stem.cache_clear()


def find_dialect(prefix: str) -> Dialect:
    """The dialect with this prefix; KeyError if there is none."""
    if prefix not in _DIALECTS:
        import_module(".dialects.text", __package__)  # registers core and mx
    if prefix not in _DIALECTS:
        raise KeyError(f"dialect {prefix!r} is not known")
    return _DIALECTS[prefix]


def spelling(op: Op, operands: int, results: int) -> str:
    """The printed name of `op`."""
    stem, variadic = _stem(type(op))
    if not variadic:
        return stem
    regions = len(op.regions())
    counts = f"{operands}_{results}_{regions}" if regions > 1 else f"{operands}_{results}"
    return f"{stem}{counts}" if stem.endswith("_") else f"{stem}_{counts}"


def build_op(spelled: str, attributes: Mapping[str, Attribute], regions: tuple[Graph, ...]) -> Op:
    """The op that is printed as `spelled`; KeyError if there is none, TypeError or ValueError for wrong attributes."""
    prefix = spelled.partition(".")[0]
    dialect = find_dialect(prefix)
    names = _spelled(prefix)
    name = names.get(spelled)
    if name is None and (counted := _COUNTS.fullmatch(spelled)):
        name = names.get(counted[1]) or names.get(f"{counted[1]}_")
    if name is None:
        raise KeyError(f"operation {spelled!r} is not known")
    return dialect.build(name, attributes, regions)


def spell(mnemonic: str) -> str:
    """A mnemonic in the characters that IRDL allows: `contrib_roialign_` for `_contrib_ROIAlign`."""
    plain = mnemonic.lstrip("_")
    return re.sub("__+", "_", plain.lower()) + "_" * (plain != mnemonic)


def stem_of(op: type[Op]) -> str:
    """The printed name of an op class, without counts."""
    prefix, _, mnemonic = op.name.partition(".")
    return f"{prefix}.{spell(mnemonic)}"


@cache
def _stem(op: type[Op]) -> tuple[str, bool]:
    return stem_of(op), find_dialect(op.name.partition(".")[0]).is_variadic(op)


@cache
def _spelled(prefix: str) -> dict[str, str]:
    """Op names of a dialect by their printed names; ValueError if two ops have the same printed name."""
    names: dict[str, str] = {}
    for op in find_dialect(prefix).operations():
        other = names.setdefault(stem_of(op), op.name)
        if other != op.name or (find_dialect(prefix).is_variadic(op) and f"{stem_of(op)}_" in names):
            raise ValueError(f"{other} and {op.name} are both printed as {stem_of(op)}")
    return names
