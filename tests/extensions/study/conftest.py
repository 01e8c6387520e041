"""Fixtures of tests of studies: a browser, and texts in place of a store's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from medhelm.extensions.study.formats.exchange import RaterCases, rater_cases
from tests.support.offline_studies import offline_study
from tests.support.rated_studies import shown_texts
from tests.support.web.browser import started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture
def same_texts() -> Iterator[None]:
    """Every completion is shown as the same text."""
    with shown_texts():
        yield


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> RaterCases:
    """The cases of a rater who gives grades."""
    return rater_cases(*offline_study(tmp_path_factory.mktemp("study") / "s"), "rater_1")
