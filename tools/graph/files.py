"""Writes the graph of a program as a .dot, .graphml or .svg file.

An edge leads to a step that has to wait for another one: for its data, or, dashed, for memory that it uses again.
Drawings have the fewest edges with the same paths. A .graphml file has more, whose attribute `reduced` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from ...ir.program_graph import reduced
from ..errors import UsageError
from ..outputs import check_writable, write_file
from .layout import Pair, layered_layout
from .program import COPY, FILL, INPUT, OUTPUT, Node, ProgramGraph

_LONGEST = 44
_MARGIN, _CHARACTER, _LINE = 16.0, 6.8, 16.0
"""Pixels: around the drawing, and the room of a character and of a line."""
_COLOURS = {
    **dict.fromkeys((INPUT, OUTPUT), "#dbeafe"),
    **dict.fromkeys(("attention", "contract", "chain"), "#fde68a"),
    **dict.fromkeys((COPY, FILL, "layout", "move", "pack"), "#e5e7eb"),
}
_OTHER = "#dcfce7"


def check_graph(path: Path) -> None:
    """UsageError if the suffix is of no known format, ToolError if the file cannot be written. For use before work."""
    if path.suffix not in _FORMATS:
        raise UsageError(f"{path}: a graph is a .dot, .graphml or .svg file")
    check_writable(path)


def write_graph(path: Path, graph: ProgramGraph) -> None:
    """Write the graph in the format of the suffix."""
    write_file(path, _FORMATS[path.suffix](graph))


def _printable(text: str) -> str:
    """Text that XML can express."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _lines(node: Node) -> tuple[str, str]:
    """The text of a node in a drawing."""
    label = node.label if len(node.label) <= _LONGEST else f"{node.label[: _LONGEST - 3]}..."
    units = f"{node.units} unit{'s' * (node.units != 1)}" if node.units else ""
    time = "" if node.seconds is None else f"{1e6 * node.seconds:.1f} us"
    return _printable(label), ", ".join(filter(None, (node.kind, units, time)))


# --- formats ----------------------------------------------------------------------------------------------------------


def as_dot(program: ProgramGraph) -> bytes:
    """The drawing in Graphviz's language."""
    lines = ["digraph program {", '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10]']
    for n, node in program.nodes.items():
        colour = _COLOURS.get(node.kind, _OTHER)
        lines.append(f'  n{n} [label={_quoted(*_lines(node))}, fillcolor="{colour}"]')
    drawn = reduced(program.graph)
    for a, b in drawn.edges:
        style = "" if drawn.edges[a, b]["bytes"] else " [style=dashed]"
        lines.append(f"  n{a} -> n{b}{style}")
    return "\n".join([*lines, "}", ""]).encode()


def _quoted(*lines: str) -> str:
    r"""Lines as a string of Graphviz, in which a backslash begins an escape."""
    text = r"\n".join(line.replace("\\", r"\\").replace('"', r"\"") for line in lines)
    return f'"{text}"'


def as_graphml(program: ProgramGraph) -> bytes:
    """All nodes and edges with their attributes, for programs that read graphs."""
    from networkx import DiGraph, generate_graphml

    kept = reduced(program.graph)
    graph: DiGraph[int] = DiGraph()
    for n, node in program.nodes.items():
        about = {"label": _printable(node.label), "kind": node.kind, "bytes": node.nbytes}
        kernel = {"kernel": node.kernel, "units": node.units} if node.kernel else {}
        graph.add_node(n, **about, **kernel, **({} if node.seconds is None else {"seconds": node.seconds}))
    for a, b in program.graph.edges:
        graph.add_edge(a, b, bytes=program.graph.edges[a, b]["bytes"], reduced=kept.has_edge(a, b))
    return "\n".join([*generate_graphml(graph), ""]).encode()


def as_svg(program: ProgramGraph) -> bytes:
    """The drawing as a picture."""
    texts = {n: _lines(node) for n, node in program.nodes.items()}
    sizes = {n: (_CHARACTER * max(map(len, lines)) + 16, 2 * _LINE + 8) for n, lines in texts.items()}
    drawn = reduced(program.graph)
    layout = layered_layout(drawn, sizes)
    width, height = (length + 2 * _MARGIN for length in layout.size)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs>',
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="white"/>',
    ]
    lines += [_svg_edge(layout.edges[edge], drawn.edges[edge]["bytes"]) for edge in drawn.edges]
    for n, node in program.nodes.items():
        lines += _svg_node(node, texts[n], layout.nodes[n], sizes[n])
    return "\n".join([*lines, "</svg>", ""]).encode()


def _svg_edge(points: Sequence[Pair], nbytes: int) -> str:
    """A curve that is vertical at its ends and bends."""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path.append(f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
    dashed = "" if nbytes else ' stroke-dasharray="4 3"'
    return f'<path d="{"".join(path)}" fill="none" stroke="#6b7280" marker-end="url(#arrow)"{dashed}/>'


def _svg_node(node: Node, lines: Sequence[str], centre: Pair, size: Pair) -> Iterator[str]:
    (x, y), (width, height) = centre, size
    box = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"'
    yield f"<g><title>{escape(_printable(node.label))}</title>"
    yield f'<rect {box} fill="{_COLOURS.get(node.kind, _OTHER)}" stroke="#6b7280"/>'
    for number, line in enumerate(lines):
        baseline = y + (number - 0.5) * _LINE + 4
        yield f'<text x="{x:.1f}" y="{baseline:.1f}" text-anchor="middle">{escape(line)}</text>'
    yield "</g>"


_FORMATS: Mapping[str, Callable[[ProgramGraph], bytes]] = {".dot": as_dot, ".graphml": as_graphml, ".svg": as_svg}
