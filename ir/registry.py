"""The dialects that graphs may use, as the printer and the parser see them: how an op is spelled and read back.

MLIR's IRDL allows an operation's name to hold lower-case letters, digits and single underscores, and cannot say that
an operation takes any number of operands of different types. So an op is spelled in lower case, `mx.MakeLoss` (which is
not `mx.make_loss`) as `mx.makeloss`, `mx._plus_scalar` as `mx.plus_scalar_`; and an op whose number of operands or
results varies carries both numbers (and that of its regions, if more than one): `core.concat` of three tensors is
`core.concat_3_1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from .graph import Attribute, Graph, Op


@dataclass(frozen=True)
class Dialect:
    """What is known about a dialect.

    `operations` lists its classes of ops; `is_variadic` says whose spelling carries counts; `build(name, attributes,
    regions)` makes an op from what was printed, with KeyError, TypeError or ValueError otherwise.
    """

    prefix: str
    operations: Callable[[], Iterable[type[Op]]]
    is_variadic: Callable[[type[Op]], bool]
    build: Callable[[str, Mapping[str, Attribute], tuple[Graph, ...]], Op]


_DIALECTS: dict[str, Dialect] = {}
_COUNTS = re.compile(r"(.+?)(?:_\d+){2,3}")


def register_dialect(dialect: Dialect) -> None:
    """Make a dialect known; a second registration under the same prefix replaces the first."""
    _DIALECTS[dialect.prefix] = dialect
    _spelled.cache_clear()
    _stem.cache_clear()


def find_dialect(prefix: str) -> Dialect:
    """The dialect of this prefix; KeyError names one that is not known."""
    if prefix not in _DIALECTS:
        import_module(".dialects.text", __package__)  # registers core and mx
    if prefix not in _DIALECTS:
        raise KeyError(f"dialect {prefix!r} is not known")
    return _DIALECTS[prefix]


def spelling(op: Op, operands: int, results: int) -> str:
    """The name of `op` in printed text."""
    stem, variadic = _stem(type(op))
    if not variadic:
        return stem
    regions = len(op.regions())
    counts = f"{operands}_{results}_{regions}" if regions > 1 else f"{operands}_{results}"
    return f"{stem}{counts}" if stem.endswith("_") else f"{stem}_{counts}"


def build_op(spelled: str, attributes: Mapping[str, Attribute], regions: tuple[Graph, ...]) -> Op:
    """The op that was printed as `spelled`; KeyError when there is none, TypeError or ValueError for attributes."""
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
    """A mnemonic as IRDL allows it: `_contrib_ROIAlign` gives `contrib_roialign_`."""
    plain = mnemonic.lstrip("_")
    return re.sub("__+", "_", plain.lower()) + "_" * (plain != mnemonic)


def stem_of(kind: type[Op]) -> str:
    """The printed name of a class of ops, without counts."""
    prefix, _, mnemonic = kind.name.partition(".")
    return f"{prefix}.{spell(mnemonic)}"


@cache
def _stem(kind: type[Op]) -> tuple[str, bool]:
    return stem_of(kind), find_dialect(kind.name.partition(".")[0]).is_variadic(kind)


@cache
def _spelled(prefix: str) -> dict[str, str]:
    """Printed name -> name, for a whole dialect; ValueError when two ops share a spelling."""
    names: dict[str, str] = {}
    for kind in find_dialect(prefix).operations():
        other = names.setdefault(stem_of(kind), kind.name)
        if other != kind.name or (find_dialect(prefix).is_variadic(kind) and f"{stem_of(kind)}_" in names):
            raise ValueError(f"{other} and {kind.name} are both printed as {stem_of(kind)}")
    return names
