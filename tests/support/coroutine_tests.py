"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine with `run_test` of its module: `asyncio.run`, unless time is virtual there."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run_test = getattr(pyfuncitem.module, "run_test", asyncio.run)
    run_test(
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    )
    return True
