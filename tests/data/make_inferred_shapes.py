"""Records what MXNet 1.9.1 infers for each operator when parts of the shapes are unknown, or an extent is 0.

`python tests/data/make_inferred_shapes.py` runs where `mxnet==1.9.1` is installed and writes `inferred_shapes.json`
beside itself. The operators, their parameters and the shapes are those of the first recorded cases of each operator in
`operators/*.json`. The questions of a case follow from its shapes, so that a row holds answers alone.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES_OF_AN_OPERATOR = 2
DIED = "died"
REFUSED = "refused"


def cases():
    """(operator, attributes, shapes of its inputs) of some recorded calls of each operator."""
    found = {}
    for path in sorted(HERE.glob("operators/*.json")):
        for record in json.loads(path.read_text()):
            if "names" in record and record["inputs"]:
                case = record["op"], record["attributes"], [x[2:] for x in record["inputs"]]
                known = found.setdefault(record["op"], [])
                if len(known) < CASES_OF_AN_OPERATOR and case not in known:
                    known.append(case)
    return [case for known in found.values() for case in known]


def questions(shapes):
    """(shapes of the inputs, whether the output's shape is known): -1 is an unknown extent, None an unknown shape.

    [] is a scalar."""
    yield [None] * len(shapes), True
    yield [[]] * len(shapes), False
    for i, shape in enumerate(shapes):
        without = [*shapes[:i], None, *shapes[i + 1 :]]
        yield without, False
        yield without, True
        for axis in range(len(shape)):
            for extent in (-1, 0):
                yield [*shapes[:i], [*shape[:axis], extent, *shape[axis + 1 :]], *shapes[i + 1 :]], False


def symbol_of(make, var, count):
    """The operator on variables x0, x1, ..., and that operator's first output plus a variable."""
    node = make([var("x%d" % i) for i in range(count)])
    return node, node[0] + var("out")


def infer(mx, symbol, given):
    """The inferred shapes of arguments, states and outputs in NumPy's mode; REFUSED where MXNet has an error."""
    given = {name: tuple(shape) for name, shape in given.items() if shape is not None}
    with mx.util.np_shape(True):
        try:
            arguments, outputs, states = symbol.infer_shape_partial(**given)
        except mx.MXNetError:
            return REFUSED
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    known = dict(zip(names, arguments + states))
    inputs = sorted((name for name in known if name != "out"), key=lambda name: int(name[1:]))
    return [known[name] for name in inputs] + outputs


def in_legacy(mx, symbol, given):
    """`infer` without NumPy's shapes, where 0 is unknown: the answer in the form of that of `infer`."""
    coded = {n: tuple(max(m, 0) for m in shape) for n, shape in given.items() if shape is not None}
    try:
        arguments, outputs, states = symbol.infer_shape_partial(**coded)
    except mx.MXNetError:
        return REFUSED
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    known = dict(zip(names, arguments + states))
    inputs = sorted((name for name in known if name != "out"), key=lambda name: int(name[1:]))
    found = [known[name] for name in inputs] + outputs
    return [[n or -1 for n in shape] if shape else None for shape in found]


def answer(mx, make, shapes, output, question):
    """What follows, in NumPy's mode and without it; one answer where they agree or where an extent is 0."""
    given, with_output = question
    node, total = symbol_of(make, mx.sym.var, len(shapes))
    named = {"x%d" % i: shape for i, shape in enumerate(given)}
    symbol = total if with_output else node
    if with_output:
        named["out"] = output
    modern = infer(mx, symbol, named)
    if any(not shape or 0 in shape for shape in given if shape is not None):
        return modern
    legacy = in_legacy(mx, symbol, named)
    modern = json.loads(json.dumps(modern))
    return modern if modern == legacy else {"modern": modern, "legacy": legacy}


def known_output(mx, make, shapes):
    """The shape of the first output when all inputs are known; None where MXNet does not infer it."""
    node = symbol_of(make, mx.sym.var, len(shapes))[0]
    found = infer(mx, node, {"x%d" % i: shape for i, shape in enumerate(shapes)})
    shape = None if found == REFUSED else found[len(shapes)]
    return None if shape is None or -1 in shape else list(shape)


def forked(function):
    """The result of a function in a process of its own; DIED if that dies."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            os.write(write, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else DIED


def row(mx, make, op, attributes, shapes):
    """The record of a case: [operator, attributes, shapes, output, answers]."""
    output = forked(lambda: known_output(mx, make, shapes))
    asked = [q for q in questions(shapes) if output not in (None, DIED) or not q[1]]

    def all_answers():
        return [answer(mx, make, shapes, output, q) for q in asked]

    answers = forked(all_answers)
    if answers == DIED:
        answers = [forked(lambda q=q: answer(mx, make, shapes, output, q)) for q in asked]
    return [op, attributes, shapes, output, answers]


def main():
    import mxnet as mx
    from make_goldens import operator_handle
    from mxnet._ctypes.symbol import _symbol_creator

    def maker(op, attributes):
        def make(inputs):
            return _symbol_creator(
                operator_handle(op), inputs, {}, list(attributes), list(attributes.values()), "n", False
            )

        return make

    rows = [row(mx, maker(op, attributes), op, attributes, shapes) for op, attributes, shapes in cases()]
    lines = ",\n".join(json.dumps(found, separators=(",", ":")) for found in rows)
    (HERE / "inferred_shapes.json").write_text("[\n%s\n]\n" % lines)
    died = sum(found[4].count(DIED) for found in rows)
    print("%d cases, %d answers, %d died" % (len(rows), sum(len(found[4]) for found in rows), died), file=sys.stderr)


if __name__ == "__main__":
    main()
