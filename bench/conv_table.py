#!/usr/bin/env python3
"""conv_table.py [--floor ARCH.json] CSV...: the class-by-class table of docs/results.md, and the ten worst problems.

Reads files of `tessera bench --peers onednn --csv` over convolutions; one column per file. Speed is oneDNN's time / Tessera's.
With --floor a second table: how much faster than oneDNN a problem's floor is, the most that any direct kernel could show on that
architecture, and the share of it that Tessera's time reaches. The floor is the longer of the multiplications at the
architecture's rate (that of its widest instruction for the type; of fma where each channel is alone) and of the operands, each
met once, at the rate of the least level of memory that holds them all.
"""
import argparse
import csv
import json
import math
import os

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
    level = next((arch[name] for name in ("l1", "l2", "l3") if bytes_moved <= arch[name]["bytes"]), arch["dram"])
    cycles = max(2 * points * math.prod(taps) * g * c * k / max(rates), bytes_moved / level["bytes_per_cycle"])
    return cycles / arch["clock_ghz"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floor", metavar="ARCH.json", help="the architecture whose floors are asked for")
    parser.add_argument("paths", metavar="CSV", nargs="+")
    arguments = parser.parse_args()
    paths = arguments.paths
    files = [read(p) for p in paths]
    row = lambda name, cells: print("| " + " | ".join([name, *cells]) + " |")
    head = lambda: (row("class", [os.path.basename(p).removesuffix(".csv") for p in paths]), row("---", ["---"] * len(paths)))
    belongs = {"all": lambda problem: True}
    belongs |= {name: lambda problem, name=name: class_of(problem) == name for name in ORDER}
    belongs |= {name: lambda problem, fits=fits: fits(*shape(problem)) for name, fits in CUTS}
    if arguments.floor:
        with open(arguments.floor) as file:
            arch = json.load(file)
        head()
        for name, fits in belongs.items():
            cells = []
            for f in files:
                members = [(floor_us(r, arch), s, r) for s, r in f if fits(r["problem"])]
                best = mean([float(r["onednn_us"]) / least for least, _, r in members]) if members else 0
                cells.append(f"{best:.1f}, {mean([s for _, s, _ in members]) / best:.0%}" if members else "")
            row(name, cells)
        return
    head()
    for name, fits in belongs.items():
        members = [[s for s, r in f if fits(r["problem"])] for f in files]
        row(name, [f"{mean(m):.2f} ({len(m)})" if m else "" for m in members])
    ordered = [sorted(s for s, _ in f) for f in files]
    row("median", [f"{(o[(len(o) - 1) // 2] + o[len(o) // 2]) / 2:.2f}" for o in ordered])
    row("10th percentile", [f"{o[len(o) // 10]:.2f}" for o in ordered])
    row("problems below 0.7", [str(sum(s < 0.7 for s in o)) for o in ordered])
    print()
    for speed, r in sorted((x for f in files for x in f), key=lambda x: x[0])[:10]:
        print(f"{speed:.2f} {r['problem']}: {r['config']}, {float(r['time_us']):.1f} us")


if __name__ == "__main__":
    main()
