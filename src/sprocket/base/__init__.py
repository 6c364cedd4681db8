"""The synchronous floor: what every layer may use and what knows nobody above it."""
