"""A practice server for the tutorials: it speaks the OpenAI chat completions API and answers by simple rules.

    python docs/tutorials/practice_server.py            # http://127.0.0.1:8000/v1
    python docs/tutorials/practice_server.py 8001       # another port

It is not a language model, so its scores say nothing about any model. It needs no key, no GPU and no network, and the
same request always gets the same completion. Models: `practice-large`, `practice-small`; judges: `judge-a` to
`judge-d`, each stricter than the one before.
"""

import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STRICTNESS = {"judge-a": 0.0, "judge-b": 0.25, "judge-c": 0.5, "judge-d": 1.0}
"""Judge -> grades that it takes off."""


def words(text: str) -> set[str]:
    """Return the words of four letters or more, in lower case."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def number_from(text: str, below: int) -> int:
    """Return a number from 0 to `below` - 1 that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % below


def choose(model: str, prompt: str, options: list[tuple[str, str]]) -> str:
    """Return the letter of one of the options."""
    if model == "practice-small":
        return options[number_from(prompt, len(options))][0]
    letters = {text.strip().lower(): letter for letter, text in options}
    if {"yes", "no"} <= letters.keys():
        note = prompt.partition("Note:")[2]
        signs = (
            r"\b(no|nothing|stopped|declined)\b" if note else r"\b(no significant|no difference|not|neither|failed)\b"
        )
        negative = re.search(signs, note or prompt.partition("Context:")[2], flags=re.IGNORECASE)
        return letters["no" if negative else "yes"]
    asked = words(prompt)
    return max(options, key=lambda option: len(words(option[1]) & asked))[0]


def write(model: str, prompt: str) -> str:
    """Return a few sentences about the prompt: `practice-large` repeats the question and adds advice."""
    if model == "practice-small":
        return "Please ask your doctor."
    question = re.search(r"^Question: (.*)", prompt, flags=re.MULTILINE)
    asked = question[1] if question else prompt[:80]
    return (
        f"You asked: {asked} Take the medicine as the label says, with water, and do not change the dose on your own. "
        "Common side effects are nausea, headache and dizziness. Ask your doctor or pharmacist before you take other "
        "medicines with it."
    )


def grade(judge: str, prompt: str) -> str:
    """Return a judge's JSON: one grade from 1 to 5 for each criterion of the prompt."""
    parts = dict(re.findall(r"<(RESPONSE|REFERENCE)[^>]*>(.*?)</\1", prompt, flags=re.DOTALL))
    response, reference = words(parts.get("RESPONSE", "")), words(parts.get("REFERENCE", ""))
    shared = len(response & reference) / max(len(reference), 1)
    criteria = re.findall(r"^- (\w+): ", prompt.partition("Grade the response on each")[2], flags=re.MULTILINE)
    code = re.findall(r"The verification code of this request is (\S+)\.", prompt)[-1]
    found = {"verification_code": code}
    for criterion in criteria:
        base = 4.0 if criterion == "clarity" else 1.5 + 12 * shared
        noise = number_from(judge + criterion + parts.get("RESPONSE", ""), 3) / 2 - 0.5
        score = min(5, max(1, round(base + noise - STRICTNESS[judge])))
        found[criterion] = {
            "score": score,
            "explanation": f"{shared:.0%} of the reference's words are in the response.",
        }
    return json.dumps(found)


def complete(model: str, prompt: str) -> str:
    """Return the completion of one request."""
    if model in STRICTNESS:
        return grade(model, prompt)
    options = re.findall(r"^([A-Z])\. (.+)$", prompt, flags=re.MULTILINE)
    return choose(model, prompt, options) if options else write(model, prompt)


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer one request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = "\n".join(message["content"] for message in body["messages"])
        text = complete(body["model"], prompt)
        tokens = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4 + 1}
        content = json.dumps(
            {
                "model": body["model"],
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {**tokens, "total_tokens": sum(tokens.values())},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """Accepts many connections at once. By default, five can wait; others would try again after a second or more."""

    request_queue_size = 128


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    print(f"Practice server at http://127.0.0.1:{port}/v1 (Ctrl-C stops it)", flush=True)
    Server(("127.0.0.1", port), Handler).serve_forever()
