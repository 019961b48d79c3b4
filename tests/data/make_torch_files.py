"""Records files of PyTorch, in an environment with torch: `python tests/data/make_torch_files.py`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: TID251

FOLDER = Path(__file__).parent / "torch_files"
WIDTH = 8


class Network(torch.nn.Module):
    """Layers whose parameters have other names in MXNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, WIDTH, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(WIDTH)
        self.conv2 = torch.nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(WIDTH)
        self.fc = torch.nn.Linear(WIDTH, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(x + self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def tensors() -> dict[str, Any]:
    """Strides, shared storages, repeated elements, and all dtypes that MXNet has."""
    base = torch.arange(12.0)
    found = {
        "transposed": base.reshape(3, 4).t(),
        "steps": base[2:8:2],
        "shared": base,
        "repeated": base[:1].expand(5, 3),
    }
    found |= {"scalar": torch.tensor(7), "empty": torch.empty(0, 3), "bool": torch.tensor([True, False, True])}
    found |= {"parameter": torch.nn.Parameter(torch.ones(2, 2)), "bfloat16": torch.tensor([1.5, -2.0]).bfloat16()}
    for name in ("float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"):
        found[name] = torch.tensor([1, 2, 100]).to(getattr(torch, name))
    return found


def checkpoint(network: torch.nn.Module) -> dict[str, Any]:
    """The state of a training, with a tensor and a Counter."""
    optimizer = torch.optim.Adam(network.parameters())
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    states = {
        "state_dict": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }
    return {"epoch": 3, **states, "loss": torch.tensor(0.5), "device": torch.device("cpu")}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    network = Network()
    for _ in range(3):
        network(torch.randn(4, 3, 6, 6) * 2 + 1)
    network.eval()
    x = torch.randn(2, 3, 6, 6)
    np.savez(FOLDER / "network.npz", x=x.numpy(), y=network(x).detach().numpy())
    torch.save(network.state_dict(), FOLDER / "network.pth")
    torch.save(checkpoint(network), FOLDER / "checkpoint.pt")
    torch.save(tensors(), FOLDER / "tensors.pt")
    np.savez(FOLDER / "tensors.npz", **{name: _array(t) for name, t in tensors().items()})
    torch.save({"x": torch.ones(2)}, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.ones(2, dtype=torch.complex64)}, FOLDER / "complex.pt")
    torch.save(network, FOLDER / "module.pt")
    torch.save(torch.ones(2), FOLDER / "tensor.pt")
    torch.jit.script(network.fc).save(str(FOLDER / "script.pt"))


def _array(t: Any) -> np.ndarray:
    return (t.float() if t.dtype is torch.bfloat16 else t).detach().contiguous().numpy()


if __name__ == "__main__":
    main()
