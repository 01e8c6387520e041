"""Adds the verification code of a judge's prompt to an invented verdict, as every judge that reads its prompt does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_CODE = re.compile(r"The verification code of this request is ([0-9A-Z-]{14})\. Put it under a further key")


def verified(reply: str, prompt: str) -> str:
    """Return a reply whose first JSON object has the verification code of `prompt` as its first key."""
    codes = _CODE.findall(prompt)
    if not codes or not reply.lstrip(" \n`json").startswith('{"') or '"verification_code"' in reply:
        return reply
    return reply.replace("{", f'{{"verification_code": "{codes[-1]}", ', 1)


def verified_response(response: Any, request: Mapping[str, Any]) -> Any:
    """Return a server's response in which all verdicts have the verification code of the request, if that has one."""
    prompt = json.dumps(request)
    if not _CODE.search(prompt):
        return response

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return verified(value, prompt)
        if isinstance(value, Mapping):
            return {key: changed(entry) for key, entry in value.items()}
        return [changed(entry) for entry in value] if isinstance(value, list) else value

    return changed(response)
