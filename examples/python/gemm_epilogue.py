"""Fused epilogues: bias, element-wise tensors and activations in the pass that writes the result."""
import numpy as np

import tessera

rng = np.random.default_rng(11)
x, w = rng.uniform(-1, 1, (32, 48)).astype("f4"), rng.uniform(-1, 1, (64, 48)).astype("f4")
bias, gate = rng.uniform(-1, 1, 64).astype("f4"), rng.uniform(-1, 1, (32, 64)).astype("f4")
plain = x @ w.T

np.testing.assert_allclose(tessera.linear(x, w, bias, activation="relu"), np.maximum(plain + bias, 0), atol=1e-5)
got = tessera.gemm(x, w.T, d=[bias, gate], epilogue="bias,silu,mul")
z = plain + bias
np.testing.assert_allclose(got, z / (1 + np.exp(-z)) * gate, atol=1e-5)

# C = alpha A B + beta C, in place.
c = gate.copy()
tessera.gemm(x, w.T, c, alpha=0.5, beta=2)
np.testing.assert_allclose(c, 0.5 * plain + 2 * gate, atol=1e-5)

print("steps:", ", ".join(step["name"] for step in tessera.library()["epilogue_steps"]))
