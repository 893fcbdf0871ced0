#!/usr/bin/env python3
"""Builds a wheel for each platform.

usage: wheels.py VERSION BINARIES OUT [PLATFORM ...]

VERSION is a Git tag such as v0.1.0-rc.1. BINARIES is a folder with the programs of each platform: in an archive of make
release, as afterbay_v0.1.0-rc.1_linux_amd64.tar.gz, or in a folder, as linux-amd64. The default is all platforms.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packaging.version import Version

HERE = Path(__file__).resolve().parent
TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "darwin-amd64": "macosx_12_0_x86_64",
    "darwin-arm64": "macosx_12_0_arm64",
}


def programs(binaries: Path, platform: str, unpacked: Path) -> Path:
    """Return the folder that has the programs of a platform."""
    if (folder := binaries / platform).is_dir():
        return folder
    archives = list(binaries.glob(f"afterbay_*_{platform.replace('-', '_')}.tar.gz"))
    if len(archives) != 1:
        sys.exit(f"wheels: {binaries} has {len(archives)} archives of {platform}: build one by make release")
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            if member.isfile() and (name := Path(member.name).name) in ("afterbay", "afterbay-onnx"):
                content = archive.extractfile(member)
                assert content is not None
                (unpacked / name).write_bytes(content.read())
                (unpacked / name).chmod(0o755)
    if not (unpacked / "afterbay").exists():
        sys.exit(f"wheels: {archives[0]} has no program afterbay: build it by make release")
    return unpacked


def main() -> None:
    """Build the wheels. The same input gives the same bytes."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    version, binaries, out, *platforms = sys.argv[1:]
    os.umask(0o022)
    for platform in platforms or TAGS:
        if platform not in TAGS:
            sys.exit(f"wheels: unknown platform {platform}: use {', '.join(TAGS)}")
        with tempfile.TemporaryDirectory() as unpacked:
            build(version, platform, programs(Path(binaries).resolve(), platform, Path(unpacked)), out)


def build(version: str, platform: str, folder: Path, out: str) -> None:
    """Build the wheel of a platform."""
    settings = {
        "AFTERBAY_VERSION": str(Version(version)),
        "AFTERBAY_PROGRAMS": str(folder),
        "AFTERBAY_TAG": f"py3-none-{TAGS[platform]}",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1580601600"),
    }
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(Path(out).resolve())]
    subprocess.run(command, cwd=HERE, env={**os.environ, **settings}, check=True)


if __name__ == "__main__":
    main()
