"""What the library is and what it found."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from . import _abi

_facts: Optional[Dict[str, Any]] = None
_log: Any = None


def version() -> str:
    """The library's version, "0.1.0"."""
    return _abi.library().tsr_version().decode()


def library() -> Dict[str, Any]:
    """{"version", "abi", "dtypes", "epilogue_steps", "knobs", "archs", "suites", "sets"}."""
    global _facts
    if _facts is None:
        _facts = _abi.describe("library")
    return _facts


def device(name: str = "cpu") -> Dict[str, Any]:
    """{"device", "arch", "threads", "compiler"} of "cpu", "cpu:THREADS", "cuda:N" or "null:ARCH".

    Raises Unsupported where the device is not there, BadInput on other text."""
    return _abi.describe("device", name)


def suite(name: str) -> List[Dict[str, str]]:
    """The problems of a suite (a CSV file, or the name of an embedded one): [{"name", "problem"}]."""
    return _abi.describe("suite", name)


def set_log(function: Optional[Callable[[str, str], None]]) -> None:
    """Sends warnings and messages to function(level, text) instead of stderr; None: stderr again. `level` is "warn",
    "info" or "debug". It is called from any thread, and what it raises is dropped."""
    global _log
    if function is None:
        callback = _abi.LOG()
    else:
        send, levels = function, ("quiet", "warn", "info", "debug")

        def call(_user: Any, level: int, text: bytes) -> None:
            try:
                send(levels[level], text.decode("utf-8", "replace"))
            except Exception:
                pass

        callback = _abi.LOG(call)
    _abi.library().tsr_set_log(callback, None)
    _log = callback
