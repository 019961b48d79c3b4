"""Downloads the data sets and models of MXNet's examples."""

from __future__ import annotations

import bz2
import gzip
import logging
import os
import struct
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ...runtime.atomic import write_atomically
from .. import io
from ..base import MXNetError
from ..downloads import download as _fetch

_DATA = "http://data.mxnet.io/data/mnist/"
_MODELS = "http://data.mxnet.io/models/"
_ADDRESSES = {
    "imagenet1k-inception-bn": ("imagenet/inception-bn/Inception-BN", "0126"),
    **{f"imagenet1k-resnet-{n}": (f"imagenet/resnet/{n}-layers/resnet-{n}", "0000") for n in (18, 34, 50, 101, 152)},
    **{f"imagenet1k-resnext-{n}": (f"imagenet/resnext/{n}-layers/resnext-{n}", "0000") for n in (50, 101)},
    "imagenet1k-resnext-101-64x4d": ("imagenet/resnext/101-layers/resnext-101-64x4d", "0000"),
    "imagenet11k-resnet-152": ("imagenet-11k/resnet-152/resnet-152", "0000"),
    "imagenet11k-place365ch-resnet-152": ("imagenet-11k-place365-ch/resnet-152", "0000"),
    "imagenet11k-place365ch-resnet-50": ("imagenet-11k-place365-ch/resnet-50", "0000"),
}
"""Models by name: the path of their files, and the epoch in the name of the parameter file."""


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """Download a file into `dirname`, under its own name or `fname`, unless it exists; returns its path."""
    if retries < 0:
        raise AssertionError("Number of retries should be at least 0")
    path = os.path.join(dirname or "", fname or os.path.basename(url))
    if not overwrite and os.path.exists(path):
        logging.info("%s exists, skipping download", path)
        return path
    try:
        return _fetch(url, path=path, overwrite=overwrite, retries=retries)
    except OSError as error:
        raise MXNetError(f"{url} cannot be downloaded ({error}): put the file at {path} yourself") from error


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[str | None, int]:
    """Download a model's symbol and parameters; returns prefix and epoch for `load_checkpoint`, or (None, 0) for an
    unknown name."""
    if meta_info is None:
        known = _ADDRESSES.get(model_name)
        urls = known and {
            "symbol": f"{_MODELS}{known[0]}-symbol.json",
            "params": f"{_MODELS}{known[0]}-{known[1]}.params",
        }
    else:
        urls = meta_info.get(model_name)
    if not urls:
        return None, 0
    for file in ("symbol", "params"):
        if file not in urls:
            raise AssertionError(f"missing {file} url of {model_name}")
    os.makedirs(dst_dir, exist_ok=True)
    prefix = os.path.join(dst_dir, model_name)
    download(urls["symbol"], f"{prefix}-symbol.json")
    download(urls["params"], f"{prefix}-0000.params")
    return prefix, 0


def get_mnist() -> dict[str, np.ndarray]:
    """Download MNIST: float32 images (n, 1, 28, 28) in [0, 1] and int8 labels, for training and testing."""
    arrays: dict[str, np.ndarray] = {}
    for part, start in (("train", "train"), ("test", "t10k")):
        with gzip.open(download(f"{_DATA}{start}-labels-idx1-ubyte.gz")) as file:
            file.read(8)
            labels = np.frombuffer(file.read(), dtype=np.int8)
        with gzip.open(download(f"{_DATA}{start}-images-idx3-ubyte.gz")) as file:
            _, count, rows, columns = struct.unpack(">IIII", file.read(16))
            images = np.frombuffer(file.read(), dtype=np.uint8).reshape(count, 1, rows, columns)
        arrays[f"{part}_data"], arrays[f"{part}_label"] = images.astype(np.float32) / 255, labels
    return arrays


def get_mnist_pkl() -> None:
    """Download MNIST as a pickle to `data/mnist.pkl.gz`."""
    if not os.path.exists("data/mnist.pkl.gz"):
        download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def _unpacked(url: str, names: list[str]) -> None:
    """Download a zip file into `data` and unpack it there, unless all these files exist."""
    if all(os.path.exists(os.path.join("data", name)) for name in names):
        return
    with zipfile.ZipFile(download(url, dirname="data")) as packed:
        packed.extractall("data")


def get_mnist_ubyte() -> None:
    """Download MNIST in its own format into `data`."""
    names = [f"{part}-idx{n}-ubyte" for part, n in _MNIST_PARTS]
    _unpacked("http://data.mxnet.io/mxnet/data/mnist.zip", names)


_MNIST_PARTS = (("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1))


def get_cifar10() -> None:
    """Download CIFAR-10 as RecordIO into `data/cifar`."""
    names = [f"cifar/{kind}.{end}" for kind in ("train", "test") for end in ("rec", "lst")]
    _unpacked("http://data.mxnet.io/mxnet/data/cifar10.zip", names)


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """A pair of `MNISTIter` for training and testing. Images are flat unless `input_shape` has three axes."""
    get_mnist_ubyte()
    options: dict[str, Any] = {"input_shape": input_shape, "batch_size": batch_size, "flat": len(input_shape) != 3}
    options |= {"num_parts": num_parts, "part_index": part_index}
    make: Any = io.MNISTIter  # type: ignore[attr-defined]

    def of(part: str, **more: Any) -> Any:
        return make(image=f"data/{part}-images-idx3-ubyte", label=f"data/{part}-labels-idx1-ubyte", **options, **more)

    return of("train", shuffle=True), of("t10k")


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Download a zip file into a folder and unpack it there, unless it exists."""
    path = os.path.join(data_dir, data_origin_name)
    if os.path.exists(path):
        return
    download(url, dirname=data_dir, overwrite=False)
    with zipfile.ZipFile(path) as packed:
        packed.extractall(path=data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Download a bz2 file into a folder and unpack it there atomically as `data_name`, unless that exists."""
    path, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if os.path.exists(path):
        return
    download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
    with bz2.open(packed, "rb") as source:
        write_atomically(path, iter(partial(source.read, 1 << 20), b""))
    os.remove(packed)


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The path of MXNet's tools/im2rec.py below the folder that an environment variable names. OSError if it does not
    exist."""
    home = os.environ.get(home_env, "")
    for middle in ("tools", os.path.join("..", "..", "tools")):
        path = os.path.join(home, middle, "im2rec.py")
        if home and os.path.isfile(path):
            return path
    raise OSError(f"Could not find path to tools/im2rec.py: set {home_env} to a checkout of MXNet")
