"""The schemas by name: what `mxforge schema` lists and prints. Imports nothing, because the command line reads it."""

from __future__ import annotations

SCHEMAS: dict[str, tuple[str, str, str]] = {
    "bench": ("tools.schemas.bench", "BenchReport", "what mxforge bench --json prints and writes"),
    "bisect": ("tools.schemas.bisect", "BisectReport", "what mxforge bisect --json prints"),
    "cache": ("tools.schemas.machine", "CacheReport", "what mxforge cache --json prints"),
    "compile": ("tools.schemas.machine", "CompileReport", "what mxforge compile --json prints"),
    "doctor": ("tools.schemas.machine", "DoctorReport", "what mxforge doctor --json prints"),
    "estimate": ("tools.schemas.estimate", "EstimateReport", "what mxforge profile --estimate --json prints"),
    "inspect": ("tools.schemas.inspect", "InspectReport", "what mxforge inspect --json prints"),
    "profile": ("tools.schemas.profile", "ProfileReport", "what mxforge profile --json prints"),
    "run": ("tools.schemas.run", "RunReport", "what mxforge run --json prints"),
    "simulation": (
        "tools.schemas.profile",
        "SimulationReport",
        "what mxforge profile --simulate-threads --json prints",
    ),
    "tune": ("tools.schemas.tune", "TuneReport", "what mxforge tune --json prints"),
    "tuning": ("runtime.host.tuning_file", "TuningFile", "the file that mxforge tune writes and --tuning reads"),
}
"""(module of mxforge, type, what it describes)."""
