"""The console script afterbay: it becomes the program that the wheel carries."""

import os
import sys

from . import _program
from .errors import AfterbayError


def main() -> None:
    """Replace this process by the program, with the same arguments."""
    try:
        program = _program.path()
    except AfterbayError as error:
        sys.exit(f"afterbay: {error}")
    os.execv(program, ["afterbay", *sys.argv[1:]])


if __name__ == "__main__":
    main()
