"""Calls on numpy arrays like those of an earlier call: as good as the first, as wary as the first, and cheaper."""
import sys
import threading
import timeit

import numpy as np
import pytest

import tessera
from tessera import arrays, calls

RNG = np.random.default_rng(11)
SMALL = "gemm m=4 n=16 k=4 dtype=f32 layout=rrr"

needs_cpython = pytest.mark.skipif(sys.implementation.name != "cpython", reason="reads numpy's objects as CPython has them")


def floats(*shape):
    return RNG.integers(-8, 9, shape).astype(np.float32)


@pytest.fixture
def fresh():
    with tessera.Dispatcher(threads=1) as d:
        yield d


def uses(dispatcher):
    """What can be called and its reference: functions that make fresh arrays each time."""
    plan = dispatcher.get(SMALL)
    biased = dispatcher.get("gemm m=4 n=16 k=4 dtype=f32 layout=rrr epilogue=bias")

    def conv_reference(x, w):
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return sum(padded[:, i:i + 5, j:j + 5] @ w[:, i, j].T for i in range(3) for j in range(3))

    def make(function, reference, *shapes):
        return lambda: (function, reference, [floats(*s) for s in shapes])

    return {
        "plan": make(plan, lambda a, b: a @ b, (4, 4), (4, 16)),
        "plan with out": make(lambda a, b: plan(a, b, np.full((4, 16), 7, "f4")), lambda a, b: a @ b, (4, 4), (4, 16)),
        "plan with d": make(lambda a, b, c: biased(a, b, d=[c]), lambda a, b, c: a @ b + c, (4, 4), (4, 16), (16,)),
        "gemm": make(lambda a, b: tessera.gemm(a, b, dispatcher=dispatcher), lambda a, b: a @ b, (3, 5), (5, 7)),
        "gemm of a batch": make(lambda a, b: tessera.gemm(a, b, dispatcher=dispatcher), lambda a, b: a @ b, (2, 3, 5),
                                (2, 5, 7)),
        "gemm of a view": make(lambda a, b: tessera.gemm(a[1:, :4], b.T, dispatcher=dispatcher),
                               lambda a, b: a[1:, :4] @ b.T, (5, 6), (9, 4)),
        "gemm with d": make(lambda a, b, c: tessera.gemm(a, b, d=(c,), epilogue="add", dispatcher=dispatcher),
                            lambda a, b, c: a @ b + c, (3, 5), (5, 7), (3, 7)),
        "linear": make(lambda x, w, c: tessera.linear(x, w, c, dispatcher=dispatcher), lambda x, w, c: x @ w.T + c,
                       (3, 5), (7, 5), (7,)),
        "conv": make(lambda x, w: tessera.conv(x, w, padding=1, dispatcher=dispatcher), conv_reference, (2, 5, 5, 4),
                     (6, 3, 3, 4)),
        "conv with lists": make(lambda x, w: tessera.conv(x, w, padding=[1, 1], dispatcher=dispatcher), conv_reference,
                                (2, 5, 5, 4), (6, 3, 3, 4)),
    }


def test_every_call_computes_with_its_own_arrays(fresh):
    for name, make in uses(fresh).items():
        for _ in range(4):
            function, reference, given = make()
            assert (function(*given) == reference(*given)).all(), name


@needs_cpython
def test_a_repeated_call_is_not_examined_again(fresh, monkeypatch):
    made = uses(fresh)
    for make in made.values():
        function, _, given = make()
        function(*given)

    def refuse(*_):
        raise AssertionError("examined")

    monkeypatch.setattr(arrays, "untyped", refuse)
    for name, make in made.items():
        function, reference, given = make()
        if name == "conv with lists":  # lists are no key
            continue
        assert (function(*given) == reference(*given)).all(), name
    with pytest.raises(AssertionError, match="examined"):  # other strides are another call
        tessera.gemm(np.asfortranarray(floats(3, 5)), floats(5, 7), dispatcher=fresh)


def test_what_differs_is_refused_as_at_first(fresh):
    plan = fresh.get(SMALL)
    a, b, out = floats(4, 4), floats(4, 16), np.zeros((4, 16), np.float32)
    for run in (plan, lambda a, b, out=None: tessera.gemm(a, b, out, dispatcher=fresh)):
        run(a, b, out)
        run(a, b)
        locked = np.full((4, 16), 7, np.float32)
        locked.flags.writeable = False
        with pytest.raises(tessera.BadInput, match="read-only"):
            run(a, b, locked)
        assert (locked == 7).all()
        with pytest.raises(tessera.BadInput, match="overlaps"):
            run(a, out, out)
        skewed = np.zeros(4 * 16 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 16)
        with pytest.raises(tessera.BadInput, match="align"):
            run(a, b, skewed)
        with pytest.raises(tessera.BadInput, match="align"):
            run(a, skewed, out)
        for bad in (b.astype(np.float64), b.astype(">f4"), b[:3], b[:, ::-1], b.tolist(), None):
            with pytest.raises(tessera.BadInput):
                run(a, bad, out)
        with pytest.raises(tessera.BadInput):
            run(a, b, np.zeros((16, 4), np.float32))
        with pytest.raises(tessera.BadInput):
            run(a, b, np.zeros((4, 16), np.int32))
        b.flags.writeable = False  # an input may be
        assert (run(a, b, out) == a @ b).all()


def test_after_close_a_remembered_call_says_so(fresh):
    plan = fresh.get(SMALL)
    a, b = floats(4, 4), floats(4, 16)
    plan(a, b)
    fresh.close()
    with pytest.raises(tessera.BadInput, match="closed"):
        plan(a, b)


def test_types_are_told_apart_by_what_they_are_said_to_hold(fresh):
    one = np.full((2, 2), 0x3F80, np.uint16)  # 1.0 in bf16
    assert (tessera.gemm(one, one, dtype="bf16", out_dtype="f32", dispatcher=fresh) == 2).all()
    with pytest.raises(tessera.BadInput, match="say which type"):
        tessera.gemm(one, one, out_dtype="f32", dispatcher=fresh)


def test_threads_do_not_share_a_call_under_way(fresh):
    plan = fresh.get("gemm m=16 n=16 k=64 dtype=f32 layout=rrr")
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            a, b = rng.integers(-4, 5, (16, 64)).astype("f4"), rng.integers(-4, 5, (64, 16)).astype("f4")
            if not (plan(a, b) == a @ b).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_table_of_calls_does_not_grow_without_end(fresh, monkeypatch):
    monkeypatch.setattr(calls, "MOST", 3)
    for m in range(1, 9):
        tessera.gemm(floats(m, 4), floats(4, 4), dispatcher=fresh)
    assert 0 < len(fresh._calls) <= 3


@needs_cpython
def test_the_price_of_fresh_arrays(fresh):
    plan = fresh.get(SMALL)
    a, b, out = floats(4, 4), floats(4, 16), np.zeros((4, 16), np.float32)

    def us(function):
        return min(timeit.repeat(function, number=500, repeat=60)) / 500 * 1e6

    known = us(lambda: plan(a, b, out))
    options = us(lambda: plan(a, b, out, alpha=1))  # examined each time
    print(f"fresh arrays {known:.2f} us, examined {options:.2f} us, bound {us(plan.bind(a, b, out)):.2f} us")
    assert known < options / 2
