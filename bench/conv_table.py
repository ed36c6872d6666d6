#!/usr/bin/env python3
"""conv_table.py CSV...                     the class-by-class table of convolutions
conv_table.py --summary CSV...           its last rows alone, of products too
conv_table.py --worst N CSV...           the N problems that trail oneDNN most
conv_table.py --floor ARCH.json CSV...   what any direct kernel could reach
conv_table.py --headline NAME=PREFIX...  the means of all suites of each machine: PREFIX is bench/results/cpu_conv_zen4, say

Reads files of `tessera bench --peers onednn --csv`; one column per file. Speed is oneDNN's time / Tessera's, means are geometric.
--floor prints how much faster than oneDNN a problem's floor is, the most that any direct kernel could show on that
architecture, and the share of it that Tessera's time reaches. The floor is the longer of the multiplications at the
architecture's rate (that of its widest instruction for the type; of fma where each channel is alone) and of the operands, each
met once, at the rate of the least level of memory (of the last-level cache a core's share) that holds them all.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import re

CLASSES = (  # name, what belongs to it; the first that fits
    ("depthwise", lambda g, c, k, one: g > 1 and c == 1 and k == 1),
    ("several outputs per channel", lambda g, c, k, one: g > 1 and c == 1),
    ("groups, c below 16", lambda g, c, k, one: g > 1 and c < 16),
    ("groups, c of 16 and more", lambda g, c, k, one: g > 1),
    ("dense 1x1", lambda g, c, k, one: one),
    ("c up to 4, one group", lambda g, c, k, one: c <= 4),
    ("dense", lambda g, c, k, one: True),
)
ORDER = ("dense", "dense 1x1", "c up to 4, one group", "groups, c of 16 and more", "groups, c below 16",
         "several outputs per channel", "depthwise")


CUTS = (  # across the classes: name, what belongs to it of groups, channels, the input's and the filter's extents
    ("depthwise, 3-D", lambda g, c, k, size, filter: g > 1 and c == k == 1 and len(filter) == 3),
    ("depthwise, 5x5 and larger", lambda g, c, k, size, filter: g > 1 and c == k == 1 and len(filter) == 2 and min(filter) >= 5),
    ("odd channels, one group, c above 4", lambda g, c, k, size, filter: g == 1 and c > 4 and (c % 2 or k % 2)),
    ("images of 7x7", lambda g, c, k, size, filter: size == [7, 7]),
)


def shape(problem):
    fields = dict(word.split("=", 1) for word in problem.split()[1:])
    return *(int(fields.get(name, 1)) for name in "gck"), *([int(x) for x in fields[name].split("x")] for name in ("in", "filter"))


def class_of(problem):
    g, c, k, _, taps = shape(problem)
    return next(name for name, fits in CLASSES if fits(g, c, k, set(taps) == {1}))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def read(path):
    with open(path, newline="") as file:
        return [(float(r["onednn_us"]) / float(r["time_us"]), r) for r in csv.DictReader(file) if r["onednn_us"]]


def floor_us(row, arch):
    """The least time of a problem on an architecture, in microseconds: see the head of this file. c and k are a group's."""
    fields = dict(word.split("=", 1) for word in row["problem"].split()[1:])
    g, c, k, size, taps = shape(row["problem"])
    images, dtype = int(fields.get("n", 1)), row["dtype"]
    numbers = lambda name, default: [int(x) for x in fields.get(name, default).split("x")]
    stride, dilation, pad = (numbers(name, "x".join([str(d)] * len(size))) for name, d in (("stride", 1), ("dilation", 1), ("pad", 0)))
    out = [(i + 2 * p - d * (f - 1) - 1) // s + 1 for i, p, d, f, s in zip(size, pad, dilation, taps, stride)]
    pixels, points = images * math.prod(size), images * math.prod(out)
    width = {"f32": 4, "bf16": 2, "f16": 2}[dtype]
    bytes_moved = width * g * (pixels * c + points * k + math.prod(taps) * c * k)
    rates = [i["flops_per_cycle"] for i in arch["instructions"]
             if any(t.split()[0] == dtype for t in i["types"]) and (i["name"] == "fma" or c > 1)]
    holds = lambda level: bytes_moved <= level.get("bytes_per_core", level["bytes"])
    level = next((arch[name] for name in ("l1", "l2", "l3") if holds(arch[name])), arch["dram"])
    cycles = max(2 * points * math.prod(taps) * g * c * k / max(rates), bytes_moved / level["bytes_per_cycle"])
    return cycles / arch["clock_ghz"] / 1e3


def read_arch(path):
    """An architecture's file, with what it is like where it lacks a key."""
    arch = json.loads(path.read_text())
    return {**read_arch(path.with_name(arch["like"] + ".json")), **arch} if "like" in arch else arch


def titles(paths):
    """What tells the files apart: "fwd f32" of cpu_conv_zen4_fwd.f32.csv beside its neighbours."""
    names = [os.path.basename(p).removesuffix(".csv") for p in paths]
    common = os.path.commonprefix(names)
    start = common.rfind("_") + 1 if len(names) > 1 else 0
    return [name[start:].replace(".", " ") for name in names]


def print_row(name, cells):
    print("| " + " | ".join([name, *cells]) + " |")


def print_head(name, cells):
    print_row(name, cells)
    print_row("---", ["---"] * len(cells))


def print_summary(files):
    ordered = [sorted(s for s, _ in f) for f in files]
    print_row("median", [f"{(o[(len(o) - 1) // 2] + o[len(o) // 2]) / 2:.2f}" for o in ordered])
    print_row("10th percentile", [f"{o[len(o) // 10]:.2f}" for o in ordered])
    print_row("problems below 0.7", [f"{sum(s < 0.7 for s in o)} of {len(o)}" for o in ordered])


def print_classes(files, paths):
    print_head("class", titles(paths))
    for name, fits in belongs().items():
        members = [[s for s, r in f if fits(r["problem"])] for f in files]
        if any(members):
            print_row(name, [f"{mean(m):.2f} ({len(m)})" if m else "" for m in members])
    print_summary(files)


def print_floors(files, paths, arch):
    print_head("class", titles(paths))
    for name, fits in belongs().items():
        cells = []
        for f in files:
            members = [(floor_us(r, arch), s, r) for s, r in f if fits(r["problem"])]
            best = mean([float(r["onednn_us"]) / least for least, _, r in members]) if members else 0
            cells.append(f"{best:.1f}, {mean([s for _, s, _ in members]) / best:.0%}" if members else "")
        print_row(name, cells)


def print_worst(files, count):
    print_head("speed", ["problem", "kernel", "microseconds"])
    for speed, r in sorted((x for f in files for x in f), key=lambda x: x[0])[:count]:
        words = [w for w in r["problem"].split() if not re.fullmatch(r"(stride|dilation)=1(x1)*|pad=0(x0)*", w)]
        print_row(f"{speed:.2f}", [f"`{' '.join(words)}`", f"`{r['config'].split()[0]}`", f"{float(r['time_us']):.1f}"])


def print_headline(machines):
    columns = [(op, dtype) for op in ("fwd", "bwd_data", "bwd_weight") for dtype in ("f32", "bf16")]
    print_head("", [" ".join(c) for c in columns])
    for machine in machines:
        name, prefix = machine.split("=", 1)
        paths = [pathlib.Path(f"{prefix}_{op}.{dtype}.csv") for op, dtype in columns]
        print_row(name, [f"{mean([s for s, _ in read(p)]):.2f}" if p.exists() else "" for p in paths])


def belongs():
    """Row of the table -> whether a problem belongs to it."""
    out = {"all": lambda problem: True}
    out |= {name: lambda problem, name=name: class_of(problem) == name for name in ORDER}
    return out | {name: lambda problem, fits=fits: fits(*shape(problem)) for name, fits in CUTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--floor", metavar="ARCH.json", help="the architecture whose floors are asked for")
    way.add_argument("--worst", type=int, metavar="N")
    way.add_argument("--summary", action="store_true")
    way.add_argument("--headline", action="store_true")
    parser.add_argument("paths", metavar="CSV", nargs="+")
    o = parser.parse_args()
    if o.headline:
        print_headline(o.paths)
        return
    files = [read(p) for p in o.paths]
    if o.floor:
        print_floors(files, o.paths, read_arch(pathlib.Path(o.floor)))
    elif o.worst:
        print_worst(files, o.worst)
    elif o.summary:
        print_head("", titles(o.paths))
        print_row("geometric mean", [f"{mean([s for s, _ in f]):.2f}" for f in files])
        print_summary(files)
    else:
        print_classes(files, o.paths)


if __name__ == "__main__":
    main()
