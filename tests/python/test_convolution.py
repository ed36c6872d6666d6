"""Convolutions against sums written out in numpy."""
import itertools

import numpy as np
import pytest

import tessera

RNG = np.random.default_rng(9)

# spatial extents, filter, stride, padding (low, high), dilation, groups, c, k
CASES = [
    ((9,), (3,), (1,), ((1, 1),), (1,), 1, 5, 7),
    ((8, 9), (3, 3), (2, 1), ((1, 1), (0, 2)), (1, 2), 2, 3, 4),
    ((6, 6), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, 8, 16),
    ((7, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 6, 1, 2),
    ((4, 5, 6), (2, 3, 3), (1, 2, 1), ((0, 0), (1, 1), (1, 1)), (2, 1, 1), 1, 2, 3),
]


def integers(*shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def places(case):
    """Slices of the padded input that each filter element sees, and the extents of the output."""
    size, window, stride, pad, dilation = case[:5]
    outs = [(i + lo + hi - d * (f - 1) - 1) // s + 1 for i, f, s, (lo, hi), d in zip(size, window, stride, pad, dilation)]
    rows = []
    for at in itertools.product(*map(range, window)):
        rows.append((at, tuple(slice(d * j, d * j + s * (o - 1) + 1, s)
                               for j, d, s, o in zip(at, dilation, stride, outs))))
    return rows, outs


def padded(x, case):
    return np.pad(x, [(0, 0), *case[3], (0, 0), (0, 0)])


def forward(x, w, case):
    rows, outs = places(case)
    y = np.zeros((x.shape[0], *outs, w.shape[0], w.shape[1]))
    big = padded(x, case)
    for at, where in rows:
        y += np.einsum("n...gc,gkc->n...gk", big[(slice(None), *where)], w[(slice(None), slice(None), *at)])
    return y


def backward(dy, x, w, case):
    rows, _ = places(case)
    big, dw = padded(np.zeros(x.shape), case), np.zeros(w.shape)
    source = padded(x, case)
    for at, where in rows:
        big[(slice(None), *where)] += np.einsum("n...gk,gkc->n...gc", dy, w[(slice(None), slice(None), *at)])
        dw[(slice(None), slice(None), *at)] = np.einsum(
            "pgk,pgc->gkc", dy.reshape(-1, *dy.shape[-2:]), source[(slice(None), *where)].reshape(-1, *x.shape[-2:]))
    inner = tuple(slice(lo, lo + i) for (lo, _), i in zip(case[3], case[0]))
    return big[(slice(None), *inner)], dw


def data(case):
    size, window, _, _, _, g, c, k = case
    return integers(2, *size, g, c), integers(g, k, *window, c)


def joined(x, weight=False):
    """Without a group axis."""
    if weight:
        return np.ascontiguousarray(x).reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    return np.ascontiguousarray(x).reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def options(case):
    return dict(stride=case[2], padding=case[3], dilation=case[4])


@pytest.mark.parametrize("case", CASES)
def test_all_directions(dispatcher, case):
    x, w = data(case)
    g = case[5]
    y = forward(x, w, case)
    got = tessera.conv(x, w, groups=None, dispatcher=dispatcher, **options(case))
    assert got.shape == y.shape and (got == y).all()
    got = tessera.conv(joined(x), joined(w, True), groups=g, dispatcher=dispatcher, **options(case))
    assert got.shape == joined(y).shape and (got == joined(y)).all()
    dy = integers(*y.shape)
    dx, dw = backward(dy, x, w, case)
    got = tessera.conv_bwd_data(dy, w, case[0], groups=None, dispatcher=dispatcher, **options(case))
    assert got.shape == dx.shape and (got == dx).all()
    got = tessera.conv_bwd_weight(dy, x, case[1], groups=None, dispatcher=dispatcher, **options(case))
    assert got.shape == dw.shape and (got == dw).all()
    got = tessera.conv_bwd_weight(joined(dy), joined(x), case[1], groups=g, dispatcher=dispatcher, **options(case))
    assert (got == joined(dw, True)).all()


def test_gradient_of_the_bias(dispatcher):
    case = CASES[1]
    x, w = data(case)
    dy = integers(*forward(x, w, case).shape)
    dw, db = backward(dy, x, w, case)[1], dy.reshape(-1, dy.shape[-2] * dy.shape[-1]).sum(0)
    got = np.full(db.shape, np.nan, np.float32)
    assert (tessera.conv_bwd_weight(dy, x, case[1], groups=None, bias_grad=got, dispatcher=dispatcher,
                                    **options(case)) == dw).all()
    assert (got == db).all()
    got.flags.writeable = False
    with pytest.raises(tessera.BadInput, match="read-only"):
        tessera.conv_bwd_weight(dy, x, case[1], groups=None, bias_grad=got, dispatcher=dispatcher, **options(case))
    with pytest.raises(tessera.BadInput, match="bias_grad has shape"):
        tessera.conv_bwd_weight(dy, x, case[1], groups=None, bias_grad=np.zeros(3, np.float32), dispatcher=dispatcher,
                                **options(case))
    plan = dispatcher.get("conv_bwd_weight c=2 k=3 in=4 filter=1 dtype=f32 bias_grad=f32 layout=channels_first")
    dy, x, got = integers(1, 1, 3, 4), integers(1, 1, 2, 4), np.zeros(3, np.float32)
    assert (plan(dy, x, bias_grad=got)[0, :, :, 0] == np.einsum("kp,cp->kc", dy[0, 0], x[0, 0])).all()
    assert (got == dy[0, 0].sum(1)).all()
    with pytest.raises(tessera.BadInput, match="bias_grad is given exactly"):
        plan(dy, x)


def test_epilogue_and_output(dispatcher):
    case = CASES[1]
    x, w = data(case)
    bias = integers(8)
    y = joined(forward(x, w, case))
    out = np.empty(y.shape, np.float32)
    assert tessera.conv(joined(x), joined(w, True), out, groups=2, d=[bias], epilogue="bias,relu", dispatcher=dispatcher,
                        **options(case)) is out
    assert (out == np.maximum(y + bias, 0)).all()


@pytest.mark.parametrize("change,match", [
    (dict(x=np.zeros((2, 8, 9, 6), np.float64)), "x is float64"),
    (dict(x=np.zeros((2, 8, 9, 7), np.float32)), "x has 7 channels, w has 6"),
    (dict(x=np.zeros((2, 9, 8, 6), np.float32).swapaxes(1, 2)), "dense"),
    (dict(x=np.zeros((2, 6), np.float32)), "2 axes"),
    (dict(w=np.zeros((7, 3, 3, 3), np.float32)), "do not divide"),
    (dict(w=np.zeros((8, 30, 3, 3), np.float32)), "conv_fwd|filter"),
    (dict(stride=(1, 1, 1)), "3 values for 2 axes"),
    (dict(stride=0), "stride"),
    (dict(padding=-1), "pad"),
    (dict(out=np.zeros((1, 2), np.float32)), "axes"),
    (dict(out=np.zeros((2, 8, 9, 8), np.float32)), "out has shape"),
    (dict(d=[np.zeros(8, np.float32)]), "reads 0 arrays"),
])
def test_bad_arguments_are_refused(dispatcher, change, match):
    arguments = dict(x=np.zeros((2, 8, 9, 6), np.float32), w=np.zeros((8, 3, 3, 3), np.float32), groups=2)
    with pytest.raises(tessera.BadInput, match=match):
        tessera.conv(dispatcher=dispatcher, **{**arguments, **change})
