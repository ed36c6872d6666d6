"""torch operators and modules on Tessera's kernels: linear layers and convolutions with gradients, safe to compile.

    import tessera.torch
    y = tessera.torch.linear(x, weight, bias)
    model = tessera.torch.convert(model)        # its nn.Linear and nn.Conv1d/2d/3d, weights shared

The operators are torch.library custom operators with fake implementations and autograd formulas. Convolutions work on
channels-last memory; tensors that are not are copied once into it. Tensors are f32, f16 or bf16, on a CPU, and for linear
layers on a CUDA device too; conv() raises Unsupported there, and a converted module leaves such tensors to torch."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

from . import convolution, ops


# -- Linear --------------------------------------------------------------------------------------------------------

def _rows(t: torch.Tensor) -> torch.Tensor:
    """As a matrix of rows that a kernel can read."""
    flat = t.reshape(-1, t.shape[-1])
    return flat if 1 in flat.stride() else flat.contiguous()


@torch.library.custom_op("tessera::linear", mutates_args=())
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    out = x.new_empty((*x.shape[:-1], weight.shape[0]))
    ops.linear(_rows(x.detach()), _rows(weight.detach()), None if bias is None else bias.detach().contiguous(),
               out.view(-1, weight.shape[0]))
    return out


@_linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


@torch.library.custom_op("tessera::matmul", mutates_args=())
def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = a.new_empty((a.shape[0], b.shape[1]))
    ops.gemm(a.detach() if 1 in a.stride() else a.detach().contiguous(),
             b.detach() if 1 in b.stride() else b.detach().contiguous(), out)
    return out


@_matmul.register_fake
def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


def _matmul_context(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _matmul_backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    a, b = ctx.saved_tensors
    return (_matmul(grad, b.t()) if ctx.needs_input_grad[0] else None,
            _matmul(a.t(), grad) if ctx.needs_input_grad[1] else None)


_matmul.register_autograd(_matmul_backward, setup_context=_matmul_context)


def _linear_context(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])


def _linear_backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    x, weight = ctx.saved_tensors
    flat = grad.reshape(-1, grad.shape[-1])
    dx = _matmul(flat, weight).view(x.shape) if ctx.needs_input_grad[0] else None
    dw = _matmul(flat.t(), x.reshape(-1, x.shape[-1])) if ctx.needs_input_grad[1] else None
    db = flat.sum(0) if ctx.needs_input_grad[2] else None
    return dx, dw, db


_linear.register_autograd(_linear_backward, setup_context=_linear_context)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """x @ weight.T + bias: x (..., k), weight (n, k), bias (n) or None; returns (..., n). As torch's linear."""
    return _linear(x, weight, bias)


# -- Convolution ---------------------------------------------------------------------------------------------------

def _channels_last(t: torch.Tensor) -> torch.Tensor:
    """(n, c, *spatial) as a dense (n, *spatial, c)."""
    return t.detach().movedim(1, -1).contiguous()


def _out_size(x: torch.Tensor, weight: torch.Tensor, stride: List[int], padding: List[int],
              dilation: List[int]) -> Tuple[int, ...]:
    return tuple((i + 2 * p - d * (f - 1) - 1) // s + 1
                 for i, f, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation))


@torch.library.custom_op("tessera::conv", mutates_args=())
def _conv(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], stride: List[int], padding: List[int],
          dilation: List[int], groups: int) -> torch.Tensor:
    out = x.new_empty((x.shape[0], *_out_size(x, weight, stride, padding, dilation), weight.shape[0]))
    convolution.conv(_channels_last(x), _channels_last(weight), out, stride=stride, padding=padding, dilation=dilation,
                     groups=groups, d=() if bias is None else (bias.detach().contiguous(),),
                     epilogue=None if bias is None else "bias")
    return out.movedim(-1, 1)


@_conv.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], stride: List[int], padding: List[int], dilation: List[int], groups: int) -> torch.Tensor:
    return x.new_empty((x.shape[0], *_out_size(x, weight, stride, padding, dilation), weight.shape[0])).movedim(-1, 1)


@torch.library.custom_op("tessera::conv_bwd_data", mutates_args=())
def _conv_bwd_data(grad: torch.Tensor, weight: torch.Tensor, size: List[int], stride: List[int], padding: List[int],
                   dilation: List[int], groups: int) -> torch.Tensor:
    out = grad.new_empty((grad.shape[0], *size, weight.shape[1] * groups))
    convolution.conv_bwd_data(_channels_last(grad), _channels_last(weight), size, out, stride=stride, padding=padding,
                              dilation=dilation, groups=groups)
    return out.movedim(-1, 1)


