#!/usr/bin/env python3
"""gemm_table.py PREFIX                the class-by-class table of oneDNN's time / Tessera's, a column for each type and mode
gemm_table.py PREFIX --peers        the same beside every other library that was timed
gemm_table.py PREFIX --worst N      the N problems that trail oneDNN most
gemm_table.py PREFIX --rates        what one core reaches on registers alone and in 1024 cubed
gemm_table.py PREFIX --packing      how fast a k-contiguous B is packed
gemm_table.py PREFIX --calls        what a call of a prepared kernel takes
gemm_table.py PREFIX --json         gives PREFIX.json the summaries of the CSV files; what else it holds stays
gemm_table.py --headline NAME=PREFIX...   the means of all classes of each machine, and its worst class

Reads PREFIX.<type>.<mode>.csv and PREFIX.json, which `bench_cpu_gemm` writes. Means are geometric.
"""
import argparse
import csv
import json
import math
import pathlib

TYPES = ("f32", "bf16", "u8xi8", "i8")
MODES = ("plain", "packed")
PEERS = {"onednn": "oneDNN", "openblas": "OpenBLAS", "blis": "BLIS", "libxsmm": "LIBXSMM"}

CLASSES = (  # those of cpu_gemm_cases.cpp; the first that holds
    ("tiny", "tiny (all extents <= 32)", lambda m, n, k: max(m, n, k) <= 32),
    ("skinny", "skinny (m or n <= 16)", lambda m, n, k: min(m, n) <= 16),
    ("odd", "odd", lambda m, n, k: m % 8 or n % 8 or k % 8),
    ("medium", "medium (64 to 192)", lambda m, n, k: max(m, n, k) <= 192),
    ("square", "square (256 and more)", lambda m, n, k: min(m, n) >= 256 and max(m, n) < 4 * min(m, n)),
    ("tall", "tall", lambda m, n, k: True),
)
TITLES = {name: title for name, title, _ in CLASSES} | {"all": "all"}


def class_of(row):
    m, n, k = (int(row[x]) for x in "mnk")
    return next(name for name, _, holds in CLASSES if holds(m, n, k))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0


def read(prefix):
    """(type, mode) -> rows of the file."""
    out = {}
    for dtype in TYPES:
        for mode in MODES:
            path = pathlib.Path(f"{prefix}.{dtype}.{mode}.csv")
            if path.exists():
                with open(path, newline="") as file:
                    out[dtype, mode] = list(csv.DictReader(file))
                wrong = [row["problem"] for row in out[dtype, mode] if row["verified"] == "no"]
                if wrong:
                    raise SystemExit(f"{path} has wrong results, which have no speed: {', '.join(wrong)}")
    return out


def check_summaries(prefix, files):
    """The file that bench_cpu_gemm writes beside those of its rows says the same."""
    path = pathlib.Path(prefix + ".json")
    said = json.loads(path.read_text()) if path.exists() else {}
    for (dtype, mode), rows in files.items():
        theirs = said.get(f"{dtype}.{mode}", {"summary": {"peers": {}}})["summary"]["peers"]
        for peer, own in summaries(rows)["summary"]["peers"].items():
            if abs(theirs.get(peer, {"geomean": 0})["geomean"] - own["geomean"]) > 0.01 * own["geomean"]:
                raise SystemExit(f"{path} says otherwise of {peer} in {dtype} {mode} than the rows; --json prints it again")


def peers_of(row):
    """Library -> microseconds of those that were timed."""
    return {key[:-3]: float(text) for key, text in row.items() if key[:-3] in PEERS and key.endswith("_us") and text}


def ratios(rows, peer):
    """That library's time / Tessera's of the rows that have both; "best" is the fastest library of each row."""
    out = []
    for row in rows:
        times = {name: us for name, us in peers_of(row).items() if us > 0 and peer in (name, "best")}
        if times and row["time_us"] and float(row["time_us"]) > 0:
            out.append(min(times.values()) / float(row["time_us"]))
    return out


def print_row(cells):
    print("| " + " | ".join(cells) + " |")


def print_classes(columns):
    """columns: (title, rows, library)."""
    columns = [c for c in columns if ratios(c[1], c[2])]
    print_row(["class", *(title for title, _, _ in columns)])
    print_row(["---"] * (len(columns) + 1))
    for name, title in TITLES.items():
        cells = []
        for _, rows, peer in columns:
            values = ratios([r for r in rows if name in ("all", class_of(r))], peer)
            cells.append(f"{mean(values):.2f}" if values else "")
        print_row([title, *cells])


def print_worst(files, count):
    rows = [(ratios([r], "onednn")[0], dtype, mode, r) for (dtype, mode), rows in files.items() for r in rows
            if ratios([r], "onednn")]
    print_row(["speed", "problem", "kernel", "microseconds"])
    print_row(["---"] * 4)
    for speed, dtype, mode, row in sorted(rows, key=lambda x: x[0])[:count]:
        print_row([f"{speed:.2f}", f"`{row['problem']}`", f"`{row['config'].split()[0]}`", f"{float(row['time_us']):.1f}"])


