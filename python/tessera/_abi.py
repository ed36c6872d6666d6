"""The shared library, its functions and how they fail. Loaded on first use."""
from __future__ import annotations

import _thread
import ctypes
import json
import os
import threading
from ctypes import c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from . import errors

ABI_VERSION = 1
MAX_D = 5
HAS_ALPHA, HAS_BETA = 1, 2

PROGRESS: Any = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_size_t, c_char_p)
KEEP: Any = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p)
LOG: Any = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Candidate(ctypes.Structure):
    _fields_ = [("config", c_char_p), ("predicted_us", c_double)]


RANK: Any = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_char_p, ctypes.POINTER(Candidate), c_size_t, ctypes.POINTER(c_size_t))


class Buffers(ctypes.Structure):
    """tsr_buffers."""
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("a", c_void_p), ("b", c_void_p), ("c", c_void_p),
                ("d", c_void_p * MAX_D), ("alpha", c_double), ("beta", c_double), ("stream", c_void_p),
                ("workspace", c_void_p), ("bias_grad", c_void_p)]


_OUT = ctypes.POINTER(c_void_p)
_SIZE_OUT = ctypes.POINTER(c_size_t)

# name, result, arguments. Results are a status unless said otherwise.
_FUNCTIONS: Dict[str, Tuple[Any, Optional[Tuple[Any, ...]]]] = {
    "tsr_version": (c_char_p, ()),
    "tsr_abi_version": (c_uint32, ()),
    "tsr_last_error": (c_char_p, ()),
    "tsr_free": (None, (c_void_p,)),
    "tsr_interrupt": (None, (c_int,)),
    "tsr_set_log": (None, (LOG, c_void_p)),
    "tsr_describe": (c_int, (c_char_p, c_char_p, _OUT)),
    "tsr_job": (c_int, (c_char_p, c_char_p, PROGRESS, c_void_p, _OUT)),
    "tsr_registry_create": (c_int, (c_char_p, c_char_p, _OUT)),
    "tsr_registry_destroy": (None, (c_void_p,)),
    "tsr_registry_add": (c_int, (c_void_p, c_char_p, _SIZE_OUT)),
    "tsr_registry_filter": (c_int, (c_void_p, KEEP, c_void_p, _SIZE_OUT)),
    "tsr_registry_json": (c_int, (c_void_p, _OUT)),
    "tsr_dispatcher_create": (c_int, (c_char_p, c_void_p, RANK, c_void_p, _OUT)),
    "tsr_dispatcher_destroy": (None, (c_void_p,)),
    "tsr_dispatcher_info": (c_int, (c_void_p, _OUT)),
    "tsr_get": (c_int, (c_void_p, c_char_p, _OUT)),
    "tsr_build": (c_int, (c_void_p, c_char_p, c_int, PROGRESS, c_void_p, _OUT)),
    "tsr_explain": (c_int, (c_void_p, c_char_p, c_char_p, _OUT)),
    "tsr_emit": (c_int, (c_void_p, c_char_p, c_int, _OUT)),
    "tsr_measure": (c_int, (c_void_p, c_char_p, c_char_p, _OUT)),
    "tsr_kernel_info": (c_int, (c_void_p, _OUT)),
    "tsr_kernel_run": (c_int, None),  # prebound arguments: no conversion on the hot path
    "tsr_kernel_wait": (c_int, (c_void_p,)),
    "tsr_kernel_pack_b": (c_int, (c_void_p, c_void_p, c_void_p, c_int64)),
    "tsr_allocate": (c_int, (c_void_p, c_size_t, _OUT)),
    "tsr_release": (c_int, (c_void_p, c_void_p)),
    "tsr_copy": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_int)),
    "tsr_run": (c_int, (c_void_p, c_char_p, ctypes.POINTER(Buffers))),
}

_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None


