#!/usr/bin/env python3
"""pair_table.py FILE.csv WITH WITHOUT: column WITH / column WITHOUT by kernel family; the mean is geometric."""
import csv
import math
import sys


def main():
    path, with_key, without_key = sys.argv[1:]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    by_family = {"all": rows}
    for row in rows:
        by_family.setdefault(f"`{row['config'].split()[0]}`", []).append(row)
    print("| kernel | problems | share of the time, mean | least | most |\n| --- | --- | --- | --- | --- |")
    for family, mine in by_family.items():
        shares = [float(r[with_key]) / float(r[without_key]) for r in mine]
        mean = math.exp(sum(map(math.log, shares)) / len(shares))
        print(f"| {family} | {len(mine)} | {mean:.2f} | {min(shares):.2f} | {max(shares):.2f} |")


if __name__ == "__main__":
    main()
