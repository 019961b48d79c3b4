"""Prints a program as MLIR assembly: its tensors, its memory, and the launches in the order in which they run.

A place is printed as `input0+0`, `output1+0` or `arena+4096`: the space, the position of an input or output, the offset
in bytes.
"""

from __future__ import annotations

from .attributes import attribute_text, dictionary_text, quote
from .program import Copy, Launch, Place, Program, Space, Step


def print_program(program: Program) -> str:
    """The text of `program`, without the content of its constants and object files."""
    groups = [i for i, size in enumerate(program.groups) for _ in range(size)] or [None] * len(program.steps)
    lines = [
        *_tensors(program),
        *_memory(program),
        '    "program.prepare"() ({',
        *(f"      {_launch(program, launch)}" for launch in program.prepare),
        '      "vector.yield"() : () -> ()',
        "    }) : () -> ()",
        *(f"    {_step(program, step, group)}" for step, group in zip(program.steps, groups, strict=True)),
        '    "func.return"() : () -> ()',
    ]
    body = "\n".join(lines)
    head = '"builtin.module"() ({\n  "func.func"() ({\n  ^bb0:\n'
    tail = f"  }}) {{sym_name = {quote(program.name)}, function_type = () -> ()}} : () -> ()\n}}) : () -> ()\n"
    return f"{head}{body}\n{tail}"


def place_text(place: Place) -> str:
    """A place in one word."""
    position = str(place.index) if place.space in (Space.INPUT, Space.OUTPUT) else ""
    return f"{place.space.value}{position}+{place.offset}"


def _tensors(program: Program) -> list[str]:
    lines: list[str] = []
    for i, kind in enumerate(program.inputs):
        uses = {"parameter": i in program.parameters, "state": i in program.state, "draws": _draws(program, i)}
        described = dictionary_text({"index": i, **uses})
        lines.append(f'    %input{i} = "program.input"() {described} : () -> {kind}')
    return [*lines, *(f"    {_op('output', {'index': i, 'type': t})}" for i, t in enumerate(program.outputs))]


def _draws(program: Program, position: int) -> int:
    """The number of operators that draw from the random key in this input; 0 for any other input."""
    key = program.random
    return key.draws if key is not None and key.input == position else 0


def _memory(program: Program) -> list[str]:
    sizes = {
        Space.ARENA: program.arena_bytes,
        Space.PREPARED: program.prepared_bytes,
        Space.CONSTANT: len(program.constants),
    }
    return [f"    {_op('memory', {'space': space.value, 'bytes': size})}" for space, size in sizes.items()]


def _step(program: Program, step: Step, group: int | None) -> str:
    return _launch(program, step, group) if isinstance(step, Launch) else _copy(step, group)


def _launch(program: Program, launch: Launch, group: int | None = None) -> str:
    arguments = [place_text(a) if isinstance(a, Place) else a for a in launch.arguments]
    listed = ", ".join(map(attribute_text, arguments))
    described: dict[str, object] = {"count": launch.count, "grain": launch.grain, "kind": launch.kind}
    described["label"] = program.label(launch)
    if launch.fallback:
        described["fallback"] = launch.fallback
    if group is not None:
        described["group"] = group
    rest = dictionary_text(described)[1:]
    return f'"program.launch"() {{symbol = {quote(launch.symbol)}, arguments = [{listed}], {rest} : () -> ()'


def _copy(copy: Copy, group: int | None) -> str:
    places = {"target": place_text(copy.target), "source": place_text(copy.source)}
    return _op("copy", {**places, "bytes": copy.nbytes, **({} if group is None else {"group": group})})


def _op(mnemonic: str, attributes: dict[str, object]) -> str:
    return f'"program.{mnemonic}"() {dictionary_text(attributes)} : () -> ()'
