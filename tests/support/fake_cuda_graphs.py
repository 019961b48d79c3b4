"""The graphs of the fake CUDA driver (`fake_cuda.py`). A graph runs in the last of the orders that its edges allow."""

from __future__ import annotations

from typing import Any

from .fake_cuda_objects import Context, Handle, Node, Stream, Work, copying, driver_call, filling, require


class FakeGraphs:
    """The functions of the driver for graphs."""

    context: Any
    """The current context."""

    def kernel(self, context: Context, f: Any, grid: int, block: int, shared: int, parameters: int) -> Work:
        """The work of a kernel."""
        raise NotImplementedError

    @driver_call
    def cuGraphCreate(self, flags: int) -> Any:
        return Handle("graph", self.context, nodes={})

    @driver_call
    def cuGraphDestroy(self, hGraph: Any) -> None:
        hGraph.destroy("graph")

    def _add(self, graph: Any, dependencies: list[Any], count: int, work: Work) -> object:
        require(len(dependencies) == count and all(node in graph.nodes for node in dependencies))
        node = Node()
        graph.nodes[node] = (work, tuple(dependencies))
        return node

    def _of(self, params: Any) -> Work:
        """The work of a node, with the parameters of this moment."""
        fields = dict(vars(params))
        if "func" in fields:
            require([fields[f"{a}Dim{b}"] for a in ("grid", "block") for b in "YZ"] == [1] * 4)
            numbers = params.gridDimX, params.blockDimX, params.sharedMemBytes, params.kernelParams
            return self.kernel(self.context, params.func, *numbers)
        if "dstDevice" in fields:
            require((params.dstMemoryType, params.srcMemoryType, params.Height, params.Depth) == (2, 2, 1, 1))
            return copying(self.context, params.dstDevice, self.context, params.srcDevice, params.WidthInBytes)
        require((params.elementSize, params.height) == (1, 1))
        return filling(self.context, params.dst, params.value, params.width)

    @driver_call
    def cuGraphAddKernelNode(self, hGraph: Any, dependencies: list[Any], numDependencies: int, nodeParams: Any) -> Any:
        return self._add(hGraph, dependencies, numDependencies, self._of(nodeParams))

    @driver_call
    def cuGraphAddMemcpyNode(
        self, hGraph: Any, dependencies: list[Any], numDependencies: int, copyParams: Any, ctx: Context
    ) -> Any:
        require(ctx is self.context)
        return self._add(hGraph, dependencies, numDependencies, self._of(copyParams))

    @driver_call
    def cuGraphAddMemsetNode(
        self, hGraph: Any, dependencies: list[Any], numDependencies: int, memsetParams: Any, ctx: Context
    ) -> Any:
        require(ctx is self.context)
        return self._add(hGraph, dependencies, numDependencies, self._of(memsetParams))

    @driver_call
    def cuGraphInstantiate(self, hGraph: Any, flags: int) -> Any:
        return Handle("executable graph", self.context, nodes=dict(hGraph.nodes), queued=0)

    @driver_call
    def cuGraphExecDestroy(self, hGraphExec: Any) -> None:
        require(not hGraphExec.queued)
        hGraphExec.destroy("executable graph")

    def _set(self, executable: Any, node: object, params: Any) -> None:
        _, dependencies = executable.nodes[node]
        executable.nodes[node] = (self._of(params), dependencies)

    @driver_call
    def cuGraphExecKernelNodeSetParams(self, hGraphExec: Any, hNode: object, nodeParams: Any) -> None:
        self._set(hGraphExec, hNode, nodeParams)

    @driver_call
    def cuGraphExecMemcpyNodeSetParams(self, hGraphExec: Any, hNode: object, copyParams: Any, ctx: Context) -> None:
        self._set(hGraphExec, hNode, copyParams)

    @driver_call
    def cuGraphExecMemsetNodeSetParams(self, hGraphExec: Any, hNode: object, memsetParams: Any, ctx: Context) -> None:
        self._set(hGraphExec, hNode, memsetParams)

    @driver_call
    def cuGraphLaunch(self, hGraphExec: Any, hStream: Stream) -> None:
        nodes = dict(hGraphExec.nodes)
        hGraphExec.queued += 1

        def work() -> None:
            hGraphExec.queued -= 1
            done: set[object] = set()
            while len(done) < len(nodes):  # the last of those that can run: the order of a graph is that of its edges
                ready = [n for n, (_, before) in nodes.items() if n not in done and done.issuperset(before)]
                nodes[ready[-1]][0]()
                done.add(ready[-1])

        hStream.start(work)
