"""The address and the token of a gateway, from the environment, and files with tokens."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from medhelm.domain.text import LONGEST, is_worker_name, plural
from medhelm.errors import MissingError, UserError
from medhelm.io.http.hosts import is_inside, is_loopback
from medhelm.models.addresses import checked_address
from medhelm.models.remote import GATEWAY_VARIABLE

TOKEN, TOKEN_FILE = "MEDHELM_GATEWAY_TOKEN", "MEDHELM_GATEWAY_TOKEN_FILE"
"""Variables with the token of the gateway, and with a file that holds it."""

SOCKET = "unix:"
"""First characters of the address of a gateway that listens on a socket file; its path follows."""

SHORTEST_TOKEN = 24
"""Fewest characters of a token, so that it cannot be guessed."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """A gateway, as a worker reaches it."""

    url: str
    """`http://HOST:PORT` or `https://HOST:PORT`; for a socket file a URL whose host is never looked up."""
    socket_file: str = ""
    """Path of the socket file; empty if it listens on a port."""
    token: str = ""
    """The token; empty if none is needed, which only a socket file allows."""

    def __str__(self) -> str:
        """Return the address as users write it, without the token."""
        return f"{SOCKET}{self.socket_file}" if self.socket_file else self.url

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"GatewayAddress({str(self)!r})"

    @property
    def host(self) -> str:
        """Its host; empty for a socket file, which is on this machine."""
        return "" if self.socket_file else urlsplit(self.url).hostname or ""

    @property
    def is_inside(self) -> bool:
        """Return True if the gateway is on this machine, or by the form of its address in a private network."""
        return bool(self.socket_file) or is_inside(self.host)


def gateway_address(environment: Mapping[str, str]) -> GatewayAddress:
    """Return the address and token of the gateway. Raises: UserError, MissingError for a token that is missing."""
    text = environment.get(GATEWAY_VARIABLE, "").strip()
    if text.startswith(SOCKET):
        path = text.removeprefix(SOCKET)
        if not path or "\0" in path:
            raise UserError(f"--gateway {text}: the path of the socket file must follow `{SOCKET}`.")
        return GatewayAddress("http://localhost", path, _token(environment))
    try:
        url = checked_address(text).removesuffix("/v1")
    except ValueError as error:
        raise UserError(f"--gateway: {error} A gateway on a socket file is `unix:PATH`. Nothing was sent.") from None
    if urlsplit(url).path or urlsplit(url).query:
        raise UserError(f"--gateway {url}: write https://HOST:PORT without a path. Nothing was sent.")
    if url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        raise UserError(
            f"--gateway {url}: prompts and the token would be sent unencrypted to another machine. Start the gateway "
            "with --tls and write https://, or forward a port to it (`ssh -L`). Nothing was sent."
        )
    token = _token(environment)
    if not token:
        raise MissingError(
            f"the gateway {url} needs a token: put it into {TOKEN}, or the path of the gateway's file into "
            f"{TOKEN_FILE}. Nothing was sent."
        )
    return GatewayAddress(url, token=token)


def _token(environment: Mapping[str, str]) -> str:
    """Return the token in the environment, or the first one in its file; "" if there is none."""
    if token := environment.get(TOKEN, "").strip():
        if not token.isascii() or not token.isprintable():
            raise UserError(f"{TOKEN} is not a token: it has characters that tokens never have.")
        return token
    file = environment.get(TOKEN_FILE, "").strip()
    return read_tokens(Path(file))[0].token if file else ""


@dataclass(frozen=True, slots=True)
class NamedToken:
    """A token, and the name of the worker or user it was given to."""

    name: str
    """The name; empty if the file states none."""
    token: str
    """The token."""

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"NamedToken({self.name!r})"


class Tokens:
    """The tokens that a gateway accepts."""

    def __init__(
        self, accepted: Sequence[NamedToken], file: Path | None = None, note: Callable[[str], object] = str
    ) -> None:
        """Keep their digests only. `file`: read again when it changes; `note`: receives messages for the user."""
        self._known = [(one.name, _digest(one.token)) for one in accepted]
        self._file, self._note = file, note
        self._version = _version(file)

    def name_of(self, token: str) -> str | None:
        """Return the name of the token's owner, "" if it has none; None for a wrong token.

        Every token takes the same time to check.
        """
        if self._file is not None and _version(self._file) != self._version:
            self._read_again(self._file)
        given, found = _digest(token), None
        for name, known in self._known:
            if hmac.compare_digest(given, known):
                found = name
        return found

    def _read_again(self, file: Path) -> None:
        """Accept the tokens that are in the file now; those accepted before stay if it cannot be read."""
        self._version = _version(file)
        try:
            self._known = [(one.name, _digest(one.token)) for one in read_tokens(file)]
        except UserError as error:
            self._note(f"{error} The tokens that were in it before are still accepted.")
        else:
            n = len(self._known)
            self._note(f"{file} has changed: {plural(n, 'token')} {'is' if n == 1 else 'are'} accepted")


def _version(file: Path | None) -> tuple[int, ...]:
    """Return what differs when a file has changed; empty if there is none."""
    try:
        about = file.stat() if file else None
    except OSError:
        return ()
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_mode) if about else ()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(file: Path) -> list[NamedToken]:
    """Read a file with one token a line, each after a name or alone. Raises: UserError naming the line."""
    try:
        mode = file.stat().st_mode
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UserError(f"{file}: the file with the gateway's tokens cannot be read ({reason}).") from None
    if os.name != "nt" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"{file}: other users can read the gateway's tokens. Restrict access: chmod 600 {file}")
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or not (len(words) == 1 or is_worker_name(words[0])):
            raise UserError(
                f"{file}, line {number}: write TOKEN, or NAME TOKEN. A name has at most {LONGEST} letters, digits and "
                "characters of `_.:@+-`."
            )
        if len(words[-1]) < SHORTEST_TOKEN or not words[-1].isascii() or not line.isprintable():
            raise UserError(
                f"{file}, line {number}: a token has at least {SHORTEST_TOKEN} characters, all of them ASCII. "
                "`openssl rand -hex 32` makes one."
            )
        found.append(NamedToken(words[0] if len(words) == 2 else "", words[-1]))
    if not found:
        raise UserError(f"{file}: holds no token. Write one per line; `openssl rand -hex 32` makes one.")
    return found


def new_token_file(file: Path) -> None:
    """Write a new token to a file that only its owner can read; one that exists stays. Raises: UserError."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise UserError(f"{file}: the file with the gateway's token cannot be made ({error.strerror}).") from None
    with os.fdopen(number, "w", encoding="utf-8") as opened:
        opened.write(f"{secrets.token_urlsafe(32)}\n")
