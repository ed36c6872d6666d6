"""Batches: strided, interleaved in memory, and one matrix shared by all."""
import numpy as np

import tessera

rng = np.random.default_rng(2)
a = rng.uniform(-1, 1, (6, 20, 32)).astype(np.float32)
b = rng.uniform(-1, 1, (6, 32, 24)).astype(np.float32)

np.testing.assert_allclose(tessera.gemm(a, b), np.matmul(a, b), atol=1e-5)
np.testing.assert_allclose(tessera.gemm(a, b[0]), np.matmul(a, b[0]), atol=1e-5)

# Attention keeps (sequence, heads, channels): one head's matrix has its rows far apart, which a leading dimension says.
q = rng.uniform(-1, 1, (20, 6, 32)).astype(np.float32)
k = rng.uniform(-1, 1, (20, 6, 32)).astype(np.float32)
scores = tessera.gemm(q.transpose(1, 0, 2), k.transpose(1, 2, 0), alpha=32 ** -0.5)
np.testing.assert_allclose(scores, np.einsum("shc,thc->hst", q, k) * 32 ** -0.5, atol=1e-5)
print("batches of", scores.shape)
