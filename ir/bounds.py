"""The range of a number, as an annotation of its type: `lanes: Annotated[int, Within(1, 64)]`.

pydantic reads it where something validates numbers that strangers wrote. Nothing else does, and this module imports
nothing.
"""

from __future__ import annotations

from typing import Any


class Within:
    """The range [least, most]; None: no limit."""

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        self.least, self.most = least, most

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        limits = {"ge": self.least, "le": self.most}
        return {**handler(source), **{name: limit for name, limit in limits.items() if limit is not None}}
