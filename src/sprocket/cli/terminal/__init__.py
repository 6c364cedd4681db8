"""How commands talk to people and scripts: lines, tables, messages, the log.

`message` is imported where it is needed: it knows records, and not every command does.
"""

from sprocket.cli.terminal import answer, logs, output, tables
from sprocket.cli.terminal.answer import CommandAnswer, answering
from sprocket.cli.terminal.passwords import NewPassword, asked_password

__all__ = [
    "CommandAnswer",
    "NewPassword",
    "answer",
    "answering",
    "asked_password",
    "logs",
    "output",
    "tables",
]
