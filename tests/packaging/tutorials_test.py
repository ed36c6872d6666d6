#!/usr/bin/env python3
"""tutorials_test.py ROOT BUILD_DIR: what the pages of docs/tutorials tell the reader to type works, in the order of the page.

A line **NAME** before a fenced block makes it the file NAME; blocks of sh are run by bash, each in the page's folder, with a
package installed from the build tree; what stands under <!-- needs MODULE --> only where Python has that module. python3 is
the interpreter that the Python tests run under (tests/python/runner.py).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from commands import run

FENCE = re.compile(r"(?:^\*\*(?P<file>[\w.]+)\*\*\n\n)?(?:^<!-- needs (?P<needs>\w+) -->\n)?"
                   r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M)


def has_module(name, environment):
    return subprocess.run(["python3", "-c", f"import {name}"], capture_output=True, env=environment).returncode == 0


def python_with_numpy():
    """The first of runner.py's interpreters that has numpy, or else the one of this script."""
    for python in (os.environ.get("TESSERA_PYTHON"), "/usr/bin/python3"):
        if python and pathlib.Path(python).exists() and \
                subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return sys.executable


def follow(page, folder, environment):
    """Does what the page says in `folder`; the number of commands run and the modules that were missing."""
    folder.mkdir()
    ran, missing = 0, set()
    for block in FENCE.finditer(page.read_text()):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
        elif block["language"] == "sh" and block["needs"] and not has_module(block["needs"], environment):
            missing.add(block["needs"])
        elif block["language"] == "sh":
            # What the page exports holds for the blocks after it, as in the reader's shell.
            script = f". ./.exported\nset -euo pipefail\n{block['text']}\nexport -p >.exported\n"
            (folder / ".exported").touch()
            run("bash", "-c", script.replace("\n! ", "\nnot "), cwd=folder,
                env=dict(environment, BASH_ENV=str(folder.parent / "not.sh")))
            ran += 1
    return ran, missing


def main():
    root, build = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        prefix = work / "prefix"
        run("cmake", "--install", build, "--prefix", prefix)
        # bash -e lets a negated command fail in silence; this does not.
        (work / "not.sh").write_text('not() { if "$@"; then echo "should have failed: $*" >&2; exit 1; fi; }\n')
        library = next(prefix.rglob("libtessera_c.so.1"))
        python = prefix / "bin" / "python3"
        python.write_text(f'#!/bin/sh\nexec "{python_with_numpy()}" "$@"\n')
        python.chmod(0o755)
        environment = dict(
            os.environ, PATH=f"{prefix / 'bin'}:{os.environ['PATH']}",
            LD_LIBRARY_PATH=str(library.parent), PKG_CONFIG_PATH=str(next(prefix.rglob("tessera.pc")).parent),
            PYTHONPATH=str(root / "python"), TESSERA_LIBRARY=str(library), TESSERA_CACHE_DIR=str(work / "cache"))
        for variable in ("TESSERA_DB", "TESSERA_PACK_PATH"):
            environment.pop(variable, None)
        pages = sorted((root / "docs/tutorials").glob("*.md"))
        for page in pages:
            ran, missing = follow(page, work / page.stem, environment)
            if not ran:
                sys.exit(f"failed: {page.name} has nothing to run")
            print(f"{page.name}: {ran} blocks run" + "".join(f"; not run: {m} is not installed" for m in sorted(missing)))
        if not pages:
            sys.exit("failed: there are no tutorials")


if __name__ == "__main__":
    main()
