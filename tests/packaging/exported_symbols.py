#!/usr/bin/env python3
"""exported_symbols.py LIBRARY HEADER: the library exports the functions of the header, in their version, and no more."""
import pathlib
import re
import subprocess
import sys


def main():
    library, header = sys.argv[1:]
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in listing.splitlines()} - {"TSR_1"}
    declared = set(re.findall(r"TSR_API [^;(]*?(tsr_\w+)\(", pathlib.Path(header).read_text()))
    wanted = {f"{name}@@TSR_1" for name in declared}
    for name in sorted(exported - wanted):
        print(f"error: {name} is exported and not in the header")
    for name in sorted(wanted - exported):
        print(f"error: {name} is in the header and not exported")
    print(f"{len(exported)} functions")
    return 0 if declared and exported == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
