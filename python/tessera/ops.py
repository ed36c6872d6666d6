"""Operations on arrays: the problem is read off the arguments."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from . import arrays, calls
from .dispatcher import Dispatcher, default_dispatcher
from .errors import BadInput
from .plan import Plan
from .problem import one_word, text_of


def _matrix(array: arrays.Array, name: str) -> Tuple[int, int, int, str, int, Optional[int]]:
    """(batch, rows, columns, order, leading dimension, batch stride) of a matrix or a batch of them."""
    if len(array.shape) not in (2, 3):
        raise BadInput(f"bad_input: {name} has {len(array.shape)} axes; a matrix has 2, a batch of them 3")
    rows, cols = array.shape[-2:]
    row_stride, col_stride = array.strides[-2:]
    batch = array.shape[0] if len(array.shape) == 3 else 1
    if col_stride == 1 or cols == 1:
        order, leading, least = "r", row_stride if rows > 1 else cols, cols
    elif row_stride == 1 or rows == 1:
        order, leading, least = "c", col_stride, rows
    else:
        leading, least = 0, 1
    if leading < least:
        raise BadInput(f"bad_input: {name} has strides {array.strides} (elements); rows or columns must be contiguous "
                       "and apart, copy it")
    return batch, rows, cols, order, leading, array.strides[0] if batch > 1 else None


def transposed(array: arrays.Array) -> arrays.Array:
    """The same memory with its last two axes exchanged."""
    def swap(x: Tuple[int, ...]) -> Tuple[int, ...]:
        return x[:-2] + (x[-1], x[-2])
    return array.seen_as(swap(array.shape), swap(array.strides), array.dtype)


def _device(array: arrays.Array) -> str:
    return "cpu" if array.device == "cpu" else array.device


def gemm(a: Any, b: Any, out: Any = None, *, d: Sequence[Any] = (), epilogue: Optional[str] = None,
         alpha: Optional[float] = None, beta: Optional[float] = None, dtype: Union[str, Tuple[str, str], None] = None,
         out_dtype: Optional[str] = None, dispatcher: Optional[Dispatcher] = None) -> Any:
    """epilogue(alpha * a @ b + beta * out), fused.

    a: (m, k) or (batch, m, k); b: (k, n) or (batch, k, n), each with contiguous rows or columns, such as w.T; without a
    batch axis it is used for all. out: (m, n) or (batch, m, n) with contiguous rows, allocated like a when None.
    Types: f32, f16, bf16, f8e4m3, f8e5m2, i8, u8 (a); out_dtype is a's for floats and i32 for integers unless given or
    known from out. dtype names what 2-byte or 1-byte integers hold ("bf16") where a library has no such type, a pair
    ("u8", "i8") for a and b apart.
    epilogue: steps such as "bias,gelu" (tessera.library()["epilogue_steps"]); d: one array for each step that reads
    one, in their order: (m, n), or a vector of n or m.
    Arrays may be of numpy, torch, cupy, anything with DLPack, __cuda_array_interface__ or the buffer protocol, and all
    on one device; nothing is copied. dispatcher: default_dispatcher() when None, which uses all cores.
    Returns out. Raises BadInput, Unsupported, CompileFailed."""
    like = None
    if alpha is None and beta is None:
        like = calls.key_of(a, b, out, d, epilogue, dtype, out_dtype)
    if like is not None:
        dispatcher = dispatcher or default_dispatcher()
        call = dispatcher._calls.get(like)
        if call is not None:
            return call(a, b, out, d)
    types = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    x, y = arrays.view(a, "a", types[0]), arrays.view(b, "b", types[1])
    z = None if out is None else _view_stored(out, "out", out_dtype, types[0])
    extra = [_view_stored(t, f"d[{i}]", None, types[0]) for i, t in enumerate(d)]
    dispatcher = dispatcher or default_dispatcher(_device(x))
    key = (x.shape, x.strides, x.dtype, y.shape, y.strides, y.dtype, None if z is None else (z.shape, z.strides, z.dtype),
           extra[0].dtype if extra else None, epilogue, out_dtype)
    plan = dispatcher._plans.get(key)
    if plan is None or plan._provisional:
        plan = _gemm_plan(dispatcher, x, y, z, extra, epilogue, out_dtype)
        dispatcher._remember(key, plan)
    c = plan._tensors[2]
    if z is None:
        arrays.check_beta(beta)
        batched = max(len(x.shape), len(y.shape)) > len(c.shape)  # a batch of one, which the problem leaves out
        out = plan._allocate(x, (1,) + c.shape if batched else c.shape)
        z = arrays.view(out, "out", c.dtype)
    if len(extra) != len(plan._tensors) - 3:
        raise BadInput(f"bad_input: the epilogue reads {len(plan._tensors) - 3} arrays, d has {len(extra)}")
    for array, tensor in zip(extra, plan._tensors[3:]):
        plan._checked(array, tensor)
    plan._bind([x, y, z, *extra], out, alpha, beta)()
    calls.remember(dispatcher._calls, like, plan, out)
    return out


def _view_stored(obj: Any, name: str, dtype: Optional[str], operand: Optional[str]) -> arrays.Array:
    """An array whose elements are of type `dtype`, or their own; bf16 in integers is known from the operands'."""
    array = arrays.untyped(obj, name)
    if dtype is None and operand == "bf16" and array.dtype == "u16":
        dtype = operand
    return array.typed(dtype, name)


