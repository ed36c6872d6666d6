"""Arrays of any library as address, shape and strides, without a copy.

Read are torch tensors, anything with __cuda_array_interface__ (cupy, numba), the buffer protocol (numpy, array, bytes,
memoryview) or DLPack. None of those libraries is imported here."""
from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple

from .errors import BadInput

BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1, "i32": 4}

# Names that libraries give element types.
_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8", "int32": "i32",
          "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "uint16": "u16"}
# Format characters of the buffer protocol.
_FORMATS = {"f": "f32", "e": "f16", "b": "i8", "B": "u8", "c": "u8", "i": "i32", "l": "i32", "H": "u16"}
# kind and bytes of the array interface.
_TYPESTRS = {"f4": "f32", "f2": "f16", "i1": "i8", "u1": "u8", "i4": "i32", "u2": "u16"}
# (code, bits) of DLPack.
_DLPACK = {(2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (0, 8): "i8", (1, 8): "u8", (0, 32): "i32", (1, 16): "u16",
           (10, 8): "f8e4m3", (12, 8): "f8e5m2"}
# What plain integers may hold when the caller says so: libraries without the type store it in these.
_STORED_IN = {"bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8"}
# The type in which a library without it allocates.
_NUMPY = {"f32": "float32", "f16": "float16", "bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8", "i8": "int8",
          "u8": "uint8", "i32": "int32"}
_TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
          "i8": "int8", "u8": "uint8", "i32": "int32"}
# Arguments that are written: in their place no converted copy can stand.
_WRITTEN = ("out", "c", "bias_grad", "workspace")
_MEMORYVIEW = {"f32": "f", "i8": "b", "u8": "B", "i32": "i", "bf16": "H", "f8e4m3": "B", "f8e5m2": "B"}


class Array:
    """What a run needs to know of an array. Strides are in elements; device is "cpu" or "cuda:N"; stream is the handle of
    the CUDA stream that an array interface names as the one its contents are ready on."""

    __slots__ = ("address", "shape", "strides", "dtype", "device", "readonly", "owner", "library", "hold", "stream")

    def __init__(self, address: int, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str, device: str,
                 readonly: bool, owner: Any, library: str, hold: Any = None, stream: int = 0) -> None:
        self.address, self.shape, self.strides, self.dtype = address, shape, strides, dtype
        self.device, self.readonly, self.owner, self.library = device, readonly, owner, library
        self.hold = hold  # keeps the memory where it is as long as this lives
        self.stream = stream

    def flat(self) -> bool:
        """One axis of neighbouring elements."""
        return len(self.shape) == 1 and (self.strides[0] == 1 or self.shape[0] < 2)

    def dense(self) -> bool:
        """Whether its elements are neighbours, the last axis fastest."""
        packed = packed_strides(self.shape)
        return self.strides == packed or all(s == p for s, p, n in zip(self.strides, packed, self.shape) if n > 1)

    def bytes(self) -> int:
        """Of its elements, without what lies between them."""
        size = BYTES.get(self.dtype, 2)  # u16 is no type of Tessera's
        for extent in self.shape:
            size *= extent
        return size

    def seen_as(self, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: str) -> "Array":
        """The same memory with other facts."""
        return Array(self.address, shape, strides, dtype, self.device, self.readonly, self.owner, self.library, self.hold,
                     self.stream)

    def typed(self, dtype: Optional[str], name: str) -> "Array":
        """The array with its elements read as `dtype` where they are that type's storage. Raises BadInput otherwise."""
        if dtype is None or dtype == self.dtype:
            if self.dtype not in BYTES:
                raise BadInput(f"bad_input: {name} has elements of type {self.dtype}; say which type they hold, dtype="
                               "\"bf16\" for example")
            return self
        if _STORED_IN.get(dtype) == self.dtype:
            return self.seen_as(self.shape, self.strides, dtype)
        raise BadInput(f"bad_input: {name} has elements of type {self.dtype}, not {dtype}; convert it first")


