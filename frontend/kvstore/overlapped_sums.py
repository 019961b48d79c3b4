"""Sums of gradients over workers that begin in the backward pass, as soon as gradients are final.

The gradients are divided into buckets, in the order in which they become final on worker 0; all workers have the same
buckets and take them in the same order, whenever they reach them, so the sums do not depend on timing. What a backward
pass began is used only if no worker changed a gradient since; else the sums are taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ...runtime.communicator import Communicator, starting
from ...runtime.exchange import Exchange
from ...runtime.writes import Watch
from ..base import MXNetError
from ..ndarray import NDArray
from ..ndarray.tape import Variable
from .blocks import Bucket
from .buckets import Key, buckets_by_order

Array = np.ndarray[Any, Any]
Agree = Callable[[Sequence[bool]], Sequence[bool]]

_MISSES = 2
"""Sums in a row that began in vain, after which none begins early any more."""


class OverlappedSums:
    """The gradients of variables, by key. `is_armed` if the next backward pass through all variables begins their sums:
    its program writes the buckets to `buffers`, and takes a collective for each."""

    def __init__(self, workers: Communicator) -> None:
        self._workers = workers
        self._exchange = Exchange(workers.duplicate())
        self._variables: dict[Key, Variable] = {}
        self.summed: list[Bucket] = []
        """The buckets that have the last sums."""
        self._arrays: list[list[NDArray]] = []
        self._watch: Watch | None = None
        self._versions: tuple[int, ...] = ()
        self._misses = 0
        self.overlaps = True
        """False if no sum begins before it is asked for."""
        self.is_armed = False
        self.buckets: tuple[tuple[Variable, ...], ...] = ()

    @property
    def buffers(self) -> list[NDArray]:
        """See `Receiver`."""
        return [bucket.flat for bucket in self.summed]

    def __reduce__(self) -> NoReturn:
        raise MXNetError("a kvstore that connects this process with others cannot be pickled or copied")

    def expect(self, variables: Mapping[Key, Variable]) -> None:
        """Sum the gradients of these variables from now on. Others of the same types, such as those of another module
        with the same parameters, take the places of the present ones: the buckets stay."""
        if variables == self._variables:
            return
        planned = {k: variable.array for k, variable in self._variables.items()} if self.summed else {}
        is_alike = {k: _type(variable.array) for k, variable in variables.items()} == {
            k: _type(array) for k, array in planned.items()
        }
        self._variables, self.is_armed = dict(variables), False
        for variable in variables.values():
            variable.receiver = self
        if is_alike:
            self._use_variables()
        else:
            self.summed = []

    @contextmanager
    def receiving(self) -> Generator[None]:
        """Begin the sums that the program in the body takes as collectives; it writes all gradients."""
        self.is_armed = False
        with starting(self._exchange.begin):
            yield
        self._versions = self._watch.versions() if self._watch is not None else ()

    def sums(self, arrays: Mapping[Key, NDArray], agree: Agree) -> dict[Key, NDArray] | None:
        """The sums of arrays over all workers; None if they are not the gradients of the variables on all of them.
        `agree` returns for each of some statements whether it is true on a worker."""
        other = arrays.keys() != self._variables.keys()
        replaced = not other and any(a is not self._variables[k].array for k, a in arrays.items())
        changed = self._watch is None or self._watch.versions() != self._versions
        flags = agree(
            [other, replaced, self._exchange.begun > 0, changed and self._exchange.begun > 0, not self.summed]
        )
        other, replaced, begun, changed, unplanned = flags
        if other:
            return None
        if begun:
            self._take()
            self._misses = self._misses + 1 if replaced or changed or unplanned else 0
        self.is_armed = False
        if replaced:
            return None
        if unplanned:
            self._plan()
        if not begun or changed or unplanned:
            self._take()
        self.is_armed = self.overlaps and self._misses < _MISSES
        return {k: total for bucket in self.summed for k, total in bucket.parts.items()}

    def drop(self, agree: Agree) -> None:
        """End the sums that a backward pass began on a worker; no worker needs them."""
        (begun,) = agree([self._exchange.begun > 0])
        if begun:
            self._take()
        self.is_armed = self.overlaps and bool(self.summed) and self._misses < _MISSES

    def _take(self) -> None:
        """Sum all buckets, of which some may have begun."""
        begun = self._exchange.begun
        for bucket, arrays in zip(self.summed[begun:], self._arrays[begun:], strict=True):
            bucket.fill(arrays, again=True)
            self._exchange.begin(bucket.values())
        for bucket, total in zip(self.summed, self._exchange.finish(), strict=True):
            bucket.replace(total)

    def _plan(self) -> None:
        """Divide the gradients into buckets, in the order in which they become final on worker 0."""
        keys = list(self._variables)
        final = [self._variables[k].final for k in keys]
        order = sorted(reversed(range(len(keys))), key=final.__getitem__)
        order = self._workers.broadcast(np.array(order, np.int64)).tolist()
        arrays = {keys[i]: self._variables[keys[i]].array for i in order}
        self.summed = [Bucket({k: arrays[k] for k in names}) for names in buckets_by_order(arrays)]
        self._use_variables()

    def _use_variables(self) -> None:
        """Take the gradients of the present variables."""
        self.buckets = tuple(tuple(self._variables[k] for k in bucket.keys) for bucket in self.summed)
        self._arrays = [[variable.array for variable in bucket] for bucket in self.buckets]
        self._watch = Watch(array._storage for arrays in self._arrays for array in arrays)


def _type(array: NDArray) -> object:
    return array._shape, array._dtype, array._context
