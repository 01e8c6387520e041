"""Where the server listens, and what it refuses."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import UserError
from medhelm.extensions.web import server
from medhelm.extensions.web.server import Listener, serve
from medhelm.extensions.web.site import Site
from medhelm.io.http.listening import ProxyOptions


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def listening(free_port: int) -> Iterator[socket.socket]:
    with server._listen(Listener(port=free_port)) as made:
        yield made


def test_a_port_in_use_is_named(listening: socket.socket, free_port: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"port {free_port}: in use.*--port 0"):
        serve(Site(stores=[tmp_path]), Listener(port=free_port), print)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "board.hospital.example"])
def test_other_machines_are_served_only_behind_a_proxy(host: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="behind-proxy"):
        serve(Site(stores=[tmp_path]), Listener(host=host), print)


@pytest.mark.parametrize(
    ("options", "address", "served", "refused"),
    [
        ({}, "http://127.0.0.1:{}", "localhost:{}", "localhost:1{}"),
        ({"proxy": ProxyOptions(hosts=("Board.test",))}, "https://board.test", "board.test", "127.0.0.1"),
        (
            {"certificate": (Path("board.pem"), Path("board.key")), "names": ["Board.test"]},
            "https://board.test:{}",
            "board.test:{}",
            "127.0.0.1:{}",
        ),
    ],
    ids=["this machine", "proxy", "certificate"],
)
def test_only_names_of_the_server_are_served(
    options: dict[str, Any], address: str, served: str, refused: str, listening: socket.socket, free_port: int
) -> None:
    security, printed = server._secure(Listener(port=free_port, **options), listening)
    assert printed == address.format(free_port)
    assert security.https == printed.startswith("https")
    assert security.serves_host(served.format(free_port))
    assert not security.serves_host(refused.format(free_port))


def test_a_socket_file_is_for_its_owner_alone_and_one_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "board.sock"
    server._listen(Listener(socket_file=path)).close()
    with server._listen(Listener(socket_file=path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(UserError, match="another server listens there"):
            server._listen(Listener(socket_file=path))


def test_other_files_are_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name, words in (("file", "is not a socket"), ("link", "is not a socket"), ("nowhere/x", "cannot be made")):
        with pytest.raises(UserError, match=words):
            server._listen(Listener(socket_file=tmp_path / name))
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ({"user_header": "X-Remote-User", "addresses": ("127.0.0.1",)}, "--behind-proxy"),
        ({"user_header": "X-Remote-User", "hosts": ("board.test",)}, "add --proxy ADDRESS"),
        ({"addresses": ("127.0.0.1",), "hosts": ("board.test",)}, "add --user-header"),
        ({"addresses": ("proxy.test",), "hosts": ("board.test",), "user_header": "X-User"}, "not an IP address"),
        ({"addresses": ("::1",), "hosts": ("board.test",), "user_header": "X_User"}, "not a name of a header"),
        ({"addresses": ("::1",), "hosts": ("board.test",), "user_header": "Cookie"}, "not a name of a header"),
    ],
)
def test_a_header_of_users_needs_proxies_that_are_believed(proxy: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        serve(Site(stores=[tmp_path]), Listener(proxy=ProxyOptions(**proxy)), print)
