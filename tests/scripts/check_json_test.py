import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
try:
    import jsonschema  # noqa: F401
    import check_json
except ImportError:
    check_json = None

SCHEMA = '{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}, ' \
         '"additionalProperties": false}'


@unittest.skipIf(check_json is None, "no python3-jsonschema")
class CheckJson(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "schema.json").write_text(SCHEMA)
            (folder / "a.json").write_text(text)
            return check_json.check_folder(folder)

    def test_a_good_file(self):
        self.assertEqual(self.check('{"name": "x"}'), (1, []))

    def test_unknown_and_missing_keys(self):
        self.assertEqual(len(self.check('{"nam": "x"}')[1]), 2)

    def test_duplicate_keys(self):
        self.assertIn("duplicate key 'name'", self.check('{"name": "x", "name": "y"}')[1][0])

    def test_broken_text(self):
        self.assertEqual(len(self.check('{"name"')[1]), 1)


if __name__ == "__main__":
    unittest.main()
