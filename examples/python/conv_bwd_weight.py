"""The gradient of a convolution's filter, dense and depthwise, accumulated into what is there."""
import numpy as np

import tessera

rng = np.random.default_rng(3)
for groups, channels, outputs in ((1, 8, 12), (8, 8, 8)):
    x = rng.integers(-4, 5, (3, 10, 10, channels)).astype(np.float32)
    w = rng.integers(-4, 5, (outputs, 3, 3, channels // groups)).astype(np.float32)
    y = tessera.conv(x, w, padding=1, groups=groups)
    dy = rng.integers(-4, 5, y.shape).astype(np.float32)
    dw = tessera.conv_bwd_weight(dy, x, (3, 3), padding=1, groups=groups)
    left, right = float((y.astype("f8") * dy).sum()), float((w.astype("f8") * dw).sum())
    assert dw.shape == w.shape and left == right, (left, right)

    total = np.ones(w.shape, np.float32)
    tessera.conv_bwd_weight(dy, x, (3, 3), total, padding=1, groups=groups, beta=1)
    assert (total == dw + 1).all()
    print(f"bwd_weight: {groups} groups, {dw.shape}")
