"""The model's predictions beside measured times: how well it ranks the candidates of one problem here."""
import tessera

PROBLEM = "gemm m=96 n=112 k=80 dtype=f32 layout=rrr"

with tessera.Dispatcher(threads=1) as dispatcher:
    candidates = dispatcher.explain(PROBLEM)["candidates"]
    step = max(len(candidates) // 6, 1)
    rows = []
    for candidate in candidates[:1] + candidates[step::step][:5]:
        with tessera.Dispatcher(threads=1, config=candidate["config"]) as one:
            report = one.measure(PROBLEM, budget_ms=10)
        assert report["verified"]
        rows.append((candidate["predicted_us"], report["time_us"], candidate["config"]))
    for predicted, measured, config in rows:
        print(f"{predicted:8.2f} us predicted {measured:8.2f} us measured  {config}")
    fastest = min(measured for _, measured, _ in rows)
    print(f"the model's choice runs at {100 * fastest / rows[0][1]:.0f}% of the fastest of these")

# The k best predicted ones, timed once, the fastest kept. Until then the best predicted one serves.
with tessera.Dispatcher(threads=1, policy="model_topk", top_k=3, database="none") as dispatcher:
    first = dispatcher.get(PROBLEM)
    dispatcher.settle()
    plan = dispatcher.get(PROBLEM)
    assert (first.source, plan.source) == ("model", "measured")
    print("at once:", first.config)
    print("of the three best:", plan.config)
