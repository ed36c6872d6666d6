#!/usr/bin/env python3
"""guide_test.py ROOT BUILD_DIR CXX: the C++ blocks of docs/guide.md compile and run, and so do the Python blocks of docs/python.md.

What the text around a block speaks of without declaring it is given here. A Python block under <!-- needs MODULE --> is run only
where Python has that module, one under <!-- not run: WHY --> never.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from commands import run
from tutorials_test import python_with_numpy

FENCE = re.compile(r"(?:^<!-- (?P<mark>needs \w+|not run: [^>]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M)

CPP = """\
#include <tessera/dispatcher.h>
#include <tessera/kernel.h>
#include <tessera/problem.h>

#include <vector>

int main() {
  const tessera::Problem p = tessera::Problem::parse("gemm m=24 n=32 k=16 dtype=f32 epilogue=bias");
  std::vector<float> of_a(24 * 16, 1), of_b(16 * 32, 1), of_c(24 * 32), of_bias(32, 1);
  const void *a = of_a.data(), *b = of_b.data(), *bias = of_bias.data();
  void* c = of_c.data();
  tessera::Dispatcher dispatcher({.threads = 1});
  const tessera::Buffers buffers{.a = a, .b = b, .c = c, .d = {bias}};
  (void)p, (void)buffers;
BLOCKS
  return of_c[0] == 17 ? 0 : 1;  // 16 products and the bias
}
"""

PYTHON = """\
import numpy as np
import tessera
a, b, c = np.ones((64, 48), np.float32), np.ones((48, 80), np.float32), np.zeros((64, 80), np.float32)
x, w, bias = np.ones((2, 12, 12, 16), np.float32), np.ones((8, 3, 3, 4), np.float32), np.ones(8, np.float32)
dy = np.ones((2, 6, 6, 8), np.float32)
problems = ["gemm m=8 n=16 k=8 dtype=f32"]
"""
# Before the block that has these words.
PYTHON_THERE = {"layout=channels_first": """\
dispatcher = tessera.Dispatcher(threads=1)
x, w = np.ones((8, 1, 64, 56, 56), np.float32), np.ones((1, 128, 64, 3, 3), np.float32)
""", "tessera.torch.convert": """\
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
"""}

# After the block that has these words: what it says to be the same is.
CPP_THEN = {"tessera::Problem q;": "if (!(p == q)) return 2;\n", "tessera::Problem same;": "if (!(fwd == same)) return 3;\n"}


SKIPPED = 77  # as CTest is told


def blocks(page, language):
    found = [m for m in FENCE.finditer(page.read_text()) if m["language"] == language]
    if not found:
        sys.exit(f"failed: {page.name} has no block of {language}")
    return found


def guide(page, work, compiler, environment):
    """Each block in a scope of its own, all in one program."""
    texts = ["  {\n" + m["text"] + "".join(then for words, then in CPP_THEN.items() if words in m["text"]) + "  }"
             for m in blocks(page, "cpp")]
    source = work / "guide.cpp"
    source.write_text(CPP.replace("BLOCKS", "\n".join(texts)))
    flags = run("pkg-config", "--cflags", "--libs", "tessera", env=environment).split()
    run(compiler, "-std=c++20", "-Wno-unused", str(source), "-o", str(work / "guide"), *flags, env=environment)
    run("tessera", "pack", "create", "gemm m=24 n=32 k=16 dtype=f32", "--threads", "1", "--out", "mine.pack", cwd=work, env=environment)
    run(str(work / "guide"), cwd=work, env=environment)
    return len(texts)


def python(page, work, interpreter, environment):
    """All blocks in one module, as they follow each other; how many were run."""
    script, ran = PYTHON, 0
    for m in blocks(page, "python"):
        mark = m["mark"] or ""
        if mark.startswith("needs "):
            module = mark.split()[1]
            if subprocess.run([interpreter, "-c", f"import {module}"], capture_output=True).returncode != 0:
                print(f"{page.name}: not run: {module} is not installed")
                continue
        elif mark:
            continue
        script += "".join(given for words, given in PYTHON_THERE.items() if words in m["text"]) + m["text"]
        ran += 1
    (work / "page.py").write_text(script)
    run(interpreter, "page.py", cwd=work, env=environment)
    return ran


def main():
    root, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        prefix = work / "prefix"
        run("cmake", "--install", build, "--prefix", prefix)
        library = next(prefix.rglob("libtessera_c.so.1"))
        environment = dict(
            os.environ, PATH=f"{prefix / 'bin'}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(library.parent),
            PKG_CONFIG_PATH=str(next(prefix.rglob("tessera.pc")).parent), PYTHONPATH=str(root / "python"),
            TESSERA_LIBRARY=str(library), TESSERA_CACHE_DIR=str(work / "cache"))
        for variable in ("TESSERA_DB", "TESSERA_PACK_PATH"):
            environment.pop(variable, None)
        print(f"guide.md: {guide(root / 'docs/guide.md', work, sys.argv[3], environment)} blocks of C++")
        interpreter = python_with_numpy()
        if subprocess.run([interpreter, "-c", "import numpy"], capture_output=True).returncode != 0:
            print("python.md: not run: numpy is not installed")
            sys.exit(SKIPPED)
        print(f"python.md: {python(root / 'docs/python.md', work, interpreter, environment)} blocks of Python")


if __name__ == "__main__":
    main()
