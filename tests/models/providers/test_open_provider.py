"""What providers get when they are opened."""

from __future__ import annotations

from pathlib import Path

from medhelm.domain import Model
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.providers import ProviderContext, open_provider
from medhelm.models.providers.baseline import Baseline
from medhelm.models.providers.replay import Replay

HTTP = HttpClient(EgressPolicy(offline=True))


def test_providers_of_this_process_get_their_settings(tmp_path: Path) -> None:
    baseline = open_provider(Model(name="b", provider="baseline", remote_name="random"), HTTP, environment={}, seed=3)
    (tmp_path / "r.jsonl").write_text('{"benchmark": "b", "instance_id": "1", "completion": "A"}\n', encoding="utf-8")
    replayed = Model(name="r", provider="replay", remote_name=str(tmp_path / "r.jsonl"))
    replay = open_provider(replayed, HTTP, environment={}, aliases={"b": "canonical"})
    assert isinstance(baseline, Baseline) and isinstance(replay, Replay)
    assert (baseline.seed, list(replay.completions)) == (3, [("canonical", "1")])


def test_surroundings_do_not_show_the_environment() -> None:
    around = ProviderContext(http=HTTP, environment={"K": "sk-secret"}, seed=0, aliases={})
    assert "sk-secret" not in repr(around)