def print_rates(machine):
    names = {"fma": "f32 multiply-adds on registers alone", "fma_tile": "f32 multiply-adds of a register tile, operands from L1",
             "dpbf16": "bf16 dot products on registers alone", "vnni": "int8 dot products on registers alone",
             "amx_bf16": "bf16 tiles (AMX) on registers alone", "amx_int8": "int8 tiles (AMX) on registers alone",
             "amx_tile": "2 x 2 bf16 tiles (AMX), random numbers from L1"}
    print_row(["measured on one core", "Gop/s", "registers alone, beside it", "share"])
    print_row(["---"] * 4)
    for peak, gops in machine["peaks_gops"].items():
        print_row([names[peak], f"{gops:.0f}", "", ""])
    for share in machine["share_of_peak"]:
        print_row([f"1024 x 1024 x 1024 in {share['dtype']}, B {'packed' if share['packed'] else 'plain'}", f"{share['gops']:.0f}",
                   f"{share['peak_gops']:.0f}", f"{share['share']:.0%}"])


def print_packing(machine):
    ways = {"whole": "2048 x 2048 as a whole, ahead of time", "blocks": "4 MiB of lines of 1024, a panel at a time"}
    print_row(["packing a k-contiguous B", "type", "GB/s read", "memcpy to the same place, GB/s"])
    print_row(["---"] * 4)
    for p in machine["packing"]:
        print_row([ways[p["way"]], p["dtype"], f"{p['read_gb_s']:.0f}", f"{p['memcpy_gb_s']:.0f}"])


def print_calls(machine):
    print_row(["nanoseconds of a call", "`run_unchecked`", "`run`", "`Dispatcher::run`"])
    print_row(["---"] * 4)
    for c in machine["call_cost"]:
        print_row([f"`{c['problem']}`", *(f"{c[key]:.0f}" for key in ("run_unchecked_ns", "run_ns", "dispatcher_run_ns"))])


def print_headline(machines):
    print_row(["", *TYPES])
    print_row(["---"] * (len(TYPES) + 1))
    for machine in machines:
        name, prefix = machine.split("=", 1)
        files = read(prefix)
        means, worst = [], []
        for dtype in TYPES:
            rows = files.get((dtype, "plain"), [])
            by_class = {c: ratios([r for r in rows if class_of(r) == c], "onednn") for c, _, _ in CLASSES}
            least, which = min(((mean(values), c) for c, values in by_class.items() if values), default=(0, ""))
            means.append(f"{mean(ratios(rows, 'onednn')):.2f}" if which else "")
            worst.append(f"{least:.2f} ({which})" if which else "")
        print_row([name, *means])
        print_row(["its worst class", *worst])


def summaries(rows):
    """The classes of one CSV file, as bench_cpu_gemm writes them."""
    peers = [key[:-3] for key in rows[0] if key.endswith("_us") and key[:-3] in PEERS]
    out = {}
    for name in TITLES:
        mine = [r for r in rows if name in ("all", class_of(r))]
        if not mine:
            continue
        speedup = {}
        for peer in (*peers, "best"):
            values = ratios(mine, peer)
            if values:
                speedup[peer] = {"problems": len(values), "geomean": mean(values), "worst": min(values)}
        out[name] = {"problems": len(mine), "gops": mean([float(r["gflops"]) for r in mine if r["gflops"]]), "speedup": speedup}
    timed = [r for r in rows if r["time_us"]]
    beside = {}
    for peer in peers:
        values = ratios(rows, peer)
        beside[peer] = {"rows": len(values), "geomean": mean(values), "worst": min(values, default=0), "best": max(values, default=0)}
    return {"classes": out, "summary": {"rows": len(rows), "failed": len(rows) - len(timed), "wrong": sum(r["verified"] == "no" for r in rows),
                                        "gflops": mean([float(r["gflops"]) for r in timed]), "peers": beside}}


def write_summaries(prefix, files):
    path = pathlib.Path(prefix + ".json")
    whole = json.loads(path.read_text())
    machine = whole.pop("machine", None)
    whole |= {f"{dtype}.{mode}": summaries(rows) for (dtype, mode), rows in files.items()}
    timed = {peer for rows in files.values() for row in rows for peer in peers_of(row)}
    whole["peers"] = {peer: text for peer, text in whole["peers"].items() if peer in timed}
    path.write_text(json.dumps(whole | ({"machine": machine} if machine else {}), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", metavar="PREFIX", nargs="+")
    way = parser.add_mutually_exclusive_group()
    machine_tables = {"rates": print_rates, "packing": print_packing, "calls": print_calls}
    for name in ("peers", "json", "headline", *machine_tables):
        way.add_argument("--" + name, action="store_true")
    way.add_argument("--worst", type=int, metavar="N")
    o = parser.parse_args()
    if o.headline:
        print_headline(o.prefixes)
        return
    prefix, = o.prefixes
    files = read(prefix)
    if not o.json:
        check_summaries(prefix, files)
    for name, table in machine_tables.items():
        if getattr(o, name):
            table(json.loads(pathlib.Path(prefix + ".json").read_text())["machine"])
            return
    if o.worst:
        print_worst(files, o.worst)
    elif o.peers:
        print_classes([(f"{PEERS[peer]}, {dtype} {mode}", rows, peer) for peer in PEERS if peer != "onednn"
                       for (dtype, mode), rows in files.items()])
    elif o.json:
        write_summaries(prefix, files)
    else:
        print_classes([(f"{dtype} {mode}", rows, "onednn") for (dtype, mode), rows in files.items()])


if __name__ == "__main__":
    main()
