"""Joins kernels: one kernel whose programs do the work of several launches.

    joined kernel:  program number -> a part (a kernel), then one of its launches -> the part's function

Launches of one kernel differ in their arguments: a program finds those of its launch by comparing its number with those
of the first programs of launches, as a binary search. An argument that all launches of a part have in common is passed
once. All arguments are parameters of the kernel, so a graph of launches changes them as any others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...ir.hashing import structural_hash
from ...ir.lazy_dataclass import dataclass
from .emit import Blocks, TritonSource
from .kernel_code import MOST_COUNTERS
from .part import NUMBER, PROGRAM_ID, Part
from .schedule import TritonSchedule
from .split import COUNTERS

MOST_WORDS = 496
"""The most parameters of a joined kernel: with two that Triton adds, less than the 4 KiB that CUDA passes."""

SMALL = 128
"""The programs of a kernel that are fewer than multiprocessors."""

MOST_PARTS = 32
"""The most different functions of a joined kernel."""


@dataclass(frozen=True, slots=True)
class Member:
    """A launch: its kernel, its arguments in order, of which equal ones are the same value, and its programs."""

    part: Part
    arguments: tuple[Hashable, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A kernel for several launches. `arguments` are those of its launch: for each of them the (member, position) of an
    argument, or a number."""

    source: TritonSource
    arguments: tuple[tuple[int, int] | int, ...]


def join(members: Sequence[Member]) -> Joined:
    """The kernel that does the work of all members, which `kinds_of` allows. ValueError if functions with one name
    differ."""
    return _Joining(members).joined()


def kinds_of(member: Member) -> list[Kind]:
    """The kinds of joined kernels that a launch can be in. A product is joined with products. Other kernels are joined
    with these if they are small: few programs of a product run on a multiprocessor at a time. Other large ones have at
    least one element for each thread of more than 4 warps."""
    part, is_small = member.part, member.count <= SMALL
    kinds = ("product",) if part.multiplies else ("other", "product") if is_small else ("other",)
    warps = [n for n in part.warps if is_small or n <= 4 or n == part.num_warps or 32 * n <= part.elements]
    return [Kind(kind, n, part.fp_fusion) for kind in kinds for n in warps]


class Kind(NamedTuple):
    """What the launches of a joined kernel have in common: "product" or "other", the warps of a program, and whether
    multiplications and additions are fused."""

    name: str
    warps: int
    fp_fusion: bool


def chunks(members: Sequence[Member]) -> list[list[int]]:
    """Positions of members that are joined, each list in one kernel: as few as the limits allow. Members of one part
    are neighbours."""
    result: list[list[int]] = []
    room = _Room()
    for positions in _by_part(members).values():
        for i in positions:
            if not result or not room.take(members[i]):
                result.append([])
                room = _Room()
                room.take(members[i])
            result[-1].append(i)
    return result


def _by_part(members: Sequence[Member]) -> dict[Part, list[int]]:
    """The positions of the members of each part."""
    positions: dict[Part, list[int]] = {}
    for i, member in enumerate(members):
        positions.setdefault(member.part, []).append(i)
    return positions


