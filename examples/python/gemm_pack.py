"""Kernels built beforehand into one file, and used in a process that has no compiler."""
import os
import pathlib
import subprocess
import sys
import tempfile

import tessera

PROBLEMS = [f"gemm m={m} n=40 k=24 dtype=f16 layout=rrr" for m in (8, 24)]
USER = """
import sys, tessera
with tessera.Dispatcher(threads=1, packs=[sys.argv[1]], cache_dir=sys.argv[2]) as dispatcher:
    for problem in sys.argv[3:]:
        report = dispatcher.measure(problem, budget_ms=0)
        assert report["verified"] and dispatcher.get(problem).info()["build"]["from"] in ("pack", "memory"), report
        print(report["config"])
"""

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "some.pack"
    facts = tessera.create_pack(path, PROBLEMS, threads=1, progress=lambda done, total, what: print(done, total, what))
    print(facts)
    subprocess.run([sys.executable, "-c", USER, str(path), folder + "/cache", *PROBLEMS], check=True,
                   env={**os.environ, "TESSERA_CXX": "/nonexistent"})
