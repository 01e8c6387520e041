"""The page that compares two models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.support.web.sites import make_board_store, make_client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with make_client(make_board_store(tmp_path_factory.mktemp("compare"))) as made:
        yield made


def test_the_two_best_models_are_compared_first(client: TestClient) -> None:
    text = client.get("/compare").text
    assert "openai/model-1 is significantly better than openai/model-2" in text
    assert "PUBMED_QA" in text


def test_the_verdict_is_that_of_the_test(client: TestClient) -> None:
    text = client.get("/compare?a=openai/model-3&b=openai/model-1").text
    assert "openai/model-1 is significantly better than openai/model-3" in text
    assert "second is better" in text
    assert "first is better" not in text


def test_a_model_is_not_compared_with_itself(client: TestClient) -> None:
    text = client.get("/compare?a=openai/model-2&b=openai/model-2").text
    assert "openai/model-2" in text
    assert "Verdict" in text


def test_an_unknown_model_is_not_found(client: TestClient) -> None:
    assert client.get("/compare?a=nothing&b=openai/model-2").status_code == 404
    assert client.get("/compare.csv").status_code == 404


def test_each_benchmark_leads_to_the_cases_that_only_one_model_got_right(client: TestClient) -> None:
    text = client.get("/compare?a=openai/model-1&b=openai/model-3").text
    address = "/benchmarks/pubmed_qa/cases?got=openai%2Fmodel-1&amp;missed=openai%2Fmodel-3"
    assert address in text
    assert "openai/model-1 is right and openai/model-3 wrong" in client.get(address.replace("&amp;", "&")).text


def test_differences_are_a_file(client: TestClient) -> None:
    found = client.get("/compare.csv?a=openai/model-1&b=openai/model-2")
    assert found.text.startswith("Benchmark,Metric,Difference")
