"""The `sprocket` command, one module a command family."""
