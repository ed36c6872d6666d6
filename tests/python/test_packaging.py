"""The wheel: what is in it, and that any CPython runs it."""
import ast
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import tessera
from conftest import ROOT

SCRIPT = """
import array, sys, tessera
a = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
b = memoryview(array.array("f", range(6))).cast("B").cast("f", (3, 2))
with tessera.Dispatcher(threads=1) as d:
    assert tessera.gemm(a, b, dispatcher=d).tolist() == [[10, 13], [28, 40]]
    for use in (lambda: d.get("gemm m=1"), lambda: tessera.gemm(a, a, dispatcher=d)):
        try:
            use()
            raise SystemExit("not refused")
        except tessera.BadInput as e:
            pass
made = tessera.tune(["gemm m=8 n=8 k=8 dtype=f32"], database=sys.argv[1] + "/db", threads=1, candidates="guided:1",
                    budget_ms=1)
assert made["decisions"]  # measured in processes of the wheel's own program
assert tessera.__file__.startswith(sys.argv[1]), tessera.__file__
print("ok", tessera.version())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    library = pathlib.Path(os.environ["TESSERA_LIBRARY"])
    build = library.resolve().parents[1]
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([sys.executable, "-c", f"import wheel; print(wheel.build_wheel({str(folder)!r}))"],
                          capture_output=True, text=True, timeout=500,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python" / "packaging"),
                               "TESSERA_BUILD_DIR": str(build)})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / done.stdout.splitlines()[-1]


def test_the_wheel_is_whole(wheel):
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        assert {"tessera/__init__.py", "tessera/__init__.pyi", "tessera/py.typed", "tessera/lib/libtessera_c.so.1",
                "tessera/bin/tessera"} <= names
        record = next(n for n in names if n.endswith("/RECORD"))
        rows = [line.split(",") for line in z.read(record).decode().splitlines()]
        assert {row[0] for row in rows} == names
        assert all(int(row[2]) == len(z.read(row[0])) for row in rows if row[0] != record)


def test_type_checkers_see_what_is_imported_on_first_use():
    stub = ast.parse((ROOT / "python/tessera/__init__.pyi").read_text())
    seen = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == tessera._PLACES


def test_no_public_name_is_a_module(python):
    assert not {path.stem for path in (ROOT / "python/tessera").glob("*.py")} & set(tessera._PLACES)
    python("""
import types, tessera
assert tessera.version() == tessera.library()["version"]
values = {name: getattr(tessera, name) for name in tessera._PLACES}
for name, value in values.items():
    assert not isinstance(value, types.ModuleType) and getattr(tessera, name) is value, name
assert tessera.version() == tessera.library()["version"]
""")


def interpreters():
    """Every CPython from 3.9 on this machine, each version once."""
    found = {}
    for folder in [*os.environ.get("PATH", "").split(":"), *map(str, pathlib.Path.home().glob(".pyenv/versions/*/bin"))]:
        for path in sorted(pathlib.Path(folder).glob("python3*")) if folder else ():
            if not path.name[len("python3"):].lstrip(".").isdigit() and path.name != "python3":
                continue
            try:
                done = subprocess.run([str(path), "-c", "import sys; print(*sys.version_info[:2])"],
                                      capture_output=True, text=True, timeout=30)
                version = tuple(map(int, done.stdout.split()))
            except (OSError, ValueError):
                continue
            if version >= (3, 9):
                found.setdefault(version, str(path))
    return found


@pytest.mark.parametrize("version,path", sorted(interpreters().items()))
def test_any_cpython_runs_it(wheel, tmp_path, version, path):
    with zipfile.ZipFile(wheel) as z:
        z.extractall(tmp_path / "site")
    (tmp_path / "site" / "tessera" / "bin" / "tessera").chmod(0o755)  # as pip does
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k not in ("TESSERA_LIBRARY", "TESSERA_PROGRAM", "PYTHONPATH")}
    done = subprocess.run([path, str(script), str(tmp_path / "site")], capture_output=True, text=True, timeout=120,
                          env={**environment, "PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok ")
