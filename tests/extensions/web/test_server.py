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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "board.hospital.example"])
def test_other_machines_are_served_only_behind_a_proxy(host: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="behind-proxy"):
        serve(Site(stores=[tmp_path]), Listener(host=host), print)


def test_names_of_a_server_with_a_certificate(listening: socket.socket, free_port: int, tmp_path: Path) -> None:
    files = tmp_path / "board.pem", tmp_path / "board.key"
    security, address = server._secure(Listener(certificate=files, names=["Board.test"]), listening)
    assert address == f"https://board.test:{free_port}"
    assert security.https
    assert security.serves_host(f"board.test:{free_port}")
    assert not security.serves_host(f"127.0.0.1:{free_port}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": []}, "add --name HOST"),
        ({"names": ["board.test"]}, "board.pem: the file does not exist"),
        ({"names": ["board.test"], "proxy_hosts": ["board.test"]}, "choose one of"),
        ({"names": ["board.test"], "socket_file": Path("board.sock")}, "choose one of"),
        ({"names": ["board.test"], "certificate": None}, "only a server with --tls"),
    ],
)
def test_options_that_do_not_fit_a_certificate(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    where = Listener(**{"certificate": (tmp_path / "board.pem", tmp_path / "board.key")} | options)
    with pytest.raises(UserError, match=words):
        serve(Site(stores=[tmp_path]), where, print)


def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    files = tmp_path / "board.pem", tmp_path / "board.key"
    for path in files:
        path.write_text("not PEM", encoding="utf-8")
    with pytest.raises(UserError, match=r"board\.pem .*board\.key: not a certificate chain"):
        serve(Site(stores=[tmp_path]), Listener(certificate=files, names=["board.test"]), print)


def test_an_address_of_another_machine_is_an_error(tmp_path: Path) -> None:
    where = Listener(host="192.0.2.1", proxy_hosts=["board.test"])
    with pytest.raises(UserError, match="cannot listen there"):
        serve(Site(stores=[tmp_path]), where, print)


def test_the_address_holds_the_token_in_the_fragment(listening: socket.socket, free_port: int) -> None:
    security, address = server._secure(Listener(port=free_port), listening)
    assert address == f"http://127.0.0.1:{free_port}"
    assert security.serves_host(f"localhost:{free_port}")
    assert not security.serves_host(f"localhost:{free_port + 1}")
    assert security.cookie == f"medhelm-{free_port}"


def test_behind_a_proxy_only_its_names_are_served_over_https(listening: socket.socket) -> None:
    security, address = server._secure(Listener(proxy_hosts=["Board.test"]), listening)
    assert address == "https://board.test"
    assert security.https
    assert security.serves_host("board.test")
    assert not security.serves_host("127.0.0.1")


def test_a_socket_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "board.sock"
    with server._listen(Listener(socket_file=path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(UserError, match="another server listens there"):
            server._listen(Listener(socket_file=path))


def test_a_socket_file_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "board.sock"
    server._listen(Listener(socket_file=path)).close()
    with server._listen(Listener(socket_file=path)):
        assert path.exists()


def test_other_files_are_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        with pytest.raises(UserError, match="is not a socket"):
            server._listen(Listener(socket_file=tmp_path / name))
    with pytest.raises(UserError, match="cannot be made"):
        server._listen(Listener(socket_file=tmp_path / "nowhere" / "board.sock"))
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
