#!/usr/bin/env python3
"""isa_symbols.py BUILD_DIR: units compiled for more than the baseline instruction set define no weak symbol.

The linker keeps one copy of an inline function for the whole program. Were it the one from such a unit, plain code
would run instructions the machine may lack.
"""
import pathlib
import subprocess
import sys


def main():
    units = sorted(pathlib.Path(sys.argv[1]).rglob("*_avx2.cpp.o")) + sorted(
        pathlib.Path(sys.argv[1]).rglob("*_avx512.cpp.o"))
    errors = 0
    for unit in units:
        listing = subprocess.run(["nm", "-C", "--defined-only", str(unit)], check=True, capture_output=True,
                                 text=True).stdout
        for line in listing.splitlines():
            kind, name = line.split(None, 2)[1:] if line[0] != " " else line.split(None, 1)
            if kind in "WwVvu" and not name.startswith("DW.ref."):
                print(f"error: {unit.name} defines {name} weakly; give it internal linkage")
                errors += 1
    if not units:
        print("skipped: this platform has no such units")
        sys.exit(77)
    print(f"{len(units)} units checked")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
