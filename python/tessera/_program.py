"""The program `tessera` of the wheel."""
import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tessera")
    os.execv(program, [program, *sys.argv[1:]])