def packed_strides(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _elements(strides: Tuple[int, ...], size: int, name: str) -> Tuple[int, ...]:
    if any(s % size for s in strides):
        raise BadInput(f"bad_input: {name} has strides that are no multiple of its {size}-byte elements; copy it")
    return tuple(s // size for s in strides)


def _no_type(obj: Any, name: str, elements: str) -> BadInput:
    """What says that no type of Tessera's is that of obj's elements; `elements` are called so where obj has no dtype."""
    dtype = getattr(obj, "dtype", None)
    found = f"{name} has elements of {elements}" if dtype is None else f"{name} is {dtype}"
    if name in _WRITTEN:
        return BadInput(f"bad_input: {found}, which Tessera does not write; allocate it as float32, or as int32 for a "
                        "product of integers")
    advice = "convert it to float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 or uint8"
    if getattr(dtype, "kind", "") == "f":
        advice = f"{name}.astype('float32') converts it"
    elif str(dtype) == "torch.float64":
        advice = f"{name}.to(torch.float32) converts it"
    return BadInput(f"bad_input: {found}, which Tessera does not multiply; {advice}")


# -- The buffer protocol -------------------------------------------------------------------------------------------

class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", ctypes.POINTER(c_ssize_t)),
                ("strides", ctypes.POINTER(c_ssize_t)), ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None
_RECORDS_RO = 0x001C  # PyBUF_STRIDES | PyBUF_FORMAT; also read-only memory


class _Export:
    """An exported buffer: the exporter may not move or resize its memory while this lives."""

    __slots__ = ("view", "release")

    def __init__(self, obj: Any) -> None:
        self.view = _PyBuffer()
        self.release = _release_buffer
        _get_buffer(obj, self.view, _RECORDS_RO)

    def __del__(self) -> None:
        if self.view.obj:
            self.release(self.view)


def _from_buffer(obj: Any, name: str) -> Optional[Array]:
    try:
        export = _Export(obj)
    except (TypeError, BufferError, ValueError):
        return None
    view = export.view
    shape = tuple(view.shape[:view.ndim])
    if view.strides:
        strides = _elements(tuple(view.strides[:view.ndim]), view.itemsize, name)
    else:
        strides = packed_strides(shape)
    text = (view.format or b"B").decode()
    dtype = _FORMATS.get(text.lstrip("@=<"))
    if dtype is None or BYTES.get(dtype, 2) != view.itemsize:
        raise _no_type(obj, name, f"format '{text}'")
    library = "numpy" if hasattr(obj, "__array_interface__") else "buffer"
    return Array(view.buf or 0, shape, strides, dtype, "cpu", bool(view.readonly), obj, library, export)


def _from_numpy(obj: Any) -> Optional[Array]:
    facts = obj.__array_interface__
    typestr = facts["typestr"]
    dtype = _TYPESTRS.get(typestr[1:])
    if dtype is None or typestr[0] == ">":
        return None
    shape, strides = facts["shape"], facts["strides"]
    address, readonly = facts["data"]
    if strides is None:
        strides = packed_strides(shape)
    else:
        size = BYTES.get(dtype, 2)
        strides = tuple([s // size for s in strides])
        if any(s % size for s in facts["strides"]):
            return None
    return Array(address, shape, strides, dtype, "cpu", readonly, obj, "numpy")


# -- Interfaces with a dictionary ----------------------------------------------------------------------------------

def _from_interface(obj: Any, facts: Dict[str, Any], device: str, library: str, name: str) -> Array:
    typestr = facts["typestr"]
    dtype = _TYPESTRS.get(typestr[1:]) or _NAMES.get(str(getattr(obj, "dtype", "")))
    if typestr[0] == ">" or dtype is None:
        raise _no_type(obj, name, f"type '{typestr}'")
    shape = tuple(facts["shape"])
    strides = facts.get("strides")
    strides = packed_strides(shape) if strides is None else _elements(tuple(strides), int(typestr[2:]), name)
    address, readonly = facts["data"]
    return Array(address or 0, shape, strides, dtype, device, bool(readonly), obj, library,
                 stream=facts.get("stream") or 0)


def _cuda_device(obj: Any) -> str:
    device = getattr(getattr(obj, "device", None), "id", 0)
    return f"cuda:{device}"


# -- torch ---------------------------------------------------------------------------------------------------------

def _from_torch(t: Any, name: str) -> Array:
    text = str(t.dtype)
    dtype = _NAMES.get(text[6:])
    if dtype is None:
        raise _no_type(t, name, text)
    if t.device.type not in ("cpu", "cuda") or t.layout is not sys.modules["torch"].strided:
        raise BadInput(f"bad_input: {name} is a {t.layout} tensor on {t.device}; Tessera reads strided ones on cpu and "
                       "cuda")
    if t.is_neg():
        raise BadInput(f"bad_input: {name} is a view whose signs torch changes when it reads it; pass resolve_neg() of it")
    device = "cpu" if t.device.type == "cpu" else f"cuda:{t.device.index or 0}"
    return Array(t.data_ptr(), tuple(t.shape), t.stride(), dtype, device, False, t, "torch")


# -- DLPack --------------------------------------------------------------------------------------------------------

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = (ctypes.py_object, c_char_p)
_capsule_pointer.restype = c_void_p
_DL_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}


def _from_dlpack(obj: Any, name: str) -> Array:
    # Never renamed to "used_dltensor": the capsule itself keeps the memory and gives it back.
    capsule = obj.__dlpack__()
    t = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor))[0]
    dtype = _DLPACK.get((t.code, t.bits))
    if dtype is None or t.lanes != 1:
        raise _no_type(obj, name, f"DLPack type ({t.code}, {t.bits})")
    kind = _DL_DEVICES.get(t.device_type)
    if kind is None:
        raise BadInput(f"bad_input: {name} lies on a device of DLPack type {t.device_type}; Tessera reads cpu and cuda")
    shape = tuple(t.shape[:t.ndim])
    strides = tuple(t.strides[:t.ndim]) if t.strides else packed_strides(shape)
    device = "cpu" if kind == "cpu" else f"cuda:{t.device_id}"
    return Array((t.data or 0) + t.byte_offset, shape, strides, dtype, device, False, obj, "dlpack", capsule)


def view(obj: Any, name: str = "array", dtype: Optional[str] = None) -> Array:
    """`obj` as an Array, its elements read as `dtype` where that is given. Raises BadInput for what is no array."""
    return untyped(obj, name).typed(dtype, name)


def untyped(obj: Any, name: str) -> Array:
    """`obj` as an Array whose element type may be the storage ("u16") of one that its library lacks."""
    if isinstance(obj, Array):
        return obj
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(obj) is numpy.ndarray:  # the buffer protocol says the same, more slowly
        array = _from_numpy(obj)
        if array is not None:
            return array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        return _from_torch(obj, name)
    facts = getattr(obj, "__cuda_array_interface__", None)
    if facts is not None:
        library = "cupy" if type(obj).__module__.partition(".")[0] == "cupy" else "cuda"
        return _from_interface(obj, facts, _cuda_device(obj), library, name)
    array = _from_buffer(obj, name)
    if array is not None:
        return array
    facts = getattr(obj, "__array_interface__", None)
    if facts is not None:
        return _from_interface(obj, facts, "cpu", "numpy", name)
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj, name)
    raise BadInput(f"bad_input: {name} is a {type(obj).__name__}, which is no array; pass one with DLPack, "
                   "__cuda_array_interface__ or the buffer protocol")


