"""A registry of kernels for convolutions, to JSON and back."""
import tessera

PROBLEM = "conv_fwd n=1 c=16 k=24 in=9x9 filter=3x3 pad=1x1 dtype=f32"

with tessera.Dispatcher(threads=1) as dispatcher:
    rows = dispatcher.explain(PROBLEM)["candidates"]
registry = tessera.Registry("convolutions")
for row in rows[-3:]:  # the three that the model likes least
    registry.add(row["config"], exact=True, dtype="f32")
text = registry.json(indent=2)
again = tessera.Registry.from_json(text)
assert again.declarations() == registry.declarations()
chosen = again.select(PROBLEM, threads=1)
assert chosen.text in {row["config"] for row in rows[-3:]}
with again.build([PROBLEM], max_workers=1, threads=1) as dispatcher:
    assert dispatcher.measure(PROBLEM, budget_ms=0)["config"] == chosen.text
print(f"{len(again)} declarations, chosen: {chosen}")
