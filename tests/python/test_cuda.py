"""torch tensors on a CUDA device: read where they lie, on the stream that torch is using."""
import threading

import pytest

torch = pytest.importorskip("torch", minversion="2.4", reason="torch is not installed: nothing on a CUDA device is tested")
if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device: nothing on one is tested", allow_module_level=True)

import tessera  # noqa: E402
import tessera.torch as tt  # noqa: E402

CUDA = "cuda:0"


def integers(*shape, dtype=torch.bfloat16):
    return torch.randint(-4, 5, shape, device=CUDA).to(dtype)


@pytest.mark.parametrize("m, n, k", [(128, 256, 512), (7, 1024, 2048), (129, 65, 33), (64, 64, 8192), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_products_are_exact_on_integers(m, n, k, dtype):
    a, b = integers(m, k, dtype=dtype), integers(n, k, dtype=dtype)
    want = a.double() @ b.double().t()
    out = torch.full((m, n), float("nan"), device=CUDA, dtype=torch.float32)
    assert tessera.gemm(a, b.t(), out) is out
    assert torch.equal(out.double(), want)
    got = tessera.gemm(a, b.t())
    assert (got.dtype, got.device) == (dtype, a.device)
    assert torch.equal(got, want.to(dtype))


def test_layouts_and_batches():
    a, b = integers(3, 40, 64), integers(3, 64, 24)
    assert torch.equal(tessera.gemm(a, b).double(), a.double() @ b.double())
    a, b = integers(64, 40).t(), integers(64, 24)
    assert torch.equal(tessera.gemm(a, b).double(), a.double() @ b.double())


def test_steps_run_on_the_device():
    a, b, bias, more = integers(96, 64), integers(64, 48), integers(48), integers(96, 48)
    got = tessera.gemm(a, b, epilogue="bias,add,relu", d=(bias, more), out_dtype="f32")
    assert torch.equal(got, torch.relu(a.float() @ b.float() + bias.float() + more.float()))


def test_a_run_follows_what_is_on_torchs_stream():
    a, b = integers(512, 512), integers(512, 512)
    want = (a.double() @ b.double()).float()
    out = torch.empty(512, 512, device=CUDA)
    late_a, stream = torch.zeros_like(a), torch.cuda.Stream()
    tessera.gemm(late_a, b, out)  # compiled before anything is to be late
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        late_a.copy_(a)
        tessera.gemm(late_a, b, out)
        copied = out.clone()
    stream.synchronize()
    assert torch.equal(copied, want)


def test_a_run_can_be_captured():
    a, b = integers(256, 128), integers(128, 256)
    out = torch.zeros(256, 256, device=CUDA)
    tessera.gemm(a, b, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tessera.gemm(a, b, out)
    a.copy_(integers(256, 128))
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.double(), a.double() @ b.double())


def test_weights_are_packed_once():
    a, b = integers(70, 131), integers(33, 131)
    with tessera.Dispatcher(CUDA) as dispatcher:
        plan = dispatcher.get("gemm m=70 n=33 k=131 dtype=bf16 out=f32 prepack=b")
        packed = plan.pack_b(b.t())
        assert (packed.device, packed.numel()) == (b.device, plan.packed_b_bytes)
        want = (a.double() @ b.double().t()).float()
        for refused in (b, b.t().cpu()):
            with pytest.raises(tessera.BadInput, match="has shape|lies on cpu"):
                plan.pack_b(refused)
        spaced = plan.pack_b(torch.nn.functional.pad(b, (0, 5)).t(), ldb=136)
        b.zero_()
        assert torch.equal(plan(a, packed), want) and torch.equal(plan(a, spaced), want)
        with pytest.raises(tessera.BadInput, match="Plan.pack_b"):
            plan(a, b[:1])


def test_linear_layers_train():
    torch.manual_seed(1)
    theirs = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)).to(CUDA)
    ours = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)).to(CUDA)
    ours.load_state_dict(theirs.state_dict())
    ours = tt.convert(ours)
    x = torch.randn(48, 64, device=CUDA)
    for model in (theirs, ours):
        model(x).square().mean().backward()
    for got, want in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-5)


def test_cupy_arrays_on_cupys_stream():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: its arrays are not tested")
    a, b = cupy.random.randint(-4, 5, (256, 512)), cupy.random.randint(-4, 5, (512, 128))
    want = (a @ b).astype("f4")
    a, b = a.astype("f2"), b.astype("f2")
    late_a = cupy.zeros_like(a)
    out = tessera.gemm(late_a, b, out_dtype="f32")  # compiled before anything is to be late
    assert isinstance(out, cupy.ndarray) and not out.any()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        filler = cupy.ones((4096, 4096), "f4")
        for _ in range(40):
            filler = filler @ filler * 1e-4
        late_a[...] = a
        got = tessera.gemm(late_a, b, out_dtype="f32")
        equal = (got == want).all()
    stream.synchronize()
    assert equal


def test_two_gpus_at_once():
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device: nothing on a second one is tested")
    wrong = []

    def work(device):
        for i in range(20):
            a = torch.randint(-4, 5, (64 + i, 256), device=device).bfloat16()
            b = torch.randint(-4, 5, (256, 192), device=device).bfloat16()
            got = tessera.gemm(a, b, out_dtype="f32")
            if got.device != a.device or not torch.equal(got.double(), a.double() @ b.double()):
                wrong.append((device, i))

    threads = [threading.Thread(target=work, args=(f"cuda:{i % 2}",)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    a, b = integers(16, 16), integers(16, 16)
    with pytest.raises(tessera.BadInput, match="lies on cuda:1"):
        tessera.gemm(a, b.to("cuda:1"))
    plan = tessera.Dispatcher("cuda:0").get("gemm m=16 n=16 k=16 dtype=bf16 layout=rrr")
    with pytest.raises(tessera.Error, match="cuda|device"):
        plan(a.to("cuda:1"), b.to("cuda:1"))
    assert torch.equal(tessera.gemm(a, b).double(), a.double() @ b.double())


def test_arrays_of_two_devices_are_refused():
    a, b = integers(16, 16), integers(16, 16)
    with pytest.raises(tessera.BadInput, match="lies on cpu"):
        tessera.gemm(a, b.cpu())
    assert torch.equal(tessera.gemm(a, b).double(), a.double() @ b.double())
