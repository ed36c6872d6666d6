#!/usr/bin/env python3
"""cost_table.py HEADER LIST: the rows X(name, "doc") of a list of costs in a header of src/model as a Markdown table."""
import pathlib
import re
import sys


def main():
    header, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    body = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*)", header.read_text(encoding="utf-8")).group(1)
    print("| cost | is |\n| --- | --- |")
    for cost, doc in re.findall(r'X\((\w+),\s*((?:"[^"]*"[\s\\]*)+)\)', body):
        print(f"| `{cost}` | {''.join(re.findall(chr(34) + '([^' + chr(34) + ']*)' + chr(34), doc))} |")


if __name__ == "__main__":
    main()
