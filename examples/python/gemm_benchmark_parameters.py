"""What a measurement can be told: seed, kind of data, time spent, cold caches, threads, whether to verify."""
import tessera

PROBLEM = "gemm m=128 n=128 k=128 dtype=bf16 out=f32"

with tessera.Dispatcher(threads=1) as dispatcher:
    for options in ({"budget_ms": 5}, {"budget_ms": 20}, {"budget_ms": 5, "cold": True},
                    {"budget_ms": 5, "integers": True}, {"budget_ms": 0}, {"budget_ms": 5, "verify": False}):
        r = dispatcher.measure(PROBLEM, **options)
        assert r["verified"] is (True if options.get("verify", True) else None)
        error = f"error {r['max_err']:.2g} of {r['bound']:.2g}" if r["verified"] else "not verified"
        print(f"{r['time_us']:8.2f} us {r['gflops']:8.1f} GFLOP/s  {error}  {options}")
    one, other = (dispatcher.measure(PROBLEM, seed=seed, budget_ms=0) for seed in (1, 2))
    assert one["checksum"] != other["checksum"]
    assert one["checksum"] == dispatcher.measure(PROBLEM, seed=1, budget_ms=0)["checksum"]

for threads in (1, 2):
    with tessera.Dispatcher(threads=threads) as dispatcher:
        assert dispatcher.measure(PROBLEM, budget_ms=5, integers=True)["verified"]
