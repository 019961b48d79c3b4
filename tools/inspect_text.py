"""The report of `mxforge inspect` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .contexts import machine_text
from .schemas.common import Argument
from .schemas.inspect import InspectReport, Launch

_LABEL_WIDTH = 60


def as_text(report: InspectReport) -> str:
    """The sections of the report, without empty ones."""
    return "\n".join(line for section in _SECTIONS for line in section(report))


def _head(report: InspectReport) -> Iterator[str]:
    yield report.model
    yield from _variants(report)
    for kind, arguments in (("input", report.inputs), ("output", report.outputs)):
        for argument in arguments:
            yield f"  {kind:6}  {argument.name}  {type_text(argument)}".rstrip()
    if report.memory is None:
        yield "  --input-shape NAME=D,D,... shows layers with shapes and costs, memory, code and launches"


def _variants(report: InspectReport) -> Iterator[str]:
    if not report.variants:
        return
    yield f"  compiled for {counted(report.shapes, 'shape', 'shapes')}"
    for variant in report.variants:
        head = f"    {variant.name}  " if variant.name else "    "
        for kind, ranges in (("input", variant.inputs), ("output", variant.outputs)):
            for tensor in ranges:
                axes = zip(tensor.least, tensor.best or tensor.least, tensor.most, strict=True)
                text = ", ".join(_extents(*axis, named=tensor.best is not None) for axis in axes)
                yield f"{head}{kind:6}  {tensor.name}  ({text})"
        for group in variant.equal:
            yield f"{head}equal   {', '.join(group)}"
    yield "  what follows is for"


def _extents(least: int, best: int, most: int, *, named: bool) -> str:
    """The extents of an axis, as `1..64`, or `1..8..64` with the best one."""
    if least == most:
        return str(most)
    return f"{least}..{best}..{most}" if named else f"{least}..{most}"


def type_text(argument: Argument) -> str:
    """The dtype and the shape, as far as they are known."""
    shape = argument.shape
    extents = "" if shape is None else f"({', '.join('?' if n is None else str(n) for n in shape)})"
    return f"{argument.dtype or ''} {extents}".strip()


def _layers(report: InspectReport) -> Iterator[str]:
    layers = report.layers
    if not layers or layers[0].output is None:
        return
    parameters, products = sum(x.parameters or 0 for x in layers), sum(x.multiply_adds or 0 for x in layers)
    yield f"\nlayers ({len(layers)})  {parameters:,} parameters, {products:,} multiply-adds"
    rows: list[Sequence[str]] = [("layer", "operator", "output", "parameters", "multiply-adds", "bytes", "launches")]
    for layer in layers:
        numbers = [f"{n:,}" if n else "" for n in (layer.parameters, layer.multiply_adds, layer.bytes)]
        output = " x ".join(map(str, layer.output or ())) or "scalar"
        rows.append((cut(layer.name), layer.operator, output, *numbers, _ranges(layer.launches or ())))
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


def _operators(report: InspectReport) -> Iterator[str]:
    counts = report.operators
    if counts:
        yield f"\noperators ({sum(counts.values())})"
        yield from table([(f"{n}", op) for op, n in counts.items()], "rl")


def _parameters(report: InspectReport) -> Iterator[str]:
    parameters = report.parameters
    if parameters is not None:
        yield f"\nparameters  {parameters.arrays} arrays, {parameters.elements:,} elements, {size(parameters.bytes)}"


def _memory(report: InspectReport) -> Iterator[str]:
    if report.memory is None:
        return
    yield "\nmemory"
    yield from table([(name, size(n)) for name, n in vars(report.memory).items()], "lr")


def _code(report: InspectReport) -> Iterator[str]:
    if report.memory is None:
        return
    kernels = {launch.kernel for launch in (*report.launches, *report.prepare)}
    seconds = report.compile_seconds
    compiled = "" if seconds is None else f", compiled in {1e3 * seconds:.0f} ms"
    yield f"\ncode  {len(kernels)} kernels, {size(report.code_bytes)}{compiled}"
    if report.target is not None:
        yield f"      for {machine_text(report.target)}"


def _launches(report: InspectReport) -> Iterator[str]:
    sections = ("prepared once", report.prepare, None), ("launches", report.launches, report.profiled_seconds)
    for title, launches, total in sections:
        if launches:
            yield f"\n{title} ({len(launches)})"
            yield from _launch_table(launches, total)


def _launch_table(launches: Sequence[Launch], total: float | None) -> Iterator[str]:
    timed = total is not None
    rows = [("kind", "units", "kernel", *(("us", "%") if timed else ()), "region")]
    for launch in launches:
        seconds = launch.seconds or 0.0
        times = (f"{1e6 * seconds:.1f}", f"{100 * seconds / total:.1f}") if total else ()
        units = f"{launch.count}" + (f"/{launch.grain}" if launch.grain > 1 else "")
        rows.append((launch.kind, units, _short_symbol(launch.kernel), *times, cut(launch.label)))
    yield from table(rows, "lrl" + ("rr" if timed else "") + "l")


def _fallbacks(report: InspectReport) -> Iterator[str]:
    """The contractions that no schedule supports, with the reason."""
    fallbacks = [launch for launch in (*report.prepare, *report.launches) if launch.fallback]
    if fallbacks:
        yield f"\nplain loops ({len(fallbacks)})"
        yield from table([(cut(launch.label), launch.fallback) for launch in fallbacks], "ll")


def _by_kind(report: InspectReport) -> Iterator[str]:
    total = report.profiled_seconds
    if total is None:
        return
    kinds: dict[str, list[float]] = {}
    for launch in report.launches:
        kinds.setdefault(launch.kind, []).append(launch.seconds or 0.0)
    by_time = sorted(kinds.items(), key=lambda pair: -sum(pair[1]))
    yield f"\ntime  {1e3 * total:.3f} ms, launches one by one"
    rows = [
        (kind, str(len(x)), f"{1e3 * sum(x):.3f} ms", f"{100 * sum(x) / (total or 1):.1f} %") for kind, x in by_time
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
