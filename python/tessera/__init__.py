"""Tessera: describe a matrix product or a convolution; the fastest legal kernel is chosen, compiled, cached and run.

    import numpy, tessera
    c = tessera.gemm(numpy.ones((64, 48), "f4"), numpy.ones((48, 80), "f4"))

Importing this module opens no device and loads no library; the first call does. A process forked before that may use
Tessera; one forked after it gets a DeviceError.
"""
from __future__ import annotations

import importlib
from typing import Any, List

# Public name -> module that has it.
_PLACES = {
    "gemm": "ops", "linear": "ops",
    "conv": "convolution", "conv_bwd_data": "convolution", "conv_bwd_weight": "convolution",
    "Problem": "problem", "Tensor": "problem",
    "KernelConfig": "config",
    "Registry": "registry", "Declaration": "registry",
    "Dispatcher": "dispatcher", "default_dispatcher": "dispatcher",
    "Plan": "plan", "Bound": "plan",
    "Error": "errors", "BadInput": "errors", "Unsupported": "errors", "CompileFailed": "errors",
    "DeviceError": "errors", "IoError": "errors", "Corrupt": "errors", "InternalError": "errors",
    "job": "jobs",
    "tune": "jobs", "plan_sweep": "jobs", "sweep": "jobs", "sweep_status": "jobs", "store_sweep": "jobs", "train": "jobs",
    "evaluate": "jobs",
    "create_pack": "jobs", "generate": "jobs", "cache": "jobs",
    "version": "_facts", "library": "_facts", "suite": "_facts", "device": "_facts", "set_log": "_facts",
}
_MODULES = {"torch"}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(importlib.import_module("." + _PLACES[name], __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name == "__version__":
        return __getattr__("version")()
    raise AttributeError(f"module 'tessera' has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
