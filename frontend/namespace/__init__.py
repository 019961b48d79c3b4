"""The import machinery: MXNet's module names for the packages of `frontend`, and the names that modules export."""
