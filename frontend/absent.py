"""Names the parts of MXNet that mxforge does not have, so that asking for one says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

ABSENT = {
    "": """contrib image img kv kvstore kvstore_server library lr_scheduler notebook np npx numpy numpy_extension onnx
    operator opt optimizer profiler recordio rnn rtc test_utils torch""",
    "gluon": "Trainer data trainer",
    "gluon.contrib": "data estimator",
    "io": """CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordUInt8Iter LibSVMIter MNISTIter
    PrefetchingIter""",
}
"""Names by the module of MXNet that has them, as its path below the root."""


def attribute_error(root: str, module: str, name: str) -> AttributeError:
    """The error for an attribute that `module` (a key of the table) of the package `root` does not have."""
    place = f"{root}.{module}" if module else root
    text = f"module {place!r} has no attribute {name!r}"
    if name in ABSENT[module].split():
        text += ": this part of MXNet is not in mxforge yet, see docs/compatibility.md"
    return AttributeError(text, name=name)


def refuse_absent(package: str, module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module whose `__package__` or `__name__` is `package`."""
    root = package.partition(".frontend")[0]

    def refuse(name: str) -> NoReturn:
        raise attribute_error(root, module, name)

    return refuse
