"""Prints a program as MLIR assembly: its tensors, its memory, and the launches in the order in which they run.

A place is printed as `input0+0`, `output1+0` or `arena+4096`: the space, the position of an input or output, the offset
in bytes. In loops `+256*i0` follows if it moves by 256 bytes with each iteration of the outermost loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import attribute_text, dictionary_text, quote
from .program import (
    UNBOUNDED,
    Branch,
    Computation,
    Copy,
    Fill,
    HostCall,
    Launch,
    Loop,
    Place,
    Program,
    Space,
    Step,
    nested_steps,
)


def print_program(program: Program) -> str:
    """The text of `program`, without the content of its constants and object files."""
    groups = [i for i, size in enumerate(program.groups) for _ in range(size)] or [None] * len(program.steps)
    lines = [
        *_tensors(program),
        *_memory(program),
        '    "program.prepare"() ({',
        *_steps(program, program.prepare, "      "),
        '      "vector.yield"() : () -> ()',
        "    }) : () -> ()",
        *(line for x, group in zip(program.steps, groups, strict=True) for line in _step(program, x, group, "    ")),
        '    "func.return"() : () -> ()',
    ]
    body = "\n".join(lines)
    head = '"builtin.module"() ({\n  "func.func"() ({\n  ^bb0:\n'
    tail = f"  }}) {{sym_name = {quote(program.name)}, function_type = () -> ()}} : () -> ()\n}}) : () -> ()\n"
    return f"{head}{body}\n{tail}"


def place_text(place: Place) -> str:
    """A place in one word."""
    position = str(place.index) if place.space in (Space.INPUT, Space.OUTPUT) else ""
    moves = "".join(f"{stride:+}*i{depth}" for depth, stride in enumerate(place.strides) if stride)
    return f"{place.space.value}{position}+{place.offset}{moves}"


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


def _steps(program: Program, steps: Sequence[Step], indent: str) -> list[str]:
    return [line for step in steps for line in _step(program, step, None, indent)]


def _step(program: Program, step: Step, group: int | None, indent: str) -> list[str]:
    """The lines of a step."""
    own: dict[str, object] = {} if group is None else {"group": group}
    match step:
        case Launch():
            return [f"{indent}{_launch(program, step, own)}"]
        case HostCall():
            called: dict[str, object] = {"function": program.functions[step.function].label}
            called |= {"arguments": [place_text(a) for a in step.arguments], **_described(program, step), **own}
            return [f"{indent}{_op('host_call', called)}"]
        case Copy():
            places = {"target": place_text(step.target), "source": place_text(step.source)}
            return [f"{indent}{_op('copy', {**places, 'bytes': step.nbytes, **own})}"]
        case Fill():
            return [f"{indent}{_op('fill', {'target': place_text(step.target), 'bytes': step.nbytes, **own})}"]
        case Loop():
            flag = {} if step.flag is None else {"flag": place_text(step.flag)}
            known = {} if step.count == UNBOUNDED else {"count": step.count}
            return _nested(program, "loop", step, {**known, **flag, **own}, indent)
        case Branch():
            return _nested(program, "branch", step, {"flag": place_text(step.flag), **own}, indent)


def _nested(
    program: Program, mnemonic: str, step: Loop | Branch, attributes: dict[str, object], indent: str
) -> list[str]:
    """A step with its lists of steps as regions."""
    lines: list[str] = []
    for number, steps in enumerate(nested_steps(step)):
        lines.append("}, {" if number else f'{indent}"program.{mnemonic}"() ({{')
        lines[-1] = lines[-1] if not number else f"{indent}{lines[-1]}"
        lines += [*_steps(program, steps, f"{indent}  "), f'{indent}  "vector.yield"() : () -> ()']
    described = dictionary_text({**attributes, **_described(program, step)})
    return [*lines, f"{indent}}}) {described} : () -> ()"]


def _described(program: Program, step: Computation) -> dict[str, object]:
    found: dict[str, object] = {"kind": step.kind, "label": program.label(step)}
    if isinstance(step, Launch | HostCall) and step.fallback:
        found["fallback"] = step.fallback
    return found


def _launch(program: Program, launch: Launch, own: dict[str, object]) -> str:
    arguments = [place_text(a) if isinstance(a, Place) else a for a in launch.arguments]
    listed = ", ".join(map(attribute_text, arguments))
    described = {"count": launch.count, "grain": launch.grain, **_described(program, launch), **own}
    rest = dictionary_text(described)[1:]
    return f'"program.launch"() {{symbol = {quote(launch.symbol)}, arguments = [{listed}], {rest} : () -> ()'


def _op(mnemonic: str, attributes: dict[str, object]) -> str:
    return f'"program.{mnemonic}"() {dictionary_text(attributes)} : () -> ()'
