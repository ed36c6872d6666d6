"""Forward convolution in two and three dimensions, channels last, with a fused bias and activation."""
import numpy as np

import tessera

rng = np.random.default_rng(1)

# A 3x3 filter over two images of 16 channels; the border is padded with zeros.
x = rng.integers(-4, 5, (2, 14, 14, 16)).astype(np.float32)
w = rng.integers(-4, 5, (24, 3, 3, 16)).astype(np.float32)
y = tessera.conv(x, w, padding=1)
big = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
exact = sum(big[:, i:i + 14, j:j + 14] @ w[:, i, j].T for i in range(3) for j in range(3))
assert y.shape == (2, 14, 14, 24) and (y == exact).all()

bias = rng.integers(-4, 5, 24).astype(np.float32)
assert (tessera.conv(x, w, padding=1, d=[bias], epilogue="bias,relu") == np.maximum(exact + bias, 0)).all()

# Video: a 3x1x1 filter over time.
x = rng.integers(-4, 5, (1, 8, 6, 6, 4)).astype(np.float32)
w = rng.integers(-4, 5, (5, 3, 1, 1, 4)).astype(np.float32)
y = tessera.conv(x, w, padding=(1, 0, 0))
big = np.pad(x, [(0, 0), (1, 1), (0, 0), (0, 0), (0, 0)])
assert (y == sum(big[:, i:i + 8] @ w[:, i, 0, 0].T for i in range(3))).all()
print("forward:", y.shape)
