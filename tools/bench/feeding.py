"""The suite `loader`: an epoch of a data loader with worker processes over image files. `worker.py` runs this file.

All frameworks read the same folder: random crop, random mirror, tensor, normalization, batches in shuffled order. The
compared result is the first batch of a loader with a central crop. This file must run on Python 3.7, which old
frameworks require.
"""

from __future__ import annotations

import importlib

WORKERS = 2
BATCH = 32
CROP = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load(engine, spec, arrays):
    make = mxnet_loaders if hasattr(engine, "mx") else torch_loaders
    return Feeding(*make(engine, spec["folder"]), engine.convert)


class Feeding:
    """Calls are epochs of `random`; the outputs are the first batch of `central`, images and labels."""

    def __init__(self, random, central, convert):
        self.random, self.central, self.convert = random, central, convert

    def run(self, calls):
        for _ in range(calls):
            for images, _ in self.random:
                images.shape  # noqa: B018

    def outputs(self):
        return [self.convert(array) for array in next(iter(self.central))]


def mxnet_loaders(engine, folder):
    """Loaders of MXNet's API: of random crops, and of central crops without workers."""
    mx = engine.mx
    data, transforms = mx.gluon.data, mx.gluon.data.vision.transforms

    class RandomCrop(mx.gluon.Block):
        def forward(self, image):
            return mx.image.random_crop(image, (CROP, CROP))[0]

    images = data.vision.ImageFolderDataset(folder)
    tensor = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    random = transforms.Compose([RandomCrop(), transforms.RandomFlipLeftRight(), *tensor])
    central = transforms.Compose([transforms.CenterCrop(CROP), *tensor])
    return (
        data.DataLoader(images.transform_first(random), BATCH, shuffle=True, num_workers=WORKERS),
        data.DataLoader(images.transform_first(central), BATCH),
    )


def torch_loaders(engine, folder):
    """The same with torchvision, whose workers live on after an epoch."""
    torchvision = importlib.import_module("torchvision")
    data, datasets, transforms = engine.torch.utils.data, torchvision.datasets, torchvision.transforms
    tensor = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    random = transforms.Compose([transforms.RandomCrop(CROP), transforms.RandomHorizontalFlip(), *tensor])
    central = transforms.Compose([transforms.CenterCrop(CROP), *tensor])
    return (
        data.DataLoader(
            datasets.ImageFolder(folder, random), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
        ),
        data.DataLoader(datasets.ImageFolder(folder, central), BATCH),
    )
