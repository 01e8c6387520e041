"""What an account, a project or a server lacks although its key is right, in the words that services use.

Sources: the services' pages on errors and access (OpenAI's organisation verification and supported countries; Azure's
key-based sign-on, networks and API versions; google.rpc's SERVICE_DISABLED and IAM_PERMISSION_DENIED; Bedrock's model
access and use-case form), vLLM's chat templates, and what users quote of them in public.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from medhelm.models.providers.errors.parse import ErrorResponse

NO_ACCESS, NO_CHAT = "no_access", "no_chat"
"""Codes: the key works, but not for this; the model is there, and is none to talk with."""


@dataclass(frozen=True, slots=True)
class AccountProblem:
    """One thing that is missing."""

    code: str
    """Failure code."""
    phrase: re.Pattern[str]
    """What is said of it, in lower case; codes and reasons of the service stand before its message."""
    todo: str
    """What to do."""


_LACKS = (
    AccountProblem(
        NO_CHAT,
        re.compile(r"not a chat model|supported in v1/responses|chatcompletion operation does not work"),
        "It is not asked through chat completions, as all models here are: name another model.",
    ),
    AccountProblem(
        NO_CHAT,
        re.compile(r"must provide a chat template|does not have a chat template|no chat template"),
        "Start its server with a chat template (vLLM: --chat-template), or name the instruction-tuned model.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(
            r"unsupported_country_region_territory|user location is not supported|country, region, or territory"
        ),
        "The service is not offered where this machine stands; the key is not at fault.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"authenticationtypedisabled|key based authentication is disabled"),
        "The resource takes no keys: ask who runs it to allow key-based sign-on.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"virtual network/firewall rules|public access is disabled"),
        "The resource is open to its own network only: connect to that (VPN), or have this machine allowed.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"api version not supported|unsupported api version"),
        "Set AZURE_OPENAI_API_VERSION to one that there is, such as 2024-10-21, or unset it.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"service_disabled|has not been used in project"),
        "Enable the API for the project, at the address that the message names, and wait some minutes.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"iam_permission_denied|permission 'aiplatform\."),
        "The account of the token lacks the role Vertex AI User in this project, or GOOGLE_CLOUD_PROJECT is another.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"use[- ]case (?:details have not been submitted|form)"),
        "Fill out the form for this maker's models in the Bedrock console; access follows within minutes.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"organization must be verified"),
        "Have the organization verified, at the address that the message names, or name another model.",
    ),
    AccountProblem(
        NO_ACCESS,
        re.compile(r"have access to (?:the )?model\b|is not authorized to perform: bedrock|aws-marketplace:"),
        "The key works, but not for this model: ask for access to it in the service's console.",
    ),
)


_BY_STATUS = {
    407: AccountProblem(
        NO_ACCESS,
        re.compile(""),
        "A proxy on the way wants a login, which is not sent from here: reach the server without that proxy.",
    ),
    451: AccountProblem(
        NO_ACCESS, re.compile(""), "The service may not answer here for legal reasons; the key is not at fault."
    ),
}
"""HTTP status -> what is lacking, whatever is said of it."""


def lack_in(complaint: ErrorResponse) -> AccountProblem | None:
    """What is lacking by a complaint; None if it is about something else."""
    if not 400 <= complaint.status < 500 or complaint.status == 429:
        return None
    if complaint.status in _BY_STATUS:
        return _BY_STATUS[complaint.status]
    said = " ".join((*sorted(complaint.words), complaint.message.lower()))
    return next((lack for lack in _LACKS if lack.phrase.search(said)), None)
