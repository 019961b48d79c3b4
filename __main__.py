"""`python -m mxforge`: the command line of `tools.main`."""

from __future__ import annotations

from .tools.main import main

if __name__ == "__main__":
    raise SystemExit(main())
