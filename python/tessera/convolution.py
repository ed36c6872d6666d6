"""Convolutions on arrays, channels last: N(spatial)C, K(filter)C, N(spatial)K, in one, two or three dimensions.

Stride, padding and dilation are one number or one per axis; padding may be (low, high) pairs. With groups=None the arrays
have a group axis of their own: N(spatial)GC, GK(filter)C, N(spatial)GK. Arrays are dense, of any library as for gemm(), and
nothing is copied. torch's channels_last tensors come as x.permute(0, 2, 3, 1).

The correlation of neural networks: no filter is flipped."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

from . import arrays, calls
from .dispatcher import Dispatcher, default_dispatcher
from .errors import BadInput
from .ops import _view_stored
from .problem import text_of

Axes = Union[int, Sequence[int]]
Padding = Union[int, Sequence[Union[int, Tuple[int, int]]]]

# Fields of a problem whose arguments here have other names.
_ARGUMENTS = {"in": "in_size", "filter": "filter_size", "pad": "padding", "out": "out_dtype"}


def conv(x: Any, w: Any, out: Any = None, *, stride: Axes = 1, padding: Padding = 0, dilation: Axes = 1,
         groups: Optional[int] = 1, d: Sequence[Any] = (), epilogue: Optional[str] = None,
         alpha: Optional[float] = None, beta: Optional[float] = None, dtype: Optional[str] = None,
         out_dtype: Optional[str] = None, dispatcher: Optional[Dispatcher] = None) -> Any:
    """epilogue(alpha * conv(x, w) + beta * out).

    x: (n, *in, groups * c); w: (groups * k, *filter, c). Returns (n, *out, groups * k), allocated like x when out is None.
    d: what the epilogue's steps read, such as a bias of groups * k; types, dtype and errors as of gemm()."""
    like = None if alpha is not None or beta is not None else calls.key_of(
        x, w, out, d, "conv_fwd", stride, padding, dilation, groups, epilogue, dtype, out_dtype)
    if like is not None:
        dispatcher = dispatcher or default_dispatcher()
        call = calls.known(dispatcher._calls, like)
        if call is not None:
            return call(x, w, out, d)
    a, b = arrays.view(x, "x", dtype), arrays.view(w, "w", dtype)
    n, extents, channels = _activation(a, "x", groups)
    g, k, window, c = _filter(b, "w", groups)
    _agree(channels, g * c, "x", "channels", "w")
    return _run("conv_fwd", a, b, out, n=n, g=g, c=c, k=k, extents=extents, window=window, stride=stride,
                padding=padding, dilation=dilation, groups=groups, d=d, epilogue=epilogue, alpha=alpha, beta=beta,
                dtype=dtype, out_dtype=out_dtype, dispatcher=dispatcher, like=like)


def conv_bwd_data(dy: Any, w: Any, in_size: Sequence[int], out: Any = None, *, stride: Axes = 1, padding: Padding = 0,
                  dilation: Axes = 1, groups: Optional[int] = 1, d: Sequence[Any] = (), epilogue: Optional[str] = None,
                  alpha: Optional[float] = None, beta: Optional[float] = None, dtype: Optional[str] = None,
                  out_dtype: Optional[str] = None, dispatcher: Optional[Dispatcher] = None) -> Any:
    """The gradient of conv()'s x: dy (n, *out, groups * k), w (groups * k, *filter, c), in_size the spatial extents of x.
    Returns (n, *in_size, groups * c)."""
    like = None if alpha is not None or beta is not None else calls.key_of(
        dy, w, out, d, "conv_bwd_data", in_size, stride, padding, dilation, groups, epilogue, dtype, out_dtype)
    if like is not None:
        dispatcher = dispatcher or default_dispatcher()
        call = calls.known(dispatcher._calls, like)
        if call is not None:
            return call(dy, w, out, d)
    a, b = arrays.view(dy, "dy", dtype), arrays.view(w, "w", dtype)
    n, outputs, channels = _activation(a, "dy", groups)
    g, k, window, c = _filter(b, "w", groups)
    _agree(channels, g * k, "dy", "channels", "w")
    return _run("conv_bwd_data", a, b, out, n=n, g=g, c=c, k=k, extents=tuple(in_size), window=window, stride=stride,
                padding=padding, dilation=dilation, groups=groups, d=d, epilogue=epilogue, alpha=alpha, beta=beta,
                dtype=dtype, out_dtype=out_dtype, dispatcher=dispatcher, like=like, outputs=outputs)


