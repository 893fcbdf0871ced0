"""Errors of the program afterbay."""


class AfterbayError(Exception):
    """The program ended with an error. The text is its own: file, line, field and the next step.

    `exit_code` is its exit code: 1 the work failed, 2 the arguments are wrong.
    """

    exit_code = 1

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class InvalidFileError(AfterbayError):
    """A pipeline file, manifest or model is not valid (exit code 3)."""

    exit_code = 3


class LockedError(AfterbayError):
    """Another process holds the data directory and does not answer (exit code 4)."""

    exit_code = 4


class DataDirectoryError(AfterbayError):
    """The data directory is damaged, or cannot be read or written (exit code 5)."""

    exit_code = 5


class UnreachableError(AfterbayError):
    """A broker or a model server cannot be reached, or refuses (exit code 6)."""

    exit_code = 6


def of_exit(code: int, message: str) -> AfterbayError:
    """Return the error for an exit code."""
    for kind in (InvalidFileError, LockedError, DataDirectoryError, UnreachableError):
        if kind.exit_code == code:
            return kind(message)
    return AfterbayError(message or f"afterbay ended with exit code {code}", code)
