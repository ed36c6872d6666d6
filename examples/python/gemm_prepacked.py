"""Weights packed once in the chosen kernel's own order, used for many calls."""
import numpy as np

import tessera

rng = np.random.default_rng(12)
weights = rng.integers(-4, 5, (96, 64)).astype(np.float32)

with tessera.Dispatcher(threads=1) as dispatcher:
    plan = dispatcher.get("gemm m=32 n=64 k=96 dtype=f32 layout=rrr prepack=b")
    packed = plan.pack_b(weights)
    print(f"{weights.nbytes} bytes of weights, {packed.nbytes} packed, by {plan.config}")
    for _ in range(3):
        x = rng.integers(-4, 5, (32, 96)).astype(np.float32)
        assert (plan(x, packed) == x @ weights).all()
