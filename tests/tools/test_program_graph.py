"""The graph of a program: files, layout, and the figures of profiles and simulations."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import mxforge as mx
import networkx as nx
import pytest
from mxforge.tools.graph.files import as_dot, as_graphml, as_svg
from mxforge.tools.graph.layout import layered_layout
from mxforge.tools.graph.program import Node, ProgramGraph
from mxforge.tools.profile.thread_model import LaunchWork, ThreadCosts, predict
from mxforge.tools.profile.thread_schedule import together_seconds

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """The prefix of a model with two branches that are joined."""
    x: Any = mx.sym.var("data")
    first: Any = mx.sym.FullyConnected(x, num_hidden=64, no_bias=True, name="first")
    parts = [mx.sym.sort(mx.sym.softmax(first * k), name=f"part{k}") for k in (2, 3)]
    mx.sym.dot(parts[0], parts[1], transpose_b=True, name='"join" <&>').save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:first_weight": mx.nd.ones((64, 16))})
    return tmp_path / "net"


def graphml(path: Path) -> Any:
    return nx.read_graphml(path, node_type=int)


def test_the_graph_of_a_model(mxforge: Any, branches: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "graph.graphml"
    done = mxforge("inspect", branches, "--input-shape", "data=8,16", "--profile", "--graph", path, "--json")
    assert done.status == 0, done.err
    report, graph = json.loads(done.out), graphml(path)
    launches = {n: about for n, about in graph.nodes.items() if "kernel" in about}
    assert [x["label"] for x in launches.values()] == [x["label"] for x in report["launches"]]
    assert [x["kernel"] for x in launches.values()] == [x["kernel"] for x in report["launches"]]
    assert [x["seconds"] for x in launches.values()] == [x["seconds"] for x in report["launches"]]
    (given,), (result,) = ([n for n, about in graph.nodes.items() if about["kind"] == k] for k in ("input", "output"))
    assert (graph.nodes[given]["label"], graph.nodes[given]["bytes"]) == ("data", 8 * 16 * 4)
    assert set(nx.descendants(graph, given)) == set(graph) - {given}
    assert set(nx.ancestors(graph, result)) == set(graph) - {result}
    one, other = (
        next(n for n, x in launches.items() if f"part{k}" in x["label"] and "sort" in x["kind"]) for k in (2, 3)
    )
    assert not nx.has_path(graph, one, other) or not nx.has_path(graph, other, one)
    kept = [(a, b) for a, b, reduced in graph.edges.data("reduced") if reduced]
    assert set(nx.transitive_closure_dag(nx.DiGraph(kept)).edges) == set(nx.transitive_closure_dag(graph).edges)


def test_drawings(mxforge: Any, branches: Path, tmp_path: Path) -> None:
    shape = ("--input-shape", "data=8,16")
    for name in ("graph.svg", "graph.dot"):
        assert mxforge("inspect", branches, *shape, "--graph", tmp_path / name).status == 0
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "data" in texts and any('"join" <&>' in str(text) for text in texts)
    assert len(list(root.iter(f"{SVG}g"))) == len(texts) / 2
    dot = (tmp_path / "graph.dot").read_text()
    assert r"\"join\" <&>" in dot and dot.count(" -> ") == len(list(root.iter(f"{SVG}path"))) - 1


def test_names_are_escaped() -> None:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edge(0, 1, bytes=0)
    names = '<a href="x">&\\', "\x00\n\u5377"
    found = ProgramGraph({n: Node(name, "move") for n, name in enumerate(names)}, graph)
    shown = ['<a href="x">&\\', "??\u5377"]
    root = ElementTree.fromstring(as_svg(found))
    assert [t.text for t in root.iter(f"{SVG}text")][::2] == shown
    assert 'stroke-dasharray="4 3"' in as_svg(found).decode()
    assert r'[label="<a href=\"x\">&\\\nmove"' in as_dot(found).decode()
    read = nx.parse_graphml(as_graphml(found).decode(), node_type=int)
    assert [about["label"] for about in read.nodes.values()] == shown


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it(mxforge: Any, branches: Path, tmp_path: Path) -> None:
    mxforge("inspect", branches, "--input-shape", "data=8,16", "--graph", tmp_path / "graph.dot")
    subprocess.run(["dot", "-Tsvg", "graph.dot"], check=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--input-shape", "data=8,16", "--graph", "graph.png"), 2, "graph.png: a graph is a .dot, .graphml or .svg"),
        (("--input-shape", "data=8,16", "--graph", "graph"), 2, "graph: a graph is a .dot, .graphml or .svg file"),
        (("--input-shape", "data=8,16", "--graph", "file/graph.svg"), 1, "there is no folder"),
        (("--input-shape", "data=8,16", "--graph", "folder.svg"), 1, "folder.svg: is a folder"),
        (("--graph", "graph.svg"), 2, "--input-shape data="),
    ],
)
def test_errors(
    mxforge: Any,
    branches: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    done = mxforge("inspect", branches, *arguments)
    assert (done.status, done.out) == (status, "")
    assert message in done.err and done.err.count("\n") == 1


def test_a_model_without_steps(mxforge: Any, tmp_path: Path) -> None:
    mx.sym.identity(mx.sym.var("data"), name="identity0").save(str(tmp_path / "net-symbol.json"))
    for name in ("graph.svg", "graph.dot", "graph.graphml"):
        done = mxforge("inspect", tmp_path / "net", "--input-shape", "data=4", "--graph", tmp_path / name)
        assert done.status == 0, done.err
    assert [about["kind"] for about in graphml(tmp_path / "graph.graphml").nodes.values()] == [
        "input",
        "copy",
        "output",
    ]


# --- layout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_nodes_do_not_overlap_and_edges_go_down(seed: int) -> None:
    random = Random(seed)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(random.randint(1, 30)))
    graph.add_edges_from(pair for pair in combinations(graph, 2) if random.random() < 0.1)
    sizes = {n: (random.uniform(20, 200), random.uniform(20, 50)) for n in graph}
    found = layered_layout(graph, sizes)
    for a, b in combinations(graph, 2):
        apart = [
            abs(p - q) - (s + t) / 2
            for p, q, s, t in zip(found.nodes[a], found.nodes[b], sizes[a], sizes[b], strict=True)
        ]
        assert max(apart) >= -1e-6
    for n, (x, y) in found.nodes.items():
        assert sizes[n][0] / 2 - 1e-6 <= x <= found.size[0] - sizes[n][0] / 2 + 1e-6
        assert sizes[n][1] / 2 - 1e-6 <= y <= found.size[1] - sizes[n][1] / 2 + 1e-6
    assert set(found.edges) == set(graph.edges)
    for points in found.edges.values():
        assert all(before[1] < after[1] for before, after in pairwise(points))


# --- time -------------------------------------------------------------------------------------------------------------

COSTS = ThreadCosts(1e-6, 1e-7, 1e11)


def chain(count: int) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.path_graph(count, create_using=nx.DiGraph)
    return graph


@pytest.mark.parametrize("threads", [1, 2, 8, 64])
@pytest.mark.parametrize("seed", range(5))
def test_a_chain_takes_the_sum_of_its_launches(seed: int, threads: int) -> None:
    random = Random(seed)
    works = {
        n: [
            LaunchWork(
                "", random.randint(1, 200), random.randint(1, 20), random.uniform(1e-6, 1e-3), random.uniform(1e2, 1e7)
            )
        ]
        for n in range(7)
    }
    expected = sum(predict(work, threads, COSTS).seconds for own in works.values() for work in own)
    assert together_seconds(works, chain(7), threads, COSTS) == pytest.approx(expected)


def test_independent_launches_share_the_threads() -> None:
    free = ThreadCosts(0.0, 0.0, 1e30)
    works = {n: [LaunchWork("", 1, 1, 1.0)] for n in range(4)}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(4))
    assert [together_seconds(works, graph, threads, free) for threads in (1, 2, 4, 8)] == [4.0, 2.0, 1.0, 1.0]
    graph.add_edges_from([(0, 3), (1, 3)])
    assert together_seconds(works, graph, 8, free) == 2.0
    works[1] = [LaunchWork("", 1, 1, 1.0), LaunchWork("", 2, 1, 4.0)]  # one after the other, as in a loop
    assert together_seconds(works, graph, 8, free) == 1.0 + 2.0 + 1.0
    assert together_seconds({}, chain(3), 8, free) == 0.0
    assert together_seconds({}, chain(0), 8, free) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_times_are_within_their_bounds(seed: int) -> None:
    random, threads, free = Random(seed), 4, ThreadCosts(0.0, 0.0, 1e30)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from(pair for pair in combinations(graph, 2) if random.random() < 0.2)
    works = {n: [LaunchWork("", random.randint(1, 40), 1, random.random())] for n in graph}
    total = sum(own[0].seconds for own in works.values())
    found = together_seconds(works, graph, threads, free)
    assert total / threads - 1e-9 <= found <= total + 1e-9


def test_profile(mxforge: Any, branches: Path) -> None:
    shape = ("--input-shape", "data=8,16", "--repeat", "2")
    done = mxforge("profile", branches, *shape, "--json")
    report = json.loads(done.out)
    found, launches = report["parallelism"], report["launches"]
    assert found["work_seconds"] == pytest.approx(report["launch_seconds"])
    assert found["span_seconds"] == pytest.approx(sum(launches[n]["seconds"] for n in found["critical_path"]))
    assert 1 <= found["parallelism"] <= found["data_parallelism"]


def test_independent_layers_are_parallel(mxforge: Any, tmp_path: Path) -> None:
    x = mx.sym.var("data")
    mx.sym.Group([mx.sym.softmax(x, axis=axis) for axis in (0, 1)]).save(str(tmp_path / "net-symbol.json"))
    shape = ("--input-shape", "data=64,64", "--repeat", "2")
    found = json.loads(mxforge("profile", tmp_path / "net", *shape, "--json").out)["parallelism"]
    assert len(found["critical_path"]) == 1 and found["dependences"] == 0
    assert found["parallelism"] == found["data_parallelism"] > 1
    assert "the critical path has 1 of 2 launches" in mxforge("profile", tmp_path / "net", *shape).out


def test_a_compiled_folder_has_the_graph_of_its_symbol(
    mxforge: Any, convnet: Path, compiled: Path, tmp_path: Path
) -> None:
    mxforge("inspect", convnet, "--input-shape", "data=2,3,32,32", "--graph", tmp_path / "symbol.graphml")
    mxforge("inspect", compiled, "--graph", tmp_path / "compiled.graphml")
    symbol, folder = (nx.read_graphml(tmp_path / f"{name}.graphml", node_type=int) for name in ("symbol", "compiled"))
    assert "data" in nx.get_node_attributes(folder, "label").values()
    assert nx.is_isomorphic(symbol, folder)
    assert "the critical path has" in mxforge("profile", compiled, "--repeat", "1").out


def test_simulation(mxforge: Any, branches: Path) -> None:
    done = mxforge(
        "profile", branches, "--input-shape", "data=8,16", "--repeat", "2", "--simulate-threads", "1,8", "--json"
    )
    one, eight = json.loads(done.out)["threads"]
    assert one["together_seconds"] == pytest.approx(one["seconds"])
    for found in (one, eight):
        assert 0 < found["span_seconds"] <= found["seconds"] + 1e-12
