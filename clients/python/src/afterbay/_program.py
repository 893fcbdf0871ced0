"""Runs the program that the wheel carries."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .errors import AfterbayError, of_exit

MESSAGE_MAX = 8000  # bytes of stderr in an error


def path() -> str:
    """Return the path of the program.

    AFTERBAY_PROGRAM is a path that is used instead of the program of the wheel.
    """
    program = os.environ.get("AFTERBAY_PROGRAM") or str(Path(__file__).parent / "bin" / "afterbay")
    if not os.access(program, os.X_OK):
        raise AfterbayError(
            f"{program} is no program: install a wheel of afterbay for this platform (Linux or macOS, "
            "amd64 or arm64), or set AFTERBAY_PROGRAM to the path of the program"
        )
    return program


def environment() -> dict[str, str]:
    """Return the environment of the program: python3 is this interpreter, for models in Python."""
    folder = os.path.dirname(sys.executable)
    return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", os.defpath)}


def run(arguments: Sequence[str], stdin: IO[bytes] | None = None) -> tuple[str, str]:
    """Run a command to its end. Return its stdout and its stderr.

    Raise AfterbayError if its exit code is not 0.
    """
    done = subprocess.run([path(), *arguments], stdin=stdin or subprocess.DEVNULL, capture_output=True, env=environment(), check=False)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise of_exit(done.returncode, message(err, out))
    return out, err


def message(*texts: str) -> str:
    """Return the end of the first text that is not empty, without the name of the program in front."""
    text = next((t.strip() for t in texts if t.strip()), "")[-MESSAGE_MAX:]
    return text.removeprefix("afterbay: ")
