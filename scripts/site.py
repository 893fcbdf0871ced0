#!/usr/bin/env python3
"""site.py [VERSION]: builds the site of the documentation into dist/site, without network.

Pages are those of docs/ and the README, which is the home page. The site differs from what a
repository shows in three ways: a link to a file that is no page leads to the repository, a fenced
block has no attributes of tests, and a folder's README.md is its index. The generator is Zensical
(docs/adr/0054-site.md).
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = "https://github.com/afterbay/afterbay/blob/main/"
ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / ".site"
# The sections of the navigation. A folder's pages follow the order of the links in its README.
# Folders in a folder are sections below it.
SECTIONS = [
    ("Guides", "guide"),
    ("How-to", "howto"),
    ("Cookbook", "cookbook"),
    ("Reference", "reference"),
    ("Formats", "format"),
    ("Design", "design"),
    ("Decisions", "adr"),
]
# What lets a browser search a site that it reads from a disk: the generator would load it from a server.
SHIM = "https://unpkg.com/iframe-worker/shim"
FENCE = re.compile(r"^(\s*)```([\w+-]+)[ \t]+(.+)$")
LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")


def on_site(path: Path) -> Path | None:
    """Returns where a file of the repository is on the site, None if it is not there."""
    if path == ROOT / "README.md":
        return Path("index.md")
    if not path.is_relative_to(ROOT / "docs") or path.is_relative_to(ROOT / "docs/results"):
        return None
    if path.is_dir():
        path = path / "README.md"
        if not path.exists():
            return None
    if path.suffix not in (".md", ".svg", ".png", ".json"):
        return None
    inside = path.relative_to(ROOT / "docs")
    return inside.with_name("index.md") if inside.name == "README.md" else inside


def relink(target: str, page: Path, here: Path) -> str:
    """Returns a link of a page as the site has it."""
    if re.match(r"[a-z]+:|#", target):
        return target
    name, mark, anchor = target.partition("#")
    path = (page.parent / name).resolve()
    if (to := on_site(path)) is not None:
        return os.path.relpath(to, here.parent) + mark + anchor
    return REPOSITORY + path.relative_to(ROOT).as_posix() + mark + anchor


def rewrite(page: Path, here: Path) -> str:
    """Returns the text of a page as the generator reads it."""
    out, fenced = [], False
    for line in page.read_text().split("\n"):
        if m := FENCE.match(line):
            file = re.search(r"(?:file|from)=(\S+)", m[3])
            line = f"{m[1]}```{m[2]}" + (f' title="{file[1]}"' if file else "")
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            if line.startswith("#") and "<" in line:
                line += " {#%s}" % slug(line)
            line = LINK.sub(lambda m: f"]({relink(m[1], page, here)})", line)
        out.append(line)
    return "\n".join(out)


def slug(heading: str) -> str:
    """Returns the anchor that a repository gives a heading: the generator leaves out <words>."""
    return re.sub(r"[^\w -]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def title(page: Path) -> str:
    """Returns the first heading of a page."""
    m = re.search(r"^# (.+)$", page.read_text(), re.M)
    if m is None:
        sys.exit(f"{page}: no heading: begin the page with # TITLE")
    return m[1].replace("`", "")


def pages_of(folder: Path) -> list[Path]:
    """Returns the pages of a folder: its index, those that the index links, and others by name."""
    pages = sorted(p for p in folder.glob("*.md") if p.name != "README.md")
    index = folder / "README.md"
    if not index.exists():
        return pages
    linked = [(folder / m.partition("#")[0]).resolve() for m in LINK.findall(index.read_text())]
    return [index, *dict.fromkeys(p for p in linked if p in pages), *(p for p in pages if p not in linked)]


def navigation() -> str:
    """Returns `nav` of the configuration, in TOML."""

    def entry(page: Path) -> str:
        return '{ "%s" = "%s" }' % (title(page).replace('"', "'"), on_site(page).as_posix())

    def section(name: str, folder: Path) -> str:
        entries = [entry(p) for p in pages_of(folder)]
        entries += [section(f.name.capitalize(), f) for f in sorted(folder.iterdir()) if f.is_dir() and any(f.glob("*.md"))]
        return '{ "%s" = [%s] }' % (name, ", ".join(entries))

    sections = ['{ "Home" = "index.md" }']
    sections += [section(name, ROOT / "docs" / folder) for name, folder in SECTIONS]
    more = ", ".join(entry(p) for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "README.md")
    sections.append('{ "More" = [%s] }' % more)
    return "nav = [\n  " + ",\n  ".join(sections) + "\n]\n"


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*")]:
        if not page.is_file() or (here := on_site(page)) is None:
            continue
        (STAGE / here).parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            (STAGE / here).write_text(rewrite(page, here))
        else:
            shutil.copyfile(page, STAGE / here)
    text = (ROOT / "scripts/site.toml").read_text()
    config = ROOT / ".site.toml"
    config.write_text(text.replace("# nav\n", navigation()).replace("VERSION", version or "main"))
    zensical = ROOT / ".venv/zensical/bin/zensical"
    try:
        subprocess.run([zensical, "build", "--clean", "--strict", "--config-file", config], check=True, cwd=ROOT)
    except FileNotFoundError:
        sys.exit(f"{zensical} is missing: run make deps")
    finally:
        config.unlink()
    for page in (ROOT / "dist/site").rglob("*.html"):
        base = os.path.relpath(ROOT / "dist/site/assets/javascripts", page.parent)
        page.write_text(page.read_text().replace(SHIM, f"{base}/shim.js"))
    shutil.copyfile(ROOT / ".venv/clients/node_modules/iframe-worker/shim/index.js", ROOT / "dist/site/assets/javascripts/shim.js")


if __name__ == "__main__":
    main()
