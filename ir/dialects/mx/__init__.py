"""The mx dialect: MXNet's operators, each declared in one place."""
