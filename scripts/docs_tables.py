#!/usr/bin/env python3
"""docs_tables.py [--update]: the tables of README.md and docs/*.md that follow <!-- table: COMMAND --> are what that command
prints in the root of the tree. --update writes what it prints now. A blank line follows every table of README.md and docs/: what
stands there instead would be another row.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(<!-- table: (.+?) -->\n\n)((?:\|.*\n)*)")


def printed(command):
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.startswith("|"):
        raise RuntimeError(f"'{command}' ends with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def unseparated(text):
    """Numbers of the lines that directly follow a table, outside of code."""
    out, fenced, before = [], False, ""
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if before.startswith("|") and line.strip() and not line.startswith("|"):
            out.append(number)
        before = "" if fenced else line
    return out


def main():
    update, errors, count = "--update" in sys.argv[1:], [], 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        errors += [f"{name}:{number}: no blank line after the table" for number in unseparated(text)]

        def fresh(match):
            nonlocal count
            count += 1
            try:
                now = printed(match.group(2))
            except RuntimeError as problem:
                errors.append(f"{name}: {problem}")
                return match.group(0)
            if now != match.group(3) and not update:
                errors.append(f"{name}: the table of '{match.group(2)}' is not what it prints; scripts/docs_tables.py --update mends it")
            return match.group(1) + now

        now = TABLE.sub(fresh, text)
        if update and now != text:
            path.write_text(now, encoding="utf-8")
            print(f"{name} rewritten")
    for text in errors:
        print(f"error: {text}")
    print(f"{count} tables")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
