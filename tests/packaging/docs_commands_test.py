#!/usr/bin/env python3
"""docs_commands_test.py ROOT PROGRAM: the program's commands that README.md and docs/*.md show can be typed as they stand.

Every command's verb and options are the program's. Quick ones that need no file of the reader's are run as well, in an empty
folder, and succeed.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COMMAND = re.compile(r"^(?:    |\$ )*tessera (?P<verb>[a-z]+)(?P<rest> .*)?$")
QUICK = {"run", "explain", "emit", "arch", "doctor", "generate", "version"}
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\.\.\.|\$|--(?:pack|model|registry) ")


def commands(page):
    """(line, verb, the words after it) of what is indented or fenced; comments are cut off."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        shown = COMMAND.match(line) if fenced or line.startswith("    ") else None
        if shown:
            words = re.split(r"\s+#\s|\s{3,}", (shown["rest"] or "").strip() + " # ")[0]
            yield number, shown["verb"], words.strip()


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}")

    def start(command, folder=None):
        return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)

    helps, errors, ran, known = {}, [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
            for number, verb, words in commands(page):
                place = f"{page.relative_to(root)}:{number}: tessera {verb} {words}"
                if verb not in helps:
                    helps[verb] = start(f"tessera help {verb}")
                text = helps[verb]
                if text.returncode != 0:
                    errors.append(f"{place}: no such verb")
                    continue
                known += 1
                errors += [f"{place}: no option {option}" for option in re.findall(r"(?<!\S)--[\w-]+", words)
                           if option not in text.stdout]
                if verb in QUICK and not PLACEHOLDER.search(words):
                    done = start(f"tessera {verb} {words}", folder)
                    ran += 1
                    if done.returncode != 0:
                        errors.append(f"{place}: exit status {done.returncode}\n{done.stderr}")
    print("\n".join(errors) or f"{known} commands are the program's, {ran} of them ran")
    return 1 if errors or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
