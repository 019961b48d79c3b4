"""Weights of trained networks: files NAME-HASH.params in a folder, downloaded from MXNet's store if missing.

Without network access, copy the files from another machine and pass their folder as `root`.
"""

from __future__ import annotations

import logging
import os
import zipfile
from pathlib import Path
from typing import Any, TypeVar

from ....runtime.atomic import new_folder, temporary_beside
from ... import base
from ...base import MXNetError
from ...context import Context, cpu
from ...downloads import MXNET_STORE
from ...tracebacks import cause_of
from ..block import HybridBlock
from ..utils import _get_repo_url, check_sha1, download, replace_file

__all__ = ["apache_repo_url", "get_model_file", "purge", "short_hash"]

Net = TypeVar("Net", bound=HybridBlock)

MODELS_FOLDER: str = os.path.join(base.data_dir(), "models")
"""$MXNET_HOME/models."""
CPU: Context = cpu()
"""The default context of weights."""
apache_repo_url = MXNET_STORE
_url_format = "{repo_url}gluon/models/{file_name}.zip"
_LARGEST_FILE = 1 << 30
_model_sha1 = {
    "alexnet": "44335d1f0046b328243b32a26a4fbd62d9057b45",
    "densenet121": "f27dbf2dbd5ce9a80b102d89c7483342cd33cb31",
    "densenet161": "b6c8a95717e3e761bd88d145f4d0a214aaa515dc",
    "densenet169": "2603f878403c6aa5a71a124c4a3307143d6820e9",
    "densenet201": "1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb",
    "inceptionv3": "ed47ec45a937b656fcc94dabde85495bbef5ba1f",
    "mobilenet0.25": "9f83e440996887baf91a6aff1cccc1c903a64274",
    "mobilenet0.5": "8e9d539cc66aa5efa71c4b6af983b936ab8701c3",
    "mobilenet0.75": "529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2",
    "mobilenet1.0": "6b8c5106c730e8750bcd82ceb75220a3351157cd",
    "mobilenetv2_1.0": "36da4ff1867abccd32b29592d79fc753bca5a215",
    "mobilenetv2_0.75": "e2be7b72a79fe4a750d1dd415afedf01c3ea818d",
    "mobilenetv2_0.5": "aabd26cd335379fcb72ae6c8fac45a70eab11785",
    "mobilenetv2_0.25": "ae8f9392789b04822cbb1d98c27283fc5f8aa0a7",
    "resnet18_v1": "a0666292f0a30ff61f857b0b66efc0228eb6a54b",
    "resnet34_v1": "48216ba99a8b1005d75c0f3a0c422301a0473233",
    "resnet50_v1": "0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce",
    "resnet101_v1": "d988c13d6159779e907140a638c56f229634cb02",
    "resnet152_v1": "671c637a14387ab9e2654eafd0d493d86b1c8579",
    "resnet18_v2": "a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657",
    "resnet34_v2": "9d6b80bbc35169de6b6edecffdd6047c56fdd322",
    "resnet50_v2": "ecdde35339c1aadbec4f547857078e734a76fb49",
    "resnet101_v2": "18e93e4f48947e002547f50eabbcc9c83e516aa6",
    "resnet152_v2": "f2695542de38cf7e71ed58f02893d82bb409415e",
    "squeezenet1.0": "264ba4970a0cc87a4f15c96e25246a1307caf523",
    "squeezenet1.1": "33ba0f93753c83d86e1eb397f38a667eaf2e9376",
    "vgg11": "dd221b160977f36a53f464cb54648d227c707a05",
    "vgg11_bn": "ee79a8098a91fbe05b7a973fed2017a6117723a8",
    "vgg13": "6bc5de58a05a5e2e7f493e2d75a580d83efde38c",
    "vgg13_bn": "7d97a06c3c7a1aecc88b6e7385c2b373a249e95e",
    "vgg16": "e660d4569ccb679ec68f1fd3cce07a387252a90a",
    "vgg16_bn": "7f01cf050d357127a73826045c245041b0df7363",
    "vgg19": "ad2f660d101905472b83590b59708b71ea22b2e5",
    "vgg19_bn": "f360b758e856f1074a85abd5fd873ed1d98297c3",
}
"""The SHA-1 of each network's weight file. Its first eight digits are part of the file name."""


def short_hash(name: str) -> str:
    """The hash digits in a network's file name. Raises ValueError if MXNet published no weights for the network."""
    if name not in _model_sha1:
        raise ValueError(f"Pretrained model for {name} is not available.")
    return _model_sha1[name][:8]


def get_model_file(name: str, root: str = MODELS_FOLDER) -> str:
    """The path of a network's weights in `root`. Missing weights are downloaded.

    Raises MXNetError, which names the file, if the download fails. Raises ValueError if the downloaded file has a wrong
    hash.
    """
    file_name = f"{name}-{short_hash(name)}"
    root = os.path.expanduser(root)
    path = os.path.join(root, f"{file_name}.params")
    if os.path.exists(path):
        if check_sha1(path, _model_sha1[name]):
            return path
        logging.warning("Mismatch in the content of model file detected. Downloading again.")
    else:
        logging.info("Model file not found. Downloading to %s.", path)
    os.makedirs(root, exist_ok=True)
    _fetch(file_name, path)
    if not check_sha1(path, _model_sha1[name]):
        raise ValueError("Downloaded file has different hash. Please try again.")
    return path


def _fetch(file_name: str, path: str) -> None:
    """Download the archive of a file and extract the file to `path`."""
    with temporary_beside(Path(path), new_folder) as (folder, _):
        archive = os.path.join(folder, "archive.zip")
        url = _url_format.format(repo_url=_get_repo_url(), file_name=file_name)
        try:
            download(url, path=archive, overwrite=True)
        except (OSError, RuntimeError) as error:
            raise MXNetError(
                f"the weights {file_name}.params are not in {os.path.dirname(path)} and cannot be downloaded from "
                f"{url}: {error}. Copy the file to that folder, or pass the folder that contains it as root="
            ) from cause_of(error)
        unpacked = os.path.join(folder, "file.params")
        _unpack(archive, f"{file_name}.params", unpacked)
        replace_file(unpacked, path)


def _unpack(archive: str, member: str, target: str) -> None:
    """Write one member of a zip file to `target`. Raises ValueError if it is missing or larger than `_LARGEST_FILE`."""
    with zipfile.ZipFile(archive) as files:
        if member not in files.namelist() or files.getinfo(member).file_size > _LARGEST_FILE:
            raise ValueError(f"{archive} contains no {member} of at most {_LARGEST_FILE} bytes")
        with files.open(member) as source, open(target, "wb") as out:
            while block := source.read(1 << 20):
                out.write(block)


def load_pretrained(net: Net, name: str, pretrained: bool, ctx: Any, root: str) -> Net:
    """Load the published weights into `net` on `ctx`, if `pretrained`. Returns `net`."""
    if pretrained:
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net


def purge(root: str = MODELS_FOLDER) -> None:
    """Delete all weight files from a folder."""
    root = os.path.expanduser(root)
    for file in os.listdir(root):
        if file.endswith(".params"):
            os.remove(os.path.join(root, file))
