"""Random configurations: illegal ones are corrected to the nearest legal one, which then has to compute right."""
import numpy as np

import tessera

PROBLEM = "gemm m=61 n=75 k=33 dtype=f32 layout=rrr"
rng = np.random.default_rng(6)
a, b = rng.integers(-4, 5, (61, 33)).astype("f4"), rng.integers(-4, 5, (33, 75)).astype("f4")
corrected = ran = 0

with tessera.Dispatcher(threads=1) as dispatcher:
    families = ["cpu_packed", "cpu_direct"]
    for _ in range(12):
        text = f"{rng.choice(families)} tile={rng.integers(1, 20)}x{16 * rng.integers(1, 7)} inst=1x16x1"
        answer = dispatcher.correct(PROBLEM, text)
        if not answer["legal"]:
            corrected += 1
            print(f"{text}\n  {answer['rule']}: {answer['reason']}\n  -> {answer['suggestion']}")
            if answer["suggestion"] is None:
                continue
        with tessera.Dispatcher(threads=1, config=answer["suggestion"] or text) as one:
            assert (one.run(PROBLEM, a, b) == a @ b).all()  # integers: exact
            ran += 1
print(f"{ran} ran, {corrected} had been corrected")
assert ran
