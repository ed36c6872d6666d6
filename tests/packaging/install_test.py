#!/usr/bin/env python3
"""install_test.py BUILD_DIR CXX: the installed package works from a place it was moved to.

Installs into one prefix, moves it, and builds and runs a consumer by find_package and by pkg-config.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile

from commands import run

HERE = pathlib.Path(__file__).resolve().parent
TEXT_SUFFIXES = {".cmake", ".pc", ".h", ".1", ".fish", ""}


def expect(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def check_files(prefix):
    wanted = ["bin/tessera", "include/tessera/dispatcher.h", "lib*/cmake/Tessera/TesseraConfig.cmake",
              "lib*/pkgconfig/tessera.pc", "share/man/man1/tessera.1", "share/doc/*/LICENSE",
              "share/bash-completion/completions/tessera", "share/zsh/site-functions/_tessera",
              "share/fish/vendor_completions.d/tessera.fish", "share/tessera/suites/cpu_gemm.csv"]
    for pattern in wanted:
        expect(any(prefix.glob(pattern)) or any(prefix.glob(pattern.replace("lib*/", "lib/*/"))),
               f"{pattern} was not installed")


def check_relocatable(prefix, forbidden):
    for path in prefix.rglob("*"):
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.parent.name != "bin":
            text = path.read_bytes()
            for name in forbidden:
                expect(name.encode() not in text, f"{path} names {name}")


def main():
    build, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        run("cmake", "--install", build, "--prefix", work / "first")
        shutil.move(work / "first", work / "moved")
        prefix = work / "moved"
        check_files(prefix)
        check_relocatable(prefix, [str(work / "first"), str(build)])
        environment = dict(os.environ, TESSERA_CACHE_DIR=str(work / "cache"))

        shutil.copy(HERE / "consumer.cpp", work)
        shutil.copy(HERE / "consumer.cmake", work / "CMakeLists.txt")
        run("cmake", "-S", work, "-B", work / "by_cmake", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", work / "by_cmake")
        expect("consumer ok" in run(work / "by_cmake/consumer", env=environment), "the find_package consumer")

        # Without C++ in the project, and so without what only the static library needs.
        in_c = work / "in_c"
        in_c.mkdir()
        shutil.copy(HERE.parent / "capi/program.c", in_c)
        shutil.copy(HERE / "c_consumer.cmake", in_c / "CMakeLists.txt")
        run("cmake", "-S", in_c, "-B", in_c / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", in_c / "build")
        expect("c abi ok" in run(in_c / "build/consumer", env=environment), "the find_package consumer in C")

        pc = next(iter(prefix.rglob("tessera.pc")))
        flags = run("pkg-config", "--cflags", "--libs", "tessera",
                    env=dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))).split()
        lib = next(path for path in prefix.rglob("libtessera.*")).parent
        run(compiler, "-std=c++20", "-O1", work / "consumer.cpp", "-o", work / "by_pkg_config", *flags,
            f"-Wl,-rpath,{lib}")
        expect("consumer ok" in run(work / "by_pkg_config", env=environment), "the pkg-config consumer")

        flags = run("pkg-config", "--cflags", "--libs", "tessera_c",
                    env=dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))).split()
        run("cc", "-std=c11", HERE.parent / "capi/program.c", "-o", work / "c_program", *flags, f"-Wl,-rpath,{lib}")
        expect("c abi ok" in run(work / "c_program", env=environment), "the C consumer")

        if any((build / "share/tessera").glob("standard-*.pack")):
            # The program finds the pack beside it, and needs no compiler for what the pack holds.
            done = json.loads(run(prefix / "bin/tessera", "run", "gemm m=128 n=3072 k=768 dtype=f32", "--json", "--quiet",
                                  env=dict(environment, TESSERA_CXX="/nonexistent", TESSERA_CACHE_DIR=str(work / "c2"))))
            expect(done["verified"] is True, f"a run from the standard pack without a compiler: {done}")
        # It finds the modules of other libraries there too.
        peers = {path.stem.rsplit("_", 1)[-1] for path in (build / "lib/tessera/peers").glob("*.so")}
        report = json.loads(run(prefix / "bin/tessera", "doctor", "--json", env=environment))
        found = {row["check"] for row in report["checks"]}
        expect({f"peer {name}" for name in peers} <= found, f"doctor of the package lacks some of {peers}: {found}")
        version = run(prefix / "bin/tessera", "--version", env=environment)
        expect("0.1" in version, f"tessera --version printed '{version}'")
    print("installed, moved, used by find_package and by pkg-config")


if __name__ == "__main__":
    main()
