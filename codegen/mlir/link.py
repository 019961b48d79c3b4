"""LLVM IR for the pieces of a translated module: the entry of its launch, and its parallel loops on the thread pool.

MLIR translates a parallel loop to a function of OpenMP's interface, which the loop's thread calls for each member of a
team: it asks for the range of its number, and computes it. Here the members are units of a launch of the thread pool
(`codegen/llvm/pool.py`), which are as many as balance the load. These functions are named after their code, so that
equal ones, of one program or of several, are compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...ir.hashing import structural_hash
from ..llvm.cpu import Cpu
from ..llvm.pool import RUN
from .math import with_functions
from .numbers import with_plain_numbers

_UNITS_OF_THREAD = 4
"""The units into which a parallel loop is divided, for each thread."""

_FORK = re.compile(
    r"call void \(ptr, i32, ptr, \.\.\.\) @__kmpc_fork_call\(ptr @\d+, i32 \d, ptr (@\S+?)(?:, ptr (\S+))?\)$"
)
_NUMBER = re.compile(r"call i32 @__kmpc_global_thread_num\(ptr @\d+\)")
_RANGE = re.compile(
    r"call void @__kmpc_for_static_init_8u\(ptr @\d+, i32 (\S+), i32 \d+, ptr \S+, ptr (\S+), ptr (\S+), .*\)"
)
_BARRIER = re.compile(r"call void @__kmpc_(?:barrier|for_static_fini)\(")
_MEMBER = re.compile(
    r"define internal void (@main\.\.omp_par\S*?)\(ptr noalias (%\S+?), ptr noalias %\S+?(?:, ptr %\S+)?\) .*{$"
)
_MAIN = re.compile(r"define void @main\((.*?)\)")
_LOCAL = re.compile(r"%[\w.$-]+|^[\w.$-]+(?=:)", re.MULTILINE)
_SYMBOL = re.compile(r"@[\w.$-]+")
_DECLARED = re.compile(r"^(?:declare .*?(@[\w.$-]+)\(.*|(@[\w.$-]+) = .*)$", re.MULTILINE)
_NOTES = re.compile(r", ![\w.]+ !\d+| #\d+(?= {$)| #\d+$|^;.*\n|\s+; preds = .*$", re.MULTILINE)
"""Attributes, metadata and comments, whose numbers differ between modules."""
_LOCATION = 'c";unknown;'
"""A constant of OpenMP's interface that nothing reads here."""

_TEAM = """
define internal void @mxf.fork(ptr %function, ptr %context) noinline nounwind {{
  %arguments = alloca {{ptr, ptr}}
  store ptr %function, ptr %arguments
  %second = getelementptr i8, ptr %arguments, i64 8
  store ptr %context, ptr %second
  %record = alloca {{ptr, ptr, i64, i64}}
  store {{ptr, ptr, i64, i64}} {{ptr @mxf.members, ptr undef, i64 {units}, i64 1}}, ptr %record
  %place = getelementptr i8, ptr %record, i64 8
  store ptr %arguments, ptr %place
  call void @{run}(ptr %record, i64 1)
  ret void
}}

define internal void @mxf.members(ptr %arguments, i64 %begin, i64 %end, i32 %worker) nounwind {{
entry:
  %function = load ptr, ptr %arguments
  %second = getelementptr i8, ptr %arguments, i64 8
  %context = load ptr, ptr %second
  %number = alloca i32
  br label %next
next:
  %unit = phi i64 [%begin, %entry], [%following, %next]
  %narrow = trunc i64 %unit to i32
  store i32 %narrow, ptr %number
  call void %function(ptr %number, ptr %number, ptr %context)
  %following = add i64 %unit, 1
  %more = icmp slt i64 %following, %end
  br i1 %more, label %next, label %exit
exit:
  ret void
}}

declare void @{run}(ptr, i64)
"""

_RANGE_CODE = """
define internal void @mxf.range(i32 %number, ptr %lower, ptr %upper) alwaysinline nounwind {{
  %last = load i64, ptr %upper
  %count = add i64 %last, 1
  %padded = add i64 %count, {units_less_one}
  %share = udiv i64 %padded, {units}
  %unit = zext i32 %number to i64
  %start = mul i64 %unit, %share
  %inside = icmp ult i64 %start, %count
  %begin = select i1 %inside, i64 %start, i64 %count
  %stop = add i64 %begin, %share
  %full = icmp ult i64 %stop, %count
  %end = select i1 %full, i64 %stop, i64 %count
  %inclusive = sub i64 %end, 1
  store i64 %begin, ptr %lower
  store i64 %inclusive, ptr %upper
  ret void
}}
"""


