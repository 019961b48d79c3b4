"""The report of `mxforge inspect` as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LABEL_WIDTH = 60


def as_text(report: Mapping[str, Any]) -> str:
    """The sections of the report (a `Report` as a dictionary), without empty ones."""
    return "\n".join(line for section in _SECTIONS for line in section(report))


def _head(report: Mapping[str, Any]) -> Iterator[str]:
    yield report["model"]
    for kind in ("inputs", "outputs"):
        for argument in report[kind]:
            yield f"  {kind[:-1]:6}  {argument['name']}  {_type(argument)}".rstrip()
    if not report["memory"]:
        yield "  --input-shape NAME=D,D,... shows layers with shapes and costs, memory, code and launches"


def _type(argument: Mapping[str, Any]) -> str:
    """The dtype and the shape, as far as they are known."""
    shape = argument["shape"]
    extents = "" if shape is None else f"({', '.join('?' if n is None else str(n) for n in shape)})"
    return f"{argument['dtype'] or ''} {extents}".strip()


def _layers(report: Mapping[str, Any]) -> Iterator[str]:
    layers = report["layers"]
    if not layers or "output" not in layers[0]:
        return
    total = {key: sum(layer[key] for layer in layers) for key in ("parameters", "multiply_adds", "bytes")}
    yield f"\nlayers ({len(layers)})  {total['parameters']:,} parameters, {total['multiply_adds']:,} multiply-adds"
    rows: list[Sequence[str]] = [("layer", "operator", "output", "parameters", "multiply-adds", "bytes", "launches")]
    for layer in layers:
        numbers = [f"{layer[key]:,}" if layer[key] else "" for key in ("parameters", "multiply_adds", "bytes")]
        output = " x ".join(map(str, layer["output"])) or "scalar"
        rows.append((cut(layer["name"]), layer["operator"], output, *numbers, _ranges(layer["launches"])))
    yield from table(rows, "lllrrrl")


def _ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as text, with runs of several as `first-last`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _operators(report: Mapping[str, Any]) -> Iterator[str]:
    counts = report["operators"]
    if counts:
        yield f"\noperators ({sum(counts.values())})"
        yield from table([(f"{n}", op) for op, n in counts.items()], "rl")


def _parameters(report: Mapping[str, Any]) -> Iterator[str]:
    found = report["parameters"]
    if found:
        yield f"\nparameters  {found['arrays']} arrays, {found['elements']:,} elements, {size(found['bytes'])}"


def _memory(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["memory"]:
        return
    yield "\nmemory"
    yield from table([(name, size(n)) for name, n in report["memory"].items()], "lr")


def _code(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["memory"]:
        return
    kernels = {launch["kernel"] for launch in (*report["launches"], *report["prepare"])}
    seconds = report["compile_seconds"]
    compiled = "" if seconds is None else f", compiled in {1e3 * seconds:.0f} ms"
    yield f"\ncode  {len(kernels)} kernels, {size(report['code_bytes'])}{compiled}"
    if report["target"]:
        target = report["target"]
        yield f"      for {target['cpu']}, vectors of {target['vector_bits']} bits, {target['threads']} threads"


def _launches(report: Mapping[str, Any]) -> Iterator[str]:
    for name, title in (("prepare", "prepared once"), ("launches", "launches")):
        if report[name]:
            yield f"\n{title} ({len(report[name])})"
            yield from _launch_table(report[name], report["profiled_seconds"] if name == "launches" else None)


def _launch_table(launches: Sequence[Mapping[str, Any]], total: float | None) -> Iterator[str]:
    timed = total is not None
    rows = [("kind", "units", "kernel", *(("us", "%") if timed else ()), "region")]
    for launch in launches:
        times = (f"{1e6 * launch['seconds']:.1f}", f"{100 * launch['seconds'] / total:.1f}") if total else ()
        units = f"{launch['count']}" + (f"/{launch['grain']}" if launch["grain"] > 1 else "")
        rows.append((launch["kind"], units, _short_symbol(launch["kernel"]), *times, cut(launch["label"])))
    yield from table(rows, "lrl" + ("rr" if timed else "") + "l")


def _fallbacks(report: Mapping[str, Any]) -> Iterator[str]:
    """The contractions that no schedule supports, with the reason."""
    found = [launch for launch in (*report["prepare"], *report["launches"]) if launch["fallback"]]
    if found:
        yield f"\nplain loops ({len(found)})"
        yield from table([(cut(launch["label"]), launch["fallback"]) for launch in found], "ll")


def _by_kind(report: Mapping[str, Any]) -> Iterator[str]:
    total = report["profiled_seconds"]
    if total is None:
        return
    seconds: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for launch in report["launches"]:
        seconds[launch["kind"]] += launch["seconds"]
        count[launch["kind"]] += 1
    yield f"\ntime  {1e3 * total:.3f} ms, launches one by one"
    rows = [
        (k, str(count[k]), f"{1e3 * s:.3f} ms", f"{100 * s / (total or 1):.1f} %") for k, s in seconds.most_common()
    ]
    yield from table(rows, "lrrr")


_SECTIONS = (_head, _operators, _parameters, _layers, _memory, _code, _launches, _fallbacks, _by_kind)


def _short_symbol(symbol: str) -> str:
    """A symbol with a shortened hash."""
    stem, dot, part = symbol.partition(".")
    return f"{stem[:10]}{dot}{part}"


def cut(label: str) -> str:
    """A label, shortened for a column."""
    return label if len(label) <= _LABEL_WIDTH else label[: _LABEL_WIDTH - 3] + "..."


def table(rows: Sequence[Sequence[str]], alignment: str) -> Iterator[str]:
    """The rows as aligned columns; `alignment` has `l` or `r` for each column."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(alignment))]
    for row in rows:
        cells = [f"{c:{'<' if a == 'l' else '>'}{w}}" for c, a, w in zip(row, alignment, widths, strict=True)]
        yield "  " + "  ".join(cells).rstrip()


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 problem`, `2 problems`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def size(nbytes: int) -> str:
    """A size in bytes, KiB, MiB or GiB as text."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
