"""Collects the launches of one primitive: kernels, arguments, and memory that only these launches use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ....ir.hashing import structural_hash
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..emit import Blocks, TritonSource
from ..schedule import TritonSchedule
from ..types import POINTERS
from .text import kernel_text, parameters_of

_ALIGNMENT = 64  # of parts of the workspace, in bytes
_LONGEST_INT32 = (1 << 31) - (1 << 16)
Constant = int | str
BOOLEAN = {"add": "or", "mul": "and", "max": "or", "min": "and"}
"""Operations on booleans, which are bytes in memory."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of an operand or a result by its position, or a part of the workspace. `dtype` is that of its
    elements."""

    position: int
    dtype: DType
    offset: int = 0


@dataclass
class Launches:
    """`types` are those of the operands, then of the results. `is_fixed`: extents are written into the kernels.
    `aligned` and `in_place` are as in `Emitter.emit_node`."""

    types: Sequence[TensorType]
    is_fixed: bool
    aligned: bool
    in_place: bool
    sources: list[TritonSource] = field(default_factory=list[TritonSource])
    specs: list[LaunchSpec] = field(default_factory=list[LaunchSpec])
    workspace: int = 0

    @property
    def wide(self) -> bool:
        """True if the positions of elements need 64 bits."""
        return any(t.physical_size > _LONGEST_INT32 for t in self.types)

    def memory(self, position: int) -> Memory:
        return Memory(position, self.types[position].dtype)

    def reserve(self, count: int, dtype: DType) -> Memory:
        """Workspace for `count` elements."""
        offset = self.workspace
        self.workspace += -(-count * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return Memory(len(self.types), dtype, offset)

    def add(
        self,
        file: str,
        function: str,
        pointers: Mapping[str, Memory],
        sizes: Mapping[str, int],
        constants: Mapping[str, Constant],
        programs: int,
        varying: Mapping[str, int] | None = None,
        warps: int = 4,
    ) -> None:
        """Launch `programs` programs of a function of `kernels/{file}.py`. Its parameters are `pointers`, `sizes`,
        which are arguments of the launch unless extents are fixed, `varying` arguments, and `constants`, by name. WIDE
        is a constant of all functions."""
        arguments = {} if self.is_fixed else dict(sizes)
        arguments |= {name: n for name, n in sizes.items() if is_symbolic(n)} | dict(varying or {})
        known: dict[str, Constant] = {**sizes, **constants, "WIDE": int(self.wide)}
        signature, fixed, numbers = list[tuple[str, str]](), list[tuple[str, Constant]](), list[int]()
        for name in parameters_of(file, function):
            if name in pointers:
                signature.append((name, POINTERS[pointers[name].dtype]))
            elif name in arguments:
                signature.append((name, "i64" if self.wide else "i32"))
                numbers.append(arguments[name])
            else:
                fixed.append((name, known[name]))
        work = len(self.types)
        divisible = frozenset(name for name, m in pointers.items() if self.aligned or m.position == work)
        schedule = TritonSchedule((), warps)
        text = kernel_text(file, function, _UNNAMED)
        name = f"r_{structural_hash(text, tuple(signature), tuple(fixed), divisible, warps)[:16]}_{function}"
        text = text.replace(_UNNAMED, name)
        grid = (Blocks((programs,), 1),)
        self.sources.append(TritonSource(text, name, tuple(signature), tuple(fixed), divisible, grid, schedule))
        memory = [pointers[name] for name, _ in signature if name in pointers]
        taken = tuple((m.position, m.offset) for m in memory)
        self.specs.append(LaunchSpec(name, programs, 1, numbers=tuple(numbers), taken=taken))

    def emission(self) -> Emission:
        return Emission(tuple(self.specs), self.workspace)


_UNNAMED = "_routine_"
