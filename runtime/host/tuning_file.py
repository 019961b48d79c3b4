"""The schema of files of tuned schedules, whose numbers anybody can have written: pydantic checks types and bounds.

The models of entries follow from the classes of schedules (`codegen/llvm/schedule/kinds.py`, and
`codegen/triton/choices.py` for GPUs). Only readers of a file
that is not known to be right import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from ...codegen.llvm.schedule.kinds import KINDS, RegisterTile
from ...codegen.triton.choices import GpuChoice

_CONFIG = ConfigDict(strict=True, extra="forbid")
_MEASURED_ON = "The instruction set, the caches and the threads, or the GPU, that schedules were measured on."
_LONGEST_NAME, _LONGEST_REASON = 60, 300


def _model(cls: type) -> type[BaseModel]:
    """The model of the entries of one kind of schedules."""
    types = get_type_hints(cls, include_extras=True)
    model_fields: dict[str, Any] = {"kind": (Literal[cls.__name__], ...)}  # type: ignore[valid-type]
    for field in fields(cls):  # type: ignore[arg-type]
        default = ... if field.default is MISSING else field.default
        model_fields[field.name] = (_in_json(types[field.name]), default)
    return create_model(cls.__name__, __config__=_CONFIG, __doc__=cls.__doc__, **model_fields)


def _in_json(annotation: Any) -> Any:
    """The type of a field in an entry: a register tile is [rows, vectors]."""
    rows, vectors = get_type_hints(RegisterTile, include_extras=True).values()
    tile = tuple[rows, vectors]
    if annotation == RegisterTile | None:
        return tile | None
    return tile if annotation is RegisterTile else annotation


Entry = Annotated[reduce(or_, map(_model, (*KINDS, GpuChoice))), Field(discriminator="kind")]


def _newest(format: object) -> object:
    """Files of format 1 are right files of format 2."""
    return 2 if format == 1 and not isinstance(format, bool) else format


class Table(BaseModel):
    """The schedules for one kind of processor or GPU."""

    model_config = _CONFIG

    target: str = Field(
        description="The instruction set, the caches and the threads, or the GPU, that schedules were measured on."
    )
    kernels: dict[str, Entry] = Field(description="Schedules by the keys of kernels.")  # type: ignore[valid-type]


class TuningFile(BaseModel):
    """A file that `mxforge tune` writes, and that `--tuning` and MXFORGE_TUNING name."""

    model_config = _CONFIG

    format: Annotated[Literal[2], BeforeValidator(_newest)]
    tables: list[Table]


def problem_of(data: bytes) -> str:
    """What is wrong with the bytes of a file, in one line; "" if it is right."""
    try:
        TuningFile.model_validate_json(data)
    except ValidationError as error:
        return _text(error.errors(include_url=False, include_input=False)[0])
    return ""


def _text(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return "is not JSON"
    where = ".".join(_plain(str(part), _LONGEST_NAME) for part in error["loc"])
    reason = f"{where}: {_plain(error['msg'], _LONGEST_REASON)}"
    if len(error["loc"]) > 1:
        return reason
    return f"is not a file of tuned schedules of format 2: mxforge tune writes such files ({reason.lstrip(': ')})"


def _plain(text: str, longest: int) -> str:
    """What can contain any text of the file, as a short line."""
    line = text.encode("unicode_escape").decode()
    return line if len(line) <= longest else f"{line[:longest]}..."
