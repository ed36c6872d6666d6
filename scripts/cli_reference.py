#!/usr/bin/env python3
"""cli_reference.py TESSERA [--update]: the help texts quoted in docs/cli.md and the verbs and options of docs/man/tessera.1 are
what the program prints, and the man page's variables those of docs/cli.md. --update writes what it prints now.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"<!-- help (\w+) -->\n```text\n.*?```", re.S)
COMMON = "shared options:"
MAN_PART = re.compile(r'(^\.\\" generated: (\w+)\n).*?(^\.\\" end\n)', re.S | re.M)


def quotes(program):
    """Verb -> the text to quote; "common" for the options that verbs share: run takes them all."""
    def text(*words):
        return subprocess.run([program, "help", *words], check=True, capture_output=True, text=True).stdout

    verbs = re.findall(r"^  (\w+)  +\S", text(), re.M)
    out = {}
    for verb in verbs:
        own, common = text(verb).split(COMMON)
        out[verb] = own.strip() + "\n"
        if verb == "run":
            out["common"] = common.strip("\n") + "\n"
    return verbs, out


def filled(document, blocks):
    def replace(match):
        verb = match.group(1)
        return f"<!-- help {verb} -->\n```text\n{blocks[verb]}```" if verb in blocks else match.group(0)
    return BLOCK.sub(replace, document)


def roff(text):
    """Text as a line of a man page."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_options(lines):
    """Lines of "  --name VALUE   what it is" as tagged paragraphs."""
    out = []
    for line in lines:
        words, what = re.match(r"  (\S.*?)\s{2,}(\S.*)", line).groups()
        out += [".TP", f"\\fB{roff(words)}\\fR", roff(what)]
    return out


def man_verb(verb, text):
    """The section of one verb: what it is, its forms, its options."""
    head, *rest = text.strip("\n").split("\n")
    out = [f".SS {verb}", roff(head.split(": ", 1)[1])]
    forms = [line for line in rest if line.startswith(f"  tessera {verb}")]
    usage = [line.removeprefix("usage: ") for line in rest if line.startswith("usage: ")]
    out += [".PP", *(f"\\fB{roff(line)}\\fR" for line in usage)] if usage else []
    out += man_options(forms)
    return [*out, *man_options(line for line in rest if line.startswith("  --"))]


def man_variables(document):
    """The rows of the table of environment variables in docs/cli.md."""
    out = []
    for names, what in re.findall(r"^\| (`[A-Z].*?) \| (.*) \|$", document.split("## Environment", 1)[1], re.M):
        out += [".TP", f"\\fB{roff(names.replace('`', ''))}\\fR", roff(what.replace("`", ""))]
    return out


def man_page(page, document, verbs, blocks):
    parts = {"environment": man_variables(document),
             "verbs": [line for verb in verbs for line in man_verb(verb, blocks[verb])],
             "options": man_options(blocks["common"].strip("\n").split("\n"))}
    return MAN_PART.sub(lambda m: m.group(1) + "\n".join(parts[m.group(2)]) + "\n" + m.group(3), page)


def main():
    program, update = sys.argv[1], "--update" in sys.argv[2:]
    verbs, blocks = quotes(program)
    errors = []
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("docs/cli.md", "docs/man/tessera.1")}
    quoted = BLOCK.findall(texts["docs/cli.md"])
    errors += [f"docs/cli.md quotes the help of '{name}', which the program does not have" for name in quoted if name not in blocks]
    errors += [f"docs/cli.md does not quote the help of '{verb}'" for verb in verbs if verb not in quoted]
    errors += [f"docs/man/tessera.1 has no place for the {part}" for part in ("verbs", "options", "environment")
               if part not in [m.group(2) for m in MAN_PART.finditer(texts["docs/man/tessera.1"])]]
    now = {"docs/cli.md": filled(texts["docs/cli.md"], blocks),
           "docs/man/tessera.1": man_page(texts["docs/man/tessera.1"], texts["docs/cli.md"], verbs, blocks)}
    for name, text in now.items():
        if text == texts[name]:
            continue
        if update:
            (ROOT / name).write_text(text, encoding="utf-8")
            print(f"{name} rewritten")
        else:
            errors.append(f"{name} has old help texts; scripts/cli_reference.py TESSERA --update mends it")
    for text in errors:
        print(f"error: {text}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
