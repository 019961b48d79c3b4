"""Reduces a random program with gradients that fails to a small one that fails in the same way.

    python tests/reduce_random_program.py SEED

It removes steps, outputs, backward passes and requests for gradients while the program still fails in the same form.
Inputs of other extents are left out. A process with the reference target computes the expected results of each
candidate, and another one runs it, so a crash is a failure too.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from random_gradient_programs import GradientProgram
from run_random_programs import reference_programs


def reduced(program: GradientProgram, failure: str) -> GradientProgram:
    """The smallest program found with this failure."""
    for candidate in _smaller(program):
        judged = _in_process("--judge", replace(candidate, resized=()), target="reference")
        if isinstance(judged, GradientProgram) and _in_process("--check", judged) == failure:
            return reduced(judged, failure)
    return program


def _smaller(program: GradientProgram) -> Iterator[GradientProgram]:
    """Programs with a part less, large parts first."""
    for number in reversed(range(len(program.program.steps))):
        made = _without_step(program, number)
        if made.heads:
            yield made
    for position in reversed(range(len(program.program.outputs))):
        made = _with_outputs(program, [i for i in range(len(program.program.outputs)) if i != position])
        if made.heads:
            yield made
    if len(program.rounds) > 1:
        yield replace(program, rounds=program.rounds[:1])
        yield replace(program, rounds=program.rounds[1:])
    for i in program.wanted:
        for request in ("null", "write"):
            requests = (*program.requests[:i], request, *program.requests[i + 1 :])
            if request != program.requests[i] and any(r != "null" for r in requests):
                yield replace(program, requests=requests)


def _without_step(program: GradientProgram, number: int) -> GradientProgram:
    """The program without a step and those that read its results."""
    plain = program.program
    count, removed, new = len(plain.inputs), set[int](), {i: i for i in range(len(plain.inputs))}
    kept: list[int] = []
    for k, (step, results) in enumerate(zip(plain.steps, plain.counts, strict=True)):
        values = range(count, count + results)
        count += results
        if k == number or removed & set(step.operands):
            removed |= set(values)
            continue
        new |= {v: len(new) + i for i, v in enumerate(values)}
        kept.append(k)
    program = _with_outputs(program, [i for i, v in enumerate(plain.outputs) if v not in removed])
    steps = tuple(replace(plain.steps[k], operands=tuple(new[v] for v in plain.steps[k].operands)) for k in kept)
    counts, outputs = tuple(plain.counts[k] for k in kept), tuple(new[v] for v in program.program.outputs)
    floats = frozenset(new[v] for v in program.floats if v in new)
    return replace(
        program, floats=floats, program=replace(program.program, steps=steps, counts=counts, outputs=outputs)
    )


def _with_outputs(program: GradientProgram, positions: list[int]) -> GradientProgram:
    """The program with the outputs at these positions only."""
    plain = replace(program.program, outputs=tuple(program.program.outputs[i] for i in positions))
    kept = [k for k, i in enumerate(program.heads) if i in positions]
    rounds = tuple(None if r is None else tuple(r[k] for k in kept) for r in program.rounds)
    heads = tuple(positions.index(program.heads[k]) for k in kept)
    return replace(program, program=plain, heads=heads, rounds=rounds)


def _in_process(mode: str, program: GradientProgram, target: str = "") -> object:
    environment = {**os.environ, **({"MXFORGE_TARGET": target} if target else {})}
    command = [sys.executable, "-W", "ignore", __file__, mode]
    done = subprocess.run(command, input=pickle.dumps(program), capture_output=True, env=environment, check=False)
    return pickle.loads(done.stdout) if done.returncode == 0 else f"status {done.returncode}"


def _judge(program: GradientProgram) -> object:
    from random_gradient_judge import judged

    return judged(program)


def _failure(program: GradientProgram) -> str:
    """The form and the kind of the failure; "" for none."""
    from random_gradient_forms import check

    try:
        check(program)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).split(':')[0]}"
    return ""


def main() -> None:
    if not sys.argv[1].isdecimal():
        program = pickle.load(sys.stdin.buffer)
        pickle.dump((_judge if sys.argv[1] == "--judge" else _failure)(program), sys.stdout.buffer)
        return
    warnings.simplefilter("ignore")
    (program,) = reference_programs(int(sys.argv[1]), 1, gradients=True)
    assert isinstance(program, GradientProgram), program
    failure = _in_process("--check", program)
    found = reduced(program, str(failure)) if failure else program
    print(f"{failure or 'no failure'}\n{found}")
    sys.exit(1 if failure else 0)


if __name__ == "__main__":
    main()