def check_beta(beta: Optional[float]) -> None:
    """Raises BadInput where a result that is yet to be allocated would be scaled and added to."""
    if beta:
        raise BadInput(f"bad_input: beta is {beta} and there is no out to scale and add to; give out=, or leave beta 0")


def empty_like(array: Array, shape: Tuple[int, ...], dtype: str) -> Any:
    """New memory of the same library and device. bf16 and f8 are stored in integers where the library has no such
    type. Raises BadInput for libraries that are only known by DLPack."""
    if array.library == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, _TORCH[dtype]), device=array.owner.device)
    if array.library == "numpy":
        return sys.modules["numpy"].empty(shape, _NUMPY[dtype])
    if array.library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(int(array.device.split(":")[1])):
            return cupy.empty(shape, _NUMPY[dtype])
    if array.library == "buffer" and dtype in _MEMORYVIEW:
        size = BYTES[dtype]
        for extent in shape:
            size *= extent
        flat: Any = memoryview(bytearray(size))  # typed by whoever reads it
        return flat.cast("B").cast(_MEMORYVIEW[dtype], shape)
    raise BadInput(f"bad_input: an output of type {dtype} cannot be allocated like a {type(array.owner).__name__}; "
                   "pass out=")


def current_stream(array: Array) -> int:
    """The stream that the array's library is using on its device, for an array interface the one it names (cupy: its
    current one); 0 is the default stream."""
    if array.device == "cpu":
        return 0
    index = int(array.device.split(":")[1])
    if array.library == "torch":
        return sys.modules["torch"].cuda.current_stream(index).cuda_stream
    return array.stream
