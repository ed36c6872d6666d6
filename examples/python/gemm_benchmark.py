"""A table of times beside numpy's, every result checked against f64 arithmetic first."""
import time

import numpy as np

import tessera

SIZES = [(1, 256, 256), (64, 64, 64), (128, 256, 192), (256, 256, 256)]


def microseconds(call, budget=0.02):
    call()
    best, until = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < until:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


rng = np.random.default_rng(3)
print(f"{'m':>5} {'n':>5} {'k':>5} {'tessera':>10} {'numpy':>10}  config")
with tessera.Dispatcher(threads=1) as dispatcher:
    for m, n, k in SIZES:
        a, b = rng.uniform(-1, 1, (m, k)).astype("f4"), rng.uniform(-1, 1, (k, n)).astype("f4")
        out = np.empty((m, n), np.float32)
        plan = dispatcher.get(f"gemm m={m} n={n} k={k} dtype=f32 layout=rrr")
        call = plan.bind(a, b, out)
        call()
        exact = a.astype("f8") @ b
        bound = k * 2.0 ** -23 * (np.abs(a.astype("f8")) @ np.abs(b))
        assert (np.abs(out - exact) <= bound).all()
        ours, theirs = microseconds(call), microseconds(lambda: np.matmul(a, b, out=out))
        print(f"{m:5} {n:5} {k:5} {ours:8.1f}us {theirs:8.1f}us  {plan.config}")
