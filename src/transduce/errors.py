"""What can go wrong that a user can mend.

    TransduceError
    ├── UserError               one line on stderr, exit code 2
    │   ├── ConfigError         a key, value, preset or file of the configuration
    │   ├── CorpusError         text files: missing, damaged, misaligned, not UTF-8
    │   ├── CodecError          a vocabulary that cannot be learned, loaded or used
    │   ├── BundleError         a model on disk that is not one, is damaged or too new
    │   ├── RunError            a run directory: holds another run, nothing to resume
    │   ├── ServeError          a request that is refused (serve/errors.py)
    │   └── MissingExtra        an optional dependency that is not installed
    └── Interrupted             SIGINT or SIGTERM, after everything was saved: 130 or 143

A message names the place, the value and the way out. Our own bugs are plain exceptions and assertions: exit code 1
and a traceback.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class TransduceError(Exception):
    """The root of everything raised here on purpose."""


class UserError(TransduceError):
    """A mistake that the user can mend; the message says how."""


class ConfigError(UserError):
    """A configuration key, value, preset or file."""


class CorpusError(UserError):
    """A text file that is missing, damaged, misaligned or not UTF-8."""


class CodecError(UserError):
    """A vocabulary that cannot be learned, loaded or used."""


class BundleError(UserError):
    """A directory that is not a bundle, or a damaged or newer one."""


class RunError(UserError):
    """A run directory that holds another run, or nothing to resume."""


class MissingExtra(UserError):  # noqa: N818 - it reads as what is wrong
    """An optional dependency that is not installed."""


class Interrupted(TransduceError):  # noqa: N818 - not an error: the user asked
    """A signal ended the work after its state was saved."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{module} is not installed: pip install '.[{extra}]' brings it") from error
