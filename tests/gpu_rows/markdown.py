"""Makes the section of docs/benchmarks.md from the results of `python -m tests.hardware`:

    python -m tests.gpu_rows.markdown hardware.json [more.json ...]

Rows of later files replace those of earlier ones, which must be of the same GPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SCHEMA = "hardware/2"
_COLUMNS = ("workload", "mxforge", "PyTorch", "its best", "time by PyTorch's", "difference")
_SHOWN = 60  # characters of an error


def main(paths: Sequence[str]) -> int:
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(section(joined([json.loads(Path(path).read_text()) for path in paths]))))
    return 0


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The results of several runs as one. ValueError for another schema, and for runs on different GPUs."""
    for result in results:
        if result.get("schema") != _SCHEMA:
            raise ValueError(f"a file has the schema {result.get('schema')!r}, not {_SCHEMA!r}")
    gpus = {result["machine"]["gpu"] for result in results}
    if len(gpus) > 1:
        raise ValueError(f"the files are of different GPUs: {', '.join(sorted(gpus))}")
    rows = {name: row for result in results for name, row in result.get("rows", {}).items()}
    return {**results[-1], "rows": rows}


def section(results: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the section."""
    machine, packages = results["machine"], results["packages"]
    yield f"## On an {machine['gpu']}"
    yield ""
    versions = ", ".join(f"{name} {packages[name]}" for name in ("triton", "torch") if name in packages)
    driver = f", driver for CUDA {machine['cuda'] // 1000}.{machine['cuda'] % 1000 // 10}" if "cuda" in machine else ""
    yield f"One {machine['gpu']}{driver}; {versions}. `python -m tests.hardware` measured each row, both frameworks"
    yield "in the same run. *Time by PyTorch's* below 1 is faster than the best variant of PyTorch. *Difference* is the"
    yield "largest one between the results, by the largest element. Products of float32 are exact in both."
    yield ""
    yield _line(_COLUMNS)
    yield _line(["---", "--:", "--:", "---", "--:", "--:"])
    for name, row in results["rows"].items():
        yield _line(_cells(name, row))


def _cells(name: str, row: Mapping[str, Any]) -> Sequence[str]:
    best = row.get("best_peer")
    peer = row["peers"][best] if best else next(iter(row["peers"].values()), {})
    ratio = row.get("ratio")
    difference = peer.get("difference")
    return (
        name,
        _value(row.get("mxforge") or row.get("process") or {}, row["unit"]),
        _value(peer, row["unit"]),
        best or "",
        "" if ratio is None else f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}",
        f"{difference:.1e}" if isinstance(difference, float) else difference or "",
    )


def _value(result: Mapping[str, Any], unit: str) -> str:
    """A value with three digits, or why there is none."""
    if "value" in result:
        rounded = float(f"{result['value']:.3g}")
        return f"{rounded:g} {unit}"
    return f"({result.get('error', 'not measured')[:_SHOWN]})".replace("|", "/")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
