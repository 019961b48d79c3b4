"""Fetches files from the network: `download`, with the checks of MXNet's function of that name."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator

from .artifacts.atomic import write_atomically

TIMEOUT_SECONDS = 30
MXNET_STORE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
"""Where MXNet keeps weights and data sets; the environment variable MXNET_GLUON_REPO names another place."""


def _get_repo_url() -> str:
    """The store's address, which ends with a slash."""
    return os.environ.get("MXNET_GLUON_REPO", MXNET_STORE).rstrip("/") + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of a file of the store."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether a file has this SHA-1, in hexadecimal digits."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Move a file over another one of the same file system, at once."""
    os.replace(src, dst)


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Fetch `url` into a file and give its path; a file that is there and has the hash is kept unless `overwrite`.

    `path` is the file, or a folder for a file called as in the URL. The last error of `retries + 1` attempts is raised;
    UserWarning when what came has another hash.
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
    print(f"Downloading {target} from {url}...")
    for left in reversed(range(retries + 1)):
        try:
            _fetch(url, target, verify_ssl)
            break
        except OSError as error:  # of which urllib's errors are some
            if not left:
                raise
            logging.warning("download failed due to %r, retrying, %d attempts left", error, left)
    if sha1_hash and not check_sha1(target, sha1_hash):
        raise UserWarning(f"File {target} is downloaded but the content hash does not match. The repo may be outdated.")
    return target


def _target(url: str, path: str | None) -> str:
    """The file that a download goes to."""
    name = url.rsplit("/", maxsplit=1)[-1]
    if path is None:
        assert name, "Can't construct file-name from this URL. Please set the `path` option manually."
        return name
    path = os.path.expanduser(path)
    return os.path.join(path, name) if os.path.isdir(path) else path


def _fetch(url: str, target: str, verify_ssl: bool) -> None:
    """Write what the URL holds to the file, which appears whole or not at all. OSError when it cannot be read."""
    import ssl
    from urllib.request import urlopen

    context = None if verify_ssl else ssl._create_unverified_context()
    with urlopen(url, timeout=TIMEOUT_SECONDS, context=context) as source:

        def blocks() -> Iterator[bytes]:
            while block := source.read(1 << 20):
                yield block

        write_atomically(target, blocks())
