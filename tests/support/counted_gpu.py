"""CUDA devices that count as simulated GPUs do (`simulated_gpu.py`), so that the same tests can look at them."""

from __future__ import annotations

from typing import Any

from mxforge.runtime.cuda.device import CudaDevice
from mxforge.runtime.cuda.launches import CudaKernel
from mxforge.runtime.cuda.stream import CudaStream
from mxforge.runtime.launch_list import LaunchList


class CountedStream(CudaStream):
    """`uploads` and `downloads` count copies from and to the host, `lists` the lists of launches that were started."""

    def __init__(self, device: CudaDevice) -> None:
        super().__init__(device)
        self.uploads = self.downloads = self.lists = 0
        self.launched: dict[str, int] = {}

    def upload(self, target: int, source: Any) -> None:
        self.uploads += 1
        super().upload(target, source)

    def download(self, into: Any, source: int) -> None:
        self.downloads += 1
        super().download(into, source)

    def run(self, launches: LaunchList) -> None:
        self.lists += 1
        for launch in launches.launches:
            if isinstance(launch.kernel, CudaKernel):
                self.launched[launch.kernel.name] = self.launched.get(launch.kernel.name, 0) + 1
        super().run(launches)


class CountedGpu(CudaDevice):
    """`launched` counts the launches of kernels by name."""

    stream: CountedStream  # pyright: ignore[reportIncompatibleVariableOverride]

    def _make_stream(self) -> CountedStream:
        return CountedStream(self)

    @property
    def lists(self) -> int:
        """How many lists of launches were started."""
        return self.stream.lists

    @property
    def launched(self) -> dict[str, int]:
        return self.stream.launched
