"""Plans: a kernel ready for any buffers of its problem, and calls bound to theirs."""
from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from . import _abi, arrays, calls
from .config import KernelConfig
from .errors import BadInput
from .problem import Problem, Tensor

if TYPE_CHECKING:
    from .dispatcher import Native

_SIZE = ctypes.sizeof(_abi.Buffers)
_WORKSPACE_ALIGN = 64


def _fits(array: arrays.Array, tensor: Tensor) -> bool:
    """Whether the array is the tensor element by element; a flat one counts when it holds exactly its memory."""
    if array.shape == tensor.shape:
        return array.strides == tensor.strides or all(
            s == t for s, t, extent in zip(array.strides, tensor.strides, tensor.shape) if extent > 1)
    return array.flat() and array.shape[0] * arrays.BYTES[tensor.dtype] == tensor.bytes


def _covers(array: arrays.Array, tensor: Tensor) -> bool:
    """Whether the tensor's elements lie in the array: at its head along each axis, or in flat memory."""
    if array.flat():
        last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides))
        return 0 in tensor.shape or array.shape[0] > last
    return len(array.shape) == len(tensor.shape) and all(
        have >= need and (s == t or need < 2)
        for have, need, s, t in zip(array.shape, tensor.shape, array.strides, tensor.strides))


class Bound(_abi.OfThisProcess):
    """A run of a kernel on given memory: bound() runs it and returns the output. Its memory is kept alive."""

    __slots__ = ("_run", "_kernel", "_reference", "_buffers", "_keep", "out")

    def __init__(self, plan: "Plan", buffers: _abi.Buffers, keep: Any, out: Any) -> None:
        self._run = _abi.library().tsr_kernel_run
        self._kernel = plan._handle
        self._buffers = buffers
        self._reference = ctypes.byref(buffers)
        self._keep = keep
        self.out = out

    def __call__(self) -> Any:
        status = self._run(self._kernel, self._reference)
        if status:
            _abi.fail(status)
        return self.out


