"""Models that another process calls: what a command does if nothing can reach that process."""

from __future__ import annotations

import pytest

from medhelm.errors import MissingError
from medhelm.io import plugins
from medhelm.models.gateway import remote_of


def test_commands_refuse_a_gateway_without_its_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "extension_targets", lambda _: {})
    words = r"\(MEDHELM_GATEWAY\) needs the extension `cluster`, which this installation"
    with pytest.raises(MissingError, match=words):
        remote_of({"MEDHELM_GATEWAY": "http://127.0.0.1:1"})