def conv_bwd_weight(dy: Any, x: Any, filter_size: Sequence[int], out: Any = None, *, stride: Axes = 1,
                    padding: Padding = 0, dilation: Axes = 1, groups: Optional[int] = 1,
                    alpha: Optional[float] = None, beta: Optional[float] = None, dtype: Optional[str] = None,
                    out_dtype: Optional[str] = None, dispatcher: Optional[Dispatcher] = None,
                    bias_grad: Any = None) -> Any:
    """The gradient of conv()'s w: dy (n, *out, groups * k), x (n, *in, groups * c), filter_size its spatial extents.
    bias_grad: f32 of groups * k elements, written: the sums of dy, by alpha and beta as the result.
    Returns (groups * k, *filter_size, c)."""
    like = None if alpha is not None or beta is not None or bias_grad is not None else calls.key_of(
        dy, x, out, (), "conv_bwd_weight", filter_size, stride, padding, dilation, groups, dtype, out_dtype)
    if like is not None:
        dispatcher = dispatcher or default_dispatcher()
        call = calls.known(dispatcher._calls, like)
        if call is not None:
            return call(dy, x, out, ())
    a, b = arrays.view(dy, "dy", dtype), arrays.view(x, "x", dtype)
    n, outputs, k_all = _activation(a, "dy", groups)
    n_x, extents, c_all = _activation(b, "x", groups)
    _agree(n, n_x, "dy", "images", "x")
    g = groups if groups is not None else a.shape[-2]
    _agree(g, groups if groups is not None else b.shape[-2], "dy", "groups", "x")
    if g < 1 or k_all % g or c_all % g:
        raise BadInput(f"bad_input: {k_all} and {c_all} channels do not divide into {g} groups")
    return _run("conv_bwd_weight", a, b, out, n=n, g=g, c=c_all // g, k=k_all // g, extents=extents,
                window=tuple(filter_size), stride=stride, padding=padding, dilation=dilation, groups=groups, alpha=alpha,
                beta=beta, dtype=dtype, out_dtype=out_dtype, dispatcher=dispatcher, like=like, outputs=outputs,
                bias_grad=bias_grad)


# -- Shapes --------------------------------------------------------------------------------------------------------

def _agree(got: int, wanted: int, name: str, what: str, other: str) -> None:
    if got != wanted:
        raise BadInput(f"bad_input: {name} has {got} {what}, {other} has {wanted}")


def _dense(array: arrays.Array, name: str, axes: range) -> None:
    if len(array.shape) not in axes:
        raise BadInput(f"bad_input: {name} has {len(array.shape)} axes, of {axes[0]} to {axes[-1]}")
    if not array.dense():
        raise BadInput(f"bad_input: {name} has strides {array.strides} (elements); its elements must be dense with the "
                       "channels last, copy it")


def _activation(array: arrays.Array, name: str, groups: Optional[int]) -> Tuple[int, Tuple[int, ...], int]:
    """(images, spatial extents, channels of all groups)."""
    tail = 1 if groups is not None else 2
    _dense(array, name, range(2 + tail, 5 + tail))
    channels = array.shape[-1] if groups is not None else array.shape[-2] * array.shape[-1]
    return array.shape[0], array.shape[1:-tail], channels


def _filter(array: arrays.Array, name: str, groups: Optional[int]) -> Tuple[int, int, Tuple[int, ...], int]:
    """(groups, output channels of a group, filter extents, input channels of a group)."""
    head = 1 if groups is not None else 2
    _dense(array, name, range(2 + head, 5 + head))
    if groups is None:
        return array.shape[0], array.shape[1], array.shape[2:-1], array.shape[-1]
    if groups < 1 or array.shape[0] % groups:
        raise BadInput(f"bad_input: {array.shape[0]} output channels do not divide into {groups} groups")
    return groups, array.shape[0] // groups, array.shape[1:-1], array.shape[-1]


