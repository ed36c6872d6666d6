"""Several registries in one process: each restricts its own dispatcher, and they can be merged and filtered."""
import numpy as np

import tessera

PROBLEM = "gemm m=40 n=48 k=24 dtype=f32 layout=rrr"
a, b = np.ones((40, 24), np.float32), np.ones((24, 48), np.float32)

packed = tessera.Registry("packed", "any cpu_packed\n")
direct = tessera.Registry("direct", "any cpu_direct\n")
for registry in (packed, direct):
    with registry.build([PROBLEM], max_workers=1, threads=1) as dispatcher:
        plan = dispatcher.get(PROBLEM)
        assert plan.config.family == f"cpu_{registry.to_dict()['name']}" and (plan(a, b) == 24).all()
        print(registry, "->", plan.config)

both = tessera.Registry("both")
both.merge(packed)
both.add("cpu_direct", priority=5)  # preferred whatever the model says
both.merge(direct)                  # the same declaration with a lower priority changes nothing
assert len(both) == 2 and both.select(PROBLEM, threads=1).family == "cpu_direct"
assert both.filter(lambda declaration: declaration.priority < 5) == 1
assert both.select(PROBLEM, threads=1).family == "cpu_packed"
print(both)
