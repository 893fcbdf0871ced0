"""Scores by a function of a file: python3 -m afterbay.worker FILE NAME. The engine starts it."""

import os
import runpy
import sys
from collections.abc import Callable

from . import _worker  # first: it moves stdout away from what the function prints
from .models import Model


def main() -> None:
    """Serve the model NAME of FILE until stdin ends."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, name = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    found = runpy.run_path(path).get(name)
    if not isinstance(found, Model):
        sys.exit(f"{path}: {name} is no model: write @afterbay.model before the function {name}")
    serve: Callable[..., None] = _worker.serve
    serve(found.predict, list(found.inputs))


if __name__ == "__main__":
    main()
