"""Puts the programs of one platform into the wheel. wheels.py sets the two variables."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("afterbay", "afterbay-onnx")


class Programs(BuildHookInterface):
    """Adds the programs and sets the platform tag of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Read AFTERBAY_PROGRAMS, a folder, and AFTERBAY_TAG, such as py3-none-macosx_12_0_arm64."""
        folder, tag = os.environ.get("AFTERBAY_PROGRAMS"), os.environ.get("AFTERBAY_TAG")
        if not folder or not tag:
            raise RuntimeError("this package carries a program for each platform: build it by `make wheels VERSION=v0.1.0`")
        build_data["tag"] = tag
        build_data["pure_python"] = False
        for name in PROGRAMS:
            if (program := Path(folder) / name).exists():
                build_data["force_include"][str(program)] = f"afterbay/bin/{name}"
