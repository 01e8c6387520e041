"""A server on 127.0.0.1 that speaks the batch APIs of OpenAI and Anthropic, and answers single requests as well.

Forms: OpenAI's API reference of files and batches and the vendor's Python SDK 3.54; Anthropic's of message batches and
SDK 2.12. Words are invented.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import HTTP
from time import time
from typing import Any

from aiohttp import web

from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import ANTHROPIC, OPENAI, VENDORS, Body, Vendor

Fate = Callable[[Body], str]


class BatchServer(Server):
    """Batches end after they were looked at `looks` times. Results stand in the reverse order of their requests.

    with BatchServer() as server:
        server.answer_with(lambda body: OPENAI.answer("A"))       # one request, alone or in a batch
        server.fate = lambda body: "expired"                      # of a request in a batch; "": it is answered
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks = 1
        """Times that a batch is said to be running."""
        self.fate: Fate = lambda body: ""
        """What becomes of a request in a batch: "", `expired`, `cancelled`, `missing` or `garbled`."""
        self.refusals: list[Answer] = []
        """What the next attempts to hand over a batch get, in order."""
        self.lost = 0
        """So many batches are taken whose acknowledgements get lost."""
        self.failing: list[tuple[str, str]] = []
        """Code and message of the next batches of OpenAI's that fail as a whole."""
        self.taken: list[list[str]] = []
        """Names of the requests of each batch."""
        self.direct: list[Body] = []
        """Bodies of requests that came alone."""
        self.asked: list[str] = []
        """Method and path of every request, in order."""
        self.files: dict[str, bytes] = {}
        """What was uploaded for OpenAI's batches, and what came of them."""
        self.file_names: dict[str, str] = {}
        """How files of requests were called."""
        self.deleting: list[Answer] = []
        """What the next attempts to delete something get, in order."""
        self.deleted: list[str] = []
        """Files and batches that were deleted since; nobody gets them any more."""
        self.room = 0
        """Requests that OpenAI's batches may have waiting together; 0: any number."""
        self.batches: dict[str, dict[str, Any]] = {}
        self.foreign: list[Body] = []
        """Batches of somebody else's, as Anthropic lists them."""
        self.broken = 0
        """So many downloads of answers break off."""
        self.hold_after = 0
        """Once so many batches are taken, nothing more is answered before `release`."""
        self.key = ""
        """The only key that is accepted; empty: any."""
        self.now = 0.0
        """What the services' clock says; 0: the time it is."""

    @property
    def handed_over(self) -> Counter[str]:
        """How often each request was handed over in a batch that was worked on."""
        return Counter(name for names in self.taken for name in names)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        path = request.path
        if not path.endswith("/models"):  # whether the server is still there
            self.asked.append(f"{request.method} {path}")
        key = request.headers.get("x-api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        anthropic = "/messages" in path
        vendor = ANTHROPIC if anthropic else OPENAI
        if self.key and key != self.key:
            return await self._reply(request, vendor.errors["wrong key"])
        if path.endswith(("/chat/completions", ":generateContent")) or path.endswith("/messages"):
            body = json.loads(raw)
            self.direct.append(body)
            with self._changed:
                self.bodies.append(body)
                self.paths.append(request.path_qs)
                self.headers.append({})
                answer = self._decide(body)
                self._changed.notify_all()
            await self._open.wait()
            return await self._reply(request, answer)
        if request.method == "DELETE":
            return await self._reply(request, self.deleting.pop(0) if self.deleting else self._delete(path))
        handing_over = request.method == "POST"
        if handing_over and self.refusals:
            return await self._reply(request, self.refusals.pop(0))
        content, taken = self._anthropic(request, raw) if anthropic else self._openai(request, raw)
        if taken and self.hold_after and len(self.taken) >= self.hold_after:
            self.hold_after = 0
            self._open.clear()
        with self._changed:
            self._changed.notify_all()
        if taken and self.lost:
            self.lost -= 1
            return await self._reply(request, Answer(ending="reset"))
        await self._open.wait()
        if isinstance(content, bytes) and self.broken:
            self.broken -= 1
            return await self._reply(request, Answer(body=content, ending="truncated"))
        if isinstance(content, bytes):
            return web.Response(body=content)
        return await self._reply(request, content if isinstance(content, Answer) else Answer(body=content))

    def wait_for_batches(self, n: int) -> None:
        """Block until so many batches were taken in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= n, 600.0), f"{len(self.taken)} of {n} batches"

    def wait_for_a_look(self) -> None:
        """Block until somebody has looked where a batch stands."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(batch["looks"] for batch in self.batches.values()), 600.0)

    def _delete(self, path: str) -> Answer:
        """What DELETE answers: OpenAI's files go at any time, Anthropic's batches once they have ended."""
        name = path.split("/")[-1]
        here: dict[str, Any] = self.files if "/files/" in path else self.batches
        if name not in here or name in self.deleted:
            return Answer(status=404, body={"error": {"message": f"No such object: {name}", "code": None}})
        batch = here[name].get("message_batch") if here is self.batches else None
        if batch and batch["processing_status"] != "ended":
            error = {"type": "invalid_request_error", "message": "Message batches in progress cannot be deleted."}
            return Answer(status=400, body={"type": "error", "error": error})
        self.deleted.append(name)
        kind = {"type": "message_batch_deleted"} if batch else {"object": "file", "deleted": True}
        return Answer(body={"id": name, **kind})

    def _time(self) -> float:
        return self.now or time()

    # --- OpenAI -------------------------------------------------------------------------------------------------------

    def _openai(self, request: web.Request, raw: bytes) -> tuple[Body | bytes | Answer, bool]:
        path = request.path
        if path == "/v1/files" and request.method == "GET":
            assert request.query["purpose"] == "batch"
            listed = [{"id": name, "filename": called} for name, called in self.file_names.items()]
            page = [one for one in reversed(listed) if one["id"] not in self.deleted]
            return {"object": "list", "data": page, "has_more": False}, False
        if path == "/v1/files":
            return self._upload(request, raw), False
        if path.startswith("/v1/files/") and path.endswith("/content") and path.split("/")[3] not in self.deleted:
            return self.files[path.split("/")[3]], False
        if path == "/v1/batches" and request.method == "POST":
            return self._make(json.loads(raw)), True
        if path == "/v1/batches":
            batches = [b["document"] for b in reversed(self.batches.values()) if "document" in b]
            after = request.query.get("after")
            names = [b["id"] for b in batches]
            start = names.index(after) + 1 if after in names else 0
            page = batches[start : start + int(request.query.get("limit", 20))]
            return {"object": "list", "data": page, "has_more": start + len(page) < len(batches)}, False
        if (name := path.removeprefix("/v1/batches/")) in self.batches:
            return self._state(self.batches[name]), False
        return Answer(status=404, body={"error": {"message": f"No such object: {path}", "code": None}}), False

    def _upload(self, request: web.Request, raw: bytes) -> Body:
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        form = message_from_bytes(head + raw, policy=HTTP)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        assert parts["purpose"].get_payload() == "batch"
        assert str(parts["file"].get_filename()).endswith(".jsonl")
        name = f"file-{len(self.files)}"
        content = parts["file"].get_payload(decode=True)
        assert isinstance(content, bytes)
        assert request.headers["Content-Length"] == str(len(raw))
        self.files[name] = content
        self.file_names[name] = str(parts["file"].get_filename())
        return {"id": name, "object": "file", "bytes": len(self.files[name]), "purpose": "batch"}

    def _make(self, wanted: Body) -> Body:
        assert wanted["endpoint"] == "/v1/chat/completions"
        assert wanted["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
        assert len({line["body"]["model"] for line in lines}) == 1
        name = f"batch_{len(self.batches)}"
        document = {
            "id": name,
            "object": "batch",
            "status": "validating",
            "created_at": int(self._time()),
            "input_file_id": wanted["input_file_id"],
            "metadata": wanted["metadata"],
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        requests = [(line["custom_id"], line["body"]) for line in lines]
        self.batches[name] = {"document": document, "requests": requests, "looks": 0}
        going = ("validating", "in_progress")
        waiting = [b for b in self.batches.values() if b.get("document", {}).get("status") in going]
        if self.room and sum(len(batch["requests"]) for batch in waiting) > self.room:
            self.failing.append(("token_limit_exceeded", "Enqueued token limit reached."))
        if self.failing:
            code, message = self.failing.pop(0)
            document |= {"status": "failed", "errors": {"object": "list", "data": [{"code": code, "message": message}]}}
        else:
            self.taken.append([custom for custom, _ in requests])
        return document

    def _state(self, batch: dict[str, Any]) -> Body:
        document: Body = batch["document"]
        if document["status"] in ("failed", "completed", "expired", "cancelled"):
            return document
        batch["looks"] += 1
        if batch["looks"] <= self.looks:
            document["status"] = "in_progress"
            return document
        fates = {custom: self.fate(body) for custom, body in batch["requests"]}
        good, bad = [], []
        for custom, body in reversed(batch["requests"]):
            fate = fates[custom]
            if fate == "missing":
                continue
            if fate == "garbled":
                good.append(b"{not json")
                continue
            line: Body = {"id": f"batch_req_{custom[:4]}", "custom_id": custom, "response": None, "error": None}
            if fate:
                line["error"] = {"code": f"batch_{fate}", "message": "This request could not be executed."}
                bad.append(json.dumps(line).encode())
                continue
            answer = self._decide(body)
            line["response"] = {"status_code": answer.status, "request_id": "r", "body": answer.body}
            (good if answer.status == 200 else bad).append(json.dumps(line).encode())
        document["status"] = "expired" if "expired" in fates.values() else "completed"
        if "cancelled" in fates.values():
            document["status"] = "cancelled"
        for key, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                document[key] = f"file-{len(self.files)}"
                self.files[document[key]] = b"\n".join(lines) + b"\n"
        return document

    # --- Anthropic ----------------------------------------------------------------------------------------------------

    def _anthropic(self, request: web.Request, raw: bytes) -> tuple[Body | bytes | Answer, bool]:
        assert request.headers["anthropic-version"] == "2023-06-01"
        path = request.path
        if path == "/v1/messages/batches" and request.method == "POST":
            return self._make_messages(json.loads(raw)["requests"]), True
        if path == "/v1/messages/batches":
            batches = [b["message_batch"] for b in reversed(self.batches.values()) if "message_batch" in b]
            page = [batch for batch in batches if batch["id"] not in self.deleted]
            return {"data": [*self.foreign, *page], "has_more": False, "first_id": None, "last_id": None}, False
        name = path.split("/")[4]
        if name not in self.batches or name in self.deleted:
            error = {"type": "not_found_error", "message": f"No message batch {name}"}
            return Answer(status=404, body={"type": "error", "error": error}), False
        batch = self.batches[name]
        if path.endswith("/results"):
            return self._results(batch), False
        document: Body = batch["message_batch"]
        batch["looks"] += 1
        if batch["looks"] > self.looks:
            counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
            for _, body in batch["requests"]:
                counts[{"expired": "expired", "cancelled": "canceled"}.get(self.fate(body), "succeeded")] += 1
            document |= {"processing_status": "ended", "request_counts": counts, "results_url": "http://evil.test/x"}
        return document, False

    def _make_messages(self, requests: list[Body]) -> Body:
        name = f"msgbatch_{len(self.batches)}"
        document = {
            "id": name,
            "type": "message_batch",
            "processing_status": "in_progress",
            "created_at": datetime.fromtimestamp(self._time(), UTC).isoformat().replace("+00:00", "Z"),
            "request_counts": {"processing": len(requests), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
            "results_url": None,
        }
        pairs = [(one["custom_id"], one["params"]) for one in requests]
        assert len(dict(pairs)) == len(pairs)
        self.batches[name] = {"message_batch": document, "requests": pairs, "looks": 0}
        self.taken.append([custom[:43] for custom, _ in pairs])
        return document

    def _results(self, batch: dict[str, Any]) -> bytes:
        lines = []
        for custom, body in reversed(batch["requests"]):
            fate = self.fate(body)
            if fate == "missing":
                continue
            if fate == "garbled":
                lines.append(b"{not json")
                continue
            answer = self._decide(body)
            result: Body = {"type": "canceled" if fate == "cancelled" else fate}
            if not fate and answer.status == 200:
                result = {"type": "succeeded", "message": answer.body}
            elif not fate:
                result = {"type": "errored", "error": answer.body}
            lines.append(json.dumps({"custom_id": custom, "result": result}).encode())
        return b"\n".join(lines)


def vendor_of(body: Body) -> Vendor:
    """Whose form a request has."""
    if "contents" in body:
        return VENDORS["google"]
    return ANTHROPIC if "stop_sequences" in body or "system" in body or body["model"].startswith("claude") else OPENAI
