"""docs_tables.py on made-up trees."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import docs_tables  # noqa: E402

TABLE = "<!-- table: cat rows -->\n\n| a |\n| --- |\n| 1 |\n"


class DocsTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, docs_tables, "ROOT", docs_tables.ROOT)
        docs_tables.ROOT = self.root = pathlib.Path(folder.name)
        (self.root / "docs/tutorials").mkdir(parents=True)
        (self.root / "README.md").write_text("# One\n")
        (self.root / "rows").write_text("| a |\n| --- |\n| 1 |\n")

    def check(self, text, *options, page="docs/guide.md"):
        (self.root / page).write_text(text)
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["docs_tables.py", *options]), contextlib.redirect_stdout(said):
            status = docs_tables.main()
        return status, said.getvalue()

    def test_a_table_as_printed(self):
        self.assertEqual(self.check(TABLE + "\nText.\n"), (0, "1 tables\n"))
        self.assertEqual(self.check(TABLE), (0, "1 tables\n"))

    def test_another_table_is_refused_and_updated(self):
        status, said = self.check(TABLE.replace("1", "2"))
        self.assertEqual(status, 1)
        self.assertIn("docs/guide.md: the table of 'cat rows' is not what it prints", said)
        self.assertEqual(self.check(TABLE.replace("1", "2"), "--update")[0], 0)
        self.assertEqual((self.root / "docs/guide.md").read_text(), TABLE)

    def test_a_command_that_fails_is_refused(self):
        self.assertIn("'false' ends with status 1", self.check(TABLE.replace("cat rows", "false"))[1])

    def test_text_right_after_a_table_is_refused(self):
        self.assertEqual(self.check(TABLE + "Text.\n"), (1, "error: docs/guide.md:6: no blank line after the table\n1 tables\n"))

    def test_so_it_is_after_one_written_by_hand(self):
        status, said = self.check("| a |\n| --- |\nText.\n", page="docs/tutorials/first.md")
        self.assertEqual((status, said), (1, "error: docs/tutorials/first.md:3: no blank line after the table\n0 tables\n"))

    def test_bars_in_code_are_no_table(self):
        self.assertEqual(self.check("```text\n| a\nb\n```\n\n    | a\n    b\n"), (0, "0 tables\n"))


if __name__ == "__main__":
    unittest.main()
