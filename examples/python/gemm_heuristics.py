"""Heuristics of one's own: a function orders the candidates; it may read their knobs and their predicted times."""
import numpy as np

import tessera

PROBLEM = "gemm m=16 n=32 k=8 dtype=f32 layout=rrr"
a, b = np.ones((16, 8), np.float32), np.ones((8, 32), np.float32)


def narrowest_tile(problem, candidates):
    widths = [tessera.KernelConfig(config).tile_n or 10 ** 6 for config, _ in candidates]
    return sorted(range(len(candidates)), key=widths.__getitem__)


def fastest_without_packing(problem, candidates):
    plain = [i for i, (config, _) in enumerate(candidates) if not config.startswith("cpu_packed")]
    return sorted(plain, key=lambda i: candidates[i][1])


def none(problem, candidates):
    return []


for heuristic in (narrowest_tile, fastest_without_packing):
    with tessera.Dispatcher(threads=1, rank=heuristic) as dispatcher:
        plan = dispatcher.get(PROBLEM)
        assert (plan(a, b) == 8).all() and plan.info()["source"] == "callback"
        print(f"{heuristic.__name__:24} {plan.config}")

with tessera.Dispatcher(threads=1, rank=none) as dispatcher:
    try:
        dispatcher.get(PROBLEM)
        raise SystemExit("an empty answer is an error")
    except tessera.Unsupported as e:
        print("none:", e)