class Piece(NamedTuple):
    """LLVM IR that defines one function `name`."""

    name: str
    text: str


def linked(translated: str, symbol: str, cpu: Cpu) -> list[Piece]:
    """The pieces of a translated module. The first defines `symbol`, the kernel that calls the function `main` of the
    module with the pointers of its arguments; the others are those that it calls."""
    units = _UNITS_OF_THREAD * cpu.threads if cpu.threads > 1 else 1
    sizes = {"units": units, "units_less_one": units - 1, "run": RUN}
    text = _NOTES.sub("", _on_pool(translated))
    main = _MAIN.search(text)
    assert main is not None
    declarations = {match[1] or match[2]: match[0] for match in _DECLARED.finditer(text)}
    members: dict[str, str] = {}
    others: list[str] = []
    for name, lines in _definitions(text.splitlines()):
        if name is None:
            others += lines
        else:
            members[name] = _renamed("\n".join(lines), name)
    names: dict[str, str] = {}
    pieces: dict[str, Piece] = {}
    for old, body in members.items():
        used = [declarations[s] for s in dict.fromkeys(_SYMBOL.findall(body)) if s in declarations]
        code = "\n".join([*used, body, _RANGE_CODE.format(**sizes)])
        name = f"p_{structural_hash(cpu.lanes(), code)[:24]}"
        names[old] = f"@{name}"
        pieces[name] = Piece(name, with_functions(code.replace("@member(", f"@{name}("), cpu))
    rest = _SYMBOL.sub(lambda m: names.get(m[0], m[0]), "\n".join(others))
    rest = rest.replace("define void @main(", "define internal void @main(", 1)
    called = [f"declare void @{name}(ptr, ptr, ptr)" for name in pieces]
    team = [_TEAM.format(**sizes)] if pieces else []
    entry = _entry(symbol, len([p for p in main[1].split(",") if p]))
    return [Piece(symbol, with_functions("\n".join([*called, rest, *team, entry]), cpu)), *pieces.values()]


def _on_pool(translated: str) -> str:
    """The text with parallel loops on the pool, and floats as LLVM reads them."""
    lines: list[str] = []
    number = ""
    for line in translated.splitlines():
        if not line.startswith(" "):
            if line.startswith("source_filename") or _LOCATION in line or "%struct.ident_t" in line:
                continue
            if line.startswith("declare") and "@__kmpc_" in line:
                continue
            if member := _MEMBER.match(line):
                number = member[2]
        elif "@__kmpc_" in line:
            if _BARRIER.search(line):
                continue
            line = _FORK.sub(lambda m: f"call void @mxf.fork(ptr {m[1]}, ptr {m[2] or 'null'})", line)
            line = _NUMBER.sub(f"load i32, ptr {number}", line)
            line = _RANGE.sub(r"call void @mxf.range(i32 \1, ptr \2, ptr \3)", line)
        lines.append(line)
    return with_plain_numbers("\n".join(lines))


def _definitions(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """The lines of each member of a team, with its name, and the other lines."""
    start = 0
    name: str | None = None
    for i, line in enumerate(lines):
        member = _MEMBER.match(line) if line.startswith("define") else None
        if member is not None:
            yield None, lines[start:i]
            start, name = i, member[1]
        elif line == "}" and name is not None:
            yield name, lines[start : i + 1]
            start, name = i + 1, None
    yield None, lines[start:]


def _renamed(body: str, name: str) -> str:
    """A member with the name `@member`, visible to other modules, and local names in the order of their first use:
    equal members have equal texts."""
    names: dict[str, str] = {}

    def local(match: re.Match[str]) -> str:
        old = match[0].removeprefix("%")
        new = names.setdefault(old, f"v{len(names)}")
        return f"%{new}" if match[0].startswith("%") else new

    return _LOCAL.sub(local, body).replace(f"define internal void {name}(", "define void @member(", 1)


def _entry(symbol: str, arguments: int) -> str:
    lines = [f"\ndefine void @{symbol}(ptr %arguments, i64 %begin, i64 %end, i32 %worker) nounwind {{"]
    for i in range(arguments):
        lines.append(f"  %place{i} = getelementptr i8, ptr %arguments, i64 {8 * i}")
        lines.append(f"  %argument{i} = load ptr, ptr %place{i}")
    passed = ", ".join(f"ptr %argument{i}" for i in range(arguments))
    return "\n".join([*lines, f"  call void @main({passed})", "  ret void", "}", ""])
