"""Errors of the JSON interface."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.responses import Response

JSON = "application/json"
"""Media type of everything that the interface sends."""


def is_json_path(path: str) -> bool:
    """Return True if errors at this path are JSON.

    >>> is_json_path("/api/nothing"), is_json_path("/leaderboard.json"), is_json_path("/compare")
    (True, True, False)
    """
    return path == "/api" or path.startswith("/api/") or path.endswith(".json")


def error_content(status: int, message: str) -> bytes:
    """Return an error as JSON.

    >>> error_content(404, "The benchmark `x` does not exist.")
    b'{"error": {"status": 404, "code": "not_found", "message": "The benchmark `x` does not exist."}}'
    """
    code = HTTPStatus(status).name.lower()
    return json.dumps({"error": {"status": status, "code": code, "message": message}}).encode()


def error_response(status: int, message: str, **headers: str) -> Response:
    """Return a response with an error as JSON."""
    return Response(error_content(status, message), status, media_type=JSON, headers=headers)
