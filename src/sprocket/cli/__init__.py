"""The `sprocket` command: one module for each family of subcommands."""
