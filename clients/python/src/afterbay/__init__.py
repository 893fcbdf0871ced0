"""Afterbay from Python: the embedded engine, models in Python, and exported models.

`Engine` runs pipelines on a data directory and returns tables. The wheel carries the program `afterbay`, which does the work.
"""

from importlib import metadata

from ._tables import Events
from .engine import Engine, Record, Run, Trial
from .errors import AfterbayError, DataDirectoryError, InvalidFileError, LockedError, UnreachableError
from .export import export_model
from .models import Model, ModelError, model

__all__ = [
    "AfterbayError",
    "DataDirectoryError",
    "Engine",
    "Events",
    "InvalidFileError",
    "LockedError",
    "Model",
    "ModelError",
    "Record",
    "Run",
    "Trial",
    "UnreachableError",
    "__version__",
    "export_model",
    "model",
]

try:
    __version__: str = metadata.version("afterbay")
except metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0"
