"""The gradient of a convolution's input, strided and grouped; it is the forward pass's adjoint."""
import numpy as np

import tessera

rng = np.random.default_rng(2)
shape = dict(stride=2, padding=1, groups=2)
x = rng.integers(-4, 5, (2, 11, 11, 6)).astype(np.float32)
w = rng.integers(-4, 5, (8, 3, 3, 3)).astype(np.float32)
y = tessera.conv(x, w, **shape)
dy = rng.integers(-4, 5, y.shape).astype(np.float32)
dx = tessera.conv_bwd_data(dy, w, x.shape[1:3], **shape)

assert dx.shape == x.shape
left, right = float((y.astype("f8") * dy).sum()), float((x.astype("f8") * dx).sum())
assert left == right, (left, right)  # <conv(x), dy> = <x, conv'(dy)>
print("bwd_data:", dx.shape, left, right)
