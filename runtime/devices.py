"""The devices of this process: the host, and others by kind and number.

A line of `PROVIDERS` registers a kind: the name of a module that defines `device_count() -> int`, `open_device(number)
-> Device`, `unavailable() -> str`, the reason why there is no device, and `TARGETS`, those to compile for without a
device, by name. The module is imported when a device of that kind is first requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.locks import ForkSafeLock
from .device import Device
from .host.device import COMPILED, HostDevice
from .storage import Storage

if TYPE_CHECKING:
    from ..codegen.target import Target

__all__ = [
    "COMPILED",
    "HOST",
    "PROVIDERS",
    "device_count",
    "known_targets",
    "open_device",
    "opened_devices",
    "unavailable",
]

HOST = HostDevice()
"""The device of all memory that no other device has."""

Storage.device = HOST

PROVIDERS: dict[str, str] = {
    "gpu": "mxforge.runtime.cuda.device",
}
"""By the kind of MXNet's contexts ("gpu"), the name of the module that provides the devices."""

_opened: dict[tuple[str, int], Device] = {}
_opening = ForkSafeLock()


def device_count(kind: str) -> int:
    """The number of devices of a kind; 0 for a kind that is not registered."""
    return _provider(kind).device_count() if kind in PROVIDERS else 0


def unavailable(kind: str) -> str:
    """Why there is no device of a registered kind."""
    return _provider(kind).unavailable()


def known_targets(kind: str) -> Mapping[str, Target]:
    """The targets of a registered kind that programs are compiled for without a device, by name."""
    return _provider(kind).TARGETS


def open_device(kind: str, number: int) -> Device:
    """The device of this kind and number. LookupError if there is none."""
    opened = _opened.get((kind, number))
    return _open(kind, number) if opened is None else opened


def _open(kind: str, number: int) -> Device:
    if not 0 <= number < device_count(kind):
        raise LookupError(f"there is no {kind}({number})")
    with _opening:
        opened = _opened.get((kind, number))
        if opened is None:
            opened = _opened[kind, number] = _provider(kind).open_device(number)
        return opened


def opened_devices() -> list[Device]:
    """The devices, other than the host, that have been opened."""
    return list(_opened.values())


def _provider(kind: str) -> Any:
    return importlib.import_module(PROVIDERS[kind])
