"""A registry to JSON and back: the same kernels are declared, and the same is chosen."""
import json

import tessera

PROBLEM = "gemm m=64 n=96 k=128 dtype=f32"

registry = tessera.Registry("mine")
registry.add("cpu_packed tile=*x32", dtype="f32", priority=1)
registry.add("cpu_direct", layout="r*r")
registry.add("cpu_dot", arch="x86_*")

text = registry.json(indent=2)
print(text)
statistics = json.loads(text)["statistics"]
assert statistics["total"] == 3 and statistics["family"]["cpu_packed"] == 1

again = tessera.Registry.from_json(text)
assert again.declarations() == registry.declarations()
assert again.select(PROBLEM, threads=1) == registry.select(PROBLEM, threads=1)
print("chosen:", again.select(PROBLEM, threads=1))
