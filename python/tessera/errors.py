"""One exception type per status of the C ABI. Their texts are those the program prints."""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """Base of everything Tessera raises. str() is "<status>: <what happened>; <what to do>"."""


class BadInput(Error, ValueError):
    """An argument is wrong: its text, type, shape, device or memory. Nothing was written."""


class Unsupported(Error):
    """Nothing legal exists for the problem, or not on this machine."""


class CompileFailed(Error, RuntimeError):
    """The compiler refused a kernel, or there is none."""


class DeviceError(Error, RuntimeError):
    """Out of memory, a failed launch, or a process forked after a device was used."""


class IoError(Error, OSError):
    """A file cannot be read or written."""


class Corrupt(Error):
    """A damaged file."""


class InternalError(Error, RuntimeError):
    """A fault of Tessera itself."""


# By the status's number; an interrupt is a KeyboardInterrupt in Python.
BY_STATUS: Dict[int, Type[BaseException]] = dict(enumerate(
    (BadInput, Unsupported, CompileFailed, DeviceError, IoError, Corrupt, InternalError, KeyboardInterrupt), start=1))
