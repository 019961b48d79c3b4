"""Collects the lines of a Triton function: unique names, loops, and loop invariants, which are written before loops."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field

from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType
from .helpers import helpers_for

_LONGEST = 90  # characters up to which an expression is written inside another


@dataclass(frozen=True, slots=True)
class Value:
    """An expression: `dims` are the tile dimensions along which it varies; `literal` is True for a Python number."""

    text: str
    dims: frozenset[str]
    dtype: DType
    literal: bool = False


@dataclass
class Scope:
    """Lines of one block and the values computed in it. `moving` are the dimensions along which its loop steps. A
    closed block keeps all its lines: none is written before it."""

    moving: frozenset[str]
    closed: bool = False
    lines: list[str] = field(default_factory=list[str])
    known: dict[object, Value] = field(default_factory=dict[object, Value])


class Source:
    """The body of one function. Values that do not vary with a loop are written before it."""

    def __init__(self, reserved: set[str]) -> None:
        self.taken = set(reserved) | {"tl", "triton", "libdevice"}
        self.scopes = [Scope(frozenset())]

    def fresh(self, base: str) -> str:
        """An unused name: `base`, or `base` with a number."""
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def line(self, text: str, dims: frozenset[str] | None = None) -> None:
        """Append a line to the innermost block; with `dims`, to the innermost whose loop steps along one of them."""
        self._scope(dims).lines.append(text)

    def let(self, base: str, text: str, dims: frozenset[str] | None = None) -> str:
        name = self.fresh(base)
        self.line(f"{name} = {bare(text)}", dims)
        return name

    def short(self, value: Value) -> Value:
        """`value`, in a variable if its text is long."""
        if len(value.text) <= _LONGEST:
            return value
        return Value(self.let("v", value.text, value.dims), value.dims, value.dtype)

    def find(self, key: object) -> Value | None:
        return next((s.known[key] for s in reversed(self.scopes) if key in s.known), None)

    def remember(self, key: object, value: Value) -> Value:
        self._scope(value.dims).known[key] = value
        return value

    def _scope(self, dims: frozenset[str] | None) -> Scope:
        if dims is None:
            return self.scopes[-1]
        for depth in range(len(self.scopes) - 1, 0, -1):
            if self.scopes[depth].closed or dims & self.scopes[depth].moving:
                return self.scopes[depth]
        return self.scopes[0]

    @contextmanager
    def loop(self, head: str, moving: str) -> Generator[None]:
        """A block under `head`, a loop along dimension `moving`."""
        with self._block(head, Scope(frozenset((moving,)))):
            yield

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """A closed block under `head`."""
        with self._block(head, Scope(frozenset(), closed=True)):
            yield

    @contextmanager
    def _block(self, head: str, scope: Scope) -> Generator[None]:
        self.scopes.append(scope)
        yield
        body = self.scopes.pop().lines
        self.scopes[-1].lines += [head, *(f"    {line}" for line in body)]


def bare(text: str) -> str:
    """`text` without the pair of parentheses around all of it, if it has one."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 and text[0] == "(" else text
    return text


def module_text(title: str, name: str, parameters: list[str], lines: list[str]) -> str:
    """A Python module with the function, the helpers it calls and the imports they need."""
    body = "\n".join(f"    {line}" for line in lines)
    helpers = helpers_for(body)
    whole = "\n".join((body, *helpers))
    imports = ["import triton", "import triton.language as tl"]
    if "libdevice." in whole:
        imports.append("from triton.language.extra import libdevice")
    head = f"@triton.jit\ndef {name}({', '.join(parameters)}):\n{body}"
    return "\n\n\n".join((f'"""{title}"""\n\n' + "\n".join(imports), *helpers, head)) + "\n"
