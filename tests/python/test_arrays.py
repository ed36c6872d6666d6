"""Arrays of any kind, read where they lie."""
import array

import numpy as np
import pytest

import tessera
from conftest import OnCuda
from tessera import arrays

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def close(got, a, b):
    want = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    bound = 4e-7 * a.shape[-1] * np.abs(np.asarray(a, np.float64)) @ np.abs(np.asarray(b, np.float64))
    assert (np.abs(got - want) <= bound + 1e-12).all()


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (5, 7, 3), (64, 48, 80), (1, 33, 17), (33, 1, 17), (17, 33, 1)])
def test_layouts_are_read_from_strides(dispatcher, m, n, k):
    a, b = floats(m, k), floats(k, n)
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            close(tessera.gemm(x, y, dispatcher=dispatcher), a, b)


def test_views_with_leading_dimensions(dispatcher):
    big_a, big_b, big_c = floats(20, 40), floats(40, 50), np.full((20, 60), 7, np.float32)
    a, b, c = big_a[2:15, 3:30], big_b[5:32, 10:31], big_c[2:15, 4:25]
    assert tessera.gemm(a, b, c, dispatcher=dispatcher) is c
    close(c, a, b)
    c[:] = 7
    assert (big_c == 7).all()  # nothing beside it was written


def test_batches(dispatcher):
    a, b = floats(4, 9, 8), floats(4, 8, 7)
    for x, y in ((a, b), (a, b[0]), (a[0], b), (a[:1], b[:1])):
        got = tessera.gemm(x, y, dispatcher=dispatcher)
        want = np.matmul(x.astype(np.float64), y)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=1e-5)
    swapped = np.swapaxes(floats(8, 4, 9), 0, 1)  # batches interleaved in memory
    np.testing.assert_allclose(tessera.gemm(swapped, floats(4, 9, 3) * 0 + 1, dispatcher=dispatcher),
                               np.matmul(swapped, np.ones((4, 9, 3), np.float32)), atol=1e-5)


def test_alpha_beta_and_epilogue(dispatcher):
    a, b, bias, add = floats(6, 5), floats(5, 9), floats(9), floats(6, 9)
    out = floats(6, 9)
    before = out.copy()
    tessera.gemm(a, b, out, alpha=2, beta=0.5, dispatcher=dispatcher)
    np.testing.assert_allclose(out, 2 * (a @ b) + 0.5 * before, atol=1e-5)
    got = tessera.gemm(a, b, d=[bias, add], epilogue="bias,add,relu", dispatcher=dispatcher)
    np.testing.assert_allclose(got, np.maximum(a @ b + bias + add, 0), atol=1e-5)
    np.testing.assert_allclose(tessera.linear(a, np.ascontiguousarray(b.T), bias, activation="relu",
                                              dispatcher=dispatcher), np.maximum(a @ b + bias, 0), atol=1e-5)


def test_element_types(dispatcher):
    a8, b8 = RNG.integers(-128, 128, (9, 33)).astype(np.int8), RNG.integers(-128, 128, (33, 11)).astype(np.int8)
    got = tessera.gemm(a8, b8, dispatcher=dispatcher)
    assert got.dtype == np.int32 and (got == a8.astype(np.int32) @ b8.astype(np.int32)).all()
    u8 = RNG.integers(0, 256, (9, 33)).astype(np.uint8)
    assert (tessera.gemm(u8, b8, dispatcher=dispatcher) == u8.astype(np.int32) @ b8.astype(np.int32)).all()
    h = floats(8, 16).astype(np.float16)
    got = tessera.gemm(h, h.T, dispatcher=dispatcher)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, h.astype(np.float64) @ h.T, atol=0.02)


def bf16(x):
    """Integers from -8 to 8 are exact in bf16: the upper half of their float."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_types_that_numpy_lacks_are_named(dispatcher):
    a, b = RNG.integers(-8, 9, (6, 4)), RNG.integers(-8, 9, (4, 5))
    got = tessera.gemm(bf16(a), bf16(b), dtype="bf16", out_dtype="f32", dispatcher=dispatcher)
    assert got.dtype == np.float32 and (got == a @ b).all()
    out = np.zeros((6, 5), np.uint16)
    tessera.gemm(bf16(a), bf16(b), out, dtype="bf16", dispatcher=dispatcher)
    want = (a @ b).astype(np.float32)
    np.testing.assert_allclose((out.astype(np.uint32) << 16).view(np.float32), want, rtol=0.01)
    with pytest.raises(tessera.BadInput, match="say which type"):
        tessera.gemm(bf16(a), bf16(b), dispatcher=dispatcher)


def test_the_buffer_protocol_alone(dispatcher):
    a = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
    b = memoryview(bytes(array.array("f", range(6)))).cast("f", (3, 2))  # read-only memory is good for an input
    got = tessera.gemm(a, b, dispatcher=dispatcher)
    assert isinstance(got, memoryview) and got.tolist() == [[10, 13], [28, 40]]
    out = memoryview(bytearray(16)).cast("f", (2, 2))
    tessera.gemm(a, b, out, dispatcher=dispatcher)
    assert out.tolist() == got.tolist()


class OnlyDlpack:
    """An array of which nothing is known but __dlpack__."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.skipif(not hasattr(np.ndarray, "__dlpack__"), reason="this numpy has no DLPack")
