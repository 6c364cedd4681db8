"""Where in Sprocket a call of the disk comes from."""

import sys
from types import CodeType, GeneratorType
from typing import Any

from sprocket.base.disk import steps

_DRIVERS = {steps.run.__code__, steps.advance.__code__}
_SKIPPED = ("sprocket.testing", "sprocket.base.disk.disk", "sprocket.base.disk.files")


def _owner(code: CodeType) -> tuple[str, str]:
    """Module and qualified name of a piece of code."""
    module = code.co_filename.rpartition("src/")[2].removesuffix(".py").replace("/", ".")
    return module, code.co_qualname


def _innermost(work: "GeneratorType[Any, Any, Any]") -> "GeneratorType[Any, Any, Any]":
    while isinstance(work.gi_yieldfrom, GeneratorType):
        work = work.gi_yieldfrom
    return work


def here() -> str:
    """Return the innermost function of Sprocket that is being run, the disk's own left out.

    A step counts as called by the generator that gave it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        work = frame.f_locals.get("steps" if code in _DRIVERS else "work")
        if isinstance(work, GeneratorType):
            code = _innermost(work).gi_code
        module, name = _owner(code)
        ours = module.startswith("sprocket.") and not module.startswith(_SKIPPED)
        if ours and code not in _DRIVERS:
            return f"{module.rpartition('.')[2]}.{name}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
