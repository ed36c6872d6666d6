#!/usr/bin/env python3
"""What a call from Python costs beside the C++ call it makes, as JSON.

    TESSERA_LIBRARY=build/release/lib/libtessera_c.so.1 PYTHONPATH=python python3 bench/python_calls.py
"""
import json
import platform
import subprocess
import sys
import timeit

import numpy as np

import tessera

PROBLEM = "gemm m=4 n=16 k=4 dtype=f32 layout=rrr"


def best_us(call, number=20000, repeat=9):
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e6


def main():
    dispatcher = tessera.Dispatcher(threads=1)
    plan = dispatcher.get(PROBLEM)
    a, b, c = np.ones((4, 4), np.float32), np.ones((4, 16), np.float32), np.zeros((4, 16), np.float32)
    imports = min(float(subprocess.run(
        [sys.executable, "-c", "import time; s = time.perf_counter(); import tessera; print(time.perf_counter() - s)"],
        check=True, capture_output=True, text=True).stdout) for _ in range(5))
    print(json.dumps({
        "problem": PROBLEM,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpp_call_us": min(dispatcher.measure(PROBLEM, budget_ms=20)["time_us"] for _ in range(5)),
        "bound_call_us": best_us(plan.bind(a, b, c)),
        "plan_call_us": best_us(lambda: plan(a, b, c)),
        "gemm_call_us": best_us(lambda: tessera.gemm(a, b, c, dispatcher=dispatcher)),
        "numpy_matmul_us": best_us(lambda: np.matmul(a, b, out=c)),
        "import_ms": imports * 1e3,
    }, indent=2))


if __name__ == "__main__":
    main()
