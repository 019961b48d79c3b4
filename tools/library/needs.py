"""The instruction sets that machine code needs, as a library checks them before it runs.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID; Linux, arch/arm64/include/uapi/
asm/hwcap.h.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ToolError
from .targets import is_macos


class Need(NamedTuple):
    """`struct model_need` of `model.h`."""

    name: str
    leaf: int
    subleaf: int
    word: int
    mask: int


_EBX, _ECX, _EDX, _EAX = 1, 2, 3, 0
_EXTENDED = 0x80000001
_HWCAP, _HWCAP2 = 16, 26

_X86 = {
    "sse3": (1, 0, _ECX, 0),
    "ssse3": (1, 0, _ECX, 9),
    "fma": (1, 0, _ECX, 12),
    "cx16": (1, 0, _ECX, 13),
    "sse4.1": (1, 0, _ECX, 19),
    "sse4.2": (1, 0, _ECX, 20),
    "movbe": (1, 0, _ECX, 22),
    "popcnt": (1, 0, _ECX, 23),
    "avx": (1, 0, _ECX, 28),
    "f16c": (1, 0, _ECX, 29),
    "bmi": (7, 0, _EBX, 3),
    "avx2": (7, 0, _EBX, 5),
    "bmi2": (7, 0, _EBX, 8),
    "avx512f": (7, 0, _EBX, 16),
    "avx512dq": (7, 0, _EBX, 17),
    "avx512ifma": (7, 0, _EBX, 21),
    "avx512cd": (7, 0, _EBX, 28),
    "avx512bw": (7, 0, _EBX, 30),
    "avx512vl": (7, 0, _EBX, 31),
    "avx512vbmi": (7, 0, _ECX, 1),
    "avx512vbmi2": (7, 0, _ECX, 6),
    "avx512vnni": (7, 0, _ECX, 11),
    "avx512bitalg": (7, 0, _ECX, 12),
    "avx512vpopcntdq": (7, 0, _ECX, 14),
    "avx512fp16": (7, 0, _EDX, 23),
    "avxvnni": (7, 1, _EAX, 4),
    "avx512bf16": (7, 1, _EAX, 5),
    "lzcnt": (_EXTENDED, 0, _ECX, 5),
}
_X86_STATES = {"avx": ("avx (in the system)", 0x6), "avx512f": ("avx512 (in the system)", 0xE6)}
"""The registers that the system must save for an instruction set."""

_AARCH64 = {
    "neon": (_HWCAP, 1),
    "fp-armv8": (_HWCAP, 0),
    "lse": (_HWCAP, 8),
    "fullfp16": (_HWCAP, 10),
    "rdm": (_HWCAP, 12),
    "dotprod": (_HWCAP, 20),
    "i8mm": (_HWCAP2, 13),
    "bf16": (_HWCAP2, 14),
}


def needs_of(triple: str, features: str) -> list[Need]:
    """What code for this triple and these features of LLVM needs: nothing on macOS, where `targets.py` chooses what all
    processors have. ToolError for a feature that cannot be checked."""
    if is_macos(triple):
        return []
    names = [name.removeprefix("+") for name in features.split(",") if name and not name.startswith("-")]
    known = _X86 if triple.startswith("x86_64") else _AARCH64
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ToolError(f"a library cannot check at run time for {', '.join(unknown)}")
    return [need for name in names for need in (_x86(name) if known is _X86 else [_aarch64(name)])]


def _x86(name: str) -> list[Need]:
    leaf, subleaf, word, bit = _X86[name]
    needs = [Need(name, leaf, subleaf, word, 1 << bit)]
    if name in _X86_STATES:
        text, mask = _X86_STATES[name]
        needs.append(Need(text, -1, 0, 0, mask))
    return needs


def _aarch64(name: str) -> Need:
    leaf, bit = _AARCH64[name]
    return Need(name, leaf, 0, 0, 1 << bit)
