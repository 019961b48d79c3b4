"""Hosts on one machine: network namespaces of Linux, which links of limited rates join. It requires root.

MPI starts its processes there as on other machines, and sends by TCP.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import ToolError

_NETWORK = "10.73.0."
_SETTINGS = {"HYDRA_LAUNCHER": "ssh", "UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
"""MPICH starts processes by a command, and uses no memory that processes of one machine share."""
_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec %s${host##*.} sh -c "$*"
"""


class NoHosts(ToolError):
    """The system does not allow hosts in network namespaces."""


class LinkedHosts(NamedTuple):
    """`prefix` begins a command that runs on the first host; `hostfile` names all of them, and `environment` has what
    the launcher needs."""

    prefix: list[str]
    hostfile: str
    environment: dict[str, str]


@contextmanager
def linked_hosts(count: int, gbits: float) -> Generator[LinkedHosts]:
    """Hosts, each of which sends at most this many Gbit/s. NoHosts if the system does not allow it."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise NoHosts("hosts in network namespaces require the commands ip and tc (iproute2)")
    name = f"mxf{os.getpid()}"
    switch, hosts = f"{name}s", [f"{name}h{k + 1}" for k in range(count)]
    spaces: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for space in (switch, *hosts):
                _run("ip", "netns", "add", space)
                spaces.append(space)
            _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", switch, "link", "set", "bridge", "up")
            for k, host in enumerate(hosts, 1):
                _join(host, switch, k, gbits)
            yield _described(Path(folder), name, hosts)
        finally:
            for space in spaces:
                subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _join(host: str, switch: str, number: int, gbits: float) -> None:
    """Give a host an address, and a link to the switch."""
    port = f"port{number}"
    _run("ip", "link", "add", "link0", "netns", host, "type", "veth", "peer", "name", port, "netns", switch)
    _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")
    _run("ip", "-n", host, "addr", "add", f"{_NETWORK}{number}/24", "dev", "link0")
    for device in ("link0", "lo"):
        _run("ip", "-n", host, "link", "set", device, "up")
    limit = f"rate {round(gbits * 1000)}mbit burst 256kb latency 50ms".split()
    _run("ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "link0", "root", "tbf", *limit)


def _described(folder: Path, name: str, hosts: list[str]) -> LinkedHosts:
    shell, hostfile = folder / "shell", folder / "hosts"
    shell.write_text(_SHELL % f"{name}h")
    shell.chmod(0o755)
    hostfile.write_text("".join(f"{_NETWORK}{k + 1}:1\n" for k in range(len(hosts))))
    environment = {**_SETTINGS, "HYDRA_LAUNCHER_EXEC": str(shell)}
    return LinkedHosts(["ip", "netns", "exec", hosts[0]], str(hostfile), environment)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        raise NoHosts(f"hosts in network namespaces: {' '.join(command[:4])}: {reason}")
