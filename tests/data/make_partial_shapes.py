"""Records what MXNet 1.9.1 infers from partly known shapes and dtypes: `python tests/data/make_partial_shapes.py`.

Runs where `mxnet==1.9.1` is installed, and writes `partial_shapes.json` beside itself.
"""

import json
import os
import warnings

SHAPES = """
transpose(x) + o
transpose(x, axes=(2, 0, 1)) + o
SwapAxis(x, dim1=0, dim2=1)
expand_dims(x, axis=1) + o
reverse(x, axis=0) + o
cumsum(x, axis=0) + o
slice(x, begin=(0, 1), end=(2, 3))
slice(x, begin=(None, 1), end=(None, 3))
slice_axis(x, axis=1, begin=1, end=None)
squeeze(x)
diag(x)
where(x, y, z)
slice_like(x, y)
slice_like(x, y, axes=(0,))
broadcast_like(x, y)
broadcast_add(x, y)
pick(x, y, axis=1)
pick(x, y, axis=1, keepdims=True)
split_v2(x, 2, axis=1)[0] + o
FullyConnected(x, y, num_hidden=4, no_bias=True, flatten=False) + o
linalg.potrf(x) + o
linalg.trsm(x, y) + o
linalg.sumlogdiag(x)
random.shuffle(x) + o
random.normal(x, y, shape=(5,)) + o
SoftmaxOutput(x, y, multi_output=True)
LinearRegressionOutput(x, y)
""".strip().splitlines()
KNOWN = [
    {"x": (0, 3)},
    {"x": (2, 0, 4)},
    {"x": (2, 3, 4)},
    {"y": (2, 0)},
    {"o": (2, 3)},
    {"o": (0, 3, 4)},
    {"x": (0, 3), "o": (2, 0)},
    {"x": (0, 3, 4), "o": (2, 0, 4)},
    {"x": (2, 0, 4), "o": (2, 3, 0)},
    {"x": (2, 3), "y": (0, 3)},
    {"x": (2, 0), "y": (0, 3)},
    {"x": (2, 2), "y": (2, 0)},
    {"x": (2, 3, 4), "y": (2, 0, 4)},
    {"y": (0, 3), "z": (2, 0)},
    {"x": (0, 3), "y": (2, 0), "z": (0, 3)},
]
DTYPES = """
where(x, y, z)
gather_nd(x, y)
batch_take(x, y)
CTCLoss(x, y)
contrib.boolean_mask(x, y)
norm(x)
norm(x, out_dtype="float64")
random.normal(x, y)
Embedding(x, y, input_dim=3, output_dim=2)
Cast(x, dtype="int32")
argmax(x)
one_hot(x, depth=3)
topk(x)
""".strip().splitlines()
KNOWN_DTYPES = [{"x": "float64"}, {"y": "float64"}, {"o": "float64"}, {"x": "int32"}, {"y": "int32"}]


def symbol_of(mx, text):
    """The symbol that an expression says."""
    names = {name: mx.sym.var(name) for name in "xyzo"}
    return eval("sym." + text, {"sym": mx.sym, **names})


def answer(mx, text, known, method):
    """(text, what is known, what follows for arguments and outputs; "refused" where that contradicts)."""
    symbol = symbol_of(mx, text)
    try:
        arguments, outputs, _ = getattr(symbol, method)(**known)
    except mx.MXNetError:
        return [text, known, "refused"]
    return [text, known, [arguments, outputs]]


def answers(mx):
    """All answers of shapes, and those of dtypes."""
    shapes = [
        answer(mx, text, known, "infer_shape_partial")
        for text in SHAPES
        for known in KNOWN
        if set(known) <= set(symbol_of(mx, text).list_arguments())
    ]
    dtypes = [
        answer(mx, text, known, "infer_type_partial")
        for text in [*DTYPES, *(t + " + o" for t in DTYPES[:-4])]
        for known in KNOWN_DTYPES
        if set(known) <= set(symbol_of(mx, text).list_arguments())
    ]
    return {"shapes": shapes, "dtypes": dtypes}


def as_text(value):
    """Classes of NumPy as their names, for JSON."""
    return value.__name__ if isinstance(value, type) else value


def main():
    import mxnet as mx

    warnings.simplefilter("ignore")
    rows = {kind: [json.dumps(row, default=as_text) for row in found] for kind, found in answers(mx).items()}
    blocks = ['"%s": [\n%s\n]' % (kind, ",\n".join(lines)) for kind, lines in rows.items()]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "partial_shapes.json"), "w") as file:
        file.write("{\n%s\n}\n" % ",\n".join(blocks))


if __name__ == "__main__":
    main()
