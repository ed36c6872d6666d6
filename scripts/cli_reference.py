#!/usr/bin/env python3
"""cli_reference.py TESSERA [--update]: the help texts quoted in docs/cli.md are what the program prints, every verb is
documented there and in the man page. --update rewrites the quotes.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- help (\w+) -->\n```text\n.*?```", re.S)
COMMON = "options of every command:"


def quotes(program):
    """Verb -> the text to quote; "common" for the options that every verb has."""
    def text(*words):
        return subprocess.run([program, "help", *words], check=True, capture_output=True, text=True).stdout

    verbs = re.findall(r"^  (\w+)  +\S", text(), re.M)
    out = {}
    for verb in verbs:
        own, common = text(verb).split(COMMON)
        out[verb], out["common"] = own.strip() + "\n", common.strip("\n") + "\n"
    return verbs, out


def filled(document, blocks):
    def replace(match):
        verb = match.group(1)
        return f"<!-- help {verb} -->\n```text\n{blocks[verb]}```" if verb in blocks else match.group(0)
    return BLOCK.sub(replace, document)


def main():
    program, update = sys.argv[1], "--update" in sys.argv[2:]
    verbs, blocks = quotes(program)
    path = ROOT / "docs/cli.md"
    document = path.read_text(encoding="utf-8")
    errors = []
    quoted = BLOCK.findall(document)
    for name in quoted:
        if name not in blocks:
            errors.append(f"docs/cli.md quotes the help of '{name}', which the program does not have")
    man = (ROOT / "docs/man/tessera.1").read_text(encoding="utf-8")
    for verb in verbs:
        if verb not in quoted:
            errors.append(f"docs/cli.md does not quote the help of '{verb}'")
        if not re.search(rf"^\.B[IR]? {verb}\b", man, re.M):
            errors.append(f"docs/man/tessera.1 does not have '{verb}'")
    now = filled(document, blocks)
    if now != document:
        if update:
            path.write_text(now, encoding="utf-8")
            print("docs/cli.md rewritten")
        else:
            errors.append("docs/cli.md quotes old help texts; scripts/cli_reference.py TESSERA --update mends it")
    for text in errors:
        print(f"error: {text}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
