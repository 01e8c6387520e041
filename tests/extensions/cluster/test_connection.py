"""Joining a cluster: its address, its machines, and how many actors it gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.extensions.cluster.ray import ClusterUse, check_loopback, check_machines, find_cluster, planned_actors
from medhelm.io.http.egress import AdministratorRules, EgressPolicy, HostList

USE = ClusterUse(["hf/x"], ["bertscore"], [])
PRIVATE = ClusterUse(["hf/x"], [], ["mimic_rrs"])
HEAD, NODES = "10.0.0.5:6379", ["10.0.0.5", "10.0.0.6"]


def test_auto_is_the_cluster_of_the_environment_then_of_this_machine(tmp_path: Path) -> None:
    assert find_cluster(HEAD, {"RAY_ADDRESS": "ray://elsewhere:1"}) == HEAD
    assert find_cluster("auto", {"RAY_ADDRESS": HEAD}) == HEAD
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"{HEAD}\n", encoding="utf-8")
    assert find_cluster("auto", {"RAY_TMPDIR": str(tmp_path)}) == HEAD


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    for address, words in (
        ("auto", "this machine belongs to no Ray cluster"),
        ("ray://10.0.0.5:10001", "ray job submit -- medhelm run ... --cluster auto"),
        ("http://10.0.0.5:1", "write `auto` or HOST:PORT"),
    ):
        with pytest.raises(UserError, match=re.escape(words)) as caught:
            find_cluster(address, {"RAY_TMPDIR": str(tmp_path)})
        assert "Nothing was sent." in str(caught.value)


def check(
    use: ClusterUse = USE, *, offline: bool = False, allow: HostList | None = None, consent: Sequence[str] = ()
) -> str:
    """Return why the machines are refused; "" if they are not."""
    policy = EgressPolicy(offline)
    policy.rules = AdministratorRules("egress.yaml", allow, HostList.of(("10.0.0.6",))) if allow else None
    try:
        check_machines(HEAD, NODES, use, policy, consent)
    except UserError as error:
        return str(error)
    return ""


def test_a_cluster_that_other_machines_reach_needs_a_token() -> None:
    check_loopback("127.0.0.1:6379", ["127.0.0.1"])
    for address, nodes in ((HEAD, NODES), ("127.0.0.1:6379", NODES)):  # the second is reached at 127.0.0.1, too
        with pytest.raises(UserError, match="requires no token"):
            check_loopback(address, nodes)


def test_the_egress_policy_holds_for_the_machines_of_a_cluster() -> None:
    assert check() == ""
    assert "offline mode allows this machine only" in check(offline=True)
    check_machines("127.0.0.1:6379", ["127.0.0.1"], PRIVATE, EgressPolicy(offline=True), ())
    assert check(allow=HostList.of(["10.0.0.0/8"])) == ""
    assert "10.0.0.5 may not be reached" in check(allow=HostList.of(["10.0.0.6"]))


def test_private_data_needs_consent_for_the_head() -> None:
    message = check(PRIVATE)
    assert "mimic_rrs, to the cluster 10.0.0.5:6379 (10.0.0.5 and 10.0.0.6), for hf/x" in message
    assert "--allow-host 10.0.0.5" in message
    assert check(PRIVATE, consent=("10.0.0.5",)) == ""
    allowed = check(PRIVATE, allow=HostList.of(["10.0.0.0/8"]))  # the administrator permits 10.0.0.6 alone
    assert "(10.0.0.5)" in allowed


@pytest.mark.parametrize(
    ("nodes", "number", "expected"),
    [
        ([{"CPU": 8, "GPU": 4}, {"CPU": 8}], None, (4, {"num_gpus": 1.0})),
        ([{"CPU": 8, "GPU": 1}], 3, (3, {"num_gpus": 1 / 3})),
        ([{"CPU": 8}, {"CPU": 4}, {"memory": 1e9}], None, (2, {"num_cpus": 4})),
        ([{"CPU": 8}, {"CPU": 8}], 5, (5, {"num_cpus": 2})),
    ],
)
def test_actors_share_the_gpus_or_else_the_cpus(
    nodes: list[dict[str, float]], number: int | None, expected: tuple[int, dict[str, float]]
) -> None:
    assert planned_actors(nodes, number) == expected
    with pytest.raises(UserError, match="an actor needs one"):
        planned_actors([{"CPU": 2.0}], 3)
