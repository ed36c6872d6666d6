#!/usr/bin/env python3
"""check_tree.py [ROOT]: what the tree promises about itself, in one pass over the tracked files.

  layers        every #include points into the file's own layer or a lower one
  third party   a third-party header is included by one file
  arch names    no architecture is named in src/, include/ or kernels/
  words         no absolute paths of one machine, no unfinished work
  sizes         source files of more than 400 lines are reported, of more than 800 refused
  mirror        tests/<layer>/x_test.cpp lies in a folder that src/ has

Prints "file:line: what; why" and exits 1 when something is refused.
"""
import pathlib
import re
import subprocess
import sys

# base <- core <- {space, model, codegen, backend} <- runtime <- tune <- cli, capi
RANK = {"base": 0, "core": 1, "space": 2, "model": 2, "codegen": 2, "backend": 2, "runtime": 3, "tune": 4,
        "cli": 5, "capi": 5}

# A public header X.h belongs to the layer of src/<layer>/X.cpp. These have no X.cpp of their own.
HEADER_ONLY = {"kernel.h": "core", "tessera.h": "capi"}

# C, POSIX and compiler headers; a name without a dot is the C++ library's.
SYSTEM_HEADERS = {"assert.h", "ctype.h", "inttypes.h", "math.h", "stdio.h", "stdlib.h", "string.h", "strings.h",
                  "dirent.h", "dlfcn.h", "fcntl.h", "poll.h", "pwd.h", "signal.h", "spawn.h", "unistd.h",
                  "time.h", "errno.h", "stdint.h", "stddef.h", "limits.h", "termios.h", "link.h", "sched.h",
                  "pthread.h", "ftw.h", "elf.h", "cpuid.h", "immintrin.h", "omp.h"}

# What kernels are tested with, in whichever layer.
TEST_TOOLS = {"src/tune/guarded_buffer.h", "src/tune/operands.h", "src/tune/reference.h",
              "src/tune/verify.h"}

# Plain arithmetic that kernels share with the library.
SHARED_WITH_KERNELS = {"kernels/cuda/tma_ws_shape.h", "kernels/cpu/direct_stages.h", "kernels/cpu/groups_lanes.h"}

CODE = (".cpp", ".h", ".py", ".sh")
REPORT_LINES, REFUSE_LINES = 400, 800

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
WORDS = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished work belongs in no commit"),
    (re.compile(r"(?<![\w.])/(work|root|home)/\w"), "a path of one machine"),
]