def test_dlpack_alone(dispatcher):
    a, b, c = floats(5, 4), floats(6, 4).T, np.zeros((5, 6), np.float32)
    tessera.gemm(OnlyDlpack(a), OnlyDlpack(b), OnlyDlpack(c), dispatcher=dispatcher)
    close(c, a, b)
    with pytest.raises(tessera.BadInput, match="pass out="):
        tessera.gemm(OnlyDlpack(a), OnlyDlpack(b), dispatcher=dispatcher)


def test_an_array_of_another_device_is_refused(dispatcher):
    view = arrays.view(OnCuda())
    assert (view.device, view.shape, view.strides, view.address) == ("cuda:0", (4, 4), (4, 1), 4096)
    plan = dispatcher.get("gemm m=4 n=4 k=4 dtype=f32 layout=rrr")
    with pytest.raises(tessera.BadInput, match="lies on cuda:0"):
        plan(OnCuda(), floats(4, 4), floats(4, 4))


def test_the_stream_an_array_names_is_the_one_to_run_on():
    class Streamed(OnCuda):
        __cuda_array_interface__ = dict(OnCuda.__cuda_array_interface__, stream=7)

    assert arrays.current_stream(arrays.view(Streamed())) == 7
    assert arrays.current_stream(arrays.view(OnCuda())) == 0
    assert arrays.current_stream(arrays.view(floats(2, 2))) == 0


def test_nothing_is_copied():
    x = floats(3, 5)[:, 1:4]
    assert arrays.view(x).address == x.__array_interface__["data"][0]
    assert arrays.view(x).strides == (5, 1)


def test_an_exported_buffer_cannot_move():
    x = array.array("f", range(4))
    view = arrays.view(x)
    with pytest.raises(BufferError):
        x.append(1)
    del view
    x.append(1)


@pytest.mark.parametrize("make,match", [
    (lambda a, b: (a.astype(np.float64), b), r"a is float64, which Tessera .*; a.astype\('float32'\) converts it"),
    (lambda a, b: (a, np.ones((8, 7))), r"b is float64, which Tessera .*; b.astype\('float32'\) converts it"),
    (lambda a, b: (a.astype(">f4"), b), r"a is >f4, which Tessera .*; a.astype\('float32'\) converts it"),
    (lambda a, b: (a.astype(np.int64), b), "a is int64, which Tessera .*; convert it to float32, "),
    (lambda a, b: (a > 0, b), "a is bool, which"),
    (lambda a, b: (a.astype(np.complex64), b), "a is complex64, which"),
    (lambda a, b: (a.astype("M8[s]"), b), r"a is datetime64\[s\], which"),
    (lambda a, b: (memoryview(a.astype(np.float64)), b), "a has elements of format 'd', which Tessera .*; convert it to "),
    (lambda a, b: (a, b, np.zeros((6, 7))), "out is float64, which .*; allocate it as float32"),
    (lambda a, b: (a, b.astype(np.int8)), "mix"),
    (lambda a, b: (a, b[:-1]), "rows; they must agree"),
    (lambda a, b: (a[:, ::2], b[:4]), "contiguous"),
    (lambda a, b: (a[:, ::-1], b), "contiguous"),
    (lambda a, b: (a[0], b), "axes"),
    (lambda a, b: ([[1.0]], b), "no array"),
    (lambda a, b: (None, b), "no array"),
    (lambda a, b: (np.broadcast_to(a[:1], a.shape), b), "contiguous"),
    (lambda a, b: (np.stack([a] * 2), np.stack([b] * 3)), "2 matrices and b has 3"),
    (lambda a, b: (a[:0], b), "must be at least 1"),
])
def test_bad_arrays_are_refused(dispatcher, make, match):
    with pytest.raises(tessera.BadInput, match=match):
        tessera.gemm(*make(floats(6, 8), floats(8, 7)), dispatcher=dispatcher)


def test_bad_outputs_are_refused_untouched(dispatcher):
    a, b = floats(6, 8), floats(8, 7)
    read_only = np.zeros((6, 7), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(tessera.BadInput, match="read-only"):
        tessera.gemm(a, b, read_only, dispatcher=dispatcher)
    with pytest.raises(tessera.BadInput, match="out has shape"):
        tessera.gemm(a, b, np.zeros((7, 6), np.float32), dispatcher=dispatcher)
    with pytest.raises(tessera.BadInput, match="out has shape"):
        tessera.gemm(a, b, np.zeros((7, 6), np.float32).T, dispatcher=dispatcher)
    with pytest.raises(tessera.BadInput, match="integer output"):
        tessera.gemm(a, b, np.zeros((6, 7), np.int32), dispatcher=dispatcher)
    square = floats(6, 6)
    before = square.copy()
    with pytest.raises(tessera.BadInput, match="overlaps"):
        tessera.gemm(square, square.copy(), square, dispatcher=dispatcher)
    assert (square == before).all()


def test_beta_wants_something_to_scale(dispatcher):
    a, b = floats(4, 5), floats(5, 6)
    with pytest.raises(tessera.BadInput, match="no out to scale"):
        tessera.gemm(a, b, beta=1, dispatcher=dispatcher)
    close(tessera.gemm(a, b, beta=0, dispatcher=dispatcher), a, b)
    out = np.zeros((4, 6), np.float32)
    close(tessera.gemm(a, b, out, beta=1, dispatcher=dispatcher), a, b)
    x, w = floats(1, 5, 5, 8), floats(4, 3, 3, 8)
    with pytest.raises(tessera.BadInput, match="no out to scale"):
        tessera.conv(x, w, beta=0.5, dispatcher=dispatcher)
