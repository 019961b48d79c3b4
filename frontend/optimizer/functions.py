"""Update rules as functions of arrays: they replace a weight and its states in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import GraphError
from ...ir.types import TensorType
from ...runtime.device import Device, DeviceError
from ...runtime.devices import HOST
from ...runtime.function import Call, Function, Specialization, after_call, before_call
from ...runtime.modes import hooks, modes
from ...runtime.scalars import ScalarBlock
from ..base import MXNetError
from ..ndarray.tape import require_writable
from ..tracebacks import cause_of

if TYPE_CHECKING:
    from ...ir.dialects.mx.optimizer_update import WeightUpdate
    from ...ir.program import Program
    from ..ndarray import NDArray

_SIGNATURES = 4096
_FLOAT = "f"


@cache
def update_function(rule: str, mixed: bool) -> UpdateFunction:
    """The function of a rule; `mixed` for weights with float32 copies."""
    from ...ir.dialects.mx.optimizer_update import WeightUpdate

    return UpdateFunction(WeightUpdate(rule=rule, mixed=mixed))


class UpdateFunction(Function["UpdateSpecialization"]):
    """A rule as a function of a weight, its gradient, its states, a float32 copy of the weight if `mixed`, and numbers.

    Profiles show `name`.
    """

    def __init__(self, operator: WeightUpdate) -> None:
        super().__init__("updates", _SIGNATURES)
        self.operator = operator
        self.states, self.numbers = operator.declared.states, operator.declared.numbers
        self.name = f"{operator.rule}_update"

    def specialise(self, types: tuple[TensorType, ...], training: bool, device: Device = HOST) -> UpdateSpecialization:
        return UpdateSpecialization(self, types, device)

    def refusal(self, types: Sequence[TensorType], reason: object) -> MXNetError:
        """The error for operands of these types."""
        from ...ir.dialects.mx.shapes import operands_text

        named = dict(zip(self.operator.input_names(), (t.description for t in types), strict=False))
        return MXNetError(f"{self.name}: {reason}{operands_text(named)}")

    def __call__(self, arrays: Sequence[NDArray], numbers: Mapping[str, float]) -> None:
        """Update one weight. `arrays` are the weight, the gradient, the states, and the copy."""
        if modes.recording:
            require_writable(arrays[0])
        specialization = self.specialization(arrays, False)
        try:
            specialization.call(arrays, [numbers[name] for name in self.numbers])
        except DeviceError:
            contexts = ", ".join(dict.fromkeys(str(a._context) for a in arrays))
            message = f"the arrays are on different devices: {contexts}"
            raise self.refusal([a._type() for a in arrays], message) from None


class UpdateSpecialization(Specialization):
    """A rule compiled for operands of certain types. Programs of rules on elements alone are those of arrays with one
    axis, so shapes of equal size share a program."""

    def __init__(self, function: UpdateFunction, types: tuple[TensorType, ...], device: Device) -> None:
        from ...ir.dialects.mx.optimizer_update import update_graph
        from ...passes.manager import Options
        from ...runtime.compile import executable_for

        operator = function.operator
        try:
            if len(types) + len(function.numbers) != len(operator.input_names()):
                raise ValueError(f"takes {len(operator.input_names()) - len(function.numbers)} arrays")
            operator.require_shapes(types)
            if not operator.declared.reads_rows:
                types = tuple(TensorType((prod(t.shape),), t.dtype) for t in types)
            graph = update_graph(operator, types)
            executable = executable_for(graph, Options(dynamic=True), device)
        except (GraphError, ValueError, TypeError) as error:
            raise function.refusal(types, error) from cause_of(error)
        super().__init__(executable, function.name, graph.names(), device)
        self.function = function
        self.block = ScalarBlock(_FLOAT * len(function.numbers), device)

    @property
    def program(self) -> Program | None:
        """The program, if it can be combined with others."""
        from ...ir.program_combination import why_alone
        from ...runtime.loaded_program import LoadedProgram

        program = self.executable.program if isinstance(self.executable, LoadedProgram) else None
        return None if program is None or program.outputs or why_alone(program) else program

    def call(self, arrays: Sequence[NDArray], numbers: Sequence[float]) -> None:
        """Update arrays of the types of the specialization."""
        call = Call(self.function, self, arrays, numbers) if hooks.watched else None
        if call is not None:
            before_call(call)
        block = self.block.filled(numbers)
        self.run(arrays, [], arrays[0]._context, 0, block.addresses)
        self.block.free.append(block)
        if call is not None:
            after_call(call, ())
