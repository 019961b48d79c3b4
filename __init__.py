"""mxforge: Apache MXNet 1.x's API on a compiler written in Python."""

__version__ = "0.1.0"

if __name__ == "mxforge":  # the checkout's own folder name is not the package
    pass