class _Room:
    """What a joined kernel has room for. `take` adds a launch, after those of the same part; False if it is too
    much."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.columns: dict[Part, list[list[Hashable]]] = {}
        self.counters = 0

    def take(self, member: Member) -> bool:
        part, arguments = member.part, member.arguments
        counters = self.counters + member.count * part.counts
        if counters > MOST_COUNTERS:
            return False
        columns = self.columns.get(part)
        if columns is None:
            own = part.functions()
            del own[part.name]
            is_new = all(self.functions.get(name, text) == text for name, text in own.items())
            if not is_new or len(self.columns) == MOST_PARTS:
                return False
            self.functions.update(own)
            columns = [list[Hashable]() for _ in arguments]
        longer = [[*column, argument] for column, argument in zip(columns, arguments, strict=True)]
        self.columns[part] = longer
        if self._words() <= MOST_WORDS:
            self.counters = counters
            return True
        self.columns[part] = columns
        return False

    def _words(self) -> int:
        """The parameters: for each part, the columns of different arguments, and the first programs
        and counters of launches."""
        return sum(_words_of(columns, 1 + part.counts) for part, columns in self.columns.items())


def _words_of(columns: Sequence[Sequence[Hashable]], more: int) -> int:
    """The parameters of a part with `more` for each launch."""
    different = {tuple(column) for column in columns}
    return sum(len(c) if len(set(c)) > 1 else 1 for c in different) + more * len(columns[0]) + 2


class _Joining:
    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.signature: list[tuple[str, str]] = []
        self.divisible: set[str] = set()
        self.arguments: list[tuple[int, int] | int] = []
        self.lines: list[str] = []
        self.begin = self.counters = 0

    def joined(self) -> Joined:
        groups = _by_part(self.members)
        helpers: dict[str, str] = {}
        names: dict[str, str] = {}  # of the functions of parts, which can differ in constants alone
        for number, (part, positions) in enumerate(groups.items()):
            *own, (name, main) = part.functions().items()
            for helper, text in own:
                if helpers.setdefault(helper, text) != text:
                    raise ValueError(f"two functions {helper} of kernels that are joined")
            function = names.setdefault(main.replace(f"def {name}(", "def {}(", 1), f"part{len(names)}")
            self._branch(number, part, function, positions, number + 1 == len(groups))
        if any(part.counts for part in groups):
            self.signature.append((COUNTERS, "*i32"))
            self.divisible.add(COUNTERS)
        mains = [main.replace("def {}(", f"def {name}(", 1) for main, name in names.items()]
        return self._finished(list(groups), helpers.values(), mains)

    def _finished(self, parts: Sequence[Part], helpers: Iterable[str], mains: Sequence[str]) -> Joined:
        imports = "\n".join(dict.fromkeys(line for part in parts for line in part.imports()))
        names = ", ".join(name for name, _ in self.signature)
        body = "\n".join(f"    {line}" for line in (f"{NUMBER} = {PROGRAM_ID}", *self.lines))
        head = f"@triton.jit\ndef NAME({names}):\n{body}"
        text = "\n\n\n".join((f'"""Joined kernels."""\n\n{imports}', *helpers, *mains, head)) + "\n"
        kinds = set(kinds_of(self.members[0]))
        for member in self.members[1:]:
            kinds.intersection_update(kinds_of(member))
        kind = min(kinds)
        schedule = TritonSchedule((), kind.warps, fp_fusion=kind.fp_fusion)
        grid = (Blocks((sum(m.count for m in self.members),), 1),)
        divisible = frozenset(self.divisible)
        unnamed = TritonSource(text, "NAME", tuple(self.signature), (), divisible, grid, schedule)
        name = f"j_{structural_hash(unnamed.identity)[:16]}"
        source = replace(unnamed, text=text.replace("def NAME(", f"def {name}("), name=name)
        return Joined(source, tuple(self.arguments))

    def _branch(self, number: int, part: Part, function: str, positions: Sequence[int], is_last: bool) -> None:
        """The lines for the programs of a part."""
        starts = [self.begin]
        for i in positions:
            starts.append(starts[-1] + self.members[i].count)
        self.begin = starts.pop()
        word = "elif" if number else "if"
        if is_last and number:
            self.lines.append("else:")
        elif not is_last:
            self.lines.append(f"{word} {NUMBER} < {self._number(f'end{number}', self.begin)}:")
        indent = "" if is_last and not number else "    "
        columns, chosen = self._columns(number, part, positions)
        if part.counts:
            columns.append(self._own_counters(number, positions, chosen))
        first = [self._number(f"first{number}_{k}", start) for k, start in enumerate(starts)]
        self._choose(indent, number, first, chosen, 0, len(positions))
        begin = first[0] if len(positions) == 1 else f"first{number}"
        named = zip([name for name, _ in part.signature], columns, strict=True)  # constants can be between them
        arguments = [*named, *((name, repr(value)) for name, value in part.constants)]
        call = ", ".join((f"{NUMBER} - {begin}", *(f"{name}={value}" for name, value in arguments)))
        self.lines.append(f"{indent}{function}({call})")

    def _columns(self, number: int, part: Part, positions: Sequence[int]) -> tuple[list[str], dict[str, list[str]]]:
        """The names of the values that the part's function takes, and of those that depend on the launch, with the
        names of the parameters that hold them."""
        known: dict[tuple[Hashable, ...], str] = {}
        columns: list[str] = []
        chosen: dict[str, list[str]] = {}
        for at, (name, type) in enumerate(part.signature[: len(part.signature) - part.counts]):
            values = tuple(self.members[i].arguments[at] for i in positions)
            key = type, name in part.divisible, *values
            if key not in known:
                own = known[key] = f"{name}_{number}"
                if len(set(values)) == 1:
                    self._parameter(own, type, (positions[0], at), name in part.divisible)
                else:
                    chosen[own] = [f"{own}_{k}" for k in range(len(positions))]
                    for parameter, i in zip(chosen[own], positions, strict=True):
                        self._parameter(parameter, type, (i, at), name in part.divisible)
            columns.append(known[key])
        return columns, chosen

    def _own_counters(self, number: int, positions: Sequence[int], chosen: dict[str, list[str]]) -> str:
        """The counters of a launch: no two launches have the same."""
        own = f"counter{number}"
        names = [own] if len(positions) == 1 else [f"{own}_{k}" for k in range(len(positions))]
        for name, i in zip(names, positions, strict=True):
            self._number(name, self.counters)
            self.counters += self.members[i].count
        if len(positions) > 1:
            chosen[own] = names
        return f"{COUNTERS} + {own}"

    def _choose(
        self, indent: str, number: int, first: Sequence[str], chosen: dict[str, list[str]], low: int, high: int
    ) -> None:
        """Lines that set the values of the launch that has this program, one of [low, high)."""
        if len(first) == 1:
            return
        if high - low == 1:
            self.lines.append(f"{indent}first{number} = {first[low]}")
            self.lines += [f"{indent}{name} = {parameters[low]}" for name, parameters in chosen.items()]
            return
        middle = (low + high) // 2
        self.lines.append(f"{indent}if {NUMBER} < {first[middle]}:")
        self._choose(indent + "    ", number, first, chosen, low, middle)
        self.lines.append(f"{indent}else:")
        self._choose(indent + "    ", number, first, chosen, middle, high)

    def _number(self, name: str, value: int) -> str:
        self._parameter(name, "i32", value, False)
        return name

    def _parameter(self, name: str, type: str, argument: tuple[int, int] | int, divisible: bool) -> None:
        self.signature.append((name, type))
        self.arguments.append(argument)
        if divisible:
            self.divisible.add(name)
