"""Everything that can open a socket, and how each is held to the egress policy."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from medhelm.benchmarks.data_quality import PRESIDIO_ENTITIES
from medhelm.io.parquet import connect, open_database
from tests.architecture.test_layers import MODULES, SOURCE, trees
from tests.support.servers.objects import ObjectServer
from tests.support.source_code import parsed

STANDARD: Mapping[str, Mapping[str, str]] = {
    "socket": {
        "extensions.cluster.gateway_command": "the type of a listening socket",
        "io.http.egress": "looks up names, which it then checks",
        "io.http.listening": "listens: on this machine, or with a certificate",
        "extensions.cluster.ray": "asks whether a Ray cluster, which the policy admitted, listens",
        "extensions.cluster.gateway_server": "the type of a listening socket",
        "extensions.local.vllm": "finds a free port of this machine",
        "extensions.web.server": "the type of a listening socket",
    },
    "ssl": {
        "extensions.cluster.gateway_command": "the certificate of the gateway",
        "io.http.client": "explains errors of certificates",
        "io.http.egress": "certificates that models.yaml names",
        "io.http.listening": "checks the certificate of a server",
        "extensions.cluster.gateway_server": "the certificate of the gateway",
    },
    "multiprocessing": {"extensions.exchange.helm.importer": "processes on this machine, through pipes"},
}
"""Module of the standard library that can open a socket -> our modules that import it, and for what."""

UNUSED = {
    "asyncore", "ftplib", "http.client", "http.server", "imaplib", "nntplib", "poplib", "smtplib", "socketserver",
    "telnetlib", "urllib.request", "webbrowser", "wsgiref", "xmlrpc",
}  # fmt: skip
"""Modules of the standard library that none of ours imports."""

NEVER = {"open_connection", "open_unix_connection", "start_server", "urlopen", "urlretrieve", "UpdatePrices"}
"""Functions that connect or listen and that none of our modules calls; the last is of genai-prices."""

CONNECTING = {
    "create_connection": {"extensions.cluster.ray"},
    "create_server": {"extensions.web.server"},
    "ClientSession": {"io.http.egress", "extensions.cluster.gateway"},
    "HttpClient": {
        "evaluation.plan",
        "evaluation.session",
        "extensions.exchange.object_store",
        "extensions.cluster.ray",
        "models.model_check",
    },
}
"""Name of a function or class that connects or listens -> our modules that call it."""


SOCKETLESS = {
    *("click", "cryptography", "docx", "jinja2", "markdown_it", "markupsafe", "pydantic", "pydantic_core"),
    *("python_calamine", "resource", "rich", "scipy", "xlsxwriter", "yaml", "yarl"),
}
"""Libraries that we import and that open no socket."""

LIBRARIES: Mapping[str, str] = {
    "aiohttp": "sessions are opened by io.http.egress and models.gateway.worker alone, with the checked resolver and "
    "without redirects, proxies, cookies and credentials of the environment; as a server, by the gateway",
    "anyio": "runs the threads of Starlette",
    "duckdb": "`io.parquet.open_database` installs and loads no extensions, so httpfs is not there",
    "filelock": "locks files",
    "fsspec": "one file system of our own, which decrypts files, is registered with DuckDB",
    "h11": "reads requests for uvicorn",
    "genai_prices": "prices that the package holds; `UpdatePrices`, which downloads, is not used",
    "huggingface_hub": "looks for downloaded weights with `local_files_only`",
    "inspect_ai": "evaluations that Inspect starts send their requests through Inspect, as docs/how-to say",
    "numpy": "computes; `DataSource`, which downloads, is not used",
    "presidio_analyzer": "an engine with an installed spaCy pipeline, which is checked before; else it would download",
    "pyarrow": "reads and writes open files; `pyarrow.fs` and `pyarrow.flight`, which connect, are not used",
    "ray": "models.cluster.connection: the policy admits each machine, a token is required, usage statistics are off",
    "spacy": "asks whether a pipeline is installed",
    "starlette": "answers requests",
    "torch": "computes",
    "transformers": "loads weights with `local_files_only`, and HF_HUB_OFFLINE is set before its import",
    "uvicorn": "listens, by web.connections: on this machine, with a certificate, or behind a proxy that has one",
    "vl_convert": "gets pictures that name no other file and no address",
}
"""Library that we import -> how it is held."""

DEPENDENCIES: Mapping[str, str] = {
    "aiohappyeyeballs": "connects for aiohttp, to the addresses of the checked resolver",
    "cloudpathlib": "of spaCy, for paths in buckets, which it never gets",
    "hf-xet": "of huggingface-hub, for downloads",
    "httpcore": "of httpx",
    "httpcore2": "of httpx2",
    "httpx": "of genai-prices before it used httpx2",
    "httpx2": "of genai-prices, for `UpdatePrices`, which is not used",
    "lxml": "of python-docx, whose parser resolves no entities; documents are checked by io.office before",
    "pygments": "of rich; lists the functions of other languages by name",
    "requests": "of presidio-analyzer, ray and tldextract",
    "setuptools": "of torch and spaCy",
    "smart-open": "of weasel, for paths in buckets, which it never gets",
    "tldextract": "of presidio-analyzer, for e-mail addresses, which it is not asked for",
    "truststore": "of httpx2",
    "urllib3": "of requests",
    "vl-convert-python": LIBRARIES["vl_convert"],
}
"""Installed package that no module of ours imports -> how it is held, if its code can open a socket."""

OF_INSPECT = {
    *("aiobotocore", "boto3", "botocore", "debugpy", "fastapi", "jsonref"),
    *("jsonschema", "psutil", "s3fs", "s3transfer", "universal-pathlib"),
}
"""Packages that only evaluations by Inspect use."""

KNOWN = {name.replace("_", "-") for name in (*LIBRARIES, "cryptography")} | DEPENDENCIES.keys() | OF_INSPECT

_OPENS = re.compile(
    rb"^\s*(?:import|from)\s+(?:socket|ssl|http\.client|http\.server|urllib\.request|ftplib|smtplib|poplib|imaplib"
    rb"|telnetlib|xmlrpc|socketserver)\b"
    rb"|\b(?:create_connection|open_connection|start_server)\(|^\s*from urllib import .*request",
    re.MULTILINE,
)
_BINARY = re.compile(r"\.(so|pyd|dylib)$")


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what a module imports, with the modules of `from package import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what each call calls: the name before the last dot, and the last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield (node.func.value.id if isinstance(node.func.value, ast.Name) else ""), node.func.attr
            elif isinstance(node.func, ast.Name):
                yield "", node.func.id


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """All modules, those of benchmarks included."""
    paths = [path for path in SOURCE.rglob("*.py") if path not in MODULES.values() and "docs" not in path.parts]
    return trees() | {".".join(path.relative_to(SOURCE).with_suffix("").parts): parsed(path) for path in paths}


def test_every_imported_library_is_in_the_table(modules: Mapping[str, ast.Module]) -> None:
    standard = sys.stdlib_module_names | {"medhelm", "_typeshed", "medhelm_ward"}
    names = {name.partition(".")[0] for tree in modules.values() for name in imported(tree)} - standard
    assert names - LIBRARIES.keys() - SOCKETLESS == set(), "say in LIBRARIES how it is held"


def test_modules_of_the_standard_library_that_open_sockets(modules: Mapping[str, ast.Module]) -> None:
    uses = {(name, module) for module, tree in modules.items() for name in imported(tree)}
    assert [use for use in uses if use[0] in UNUSED] == []
    found = {known: {m for name, m in uses if f"{name}.".startswith(f"{known}.")} for known in STANDARD}
    assert found == {name: set(uses) for name, uses in STANDARD.items()}


def test_only_known_modules_connect_or_listen(modules: Mapping[str, ast.Module]) -> None:
    calls = {(name, module) for module, tree in modules.items() for _, name in called(tree)}
    assert {name for name, _ in calls}.isdisjoint(NEVER)
    assert {known: {module for name, module in calls if name == known} for known in CONNECTING} == CONNECTING


def test_every_database_is_opened_without_extensions(modules: Mapping[str, ast.Module]) -> None:
    opened = {module for module, tree in modules.items() for call in called(tree) if call == ("duckdb", "connect")}
    assert opened == {"io.parquet"}
    with ObjectServer() as server:
        for connection in (connect(), open_database(threads=1)):
            for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
                assert connection.execute(f"SELECT current_setting('{name}')").fetchall() == [(False,)]
            loaded = connection.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()
            assert not {"httpfs", "aws", "azure"} & {name for (name,) in loaded}
            with pytest.raises(Exception, match="httpfs"):
                connection.execute(f"SELECT * FROM read_parquet('{server.url}/x.parquet')")
        assert server.received == []


def installed(*, extras: bool) -> dict[str, Distribution]:
    """Return the packages that an installation needs; those that are not there are left out."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"].values() if extras else ()
    waiting = [*map(Requirement, chain(project["dependencies"], *optional))]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        one = waiting.pop()
        name, wanted = re.sub(r"[-_.]+", "-", one.name).lower(), frozenset({"", *one.extras})
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        needed = map(Requirement, found[name].requires or ())
        waiting += [one for one in needed if not one.marker or any(one.marker.evaluate({"extra": e}) for e in wanted)]
    return found


def can_open(package: Distribution) -> bool:
    """Return True if a package's code can open a socket."""
    for file in package.files or ():
        path = Path(str(file.locate()))
        if "tests" in path.parts or not path.is_file():
            continue
        if path.suffix == ".py" and _OPENS.search(path.read_bytes()):
            return True
        if _BINARY.search(path.name) and b"getaddrinfo" in path.read_bytes():
            return True
    return False


def test_every_package_of_the_base_install_that_can_open_a_socket_is_in_the_table() -> None:
    found = {name for name, package in installed(extras=False).items() if can_open(package)}
    assert found - KNOWN == set(), "say in DEPENDENCIES how it is held"
    assert {"aiohttp", "duckdb", "uvicorn"} <= found, "the search finds packages"


def test_presidio_is_not_asked_for_what_it_would_download_a_list_for() -> None:
    assert not {"EMAIL_ADDRESS", "URL"} & PRESIDIO_ENTITIES.keys()


@pytest.mark.long
def test_every_package_of_the_extras_that_can_open_a_socket_is_in_the_table() -> None:
    found = {name for name, package in installed(extras=True).items() if can_open(package)}
    assert found - KNOWN == set(), "say in DEPENDENCIES how it is held"