def _candidates() -> List[str]:
    named = os.environ.get("TESSERA_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    return [os.path.join(here, "lib", "libtessera_c.so.1"), "libtessera_c.so.1"]


def _function(loaded: ctypes.CDLL, path: str, name: str) -> Any:
    try:
        return getattr(loaded, name)
    except AttributeError:
        raise errors.Unsupported(f"unsupported: {path} has no {name}, so it is not the library that this package is for; "
                                 "name a libtessera_c.so.1 of its release in TESSERA_LIBRARY, or unset that") from None


def library() -> ctypes.CDLL:
    """The loaded library. IoError where it is not found, Unsupported where it is of another ABI or not Tessera's."""
    global _library
    if _library is not None:
        return _library
    with _lock:
        if _library is not None:
            return _library
        why = []
        for path in _candidates():
            try:
                loaded = ctypes.CDLL(path)
                break
            except OSError as e:
                why.append(str(e))
        else:
            raise errors.IoError("io: the shared library cannot be loaded: " + "; ".join(why) +
                                 "; name it in TESSERA_LIBRARY")
        abi_version = _function(loaded, path, "tsr_abi_version")
        abi_version.restype = _FUNCTIONS["tsr_abi_version"][0]
        if abi_version() != ABI_VERSION:  # another one may lack functions
            raise errors.Unsupported(f"unsupported: {path} has version {abi_version()} of the ABI, this package needs "
                                     f"{ABI_VERSION}; install both from one release")
        for name, (result, arguments) in _FUNCTIONS.items():
            function = _function(loaded, path, name)
            function.restype = result
            if arguments is not None:
                function.argtypes = arguments
        _library = loaded
    return _library


def fail(status: int) -> NoReturn:
    """Raises what a failed call of this thread means."""
    text = library().tsr_last_error().decode("utf-8", "replace")
    raise errors.BY_STATUS[status](text)


def check(status: int) -> None:
    if status:
        fail(status)


def text(function: Callable[..., int], *arguments: Any) -> str:
    """Calls a function whose last argument is the text it returns."""
    out = c_void_p()
    check(function(*arguments, ctypes.byref(out)))
    try:
        return ctypes.string_at(out).decode()
    finally:
        library().tsr_free(out)


def answer(function: Callable[..., int], *arguments: Any) -> Any:
    """The same, for JSON."""
    return json.loads(text(function, *arguments))


def describe(what: str, subject: str = "") -> Any:
    return answer(library().tsr_describe, what.encode(), encoded(subject))


class OfThisProcess:
    """What stands for a handle: it is neither copied nor sent to another process."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to this process and cannot be copied or pickled; "
                        "make another one")


def encoded(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise errors.BadInput(f"bad_input: a text that is not Unicode: {value!r}") from None
    if b"\0" in data:
        raise errors.BadInput("bad_input: a text with a zero byte in it")
    return data


def _has_zero(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_zero(part) for item in value.items() for part in item)
    return isinstance(value, (list, tuple)) and any(map(_has_zero, value))


def options(values: Dict[str, Any]) -> bytes:
    """Keyword arguments as JSON, those that are None left out. BadInput where a text in them has a zero byte, which would
    end a path early."""
    for key, value in values.items():
        if _has_zero(key) or _has_zero(value):
            raise errors.BadInput(f"bad_input: {key} has a zero byte in it: {value!r}; take it out")
    return json.dumps({key: value for key, value in values.items() if value is not None}).encode()


class Callback:
    """A Python callable behind a C function pointer: what it raises stops the work and is raised afterwards."""

    def __init__(self, prototype: Any, function: Callable[..., Any], failed: Callable[..., Any]) -> None:
        self.error: Optional[BaseException] = None

        def call(_user: Any, *arguments: Any) -> Any:
            try:
                if self.error is None:
                    return function(*arguments)
            except BaseException as e:  # KeyboardInterrupt too: nothing may unwind through C
                self.error = e
            return failed(*arguments)

        self.pointer = prototype(call)

    def raise_error(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


def progress_callback(progress: Optional[Callable[[int, int, str], None]]) -> Optional[Callback]:
    """progress(done, total, what) for C; what it raises interrupts the work."""
    if progress is None:
        return None
    report = progress
    return Callback(PROGRESS, lambda done, total, what: report(done, total, what.decode("utf-8", "replace")),
                    lambda *_: library().tsr_interrupt(1))


def interruptible(work: Callable[[], Any], callback: Optional[Callback] = None) -> Any:
    """work() so that Ctrl-C ends it within a second and leaves everything usable: on the main thread a second thread
    works and this one waits. What `callback` raised comes first."""
    result: List[Tuple[Any, Optional[BaseException]]] = []
    stopped: Optional[KeyboardInterrupt] = None
    finished = threading.Lock()
    finished.acquire()

    def run() -> None:
        try:
            result.append((work(), None))
        except BaseException as e:
            result.append((None, e))
        finished.release()

    try:
        if threading.current_thread() is not threading.main_thread():
            run()
        else:
            # No Thread.join: interrupted, it takes the thread for ended, and the stop below would be called off before
            # the work has seen it. The work is over when there is a result; the lock only ends the wait for it early,
            # and may be lost to an interrupt.
            waiting = False
            while not result:
                try:
                    if not waiting:
                        waiting = True
                        _thread.start_new_thread(run, ())
                    while not result:
                        finished.acquire(timeout=0.05)
                except KeyboardInterrupt as e:
                    stopped = e
                    library().tsr_interrupt(1)
    finally:
        # Only who stopped the work lets it start again: another thread's end must not cancel a Ctrl-C.
        if stopped is not None or (callback is not None and callback.error is not None):
            library().tsr_interrupt(0)
    if stopped is not None:
        raise stopped
    if callback is not None:
        callback.raise_error()
    value, error = result[0]
    if error is not None:
        raise error
    return value
