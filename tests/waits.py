"""How long a test waits for what must come, before it takes that for a hang."""

LONG_SECONDS = 300.0
"""Minutes, so that a busy machine changes nothing; what comes at all comes long before."""
