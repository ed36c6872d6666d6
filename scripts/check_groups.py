#!/usr/bin/env python3
"""check_groups.py BUILD_DIR: all-skipped is not green.

Reads the JUnit report of the last ctest run (ctest.xml) and the labels of the tests, and fails when no test ran
or when every selected test of a group was skipped. The gpu group may be skipped as a whole, said aloud.
"""
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

MAY_BE_ABSENT = {"gpu"}


def groups_of(listing):
    """Test name -> its labels, from `ctest --show-only=json-v1`."""
    labels = {}
    for test in listing["tests"]:
        for prop in test.get("properties", []):
            if prop["name"] == "LABELS":
                labels[test["name"]] = prop["value"]
    return labels


def outcomes_of(report):
    """Test name -> "run", "skipped" or "failed", from a JUnit report."""
    outcomes = {}
    for case in report.iter("testcase"):
        status = case.get("status", "run")
        skipped = status == "notrun" or case.find("skipped") is not None
        outcomes[case.get("name")] = "skipped" if skipped else "failed" if status == "fail" else "run"
    return outcomes


def judge(outcomes, labels):
    """-> (errors, notes)."""
    errors, notes = [], []
    if not any(outcome != "skipped" for outcome in outcomes.values()):
        errors.append("no test ran")
    counts = {}
    for name, outcome in outcomes.items():
        for group in labels.get(name, []):
            total, skipped = counts.get(group, (0, 0))
            counts[group] = (total + 1, skipped + (outcome == "skipped"))
    for group, (total, skipped) in sorted(counts.items()):
        if skipped == total:
            text = f"all {total} tests of group '{group}' were skipped"
            (notes if group in MAY_BE_ABSENT else errors).append(text)
        elif skipped:
            notes.append(f"{skipped} of {total} tests of group '{group}' were skipped")
    return errors, notes


def main():
    tree = pathlib.Path(sys.argv[1])
    report = tree / "ctest.xml"
    if not report.exists():
        print("error: ctest wrote no report: no test ran", file=sys.stderr)
        return 1
    listing = subprocess.run(["ctest", "--test-dir", str(tree), "--show-only=json-v1"], check=True,
                             capture_output=True, text=True).stdout
    errors, notes = judge(outcomes_of(ElementTree.parse(report)), groups_of(json.loads(listing)))
    for text in notes:
        print(f"note: {text}")
    for text in errors:
        print(f"error: {text}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
