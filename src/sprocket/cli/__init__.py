"""The `sprocket` command: a module for each family of subcommands, in rooms."""
