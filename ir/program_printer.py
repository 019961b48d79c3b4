"""Prints a program as MLIR assembly: its tensors, its memory, and the launches in the order in which they run.

See `Place.text` and `Access.text`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import dictionary_text, quote
from .program import Computation, Program, Space, Step, nested_steps
from .step_fields import fields_of
from .steps import MNEMONICS


def print_program(program: Program) -> str:
    """The text of `program`, without the content of its constants and object files."""
    groups: list[dict[str, object]] = [{"group": i} for i, n in enumerate(program.groups) for _ in range(n)]
    groups = groups or [{}] * len(program.steps)
    lines = [
        *_declarations(program),
        *_memory(program),
        '    "program.prepare"() ({',
        *_steps(program, program.prepare, "      "),
        '      "vector.yield"() : () -> ()',
        "    }) : () -> ()",
        *(line for step, own in zip(program.steps, groups, strict=True) for line in _step(program, step, own, "    ")),
        '    "func.return"() : () -> ()',
    ]
    body = "\n".join(lines)
    head = '"builtin.module"() ({\n  "func.func"() ({\n  ^bb0:\n'
    tail = f"  }}) {{sym_name = {quote(program.name)}, function_type = () -> ()}} : () -> ()\n}}) : () -> ()\n"
    return f"{head}{body}\n{tail}"


def _declarations(program: Program) -> list[str]:
    lines: list[str] = []
    for i, kind in enumerate(program.inputs):
        uses = {"parameter": i in program.parameters, "state": i in program.state, "draws": _draws(program, i)}
        described = dictionary_text({"index": i, **uses})
        lines.append(f'    %input{i} = "program.input"() {described} : () -> {kind}')
    lines += [f"    {_op('output', {'index': i, 'type': t})}" for i, t in enumerate(program.outputs)]
    return [
        *lines,
        *(f"    {_op('function', {'index': i, 'label': f.label})}" for i, f in enumerate(program.functions)),
    ]


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
    return [line for step in steps for line in _step(program, step, {}, indent)]


def _step(program: Program, step: Step, own: dict[str, object], indent: str) -> list[str]:
    """The lines of a step: its lists of steps as regions, its other fields as attributes."""
    attributes: dict[str, object] = {}
    for name, type in fields_of(step.__class__).all.items():
        attributes[name] = type.text(getattr(step, name))
    if isinstance(step, Computation):
        attributes["label"] = program.label(step)
    known = {name: value for name, value in {**attributes, **own}.items() if value is not None}
    head, tail = f'{indent}"program.{MNEMONICS[step.__class__]}"() ', f"{dictionary_text(known)} : () -> ()"
    regions = [
        [*_steps(program, steps, f"{indent}  "), f'{indent}  "vector.yield"() : () -> ()']
        for steps in nested_steps(step)
    ]
    if not regions:
        return [head + tail]
    first, *rest = regions
    others = [line for region in rest for line in (f"{indent}}}, {{", *region)]
    return [f"{head}({{", *first, *others, f"{indent}}}) {tail}"]


def _op(mnemonic: str, attributes: dict[str, object]) -> str:
    return f'"program.{mnemonic}"() {dictionary_text(attributes)} : () -> ()'
