"""Programs that use packages for MXNet: the modules that they need, and the comparison with recorded results."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
RECORDED = HERE / "recorded"

# The modules that a program imports. docs/drop-in.md lists the versions with which results were recorded.
NEEDS = {
    "gluoncv_models": ["gluoncv"],
    "gluonnlp_models": ["gluonnlp"],
    "keras_models": ["keras", "h5py"],
    "mxboard_events": ["mxboard"],
    "insightface_models": ["insightface.model_zoo.face_genderage", "skimage"],
    "gluonfr_models": ["gluonfr"],
    "gluoncv2_models": ["gluoncv2"],
    "gluonts_models": ["gluonts.mx", "pandas"],
    "mxfusion_models": ["mxfusion.inference"],
    "sockeye_models": ["sockeye.inference", "sacrebleu"],
    "gluonnlp_training": ["gluonnlp"],
    "keras_training": ["keras", "h5py"],
    "gluonts_training": ["gluonts.mx", "pandas"],
    "mxfusion_training": ["mxfusion.inference"],
    "gluonfr_training": ["gluonfr"],
    "d2l_chapters": ["d2l"],
}
TOLERANCE = 2e-5
"""The allowed difference from MXNet's numbers, relative to the largest magnitude in their array."""
TRAINING_TOLERANCE = 1e-4
"""The same for programs that train: rounding differences grow from step to step."""


def lines(text: str) -> dict[str, dict[str, Any]]:
    """The results in a program's output, by case."""
    found = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return {line["case"]: line for line in found}


def recorded(program: str) -> dict[str, dict[str, Any]]:
    """MXNet's results by case."""
    return json.loads((RECORDED / f"{program}.json").read_text())


def tolerance(program: str) -> float:
    """The allowed difference of a program's numbers."""
    return TRAINING_TOLERANCE if program.endswith("_training") else TOLERANCE


def differences(ours: dict[str, Any], theirs: dict[str, Any], allowed: float = TOLERANCE) -> list[str]:
    """The differences between a case's results and MXNet's, one line for each."""
    if "error" in ours:
        return [f"{ours['error']} at {' > '.join(ours['at'])}"]
    found = [f"facts {ours['facts']}, not {theirs['facts']}"] if ours["facts"] != theirs["facts"] else []
    if len(ours["outputs"]) != len(theirs["outputs"]):
        return [*found, f"{len(ours['outputs'])} outputs, not {len(theirs['outputs'])}"]
    for number, (one, other) in enumerate(zip(ours["outputs"], theirs["outputs"], strict=True)):
        if any(one[key] != other[key] for key in ("shape", "dtype")):
            found.append(f"output {number} is {one['dtype']} {one['shape']}, not {other['dtype']} {other['shape']}")
        elif (error := distance(one, other)) > allowed:
            found.append(f"output {number} of shape {one['shape']} is off by {error:.1e} of its largest element")
    return found


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference between the recorded numbers of two arrays, relative to the largest magnitude."""
    scale = max(other["largest"], 1e-30)
    pairs = zip([*one["values"], one["largest"]], [*other["values"], other["largest"]], strict=True)
    return max(_apart(a, b) / scale for a, b in pairs)


def _apart(a: float, b: float) -> float:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b)
    return 0.0 if str(a) == str(b) else math.inf
