"""How the model ranks the kernels of one convolution, beside what they measure."""
import tessera

PROBLEM = "conv_fwd n=1 c=32 k=48 in=12x12 filter=3x3 pad=1x1 dtype=f32"

with tessera.Dispatcher(threads=1) as dispatcher:
    rows = dispatcher.explain(PROBLEM)["candidates"]
measured = []
for row in rows[:1] + rows[len(rows) // 3::max(len(rows) // 3, 1)][:3]:
    with tessera.Dispatcher(threads=1, config=row["config"]) as one:
        report = one.measure(PROBLEM, budget_ms=5)
    assert report["verified"]
    measured.append(report["time_us"])
    print(f"{row['predicted_us']:9.1f} us predicted {report['time_us']:9.1f} us measured  {row['config']}")
print(f"the model's choice runs at {100 * min(measured) / measured[0]:.0f}% of the fastest of these")
