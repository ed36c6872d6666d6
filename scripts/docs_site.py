#!/usr/bin/env python3
"""docs_site.py links                 every link of the tracked Markdown files leads somewhere
docs_site.py pages FOLDER           the site's pages: docs/, the README, the examples, and a reference of all languages
docs_site.py check SITE             every local link of a built site leads somewhere

`./dev docs` makes the site of it with MkDocs.
"""
import ast
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


# -- Links of the sources ------------------------------------------------------------------------------------------

def slug(heading):
    """The anchor of a heading, as Markdown renderers make it."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading)
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


def anchors(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {slug(line.lstrip("#")) for line in text.splitlines() if re.match(r"#+ ", line)}


def source_pages():
    """Names of the pages under version control; of all outside build folders where the sources came without it."""
    if not (ROOT / ".git").exists():
        return [str(p.relative_to(ROOT)) for p in sorted(ROOT.rglob("*.md"))
                if not p.relative_to(ROOT).parts[0].startswith("build")]
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "*.md"], check=True, capture_output=True).stdout
    return [name for name in out.decode().split("\0") if name and (ROOT / name).is_file()]


def check_source_links():
    errors = []
    for name in source_pages():
        path = ROOT / name
        for match in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
            target, _, anchor = match.group(2).partition("#")
            if "://" in target:
                continue
            file = (path.parent / target) if target else path
            if not file.exists():
                errors.append(f"{name}: [{match.group(1)}]({match.group(2)}) leads nowhere")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                errors.append(f"{name}: {target or name} has no heading #{anchor}")
    return errors


# -- Reference of C and C++ ----------------------------------------------------------------------------------------

def comment_text(lines):
    """Prose of // lines; what is indented stays as it is."""
    return "\n".join(re.sub(r"^\s*// ?", "", line).replace("   ", "    ", 1) if line.strip().startswith("//   ")
                     else re.sub(r"^\s*// ?", "", line) for line in lines)


def blocks(text):
    """Runs of lines between blank lines outside of braces."""
    block, depth, out = [], 0, []
    for line in text.splitlines():
        if not line.strip() and depth == 0:
            if block:
                out.append(block)
            block = []
            continue
        block.append(line)
        code = "" if line.lstrip().startswith(("/*", "*")) else re.sub(r"//.*|/\*.*?\*/|\"[^\"]*\"", "", line)
        depth += code.count("{") - code.count("}")
    return out + ([block] if block else [])


def cpp_page(header):
    text = header.read_text()
    intro = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        intro.append(line)
    body = text.split("namespace tessera {", 1)[-1].rsplit("}  // namespace tessera", 1)[0]
    out = [f"# {header.name}", f'`#include "tessera/{header.name}"`', comment_text(intro)]
    for block in blocks(body):
        split = next((i for i, line in enumerate(block) if not line.startswith("//")), len(block))
        out.append(comment_text(block[:split]))
        if block[split:]:
            out.append("```cpp\n" + "\n".join(block[split:]) + "\n```")
    return "\n\n".join(part for part in out if part.strip()) + "\n"


def c_page(header):
    text = header.read_text()
    intro = re.match(r"/\*(.*?)\*/", text, re.S).group(1)
    body = text.split('extern "C" {\n#endif', 1)[1].split("#ifdef __cplusplus", 1)[0]
    out = [f"# {header.name}", re.sub(r"^ \* ?", "", intro.strip(), flags=re.M)]
    for block in blocks(body):
        title = re.match(r"/\* ---- (.*) ---- \*/", block[0])
        if title:
            out.append(f"## {title.group(1)}")
            block = block[1:]
        if block:
            out.append("```c\n" + "\n".join(block) + "\n```")
    return "\n\n".join(out) + "\n"


# -- Reference of Python -------------------------------------------------------------------------------------------

