"""The import machinery: MXNet's names for the modules of `frontend`, and what those modules export and list."""
