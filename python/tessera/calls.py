"""Calls on numpy arrays like those of an earlier call: what was checked then is not checked again.

What a call on arrays may do follows from their types, shapes and strides, but for where their memory is and whether the
output may be written. Such calls are remembered by those facts; Dispatcher and Plan hold them."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _abi
from .errors import BadInput

READONLY = "bad_input: the output is written and its memory is read-only"
MOST = 4096  # calls that one holder remembers

_pointer_at = ctypes.c_void_p.from_address
_head = object.__basicsize__
ndarray: Any = None  # numpy.ndarray once numpy_type() has found its layout to be what _data() reads


def _data(array: Any) -> int:
    """Where the elements of a numpy array are: the pointer behind the head of its object, which numpy's binary interface
    fixes. A tenth of the price of __array_interface__."""
    return _pointer_at(id(array) + _head).value or 0


def numpy_type() -> Any:
    """numpy.ndarray where arrays can be read by _data(); otherwise None, which is no array's type."""
    global ndarray
    numpy = sys.modules.get("numpy")
    if ndarray is None and numpy is not None and sys.implementation.name == "cpython" and hasattr(numpy, "ndarray"):
        samples = [numpy.zeros(n, "u1")[first:] for n, first in ((1, 0), (3, 2), (64, 5))]
        if all(_data(x) == x.__array_interface__["data"][0] for x in samples):
            ndarray = numpy.ndarray
    return ndarray


def key_of(a: Any, b: Any, out: Any, d: Sequence[Any], *words: Any) -> Optional[Tuple[Any, ...]]:
    """What a call on these arrays and with these other arguments is remembered by; None for arrays of other libraries."""
    numpy_array = ndarray or numpy_type()
    if type(a) is not numpy_array or type(b) is not numpy_array:
        return None
    key: Tuple[Any, ...] = a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, words
    if out is not None:
        if type(out) is not numpy_array:
            return None
        key += out.shape, out.strides, out.dtype
    if len(d):
        extra: List[Any] = []
        for x in d:
            if type(x) is not numpy_array:
                return None
            extra += x.shape, x.strides, x.dtype
        key += (tuple(extra),)
    return key


class Call:
    """A kernel on numpy arrays of certain types, shapes and strides."""

    __slots__ = ("_native", "_run", "_kernel", "_free", "_empty", "_shape", "_dtype")

    def __init__(self, plan: Any, out: Any) -> None:
        self._native = plan._native  # keeps the kernel
        self._run = _abi.library().tsr_kernel_run
        self._kernel = plan._handle
        self._free: List[Tuple[_abi.Buffers, Any]] = []  # buffers of calls that have ended: several threads may be at it
        self._empty = sys.modules["numpy"].empty
        self._shape, self._dtype = out.shape, out.dtype

    def __call__(self, a: Any, b: Any, out: Any, d: Sequence[Any]) -> Any:
        """Runs and returns the output, a new one where `out` is None."""
        if out is None:
            out = self._empty(self._shape, self._dtype)
        elif not out.flags.writeable:
            raise BadInput(READONLY)
        try:
            held = self._free.pop()
        except IndexError:
            buffers = _abi.Buffers(ctypes.sizeof(_abi.Buffers), 0)
            held = buffers, ctypes.byref(buffers)
        buffers, reference = held
        buffers.a = _pointer_at(id(a) + _head).value
        buffers.b = _pointer_at(id(b) + _head).value
        buffers.c = _pointer_at(id(out) + _head).value
        if len(d):
            slots = buffers.d
            for i, x in enumerate(d):
                slots[i] = _data(x)
        status = self._run(self._kernel, reference)
        self._free.append(held)
        if status:
            _abi.fail(status)
        return out


def known(calls: Dict[Any, Call], key: Optional[Tuple[Any, ...]]) -> Optional[Call]:
    """The remembered call."""
    try:
        return calls.get(key)
    except TypeError:  # a list among the words
        return None


def remember(calls: Dict[Any, Call], key: Optional[Tuple[Any, ...]], plan: Any, out: Any) -> None:
    """Keeps a call that went well under its key."""
    if key is None or type(out) is not ndarray or plan._provisional:
        return
    if len(calls) >= MOST:
        calls.clear()
    try:
        calls[key] = Call(plan, out)
    except TypeError:
        pass
