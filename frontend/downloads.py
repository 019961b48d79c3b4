"""Downloads files: `download`, with the checks of MXNet's function."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator

from ..runtime.atomic import write_atomically

TIMEOUT_SECONDS = 30
_BLOCK = 1 << 20
MXNET_STORE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
"""The address of MXNet's weights and data sets. The environment variable MXNET_GLUON_REPO overrides it."""


def _get_repo_url() -> str:
    """The address of the store, with a slash at the end."""
    return os.environ.get("MXNET_GLUON_REPO", MXNET_STORE).rstrip("/") + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of a file in the store."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """True if the file has this SHA-1 hash (hexadecimal digits)."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Replace a file atomically by another one of the same file system."""
    os.replace(src, dst)


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Download `url` into a file and return its path. An existing file with the right hash is kept unless `overwrite`.

    `path` is the file, or a folder for a file with the name in the URL. `requests` downloads, so its environment
    variables configure proxies and certificates. The last error of `retries` attempts (at least one) is raised:
    RuntimeError for a status other than 200, UserWarning for a wrong hash, or an error of `requests`.
    """
    target = _target(url, path)
    assert retries >= 0, f"Number of retries should be at least 0, currently it's {retries}"
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly "
            "advised.",
            stacklevel=2,
        )
    if not overwrite and os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    for left in reversed(range(max(retries, 1))):
        print(f"Downloading {target} from {url}...")
        try:
            _fetch(url, target, sha1_hash, verify_ssl)
            break
        except Exception as error:
            if not left:
                error.add_note(_instruction(url, target, sha1_hash))
                raise
            logging.warning("download failed due to %r, retrying, %d attempts left", error, left)
    return target


def _instruction(url: str, target: str, sha1_hash: str | None) -> str:
    """What to do if a file cannot be downloaded."""
    content = f", whose SHA-1 is {sha1_hash}," if sha1_hash else ""
    return f"{url} could not be downloaded: put the file{content} at {os.path.abspath(target)} yourself"


def _target(url: str, path: str | None) -> str:
    """The path of the downloaded file."""
    name = url.rsplit("/", maxsplit=1)[-1]
    if path is None:
        assert name, "Can't construct file-name from this URL. Please set the `path` option manually."
        return name
    path = os.path.expanduser(path)
    return os.path.join(path, name) if os.path.isdir(path) else path


def _fetch(url: str, target: str, sha1_hash: str | None, verify_ssl: bool) -> None:
    """Write the content of the URL atomically to the file. UserWarning for a wrong hash."""
    write_atomically(target, _file_blocks(url) if url.startswith("file:") else _web_blocks(url, verify_ssl))
    if sha1_hash and not check_sha1(target, sha1_hash):
        raise UserWarning(
            f"File {target} is downloaded but the content hash does not match. The repo may be outdated or download "
            'may be incomplete. If the "repo_url" is overridden, consider switching to the default repo.'
        )


def _web_blocks(url: str, verify_ssl: bool) -> Iterator[bytes]:
    """The content of a web address in blocks. RuntimeError for a status other than 200."""
    import requests  # takes 50 ms to import

    answer = requests.get(url, stream=True, verify=verify_ssl, timeout=TIMEOUT_SECONDS)
    if answer.status_code != 200:
        raise RuntimeError(f"Failed downloading url {url}: the status is {answer.status_code}")
    yield from filter(None, answer.iter_content(chunk_size=_BLOCK))


def _file_blocks(url: str) -> Iterator[bytes]:
    """The content of a `file:` address, which `requests` does not support, in blocks. OSError if it does not exist."""
    from urllib.request import urlopen

    with urlopen(url) as source:
        while block := source.read(_BLOCK):
            yield block
