"""torch operators: results and gradients are torch's, under autograd and torch.compile."""
import pytest

torch = pytest.importorskip("torch", minversion="2.4", reason="torch is not installed: nothing of tessera.torch is tested")

import tessera  # noqa: E402
import tessera.torch as tt  # noqa: E402

CONVOLUTIONS = [
    dict(x=(2, 5, 9), w=(7, 5, 3), padding=1),
    dict(x=(2, 6, 11, 9), w=(8, 6, 3, 3), stride=2, padding=1),
    dict(x=(1, 8, 7, 7), w=(12, 2, 3, 3), padding=1, dilation=2, groups=4),
    dict(x=(2, 6, 8, 8), w=(6, 1, 5, 5), padding=2, groups=6),
    dict(x=(1, 3, 4, 6, 5), w=(4, 3, 2, 3, 3), padding=(0, 1, 1), stride=(1, 2, 1)),
]


def same_gradients(ours, theirs, *inputs, tolerance=1e-4):
    results = []
    for function in (ours, theirs):
        leaves = [t.clone().requires_grad_() for t in inputs]
        y = function(*leaves)
        results.append([y, *torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum(), leaves)])
    for got, want in zip(*results):
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


def test_arrays_are_read_where_they_lie():
    x = torch.randn(4, 6)
    w = torch.randn(5, 6, requires_grad=True)
    torch.testing.assert_close(tessera.gemm(x, w.detach().t()), x @ w.detach().t())
    b = torch.randint(-4, 5, (6, 5)).bfloat16()
    got = tessera.gemm(x.round().bfloat16(), b)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), x.round() @ b.float(), rtol=0.01, atol=0.01)
    with pytest.raises(tessera.BadInput, match="sparse"):
        tessera.gemm(x.to_sparse(), b)
    with pytest.raises(tessera.BadInput, match=r"a is torch.float64, .*; a.to\(torch.float32\) converts it"):
        tessera.gemm(x.double(), b)
    with pytest.raises(tessera.BadInput, match="b is torch.int64, .*; convert it to float32, "):
        tessera.gemm(x, b.long())


def test_a_view_with_other_signs_is_refused():
    a = torch.randn(4, 4, dtype=torch.complex64).conj().imag
    assert a.is_neg()
    with pytest.raises(tessera.BadInput, match="resolve_neg"):
        tessera.gemm(a, torch.ones(4, 4))


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6), (6,)])
def test_linear(shape):
    same_gradients(tt.linear, torch.nn.functional.linear, torch.randn(shape), torch.randn(5, 6), torch.randn(5))


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: "x".join(map(str, c["x"])))
def test_conv(case):
    case = dict(case)
    x, w = torch.randn(case.pop("x")), torch.randn(case["w"])
    bias = torch.randn(case.pop("w")[0])
    theirs = getattr(torch.nn.functional, f"conv{x.dim() - 2}d")
    same_gradients(lambda *t: tt.conv(*t, **case), lambda *t: theirs(*t, **case), x, w, bias)


def test_operators_are_as_torch_wants_them():
    x, w, b = torch.randn(4, 6, requires_grad=True), torch.randn(5, 6, requires_grad=True), torch.randn(5)
    torch.library.opcheck(tt._linear, (x, w, b))
    x, w = torch.randn(1, 4, 6, 6, requires_grad=True), torch.randn(8, 2, 3, 3, requires_grad=True)
    torch.library.opcheck(tt._conv, (x, w, None, [1, 1], [1, 1], [1, 1], 2))


def block():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 6 * 6, 5))


def test_converted_modules_train_and_compile():
    theirs, ours = block(), tt.convert(block())
    assert type(ours[0]) is tt.Conv2d and type(ours[3]) is tt.Linear
    x = torch.randn(2, 3, 6, 6)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    for model in (ours, compiled):
        for p in (*theirs.parameters(), *ours.parameters()):
            p.grad = None
        theirs(x).square().sum().backward()
        model(x).square().sum().backward()
        for got, want in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(got.grad, want.grad, atol=1e-3, rtol=1e-3)
