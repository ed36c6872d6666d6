#!/usr/bin/env python3
"""docs_test.py ROOT FOLDER: the site's pages can be made, name what is public, and MkDocs, where it is, builds them."""
import pathlib
import subprocess
import sys

from commands import run


def main():
    root, folder = map(pathlib.Path, sys.argv[1:])
    script = root / "scripts" / "docs_site.py"
    run(sys.executable, script, "pages", folder / "pages")
    wanted = {"reference/python.md": ["### gemm", "Dispatcher.build", "### BadInput"],
              "reference/dispatcher.md": ["class Dispatcher", "explicit Dispatcher("],
              "reference/tessera.md": ["tsr_kernel_run", "## Kernel"], "index.md": ["](guide.md)"],
              "examples.md": ["gemm_first (Python)"]}
    for page, texts in wanted.items():
        content = (folder / "pages" / page).read_text()
        for text in texts:
            if text not in content:
                sys.exit(f"failed: {page} does not say '{text}'")
    mkdocs = next((p for p in ("/usr/bin/python3", sys.executable)
                   if pathlib.Path(p).exists() and
                   subprocess.run([p, "-c", "import mkdocs"], capture_output=True).returncode == 0), None)
    if mkdocs is None:
        print("skipped: the pages are right, but there is no MkDocs; ./dev docs installs it")
        return 77
    config = (root / "mkdocs.yml").read_text().replace("build/docs/pages", str(folder / "pages")).replace(
        "build/docs/site", str(folder / "site"))
    (folder / "mkdocs.yml").write_text(config)
    run(mkdocs, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", folder / "mkdocs.yml")
    print(run(sys.executable, script, "check", folder / "site"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
