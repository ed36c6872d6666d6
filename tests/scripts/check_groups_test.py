import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_groups  # noqa: E402

REPORT = """<testsuite>
  <testcase name="a" status="run"/>
  <testcase name="b" status="notrun"><skipped message=""/></testcase>
  <testcase name="c" status="fail"><failure message=""/></testcase>
</testsuite>"""


class CheckGroups(unittest.TestCase):
    def test_reads_outcomes(self):
        outcomes = check_groups.outcomes_of(ElementTree.fromstring(REPORT))
        self.assertEqual(outcomes, {"a": "run", "b": "skipped", "c": "failed"})

    def test_reads_labels(self):
        listing = {"tests": [{"name": "a", "properties": [{"name": "LABELS", "value": ["pure"]}]}, {"name": "b"}]}
        self.assertEqual(check_groups.groups_of(listing), {"a": ["pure"]})

    def test_no_test_is_an_error(self):
        self.assertEqual(check_groups.judge({}, {})[0], ["no test ran"])

    def test_a_wholly_skipped_group_is_an_error(self):
        labels = {"a": ["pure"], "b": ["cpu"], "c": ["cpu"]}
        errors, _ = check_groups.judge({"a": "run", "b": "skipped", "c": "skipped"}, labels)
        self.assertEqual(errors, ["all 2 tests of group 'cpu' were skipped"])

    def test_a_partly_skipped_group_is_a_note(self):
        labels = {"a": ["cpu"], "b": ["cpu"]}
        errors, notes = check_groups.judge({"a": "run", "b": "skipped"}, labels)
        self.assertEqual((errors, notes), ([], ["1 of 2 tests of group 'cpu' were skipped"]))

    def test_a_missing_gpu_is_a_note(self):
        labels = {"a": ["cpu"], "b": ["gpu"]}
        errors, notes = check_groups.judge({"a": "run", "b": "skipped"}, labels)
        self.assertEqual((errors, notes), ([], ["all 1 tests of group 'gpu' were skipped"]))


if __name__ == "__main__":
    unittest.main()
