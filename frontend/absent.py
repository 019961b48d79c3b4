"""Names the parts of MXNet that mxforge does not have, so that asking for one says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

ABSENT = {
    "": """np npx numpy numpy_extension""",
    "contrib": "quant quantization svrg_optimization tensorrt",
    "gluon": "",
    "gluon.data.vision": "CIFAR10 CIFAR100 FashionMNIST MNIST",
    "gluon.data.vision.transforms": "RandomRotation Rotate",
    "gluon.contrib": "data estimator",
    "image": """Augmenter BrightnessJitterAug CastAug CenterCropAug ColorJitterAug ColorNormalizeAug ContrastJitterAug
    CreateAugmenter CreateDetAugmenter CreateMultiRandCropAugmenter DetAugmenter DetBorrowAug DetHorizontalFlipAug
    DetRandomCropAug DetRandomPadAug DetRandomSelectAug ForceResizeAug HorizontalFlipAug HueJitterAug ImageDetIter
    ImageIter LightingAug RandomCropAug RandomGrayAug RandomOrderAug RandomSizedCropAug ResizeAug SaturationJitterAug
    SequentialAug det detection imrotate random_rotate""",
    "io": """CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordUInt8Iter LibSVMIter
    MNISTIter""",
}
"""Names by the module of MXNet that has them, as its path below the root."""


def attribute_error(root: str, module: str, name: str) -> AttributeError:
    """The error for an attribute that `module` (a key of the table) of the package `root` does not have."""
    place = f"{root}.{module}" if module else root
    text = f"module {place!r} has no attribute {name!r}"
    if name in ABSENT[module].split():
        text += ": this part of MXNet is not in mxforge yet, see docs/compatibility.md"
    return AttributeError(text, name=name)


def refuse_absent(package: str, module: str, lazy: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose `__package__` or `__name__` is `package`.

    Submodules in `lazy` are imported when they are first asked for.
    """
    root = package.partition(".frontend")[0]

    def refuse(name: str) -> Any:
        if name in lazy:
            return import_module(f"{package}.{name}")
        raise attribute_error(root, module, name)

    return refuse
