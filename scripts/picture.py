#!/usr/bin/env python3
"""picture.py: runs the commands of the README's picture, and draws what they print.

    make build && pip install rich==15.0.0 && python3 scripts/picture.py

It writes docs/at-work.svg. Nothing in the picture is written by hand: a line of COMMANDS runs in an
empty folder, as a shell would run it, and the picture has its output.
"""
import os
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [
    "afterbay demo | head -14",
    "afterbay tail decisions --data demo-data/data | grep block | head -1",
    "afterbay explain transactions/0@2950 demo-data/pipeline.yaml --data demo-data/data"
    " | grep -E '^[a-z]|_1h|gap|score|same'",
]
# Fonts of the reader's machine: the picture loads nothing.
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="afterbay at work">
<style>{styles} .{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}</style>
<defs>{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    console = Console(record=True, width=124, file=open(os.devnull, "w"))
    environment = os.environ | {"PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
            console.print(Text("$ ", "bold green") + Text(command, "bold"))
            console.print(Text(done.stdout + (done.stderr if done.returncode else "")))
    svg = console.export_svg(title="afterbay", theme=MONOKAI, code_format=FRAME, unique_id="afterbay")
    (ROOT / "docs/at-work.svg").write_text(svg)


if __name__ == "__main__":
    main()