def _axes_text(value: Any, dims: int, name: str) -> str:
    values: List[Any] = [value] * dims if isinstance(value, int) else list(value)
    if len(values) != dims:
        raise BadInput(f"bad_input: {name} has {len(values)} values for {dims} axes")
    return "x".join(f"{v[0]}:{v[1]}" if isinstance(v, (tuple, list)) else str(v) for v in values)


def _ungrouped(shape: Tuple[int, ...], op: str) -> Tuple[int, ...]:
    """A result's shape with its group axis and the one beside it as one."""
    if op == "conv_bwd_weight":
        return (shape[0] * shape[1],) + shape[2:]
    return shape[:-2] + (shape[-2] * shape[-1],)


def _run(op: str, a: arrays.Array, b: arrays.Array, out: Any, *, n: int, g: int, c: int, k: int,
         extents: Tuple[int, ...], window: Tuple[int, ...], stride: Axes, padding: Padding, dilation: Axes,
         groups: Optional[int], alpha: Optional[float], beta: Optional[float], dtype: Optional[str],
         out_dtype: Optional[str], dispatcher: Optional[Dispatcher], like: Optional[Tuple[int, ...]], d: Sequence[Any] = (),
         epilogue: Optional[str] = None, outputs: Optional[Tuple[int, ...]] = None, bias_grad: Any = None) -> Any:
    dims = len(extents)
    _agree(len(window), dims, "the filter", "axes", "the input")
    dispatcher = dispatcher or default_dispatcher(a.device)
    z = None if out is None else _view_stored(out, "out", out_dtype, dtype)
    extra = [_view_stored(t, f"d[{i}]", None, dtype) for i, t in enumerate(d)]
    key = (op, n, g, c, k, extents, window, _axes_text(stride, dims, "stride"), _axes_text(padding, dims, "padding"),
           _axes_text(dilation, dims, "dilation"), a.dtype, b.dtype, None if z is None else z.dtype, out_dtype,
           extra[0].dtype if extra else None, epilogue, bias_grad is not None)
    if bias_grad is not None:
        extra.append(arrays.view(bias_grad, "bias_grad", "f32"))
    plan = dispatcher._plans.get(key)
    if plan is None or plan._provisional:
        fields = {"n": n, "g": g, "c": c, "k": k, "in": extents, "filter": window, "stride": key[7], "pad": key[8],
                  "dilation": key[9], "dtype": a.dtype if a.dtype == b.dtype else f"{a.dtype}x{b.dtype}",
                  "out": out_dtype if z is None else z.dtype, "d": key[-3], "epilogue": epilogue,
                  "bias_grad": "f32" if key[-1] else None}
        plan = dispatcher.get(text_of(op, fields, _ARGUMENTS))
        dispatcher._remember(key, plan)
    if outputs is not None:
        wanted = plan._tensors[0].shape[1:1 + dims]
        if tuple(outputs) != wanted:
            raise BadInput(f"bad_input: dy has spatial extents {tuple(outputs)}, the convolution gives {wanted}")
    c_shape = plan._tensors[2].shape if groups is None else _ungrouped(plan._tensors[2].shape, op)
    if z is None:
        arrays.check_beta(beta)
        out = plan._allocate(a, c_shape)
        z = arrays.view(out, "out", plan._tensors[2].dtype)
    else:
        _dense(z, "out", range(3, 8))
        if z.shape != c_shape:
            raise BadInput(f"bad_input: out has shape {z.shape}, the result {c_shape}")
    if len(extra) != len(plan._tensors) - 3:
        raise BadInput(f"bad_input: the epilogue reads {len(plan._tensors) - 3} arrays, d has {len(extra)}")
    for array, tensor in zip(extra, plan._tensors[3:]):
        if not (array.shape == c_shape and array.strides == arrays.packed_strides(c_shape)):
            plan._checked(array, tensor)
    plan._bind([a, b, z, *extra], out, alpha, beta)()
    calls.remember(dispatcher._calls, like, plan, out)
    return out
