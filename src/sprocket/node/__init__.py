"""Which parts run in this process."""
