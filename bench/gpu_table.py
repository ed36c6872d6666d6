#!/usr/bin/env python3
"""gpu_table.py FILE.csv                  cuBLASLt's time / Tessera's by kinds of problems, of bench_gpu_gemm's file
gpu_table.py --worst N FILE.csv        the N problems that trail cuBLASLt's best algorithm most
gpu_table.py --runs FILE.csv           the same of each row: repeated runs of one problem
gpu_table.py --exhaustive FILE.csv     what choices reach of the best of everything measured, of bench_sweep_oracle's file
gpu_table.py --packed FILE.csv         the choices' times with B as it is and with prepack=b, of such a file

Means of ratios are geometric, those of efficiencies arithmetic. Networks never seen are those for tests in models/splits.json.
"""
import argparse
import csv
import fnmatch
import json
import math
import pathlib
import re

SPLITS = pathlib.Path(__file__).resolve().parents[1] / "models/splits.json"
KINDS = (
    ("all", lambda m, n, k: True),
    ("multiples of 8", lambda m, n, k: m % 8 == n % 8 == k % 8 == 0),
    ("other sizes", lambda m, n, k: m % 8 or n % 8 or k % 8),
    ("m <= 64", lambda m, n, k: m <= 64),
    ("m > 64", lambda m, n, k: m > 64),
)


def sizes(problem):
    return [int(re.search(rf"\b{name}=(\d+)", problem).group(1)) for name in "mnk"]


def print_row(cells):
    print("| " + " | ".join(cells) + " |")


def print_head(cells):
    print_row(cells)
    print_row(["---"] * len(cells))


def ratio(rows, key):
    logs = [math.log(float(r[key]) / float(r["ours_us"])) for r in rows]
    return f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else ""


def print_kinds(rows):
    tests = json.loads(SPLITS.read_text())["test"]
    unseen = lambda row: any(fnmatch.fnmatch(row["name"].split(".")[0], pattern) for pattern in tests)
    print_head(["class", "problems", "x its best algorithm", "x its first choice", "of them of networks never seen", "x its best there", "x its first choice there"])
    for name, holds in KINDS:
        mine = [r for r in rows if holds(*sizes(r["problem"]))]
        new = [r for r in mine if unseen(r)]
        if mine:
            print_row([name, str(len(mine)), ratio(mine, "lt_best_us"), ratio(mine, "lt_first_us"), str(len(new)),
                       ratio(new, "lt_best_us"), ratio(new, "lt_first_us")])


def print_runs(rows, count=None):
    speed = lambda r: float(r["lt_best_us"]) / float(r["ours_us"])
    print_head(["x its best algorithm", "problem", "kernel", "microseconds"])
    for r in sorted(rows, key=speed)[:count] if count else rows:
        print_row([f"{speed(r):.2f}", f"`{r['problem']}`", f"`{r['config'].split()[0]}`", f"{float(r['ours_us']):.1f}"])


def print_exhaustive(rows):
    print_head(["choice", "mean", "P10", "least"])
    for title, key in (("the learned model's", "choice_us"), ("the best of its first three", "top3_us"),
                       ("the analytic model's", "analytic_us"), ("the best of its first three", "analytic_top3_us")):
        values = sorted(100 * float(r["best_us"]) / float(r[key]) for r in rows)
        print_row([title, f"{sum(values) / len(values):.1f}", f"{values[len(values) // 10]:.1f}", f"{values[0]:.1f}"])


def print_packed(rows):
    us = {r["problem"]: float(r["choice_us"]) for r in rows}
    print_head(["problem", "as it is", "packed"])
    for problem, plain in us.items():
        if problem + " prepack=b" in us:
            print_row([f"`{problem}`", f"{plain:.1f}", f"{us[problem + ' prepack=b']:.1f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    way = parser.add_mutually_exclusive_group()
    ways = {"runs": print_runs, "exhaustive": print_exhaustive, "packed": print_packed}
    for name in ways:
        way.add_argument("--" + name, action="store_true")
    way.add_argument("--worst", type=int, metavar="N")
    parser.add_argument("path", metavar="FILE.csv")
    o = parser.parse_args()
    with open(o.path, newline="") as file:
        rows = list(csv.DictReader(file))
    if o.worst:
        print_runs(rows, o.worst)
    else:
        next((table for name, table in ways.items() if getattr(o, name)), print_kinds)(rows)


if __name__ == "__main__":
    main()
