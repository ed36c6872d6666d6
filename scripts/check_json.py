#!/usr/bin/env python3
"""check_json.py [ROOT]: every JSON file against its schema, with duplicate keys refused.

A folder with a schema.json has its other JSON files checked against it. Needs python3-jsonschema.
"""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: no python3-jsonschema")
    sys.exit(77)


def unique(pairs):
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"duplicate key '{twice[0]}'")
    return dict(pairs)


def load(path):
    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)


def check_folder(folder):
    """-> (files checked, errors)."""
    errors, count = [], 0
    schema = load(folder / "schema.json")
    validator = jsonschema.Draft7Validator(schema)
    validator.check_schema(schema)
    for path in sorted(folder.glob("*.json")):
        if path.name == "schema.json":
            continue
        count += 1
        try:
            data = load(path)
        except ValueError as error:
            errors.append(f"{path}: {error}")
            continue
        for error in validator.iter_errors(data):
            where = "/".join(map(str, error.absolute_path)) or "top level"
            errors.append(f"{path}: at {where}: {error.message}")
    return count, errors


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    folders = sorted(path.parent for path in root.glob("*/schema.json"))
    if not folders:
        print("error: no */schema.json found")
        return 1
    total, errors = 0, []
    for folder in folders:
        count, found = check_folder(folder)
        if not count:
            found.append(f"{folder}: a schema and no file")
        total += count
        errors += found
    for text in errors:
        print(f"error: {text}")
    print(f"{total} JSON files in {len(folders)} folders checked against their schemas")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
