"""Plans: which memory they run on and pack from."""
import numpy as np
import pytest

import tessera
from conftest import OnCuda

PROBLEM = "gemm m=33 n=20 k=17 dtype=f32 layout=rrr"
RNG = np.random.default_rng(7)


def operands():
    return np.ones((33, 17), np.float32), np.full((17, 20), 2, np.float32), np.zeros((33, 20), np.float32)


def integers(*shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def test_a_plan_runs(dispatcher):
    a, b, c = operands()
    plan = dispatcher.get(PROBLEM)
    assert plan(a, b, c) is c and (c == 34).all()
    call = plan.bind(a, b)
    call.out[:] = 0
    assert (call() == 34).all()
    assert dispatcher.get(PROBLEM) is plan
    assert (dispatcher.run(PROBLEM, a.ravel(), b, alpha=2) == 68).all()
    assert plan.info()["source"] == "model" and plan.config.family.startswith("cpu_")


def test_a_plan_refuses_what_does_not_fit(dispatcher):
    a, b, c = operands()
    plan = dispatcher.get(PROBLEM)
    for arguments, match in (((a[:-1], b), "has shape"), ((a, b.T), "has shape"), ((a, b.astype("f8")), "b is float64"),
                             ((a, b, c[:, ::2]), "has shape"), ((a, b, c, [c]), "0 D tensors"),
                             ((a.astype(np.int8), b), "type i8, not f32")):
        with pytest.raises(tessera.BadInput, match=match):
            plan(*arguments)


def test_packed_b(dispatcher):
    a, b, c = operands()
    plan = dispatcher.get(PROBLEM + " prepack=b")
    packed = plan.pack_b(b)
    assert packed.nbytes == plan.packed_b_bytes
    assert (plan(a, packed) == 34).all()
    with pytest.raises(tessera.BadInput, match="Plan.pack_b"):
        plan(a, b[:1])
    with pytest.raises(tessera.BadInput, match="not packed by pack_b"):
        plan(a, np.zeros_like(packed))
    with pytest.raises(tessera.Unsupported):
        dispatcher.get(PROBLEM).pack_b(b)


def packing(dispatcher):
    """Plans for B by rows, by columns, in a batch and shared by one, their operands, and a convolution's plan and filter."""
    rows, columns, several, shared = (
        dispatcher.get(f"gemm m=33 n=20 k=17 dtype=f32 prepack=b {words}")
        for words in ("layout=rrr", "layout=rcr", "layout=rrr batch=3", "layout=rrr batch=3 stride_b=0"))
    filters = dispatcher.get("conv_fwd c=2 k=4 in=5x5 filter=3x3 dtype=f32 prepack=b")
    return (rows, columns, several, shared, integers(33, 17), integers(17, 32), integers(20, 24), integers(3, 17, 32),
            filters, integers(1, 4, 3, 3, 2))


def test_b_is_packed_from_where_it_lies(dispatcher):
    rows, columns, several, shared, a, wide, tall, batch, filters, w = packing(dispatcher)
    b, flat, stacked = wide[:, :20], wide.ravel(), np.stack([a] * 3)
    for plan, given, ldb, want in (
            (rows, b.copy(), None, a @ b), (rows, b.copy().ravel(), None, a @ b), (rows, wide, 32, a @ b),
            (rows, b, 32, a @ b), (rows, flat, 32, a @ b), (rows, flat[:16 * 32 + 20], 32, a @ b),
            (columns, np.asfortranarray(b), None, a @ b), (columns, tall.T, 24, a @ tall.T[:17]),
            (columns, tall.T[:17], 24, a @ tall.T[:17]), (columns, tall.ravel(), 24, a @ tall.T[:17]),
            (several, batch[..., :20].copy(), None, a @ batch[..., :20]), (several, batch, 32, a @ batch[..., :20]),
            (shared, b.copy(), None, stacked @ b), (shared, wide, 32, stacked @ b),
            (shared, np.broadcast_to(b.copy(), (3, 17, 20)), None, stacked @ b)):
        packed = plan.pack_b(given, ldb)
        assert (plan(stacked if want.ndim == 3 else a, packed) == want).all()
    x = integers(1, 5, 5, 1, 2)
    assert (filters(x, filters.pack_b(w)) == dispatcher.get(filters.problem.replace(prepack=None))(x, w)).all()


def test_what_b_cannot_be_packed_from_is_refused(dispatcher):
    rows, columns, several, _, _, wide, tall, batch, filters, w = packing(dispatcher)
    b, flat = wide[:, :20], wide.ravel()
    for plan, given, ldb, match in (
            (rows, wide[:, :20], None, "has shape"), (rows, np.repeat(b, 2, 1)[:, ::2], None, "has shape"),
            (rows, np.asfortranarray(b), None, "has shape"), (rows, b.copy()[::-1], None, "has shape"),
            (rows, b[0], None, "has shape"), (rows, flat, None, "has shape"), (rows, wide, None, "has shape"),
            (rows, b.copy()[:1], 20, "by ldb=20"), (rows, b.copy(), 32, "by ldb=32"), (rows, wide, 31, "by ldb=31"),
            (rows, wide[:16], 32, "by ldb=32"), (rows, flat[:16 * 32 + 19], 32, "by ldb=32"), (rows, b[::-1], 32, "ldb"),
            (rows, np.asfortranarray(wide), 32, "by ldb=32"), (rows, b.copy(), 19, "a line of b has 20 elements"),
            (rows, b.copy(), -1, "a line of b"), (rows, wide, 1 << 62, "by ldb"), (columns, b.copy(), None, "has shape"),
            (columns, tall[:17], 24, "by ldb=24"), (several, batch[:2], 32, "by ldb=32"),
            (several, wide, 32, "by ldb=32"), (several, np.concatenate([batch, batch], 1), 32, "by ldb=32"),
            (several, batch.ravel()[:-13], 32, "by ldb=32"), (filters, w, 18, "no leading dimension"),
            (filters, w[..., ::-1], None, "has shape"), (rows, OnCuda(), None, "b lies on cuda:0"),
            (rows, OnCuda(), 20, "b lies on cuda:0"), (rows, b.astype(np.int8), None, "i8")):
        with pytest.raises(tessera.BadInput, match=match):
            plan.pack_b(given, ldb)


def test_a_workspace_is_as_the_kernel_needs_it(dispatcher):
    plan = dispatcher.get("conv_fwd c=2 k=3 in=4 filter=1 dtype=f32 layout=channels_first")  # brings channels last there
    x, w, need = integers(1, 1, 2, 4), integers(1, 3, 2, 1), plan.workspace_bytes
    memory = np.full(2 * need + 64, 7, np.uint8)
    memory = memory[-memory.ctypes.data % 64:][:2 * need]
    whole, locked = memory[:need], memory[:need].view()
    locked.flags.writeable = False
    out = plan(x, w)
    assert need > 0 and (out[0, 0] == w[0, :, :, 0] @ x[0, 0]).all()
    before = out.copy()
    for bad, match in ((whole[:-1], "at least workspace_bytes"), (np.zeros(0, np.uint8), "at least workspace_bytes"),
                       (memory[1:], "multiple of 64"), (memory[::2], "not in one piece"), (locked, "read-only"),
                       (whole[::-1], "not in one piece"), (bytes(need), "read-only"),
                       (memory.view(np.uint16)[:8], "at least workspace_bytes"), (OnCuda(), "workspace lies on cuda:0"),
                       (memory[:need // 8 * 8].view("f8"), "workspace is float64"), ([0] * need, "no array")):
        for run in (plan, plan.bind):
            with pytest.raises(tessera.BadInput, match=match):
                run(x + 1, w, out, workspace=bad)
    assert (memory == 7).all() and (out == before).all()
    out[:] = 0
    for good in (whole, memory.view(np.uint16), whole.reshape(1, need, 1)):
        assert (plan(x, w, out, workspace=good) == before).all()
    assert (memory != 7).any()