@_conv_bwd_data.register_fake
def _(grad: torch.Tensor, weight: torch.Tensor, size: List[int], stride: List[int], padding: List[int], dilation: List[int], groups: int) -> torch.Tensor:
    return grad.new_empty((grad.shape[0], *size, weight.shape[1] * groups)).movedim(-1, 1)


@torch.library.custom_op("tessera::conv_bwd_weight", mutates_args=())
def _conv_bwd_weight(grad: torch.Tensor, x: torch.Tensor, size: List[int], stride: List[int], padding: List[int],
                     dilation: List[int], groups: int) -> torch.Tensor:
    out = grad.new_empty((grad.shape[1], *size, x.shape[1] // groups))
    convolution.conv_bwd_weight(_channels_last(grad), _channels_last(x), size, out, stride=stride, padding=padding,
                                dilation=dilation, groups=groups)
    return out.movedim(-1, 1)


@_conv_bwd_weight.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, size: List[int], stride: List[int], padding: List[int], dilation: List[int], groups: int) -> torch.Tensor:
    return grad.new_empty((grad.shape[1], *size, x.shape[1] // groups)).movedim(-1, 1)


def _conv_context(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, _bias, ctx.stride, ctx.padding, ctx.dilation, ctx.groups = inputs
    ctx.save_for_backward(x, weight)


def _conv_backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    x, weight = ctx.saved_tensors
    shape = (ctx.stride, ctx.padding, ctx.dilation, ctx.groups)
    dx = _conv_bwd_data(grad, weight, list(x.shape[2:]), *shape) if ctx.needs_input_grad[0] else None
    dw = _conv_bwd_weight(grad, x, list(weight.shape[2:]), *shape) if ctx.needs_input_grad[1] else None
    db = grad.sum([0, *range(2, grad.dim())]) if ctx.needs_input_grad[2] else None
    return dx, dw, db, None, None, None, None


_conv.register_autograd(_conv_backward, setup_context=_conv_context)


def _each(value: convolution.Axes, dims: int) -> List[int]:
    return [value] * dims if isinstance(value, int) else list(value)


def conv(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None, stride: convolution.Axes = 1,
         padding: convolution.Axes = 0, dilation: convolution.Axes = 1, groups: int = 1) -> torch.Tensor:
    """torch's conv1d, conv2d or conv3d by the number of axes: x (n, groups * c, *in), weight (groups * k, c, *filter), bias
    (groups * k) or None. Returns (n, groups * k, *out) in channels-last memory."""
    dims = x.dim() - 2
    return _conv(x, weight, bias, _each(stride, dims), _each(padding, dims), _each(dilation, dims), groups)


# -- Modules -------------------------------------------------------------------------------------------------------

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class Linear(torch.nn.Linear):
    """nn.Linear by linear()."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """linear(x, weight, bias): x (..., in_features), returns (..., out_features) of x's type and device."""
        return linear(x, self.weight, self.bias)


def _conv_module(base: Any) -> Any:
    class Module(base):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if (self.padding_mode != "zeros" or isinstance(self.padding, str) or x.device.type != "cpu"
                    or x.dim() != len(self.kernel_size) + 2 or x.dtype not in _FLOATS):
                return super().forward(x)
            return conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    Module.__name__ = Module.__qualname__ = base.__name__
    Module.__doc__ = f"nn.{base.__name__} by conv(); other than zero padding, padding by name, no axis of images, f64 and other devices than a CPU are torch's own."
    return Module


Conv1d, Conv2d, Conv3d = map(_conv_module, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d))

_REPLACED = {torch.nn.Linear: Linear, torch.nn.Conv1d: Conv1d, torch.nn.Conv2d: Conv2d, torch.nn.Conv3d: Conv3d}


def convert(module: torch.nn.Module) -> torch.nn.Module:
    """The module with every nn.Linear and nn.Conv1d/2d/3d in it running on Tessera. Changed in place and returned;
    parameters, names and hooks stay. Subclasses of those are left alone."""
    for part in module.modules():
        kind = _REPLACED.get(type(part))
        if kind is not None:
            part.__class__ = kind
    return module