class Tree:
    def __init__(self, root, files):
        self.root = pathlib.Path(root)
        self.files = sorted(files)
        self.known = set(self.files)
        self.layer_of_public = {}
        for path in self.files:
            parts = path.split("/")
            if parts[0] == "src" and path.endswith(".cpp") and parts[1] in RANK:
                # Of two files of one name (registry.cpp of runtime, and the verb's) the lower has the header.
                name = parts[-1][:-4] + ".h"
                self.layer_of_public[name] = min(self.layer_of_public.get(name, "cli"), parts[1], key=RANK.get)
        self.layer_of_public.update(HEADER_ONLY)

    def lines(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace").splitlines()

    def layer(self, path):
        """Layer of a file; None for what has none (kernels, examples, bench)."""
        parts = path.split("/")
        if parts[0] in ("src", "tests") and len(parts) > 2 and parts[1] in RANK:
            return parts[1]
        if path.startswith("include/tessera/"):
            return self.layer_of_public.get(parts[-1])
        return None

    def resolve(self, path, name):
        """The tracked file that `#include "name"` in `path` means, or None."""
        here = path.rsplit("/", 1)[0]
        for folder in (here, "src", "include", "kernels", "tests", "bench"):
            if f"{folder}/{name}" in self.known:
                return f"{folder}/{name}"
        return None


def may_include(tree, path, target):
    """None when allowed, else the reason."""
    if path.startswith(("src/core/", "src/model/")) and target in SHARED_WITH_KERNELS:
        return None
    if target.startswith("kernels/"):
        return None if path.startswith(("kernels/", "src/backend/", "src/codegen/", "tests/", "bench/")) else (
            "kernel headers are for the backends")
    if path.startswith("kernels/"):
        return "a kernel header includes kernel headers only: the generated unit stands alone"
    if path.startswith("include/") and not target.startswith("include/"):
        return "a public header includes public headers only"
    if path.startswith("examples/") and not target.startswith(("include/", "examples/")):
        return "examples use the public headers"
    if path.startswith("tests/") and target in TEST_TOOLS:
        return None
    here, there = tree.layer(path), tree.layer(target)
    if here is None or there is None or here == there:
        return None
    if RANK[there] < RANK[here]:
        return None
    if path.startswith("tests/") and RANK[there] == RANK[here]:
        return None  # a test may set up its layer with what stands beside it
    if RANK[there] == RANK[here]:
        return f"layers {here} and {there} stand side by side"
    return f"layer {here} is below {there}"


def check_includes(tree):
    errors, users = [], {}
    for path in tree.files:
        if not path.endswith((".cpp", ".h")):
            continue
        if path.startswith("include/tessera/") and tree.layer(path) is None:
            errors.append(f"{path}:1: no src/*/{pathlib.PurePath(path).stem}.cpp; list it in HEADER_ONLY of "
                          "scripts/check_tree.py")
        for number, line in enumerate(tree.lines(path), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            kind, name = found.groups()
            if kind == "<":
                standard = "." not in name or name in SYSTEM_HEADERS or name.startswith("sys/")
                if not standard and path.startswith(("src/", "include/")):
                    users.setdefault(name, []).append(f"{path}:{number}")
                continue
            target = tree.resolve(path, name)
            if target is None:
                errors.append(f'{path}:{number}: "{name}" is no file of this tree')
                continue
            reason = may_include(tree, path, target)
            if reason:
                errors.append(f"{path}:{number}: may not include {target}; {reason}")
    for name, places in sorted(users.items()):
        if len(places) > 1:
            errors.append(f"{places[1]}: <{name}> is already included by {places[0]}; a third-party header is "
                          "for one file")
    return errors


def check_arch_names(tree):
    names = [pathlib.PurePath(p).stem for p in tree.files
             if p.startswith("arch/") and p.endswith(".json") and p != "arch/schema.json"]
    if not names:
        return []
    pattern = re.compile(r"(?<!\w)(" + "|".join(map(re.escape, names)) + r")(?!\w)")
    errors = []
    for path in tree.files:
        if path.startswith(("src/", "include/", "kernels/")):
            for number, line in enumerate(tree.lines(path), 1):
                if pattern.search(line):
                    errors.append(f"{path}:{number}: names an architecture; facts about one live in arch/ alone")
    return errors


def check_words(tree):
    errors = []
    own = {"scripts/check_tree.py", "tests/scripts/check_tree_test.py"}
    for path in tree.files:
        if path in own or path.startswith("tests/fuzz/corpus/") or not (tree.root / path).is_file():
            continue
        for number, line in enumerate(tree.lines(path), 1):
            for pattern, reason in WORDS:
                if pattern.search(line):
                    errors.append(f"{path}:{number}: '{pattern.search(line).group(0)}'; {reason}")
    return errors


def check_sizes(tree):
    errors, notes = [], []
    for path in tree.files:
        if path.endswith(CODE) or path == "dev":
            count = len(tree.lines(path))
            if count > REFUSE_LINES:
                errors.append(f"{path}:1: {count} lines, more than {REFUSE_LINES}; split it by noun")
            elif count > REPORT_LINES:
                notes.append(f"{path}:1: {count} lines; is there a second noun in it?")
    return errors, notes


def check_mirror(tree):
    layers = {p.split("/")[1] for p in tree.files if p.startswith("src/") and p.count("/") > 1}
    layers.add("gpu")  # what needs a device, whatever its layer
    return [f"{p}:1: no layer '{p.split('/')[1]}' in src/" for p in tree.files
            if p.startswith("tests/") and p.endswith("_test.cpp") and p.split("/")[1] not in layers]


def tracked_files(root):
    """Paths under version control; exits 77 (skipped) where the sources came without it."""
    if not (pathlib.Path(root) / ".git").exists():
        print("skipped: not a git checkout")
        sys.exit(77)
    out = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True).stdout
    return [p for p in out.decode().split("\0") if p and (pathlib.Path(root) / p).is_file()]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parents[1]
    tree = Tree(root, tracked_files(root))
    errors, notes = check_sizes(tree)
    for check in (check_includes, check_arch_names, check_words, check_mirror):
        errors += check(tree)
    for text in notes:
        print(f"note: {text}")
    for text in errors:
        print(f"error: {text}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
