#!/usr/bin/env python3
"""model_table.py FOLDER ARCH...                how good the learned models' choices are: the scores of the reports in FOLDER
model_table.py --manifests FOLDER ARCH...    what the models in FOLDER are trained on, and their scores on stored times
model_table.py --times FOLDER ARCH...        what selecting and ranking take: selection_ARCH.json and, where all have one, ranking_ARCH.json in FOLDER

Reports are what `tessera evaluate --html` writes, ARCH_OPERATION.html; the times those of `bench_dispatch` and `bench_ranking`.
"""
import argparse
import json
import pathlib
import re

OPERATIONS = ("gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_weight")


def print_row(cells):
    print("| " + " | ".join(cells) + " |")


def scores(path):
    """Row of the report's table -> its column -> the text without a percent sign; and the interval of the mean."""
    text = path.read_text(encoding="utf-8")
    table = re.search(r'<table id="scores">(.*?)</table>', text, re.S).group(1)
    heads, *rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    interval = re.search(r"95% interval of the mean: ([\d.]+)% to ([\d.]+)%", text)
    return {row[0]: dict(zip(heads, (cell.rstrip("%") for cell in row))) for row in rows}, interval.groups()


def print_reports(folder, archs):
    print_row(["operation", "problems", "first choice: mean (95% of draws)", "P10", "least", "best of three: mean", "analytic: mean", "P10", "least", ""])
    print_row(["---"] * 10)
    for arch in archs:
        for operation in OPERATIONS:
            path = folder / f"{arch}_{operation}.html"
            if not path.exists():
                continue
            of, (low, high) = scores(path)
            first, three, analytic = of["first choice"], of["best of its first three"], of["analytic model"]
            print_row([operation, first["problems"], f"{first['mean']} ({low} to {high})", first["P10"], first["min"], three["mean"],
                       analytic["mean"], analytic["P10"], analytic["min"], f"[report]({folder.name}/{path.name})"])


def print_manifests(folder, archs):
    print_row(["operation", "trees", "problems for training", "times", "problems for tests", "first choice: mean", "P10", "analytic: mean", "P10"])
    print_row(["---"] * 9)
    for arch in archs:
        found = (path for operation in OPERATIONS for path in sorted((folder / arch).glob(f"{operation}.*model.json"), key=lambda p: len(p.name)))
        for path in found:
            manifest = json.loads(path.read_text())
            train, test = manifest["folds"]["train"], manifest["folds"]["test"]
            title = path.name.removesuffix(".model.json").replace(".", ", cores: ")
            print_row([title, str(manifest["made"]["trees"]), str(train["problems"]), str(train["rows"]), str(test["problems"]),
                       *(f"{100 * test[which][key]:.1f}" for which in ("model", "analytic") for key in ("mean", "p10"))])


def print_times(folder, archs):
    read = lambda kind, arch: json.loads((folder / f"{kind}_{arch}.json").read_text())
    ranked = all((folder / f"ranking_{arch}.json").exists() for arch in archs)
    selection, ranking = ([read(kind, arch) for arch in archs] if kind == "selection" or ranked else [] for kind in ("selection", "ranking"))
    print_row(["microseconds, models of" if ranked else "microseconds", *(f"`{arch}`" for arch in archs)])
    print_row(["---"] * (len(archs) + 1))
    for title, table, key in (("selecting, median", selection, "select_median_us"), ("selecting, 90th percentile", selection, "select_p90_us"),
                              ("selecting, worst", selection, "select_worst_us"), ("ranking, median", ranking, "ranking_median_us"),
                              ("the analytic prediction in it", ranking, "analytic_median_us")):
        if table:
            print_row([title, *(f"{entry[key]:.0f}" for entry in table)])
    if ranked:
        print_row(["trees of the model that was ranked by", *(str(entry["trees"]) for entry in ranking)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--times", action="store_true")
    way.add_argument("--manifests", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("archs", metavar="ARCH", nargs="+")
    o = parser.parse_args()
    (print_times if o.times else print_manifests if o.manifests else print_reports)(o.folder, o.archs)


if __name__ == "__main__":
    main()
