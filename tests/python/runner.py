#!/usr/bin/env python3
"""runner.py SCRIPT: a pytest file or an example under an interpreter that has what it needs.

That is the first of TESSERA_PYTHON, the system's python3 and this one that can import numpy (and pytest). Exits 77,
which ctest shows as skipped, where none can, and where an example or every test of a file says that something is missing.
"""
import os
import re
import subprocess
import sys

SKIPPED = 77


def able(python, modules):
    try:
        return subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0
    except OSError:
        return False


def main():
    script = sys.argv[1]
    is_test = os.path.basename(script).startswith("test_")
    modules = ["numpy", "pytest"] if is_test else ["numpy"]
    if "torch" in os.path.basename(script):
        modules.append("torch")
    for python in (os.environ.get("TESSERA_PYTHON"), "/usr/bin/python3", sys.executable):
        if python and able(python, modules):
            break
    else:
        print(f"skipped: no Python here has {', '.join(modules)}; TESSERA_PYTHON may name one, ./dev deps test installs "
              "all but torch")
        return SKIPPED
    if not is_test:
        return subprocess.run([python, script]).returncode
    done = subprocess.run([python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", script], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if done.returncode == 0 and not re.search(r"\d+ passed", summary):
        return SKIPPED
    return SKIPPED if done.returncode == 5 else done.returncode  # 5: no test was collected


if __name__ == "__main__":
    sys.exit(main())
