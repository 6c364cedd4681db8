"""One module for each family of requests."""
