"""docs_site.py on made-up trees."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import docs_site  # noqa: E402


class SourcePages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, docs_site, "ROOT", docs_site.ROOT)
        docs_site.ROOT = self.root = pathlib.Path(folder.name)
        for name in ("README.md", "docs/guide.md", "build/docs/pages/guide.md"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("# One\n\n[another](#two)\n")

    def test_sources_without_version_control(self):
        self.assertEqual(docs_site.source_pages(), ["README.md", "docs/guide.md"])
        self.assertEqual(docs_site.check_source_links(),
                         [f"{name}: {name} has no heading #two" for name in ("README.md", "docs/guide.md")])

    @unittest.skipIf(shutil.which("git") is None, "no git")
    def test_tracked_pages_alone(self):
        subprocess.run(["git", "init", "-q", self.root], check=True)
        subprocess.run(["git", "-C", self.root, "add", "README.md"], check=True)
        self.assertEqual(docs_site.source_pages(), ["README.md"])


if __name__ == "__main__":
    unittest.main()
