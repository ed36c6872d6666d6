"""What the Python tests share. They run from a build tree: TESSERA_LIBRARY, TESSERA_PROGRAM and TESSERA_C_PROGRAM name
what was built; without them those of build/release are used."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("TESSERA_LIBRARY", str(BUILD / "lib" / "libtessera_c.so.1"))
os.environ.setdefault("TESSERA_PROGRAM", str(BUILD / "bin" / "tessera"))
os.environ.setdefault("TESSERA_C_PROGRAM", str(BUILD / "bin" / "capi_program"))
os.environ["TESSERA_DB"] = "none"  # what its user has tuned is no part of a test

import tessera  # noqa: E402


@pytest.fixture(scope="session")
def dispatcher():
    with tessera.Dispatcher(threads=1) as d:
        yield d


class OnCuda:
    """What cupy shows of an array; its memory is never touched here."""
    __cuda_array_interface__ = {"shape": (4, 4), "typestr": "<f4", "data": (4096, False), "strides": None, "version": 3}


def case_lines(step=1):
    """Every step-th problem of the case lists, every one with TESSERA_WALK=all."""
    lines = []
    for path in sorted((ROOT / "tests" / "cases").glob("*.txt")):
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if line:
                lines.append(line)
    return lines[::1 if os.environ.get("TESSERA_WALK") == "all" else step]


@pytest.fixture
def python(tmp_path):
    """python(source, **environment): runs a script in a process of its own and returns what it prints."""
    def run(source, timeout=120, check=True, **environment):
        script = tmp_path / "script.py"
        script.write_text(source)
        # A background job of a shell is born deaf to SIGINT, and would pass that on.
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=timeout,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment})
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout if check else done
    return run
