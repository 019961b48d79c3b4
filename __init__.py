"""mxforge: Apache MXNet 1.x's API on a compiler written in Python."""

if __name__ == "mxforge":  # the checkout's own folder name is not the package
    pass
