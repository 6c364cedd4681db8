"""How commands talk to people and scripts: lines, tables, messages, the log.

`message` is imported where it is needed: it knows records, and not every command does.
"""

from sprocket.cli.terminal import logs, output, tables

__all__ = ["logs", "output", "tables"]
