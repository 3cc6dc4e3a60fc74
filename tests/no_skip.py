"""Leaving out a test for want of something that CI installs: a skip on a laptop, a failure in CI."""

import os
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test, or a whole file from its top; fail under TRANSDUCE_NO_SKIP.

    For what CI lacks too, such as a GPU, use pytest.skip.
    """
    if os.environ.get("TRANSDUCE_NO_SKIP"):
        pytest.fail(f"TRANSDUCE_NO_SKIP is set, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def import_or_skip(module: str, *, extra: str) -> ModuleType:
    """An optional dependency."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        skip_or_fail(f"{module} is not installed: pip install '.[{extra}]' brings it")