class Plan(_abi.OfThisProcess):
    """The kernel of one problem on one dispatcher, compiled and loaded. Thread-safe. It stays usable when its dispatcher
    goes out of scope, and ends with Dispatcher.close()."""

    def __init__(self, native: "Native", device: str, problem: Problem, handle: ctypes.c_void_p) -> None:
        self._native = native
        self._device = device
        self._handle = handle
        self.problem = problem
        self._tensors = problem.tensors
        self._calls: Dict[Any, calls.Call] = {}
        facts = self.info()
        self._host: bool = facts["host_memory"]
        self._place = "cpu" if self._host else f"cuda:{device.partition(':')[2] or 0}"  # where its arrays are
        self._provisional = False  # whether its dispatcher may find a faster one
        self.config = KernelConfig(facts["config"])
        self.source: str = facts["source"]
        self.workspace_bytes: int = facts["workspace_bytes"]
        self.packed_b_bytes: int = facts["packed_b_bytes"]

    def info(self) -> Dict[str, Any]:
        """{"problem", "config", "source", "predicted_us", "workspace_bytes", "packed_b_bytes", "host_memory",
        "build"}."""
        return _abi.answer(_abi.library().tsr_kernel_info, self._handle)

    def _checked(self, obj: Any, tensor: Tensor) -> arrays.Array:
        array = arrays.view(obj, tensor.name, None if tensor.packed else tensor.dtype)
        if tensor.packed:
            if not array.dense() or array.bytes() < self.packed_b_bytes:
                raise BadInput(f"bad_input: {tensor.name} has {array.bytes()} bytes, packed by this kernel it has "
                               f"{self.packed_b_bytes}; Plan.pack_b makes it")
        elif not _fits(array, tensor):
            raise BadInput(f"bad_input: {tensor.name} has shape {array.shape} and strides {array.strides}, the problem "
                           f"has {tensor.shape} and {tensor.strides} (elements)")
        return array

    def _require_here(self, array: arrays.Array, name: str) -> None:
        if array.device != self._place:
            raise BadInput(f"bad_input: {name} lies on {array.device}, the kernel runs on {self._device}; move it there")

    def _workspace(self, obj: Any) -> arrays.Array:
        array = arrays.untyped(obj, "workspace")
        self._require_here(array, "workspace")
        if array.readonly or not array.dense():
            raise BadInput("bad_input: the workspace is written, and its memory is "
                           f"{'read-only' if array.readonly else 'not in one piece'}; allocate another")
        if array.bytes() < self.workspace_bytes or array.address % _WORKSPACE_ALIGN:
            raise BadInput(f"bad_input: the workspace has {array.bytes()} bytes at address {array.address:#x}; this "
                           f"kernel takes at least workspace_bytes, {self.workspace_bytes}, at a multiple of "
                           f"{_WORKSPACE_ALIGN}")
        return array

    def _bind(self, views: List[arrays.Array], out: Any, alpha: Optional[float] = None, beta: Optional[float] = None,
              stream: Optional[int] = None, workspace: Any = None) -> Bound:
        """A call on arrays (a, b, c, d0, ... or bias_grad) whose shapes, strides and types are known to fit."""
        for v, tensor in zip(views, self._tensors):
            self._require_here(v, tensor.name)
        if views[2].readonly:
            raise BadInput(calls.READONLY)
        buffers = _abi.Buffers(_SIZE, 0, views[0].address, views[1].address, views[2].address)
        for i, v in enumerate(views[3:]):
            if self._tensors[3 + i].written:
                if v.readonly:
                    raise BadInput(calls.READONLY)
                buffers.bias_grad = v.address
            else:
                buffers.d[i] = v.address
        if alpha is not None:
            buffers.flags |= _abi.HAS_ALPHA
            buffers.alpha = alpha
        if beta is not None:
            buffers.flags |= _abi.HAS_BETA
            buffers.beta = beta
        if workspace is not None:
            views.append(self._workspace(workspace))
            buffers.workspace = views[-1].address
        if not self._host:
            buffers.stream = arrays.current_stream(views[0]) if stream is None else stream
        return Bound(self, buffers, (self, views), out)

    def bind(self, a: Any, b: Any, out: Any = None, d: Sequence[Any] = (), *, alpha: Optional[float] = None,
             beta: Optional[float] = None, stream: Optional[int] = None, workspace: Any = None,
             bias_grad: Any = None) -> Bound:
        """Checks the arrays once and prepares a call. a, b, out and d have the shapes, strides and types that
        problem.tensors gives (or are flat and hold exactly as much); without `out` it is allocated like a. alpha and
        beta replace the problem's; stream: a CUDA stream's address, else the one a's library is using; workspace:
        writable, at least workspace_bytes at a multiple of 64 and for one run at a time, else the kernel brings its
        own; bias_grad: of problems that have it, f32 of g * k elements, written.
        Raises BadInput where an array does not fit, nothing is written then."""
        tensors = self._tensors
        if (bias_grad is not None) != any(t.name == "bias_grad" for t in tensors):
            raise BadInput("bad_input: bias_grad is given exactly where the problem says bias_grad=f32")
        if bias_grad is not None:
            d = (*d, bias_grad)
        if len(d) != len(tensors) - 3:
            raise BadInput(f"bad_input: the problem reads {len(tensors) - 3} D tensors, {len(d)} were given")
        views = [self._checked(a, tensors[0]), self._checked(b, tensors[1])]
        if out is None:
            out = self._allocate(views[0], tensors[2].shape)
        views.append(self._checked(out, tensors[2]))
        views += [self._checked(x, t) for x, t in zip(d, tensors[3:])]
        return self._bind(views, out, alpha, beta, stream, workspace)

    def _allocate(self, like: arrays.Array, shape: Tuple[int, ...]) -> Any:
        c = self._tensors[2]
        if c.strides != arrays.packed_strides(c.shape):
            raise BadInput("bad_input: the output has gaps between its rows; pass out=")
        return arrays.empty_like(like, shape, c.dtype)

    def __call__(self, a: Any, b: Any, out: Any = None, d: Sequence[Any] = (), **options: Any) -> Any:
        """bind() and run. Returns the output."""
        key = None if options else calls.key_of(a, b, out, d)
        call = self._calls.get(key)
        if call is not None:
            return call(a, b, out, d)
        out = self.bind(a, b, out, d, **options)()
        calls.remember(self._calls, key, self, out)
        return out

    def pack_b(self, b: Any, ldb: Optional[int] = None) -> Any:
        """B in this kernel's own order, for problems with prepack=b: an array of packed_b_bytes bytes like b. `b` has
        the shape, strides and type that problem.tensors gives, or is flat and holds exactly as much; where all batches
        share it, it may be one matrix. With ldb its lines, of layout "rrr" rows, lie ldb elements apart instead; it may
        be longer along any axis then, and flat memory reaches at least to the end of the last line.
        What is packed serves any m (of convolutions n), epilogue, alpha and beta under the same configuration; on a CPU
        a run refuses one of another kernel. Raises BadInput where b does not fit, Unsupported where the kernel takes B
        as it is."""
        tensor = self._tensors[1]
        array = arrays.view(b, tensor.name, tensor.dtype)
        self._require_here(array, tensor.name)
        if tensor.strides[0] == 0 and len(array.shape) < len(tensor.shape):  # shared by all batches
            tensor = tensor._replace(shape=tensor.shape[1:], strides=tensor.strides[1:])
        if ldb is not None:
            ldb = operator.index(ldb)
            tensor = self._with_leading(tensor, ldb)
        if not (_fits(array, tensor) if ldb is None else _covers(array, tensor)):
            raise BadInput(f"bad_input: {tensor.name} has shape {array.shape} and strides {array.strides}, to be packed "
                           f"{'' if ldb is None else f'by ldb={ldb} '}it has {tensor.shape} and {tensor.strides} "
                           "(elements); copy it into that order")
        packed = arrays.empty_like(array, (max(self.packed_b_bytes, 1),), "u8")
        _abi.check(_abi.library().tsr_kernel_pack_b(self._handle, array.address,
                                                    arrays.view(packed, "packed").address, -1 if ldb is None else ldb))
        return packed

    def _with_leading(self, tensor: Tensor, ldb: int) -> Tensor:
        """B with its lines so far apart."""
        if self.problem.op != "gemm":
            raise BadInput("bad_input: a filter has no leading dimension; leave ldb out")
        rows = self.problem.fields["layout"][1] == "r"
        lines, run = tensor.shape[-2:] if rows else tensor.shape[:-3:-1]
        if ldb < run:
            raise BadInput(f"bad_input: a line of b has {run} elements, more than its ldb={ldb}")
        strides: Tuple[int, ...] = (ldb, 1) if rows else (1, ldb)
        if len(tensor.shape) == 3:
            strides = (ldb * lines if tensor.strides[0] else 0, *strides)
        return tensor._replace(strides=strides)

    def wait(self) -> None:
        """Until the device has done what was enqueued; a CPU has nothing to wait for."""
        _abi.check(_abi.library().tsr_kernel_wait(self._handle))

    def __repr__(self) -> str:
        return f"<Plan {self.problem.text!r} by {self.config.text!r}>"