def _gemm_plan(dispatcher: Dispatcher, x: arrays.Array, y: arrays.Array, z: Optional[arrays.Array], extra: Sequence[Any],
               epilogue: Optional[str], out_dtype: Optional[str]) -> Plan:
    batch_a, m, k, order_a, lda, stride_a = _matrix(x, "a")
    batch_b, k_b, n, order_b, ldb, stride_b = _matrix(y, "b")
    if k != k_b:
        raise BadInput(f"bad_input: a has {k} columns and b has {k_b} rows; they must agree")
    batch = max(batch_a, batch_b)
    if batch_a not in (1, batch) or batch_b not in (1, batch):
        raise BadInput(f"bad_input: a has {batch_a} matrices and b has {batch_b}")
    fields = {"m": m, "n": n, "k": k, "dtype": x.dtype if x.dtype == y.dtype else f"{x.dtype}x{y.dtype}",
              "layout": order_a + order_b + "r", "lda": lda, "ldb": ldb, "epilogue": epilogue}
    if batch > 1:
        fields.update(batch=batch, stride_a=stride_a or 0, stride_b=stride_b or 0)
    if z is not None:
        batch_c, m_c, n_c, order_c, ldc, stride_c = _matrix(z, "out")
        if (batch_c, m_c, n_c) != (batch, m, n) or (order_c != "r" and n > 1):
            raise BadInput(f"bad_input: out has shape {z.shape} and strides {z.strides}, the product is "
                           f"{'' if batch == 1 else f'{batch} x '}{m} x {n} with contiguous rows")
        fields.update(out=z.dtype, ldc=ldc)
        if batch > 1:
            fields["stride_c"] = stride_c
    elif out_dtype is not None:
        fields["out"] = out_dtype
    if extra:
        fields["d"] = extra[0].dtype
    return dispatcher.get(text_of("gemm", fields, {"out": "out_dtype"}))


def linear(x: Any, weight: Any, bias: Any = None, out: Any = None, *, activation: Optional[str] = None,
           dtype: Optional[str] = None, dispatcher: Optional[Dispatcher] = None) -> Any:
    """activation(x @ weight.T + bias), fused. x: (m, k); weight: (n, k); bias: (n) or None; activation: an epilogue
    step ("relu", "gelu", ...) or several. Returns (m, n). Errors as of gemm()."""
    steps = ([] if bias is None else ["bias"]) + ([one_word(activation, "activation")] if activation else [])
    if type(weight) is calls.ndarray and weight.ndim == 2:
        w = weight.T
    else:
        w = transposed(arrays.view(weight, "weight", dtype))
    return gemm(x, w, out, d=() if bias is None else (bias,),
                epilogue=",".join(steps) or None, dtype=dtype, dispatcher=dispatcher)
