"""The build backend of `pip install .` (PEP 517, PEP 660): CMake builds libtessera_c and the program, which go into a
py3-none wheel with the package. It needs CMake, a C++ compiler and the packages of `./dev deps build`, and nothing of Python.

TESSERA_BUILD_DIR: a configured build tree to take them from, instead of build/wheel.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tessera"
NAME = "tessera"
BINARIES = ("lib/libtessera_c.so.1", "bin/tessera")  # where the build tree and the package have them


def version():
    return re.search(r"project\(Tessera VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def tag():
    return f"py3-none-linux_{platform.machine()}"


def build_tree():
    """The build tree, with the library and the program in it."""
    build = os.environ.get("TESSERA_BUILD_DIR")
    if build is None:
        build = ROOT / "build" / "wheel"
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DTESSERA_TESTS=OFF",
                        "-DTESSERA_EXAMPLES=OFF", "-DTESSERA_BENCH=OFF", "-DTESSERA_SHARED=OFF"], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "tessera_c", "tessera_cli", "--parallel"],
                   check=True)
    return pathlib.Path(build).resolve()


def metadata():
    summary = re.search(r'^description = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\nSummary: {summary}\n"
            f"Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n{(ROOT / 'README.md').read_text()}")


def wheel_facts():
    return f"Wheel-Version: 1.0\nGenerator: tessera\nRoot-Is-Purelib: false\nTag: {tag()}\n"


def info_folder():
    return f"{NAME}-{version()}.dist-info"


class Wheel:
    """A wheel being written; close() adds the record of what is in it."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / f"{NAME}-{version()}-{tag()}.whl"
        self.zip = zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes give the same wheel
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self):
        info = info_folder()
        self.add(f"{info}/METADATA", metadata().encode())
        self.add(f"{info}/WHEEL", wheel_facts().encode())
        self.add(f"{info}/entry_points.txt", b"[console_scripts]\ntessera = tessera._program:main\n")
        self.add(f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes())
        self.record.append(f"{info}/RECORD,,\n")
        self.zip.writestr(f"{info}/RECORD", "".join(self.record))
        self.zip.close()
        return self.path.name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = pathlib.Path(metadata_directory) / info_folder()
    info.mkdir()
    (info / "METADATA").write_text(metadata())
    (info / "WHEEL").write_text(wheel_facts())
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tree = build_tree()
    wheel = Wheel(wheel_directory)
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed"):
            wheel.add(f"{NAME}/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes())
    for name in BINARIES:
        wheel.add(f"{NAME}/{name}", (tree / name).read_bytes(), 0o755)
    # Kernels built beforehand lie where library and program look for them: ../share/tessera.
    for pack in sorted((tree / "share" / "tessera").glob("standard-*.pack")):
        wheel.add(f"{NAME}/share/tessera/{pack.name}", pack.read_bytes())
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    tree = build_tree()
    wheel = Wheel(wheel_directory)
    wheel.add(f"{NAME}.pth", f"{PACKAGE.parent}\n".encode())
    for name in BINARIES:
        linked = PACKAGE / name
        linked.parent.mkdir(exist_ok=True)
        if linked.is_symlink() or linked.exists():
            linked.unlink()
        linked.symlink_to(tree / name)
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{version()}"
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
    path = pathlib.Path(sdist_directory) / f"{base}.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name in files.decode().split("\0"):
            if name and (ROOT / name).is_file():
                tar.add(ROOT / name, f"{base}/{name}")
        info = prepare_sdist_info(sdist_directory)
        tar.add(info, f"{base}/PKG-INFO")
        info.unlink()
    return path.name


def prepare_sdist_info(folder):
    path = pathlib.Path(folder) / "PKG-INFO"
    path.write_text(metadata())
    return path
