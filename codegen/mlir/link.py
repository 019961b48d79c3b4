"""LLVM IR around a translated module: the entry of its launch, its parallel loops on the thread pool, and its
mathematical functions.

MLIR translates a parallel loop to a function of OpenMP's interface, which the loop's thread calls for each member of a
team: it asks for the range of its number, and computes it. Here the members are units of a launch of the thread pool
(`codegen/llvm/pool.py`), which are as many as balance the load.
"""

from __future__ import annotations

import re

import numpy as np

from ...ir.dialects.core.numerics import round_bfloat16
from ..llvm.cpu import Cpu
from ..llvm.pool import RUN
from .math import with_functions

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
_MEMBER = re.compile(r"define internal void @\S+\(ptr noalias (%\S+), ptr noalias %\S+?(?:, ptr %\S+)?\) .*{$")
_MAIN = re.compile(r"define void @main\((.*?)\)")

_FLOAT = re.compile(
    r"\bf0x([0-9A-F]+)\b|(?<![\w.%@-])([+-]?(?:inf|(?:s|q)?nan(?:\(0x[0-9A-Fa-f]+\))?|\d+\.\d+(?:e[+-]\d+)?)(?!\w))"
)
_NAN = re.compile(r"([+-]?)(s|q)?nan(?:\(0x([0-9A-Fa-f]+)\))?")
_TYPE = re.compile(r"\b(half|bfloat|float|double)\b")
_FORMATS = {"half": (">f2", "0xH"), "bfloat": (">f4", "0xR"), "float": (">f4", "0x"), "double": (">f8", "0x")}
"""By type of LLVM, a format that holds its numbers and the prefix of their bits."""
_FRACTIONS = {"half": (16, 10), "bfloat": (16, 7), "float": (32, 23), "double": (64, 52)}
"""By type, its bits and those of its fraction."""

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

declare void @{run}(ptr, i64)
"""


def linked(translated: str, symbol: str, cpu: Cpu) -> str:
    """LLVM IR that defines `symbol`, the kernel that calls the function `main` of a translated module with the
    pointers of its arguments."""
    units = _UNITS_OF_THREAD * cpu.threads if cpu.threads > 1 else 1
    lines: list[str] = []
    number = ""
    for line in translated.splitlines():
        if line.startswith("declare") and "@__kmpc_" in line:
            continue
        if member := _MEMBER.match(line):
            number = member[1]
        if "@__kmpc_" in line:
            if _BARRIER.search(line):
                continue
            line = _FORK.sub(lambda m: f"call void @mxf.fork(ptr {m[1]}, ptr {m[2] or 'null'})", line)
            line = _NUMBER.sub(f"load i32, ptr {number}", line)
            line = _RANGE.sub(r"call void @mxf.range(i32 \1, ptr \2, ptr \3)", line)
        lines.append(_with_plain_numbers(line))
    text = "\n".join(lines)
    main = _MAIN.search(text)
    assert main is not None
    text = text.replace("define void @main(", "define internal void @main(", 1)
    team = _TEAM.format(units=units, units_less_one=units - 1, run=RUN) if "@mxf.fork" in text else ""
    return f"{with_functions(text, cpu)}{team}{_entry(symbol, len([p for p in main[1].split(',') if p]))}"


def _with_plain_numbers(line: str) -> str:
    """A line with the bits of its floats as LLVM 22 reads them: the LLVM of MLIR writes them in other ways."""
    parts: list[str] = []
    end = 0
    for match in _FLOAT.finditer(line):
        type = _TYPE.findall(line, 0, match.start())[-1]
        parts += line[end : match.start()], _plain_number(type, match[1], match[2])
        end = match.end()
    return "".join((*parts, line[end:]))


def _plain_number(type: str, bits: str | None, text: str | None) -> str:
    """A number of a type, of which the bits or the decimal text are known."""
    bits = bits or _bits(type, text or "")
    return f"{_FORMATS[type][1]}{_as_double(bits) if type == 'float' else bits}"


def _bits(type: str, text: str) -> str:
    if match := _NAN.fullmatch(text):
        return _nan_bits(type, *match.groups())
    number = np.array(text, _FORMATS[type][0])
    if type == "bfloat":
        number = round_bfloat16(number.astype("f4")).astype(number.dtype)
    return number.tobytes().hex().upper()[: _FRACTIONS[type][0] // 4]


def _nan_bits(type: str, sign: str, kind: str | None, payload: str | None) -> str:
    """A NaN, which is quiet unless it is named `snan`."""
    width, fraction = _FRACTIONS[type]
    exponent = ((1 << (width - 1 - fraction)) - 1) << fraction
    quiet = 0 if kind == "s" else 1 << (fraction - 1)
    number = (int(sign == "-") << (width - 1)) | exponent | quiet | int(payload or "0", 16)
    return f"{number:0{width // 4}X}"


def _as_double(bits: str) -> str:
    """The bits of a float as those of a double, also of a NaN, which a conversion would make quiet."""
    number = int(bits, 16)
    if number & 0x7F800000 == 0x7F800000:
        return f"{(number >> 31) << 63 | 0x7FF << 52 | (number & 0x7FFFFF) << 29:016X}"
    return np.frombuffer(bytes.fromhex(bits), ">f4").astype(">f8").tobytes().hex().upper()


def _entry(symbol: str, arguments: int) -> str:
    lines = [f"\ndefine void @{symbol}(ptr %arguments, i64 %begin, i64 %end, i32 %worker) nounwind {{"]
    for i in range(arguments):
        lines.append(f"  %place{i} = getelementptr i8, ptr %arguments, i64 {8 * i}")
        lines.append(f"  %argument{i} = load ptr, ptr %place{i}")
    passed = ", ".join(f"ptr %argument{i}" for i in range(arguments))
    return "\n".join([*lines, f"  call void @main({passed})", "  ret void", "}", ""])