def signature(node):
    return f"{node.name}({ast.unparse(node.args)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def python_entry(node, level, owner=""):
    """Markdown of a function or class with a docstring."""
    doc = ast.get_docstring(node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        text = re.sub(r"\(self(, )?", "(", signature(node), count=1)
        head = f"{'#' * level} {owner}{node.name}\n\n```python\n{owner}{text}\n```\n\n{doc or ''}\n"
        return head if doc or not owner else ""
    out = [f"{'#' * level} {node.name}\n"]
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init:
        out.append(f"```python\n{re.sub(r'__init__[(]self(, )?', node.name + '(', signature(init), count=1)}\n```\n")
    out.append((doc or "") + "\n")
    for child in node.body:
        is_call = isinstance(child, ast.FunctionDef) and child.name == "__call__"
        if isinstance(child, ast.FunctionDef) and (is_call or not child.name.startswith("_")):
            out.append(python_entry(child, level + 1, node.name + "."))
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and not init:
            out.append(f"- `{child.target.id}: {ast.unparse(child.annotation)}`\n")
    return "\n".join(out)


def python_page():
    package = ROOT / "python" / "tessera"
    init = ast.parse((package / "__init__.py").read_text())
    places = next(ast.literal_eval(n.value) for n in init.body
                  if isinstance(n, ast.Assign) and n.targets[0].id == "_PLACES")
    out = ["# The Python package\n", ast.get_docstring(init) + "\n"]
    modules = list(dict.fromkeys(places.values()))
    if (package / "torch.py").exists():
        modules.append("torch")
    for module in modules:
        tree = ast.parse((package / f"{module}.py").read_text())
        wanted = {name for name, place in places.items() if place == module}
        out.append(f"## tessera.{module}\n\n{ast.get_docstring(tree) or ''}\n")
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                if node.name in wanted or (module == "torch" and not node.name.startswith("_")):
                    out.append(python_entry(node, 3))
    return "\n".join(out)


# -- Pages ---------------------------------------------------------------------------------------------------------

def examples_page():
    out = ["# Examples\n\nEach is built or run by the tests.\n"]
    for folder, title, fence in (("python", "Python", "python"), ("cpp", "C++", "cpp"), ("c", "C", "c")):
        out.append(f"## In {title}\n")
        for path in sorted((ROOT / "examples" / folder).iterdir()):
            if path.suffix in (".py", ".cpp", ".c"):
                out.append(f"### {path.stem} ({title})\n\n`{path.relative_to(ROOT)}`\n\n```{fence}\n{path.read_text()}```\n")
    return "\n".join(out)


def site_links(text, name, pages):
    """Links to pages of the site stay, whatever folder they came from; other files of the tree become plain text."""
    def replace(match):
        target, _, anchor = match.group(2).partition("#")
        if "://" in target or not target:
            return match.group(0)
        path = ((ROOT / name).parent / target).resolve()
        page = pages.get(path.relative_to(ROOT).as_posix())
        if page is None:
            return f"{match.group(1)} (`{path.relative_to(ROOT).as_posix()}`)" if match.group(1) else match.group(0)
        page = os.path.relpath(page, os.path.dirname(pages[name]) or ".")
        return f"[{match.group(1)}]({page}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```)", text, flags=re.S | re.M)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts)


def write_pages(folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("reference", "tutorials"):
        (folder / part).mkdir(parents=True)
    sources = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "suites/README.md": "suites.md"}
    for path in sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md")]):
        sources[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT / "docs").as_posix()
    for source, page in sources.items():
        (folder / page).write_text(site_links((ROOT / source).read_text(), source, sources))
    (folder / "examples.md").write_text(examples_page())
    (folder / "reference" / "python.md").write_text(python_page())
    for header in sorted((ROOT / "include" / "tessera").glob("*.h")):
        page = c_page(header) if header.name == "tessera.h" else cpp_page(header)
        (folder / "reference" / f"{header.stem}.md").write_text(page)
    print(f"{len(list(folder.rglob('*.md')))} pages in {folder}")


# -- A built site --------------------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.ids.add(value)
            if key in ("href", "src") and value:
                self.links.append(value)


def check_site(folder):
    folder = pathlib.Path(folder).resolve()
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    errors = [] if pages else [f"{folder} has no pages"]
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlparse(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                errors.append(f"{path.relative_to(folder)}: {link} leads nowhere")
            elif parts.fragment and target in pages and parts.fragment not in pages[target].ids:
                errors.append(f"{path.relative_to(folder)}: {link}: no such place in that page")
    print(f"{len(pages)} pages, {sum(len(p.links) for p in pages.values())} links")
    return errors


def main():
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb == "links":
        errors = check_source_links()
    elif verb == "pages" and len(sys.argv) == 3:
        errors = write_pages(sys.argv[2]) or []
    elif verb == "check" and len(sys.argv) == 3:
        errors = check_site(sys.argv[2])
    else:
        print(__doc__)
        return 2
    for text in errors:
        print(f"error: {text}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
