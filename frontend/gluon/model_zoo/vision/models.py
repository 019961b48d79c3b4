"""Finds a network by its name."""

from __future__ import annotations

from typing import Any

from ...block import HybridBlock
from . import densenet, inception, mobilenet, resnet, squeezenet, vgg
from .alexnet import alexnet

_MODELS: dict[str, Any] = {
    **{name: getattr(resnet, name) for name in resnet.__all__ if name.startswith("resnet")},
    **{name: getattr(vgg, name) for name in vgg.__all__ if name.startswith("vgg")},
    **{name: getattr(densenet, name) for name in densenet.__all__ if name.startswith("densenet")},
    "alexnet": alexnet,
    "squeezenet1.0": squeezenet.squeezenet1_0,
    "squeezenet1.1": squeezenet.squeezenet1_1,
    "inceptionv3": inception.inception_v3,
    "mobilenet1.0": mobilenet.mobilenet1_0,
    "mobilenet0.75": mobilenet.mobilenet0_75,
    "mobilenet0.5": mobilenet.mobilenet0_5,
    "mobilenet0.25": mobilenet.mobilenet0_25,
    "mobilenetv2_1.0": mobilenet.mobilenet_v2_1_0,
    "mobilenetv2_0.75": mobilenet.mobilenet_v2_0_75,
    "mobilenetv2_0.5": mobilenet.mobilenet_v2_0_5,
    "mobilenetv2_0.25": mobilenet.mobilenet_v2_0_25,
}


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """The network with this name, in any case. Keywords such as `pretrained`, `classes`, `ctx` and `root` are passed to
    its function. An unknown name raises ValueError, which lists the names."""
    if name.lower() not in _MODELS:
        available = "\n\t".join(sorted(_MODELS))
        raise ValueError(f"Model {name} is not supported. Available options are\n\t{available}")
    return _MODELS[name.lower()](**kwargs)
