"""numpy arrays as they lie: views, transposes, slices, other element types; nothing is copied."""
import numpy as np

import tessera

rng = np.random.default_rng(4)
big = rng.uniform(-1, 1, (100, 100)).astype(np.float32)
a, b = big[3:40, 5:70], big[10:75, 20:51]  # leading dimension 100
out = np.zeros((37, 40), np.float32)[:, :31]
assert tessera.gemm(a, b, out) is out
np.testing.assert_allclose(out, a @ b, atol=1e-5)
np.testing.assert_allclose(tessera.gemm(b.T, a.T), (a @ b).T, atol=1e-5)  # both column-major

i8 = rng.integers(-100, 100, (16, 40)).astype(np.int8)
assert (tessera.gemm(i8, i8.T) == i8.astype(np.int32) @ i8.T.astype(np.int32)).all()

# numpy has no bf16: its integers hold the bits, and dtype says so.
bits = (rng.integers(-8, 9, (12, 12)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
values = (bits.astype(np.uint32) << 16).view(np.float32)
assert (tessera.gemm(bits, bits, dtype="bf16", out_dtype="f32") == values @ values).all()

for bad in (a.astype(np.float64), a[:, ::2], a[::, ::-1]):
    try:
        tessera.gemm(bad, b)
        raise SystemExit("was not refused")
    except tessera.BadInput as e:
        print("refused:", e)
