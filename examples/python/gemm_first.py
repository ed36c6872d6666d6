"""One problem, several kernels: what the model chooses, and the next ones in its order, all with the same result."""
import numpy as np

import tessera

rng = np.random.default_rng(1)
a = rng.uniform(-1, 1, (96, 64)).astype(np.float32)
b = rng.uniform(-1, 1, (64, 80)).astype(np.float32)

c = tessera.gemm(a, b)  # a and b say what the problem is
print(f"{c.shape} {c.dtype}, error {np.abs(c - a @ b).max():.2g}")

problem = "gemm m=96 n=80 k=64 dtype=f32 layout=rrr"
with tessera.Dispatcher(threads=1) as dispatcher:
    best = dispatcher.explain(problem)["candidates"][:4]
for candidate in best:
    with tessera.Dispatcher(threads=1, config=candidate["config"]) as one:
        got = one.run(problem, a, b)
        print(f"{candidate['predicted_us']:7.2f} us predicted  {candidate['config']}")
        np.testing.assert_allclose(got, a @ b, atol=1e-5)
