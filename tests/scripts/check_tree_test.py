import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_tree  # noqa: E402


class CheckTree(unittest.TestCase):
    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = pathlib.Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_tree.Tree(folder.name, files)

    def includes(self, files):
        return check_tree.check_includes(self.tree(files))

    def test_lower_layers_may_be_included(self):
        self.assertEqual(self.includes({
            "src/runtime/a.cpp": '#include "space/b.h"\n#include <vector>\n#include <sys/stat.h>\n',
            "src/space/b.h": '#include "core/c.h"\n', "src/core/c.h": ""}), [])

    def test_higher_layers_may_not(self):
        errors = self.includes({"src/core/a.h": '#include "runtime/b.h"\n', "src/runtime/b.h": ""})
        self.assertEqual(errors, ["src/core/a.h:1: may not include src/runtime/b.h; layer core is below runtime"])

    def test_the_four_stand_side_by_side(self):
        errors = self.includes({"src/model/a.h": '\n#include "space/b.h"\n', "src/space/b.h": ""})
        self.assertEqual(len(errors), 1)
        self.assertIn("src/model/a.h:2", errors[0])

    def test_tests_may_use_a_sibling_but_nothing_above(self):
        files = {"tests/model/a_test.cpp": '#include "space/b.h"\n#include "runtime/c.h"\n', "src/space/b.h": "",
                 "src/runtime/c.h": ""}
        errors = self.includes(files)
        self.assertEqual(len(errors), 1)
        self.assertIn("runtime/c.h", errors[0])

    def test_public_headers_belong_to_the_layer_of_their_cpp(self):
        files = {"include/tessera/x.h": "", "src/runtime/x.cpp": '#include "tessera/x.h"\n',
                 "src/core/a.cpp": '#include "tessera/x.h"\n'}
        self.assertEqual(len(self.includes(files)), 1)

    def test_of_two_files_of_one_name_the_lower_has_the_header(self):
        files = {"include/tessera/x.h": "", "src/cli/x.cpp": "", "src/runtime/x.cpp": '#include "tessera/x.h"\n'}
        self.assertEqual(self.includes(files), [])

    def test_a_public_header_without_a_cpp_must_be_listed(self):
        self.assertEqual(len(self.includes({"include/tessera/lonely.h": ""})), 1)

    def test_an_unknown_include_is_refused(self):
        self.assertEqual(len(self.includes({"src/core/a.h": '#include "nowhere.h"\n'})), 1)

    def test_third_party_headers_are_for_one_file(self):
        files = {"src/base/a.cpp": "#include <lib/x.hpp>\n", "src/core/b.cpp": "#include <lib/x.hpp>\n",
                 "src/core/c.cpp": "#include <other.h>\n"}
        self.assertEqual(len(self.includes(files)), 1)

    def test_kernel_headers_include_kernel_headers_only(self):
        files = {"kernels/cpu/a.h": '#include "base/x.h"\n', "src/base/x.h": "",
                 "src/core/y.cpp": '#include "cpu/a.h"\n'}
        self.assertEqual(len(self.includes(files)), 2)

    def test_arch_names_are_refused_in_the_sources(self):
        tree = self.tree({"arch/zz_9.json": "{}", "arch/schema.json": "{}", "src/core/a.cpp": "f(\"zz_9\");\nzz_99\n",
                          "tests/core/a_test.cpp": "zz_9\n"})
        self.assertEqual(len(check_tree.check_arch_names(tree)), 1)

    def test_words(self):
        tree = self.tree({"a.md": "see /home/someone/x\n", "b.cpp": "// TODO\n", "c.md": "a/work/b, ~/x\n"})
        self.assertEqual(len(check_tree.check_words(tree)), 2)

    def test_sizes(self):
        tree = self.tree({"a.cpp": "\n" * 401, "b.cpp": "\n" * 801, "c.cpp": "\n" * 400, "d.csv": "\n" * 999})
        errors, notes = check_tree.check_sizes(tree)
        self.assertEqual((len(errors), len(notes)), (1, 1))

    def test_tests_mirror_the_sources(self):
        tree = self.tree({"src/core/a.cpp": "", "tests/core/a_test.cpp": "", "tests/kore/a_test.cpp": ""})
        self.assertEqual(len(check_tree.check_mirror(tree)), 1)


if __name__ == "__main__":
    unittest.main()
