"""Addresses of Azure's deployments."""

from __future__ import annotations

from medhelm.models.providers.azure import azure_address
from tests.support.cases import table

RESOURCE = "https://x.openai.azure.com"


@table(
    ("address", "version", "result"),
    [
        (RESOURCE, "2024-10-21", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=2024-10-21"),
        (f"{RESOURCE}/openai/v1", "8", f"{RESOURCE}/openai/v1"),
        (f"{RESOURCE}/openai/deployments/d?api-version=9", "8", f"{RESOURCE}/openai/deployments/d?api-version=9"),
        (f"{RESOURCE}/openai/responses?api-version=9", "", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=9"),
        ("https://y.services.ai.azure.com/models?api-version=9", "", "https://y.services.ai.azure.com/openai/v1"),
        ("https://y.ai.azure.com/api/projects/p", "", "https://y.ai.azure.com/api/projects/p/openai/v1"),
    ],
)
def test_azure_has_two_forms(address: str, version: str, result: str) -> None:
    assert azure_address(address, "my gpt", {"AZURE_OPENAI_API_VERSION": version}) == result
