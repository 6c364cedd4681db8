"""The consume queue and its engines."""
