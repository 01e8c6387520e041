"""The records of the built-in providers: complete, consistent, and the only place that knows them."""

from __future__ import annotations

import re

import pytest

from medhelm.io.http.hosts import host_of
from medhelm.models.provider import Service
from medhelm.models.providers import SERVICES, answers_in_process

BUILT_IN = dict(SERVICES.built_in)
HOSTED = {name: service for name, service in BUILT_IN.items() if service.base_url or service.settings}


@pytest.mark.parametrize("service", BUILT_IN.values(), ids=BUILT_IN)
def test_a_record_is_complete_and_consistent(service: Service) -> None:
    assert (BUILT_IN[service.name], bool(service.title)) == (service, True)
    assert all(example.startswith(f"{service.name}/") for example in service.examples)
    assert bool(service.examples) != service.in_process
    named = {*service.key_prefixes.values(), *service.key_pairs, *service.key_hints}
    assert named <= set(service.key_variables)
    assert service.default_key_variable in ("", *service.key_variables)
    assert bool(service.hosts) <= bool(service.key_variables)
    patterns = (*service.error_codes, *service.error_phrases.values())
    assert all(re.compile(pattern) and pattern == pattern.lower() for pattern in patterns)


@pytest.mark.parametrize("service", HOSTED.values(), ids=HOSTED)
def test_a_service_owns_the_host_of_its_own_address(service: Service) -> None:
    environment = {setting.variables[0]: setting.example for setting in service.settings}
    assert service.owns(host_of(service.address("", "m", environment)))
    assert not service.owns("127.0.0.1")


def test_two_services_never_claim_the_same_key() -> None:
    prefixes = [prefix for service in BUILT_IN.values() for prefix in service.key_prefixes]
    assert len(prefixes) == len(set(prefixes))


def test_only_baselines_and_replays_answer_in_process() -> None:
    assert {name for name in BUILT_IN if answers_in_process(name)} == {"baseline", "replay"}
    assert not answers_in_process("a package's")
