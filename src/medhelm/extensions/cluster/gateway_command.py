"""`medhelm gateway`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.global_options import Shared, load, pricing_of, shared_options
from medhelm.cli.options import listen_options, options_of
from medhelm.cli.printing import print_json, warn
from medhelm.domain.option_fields import option
from medhelm.errors import MedHelmError, UserError
from medhelm.evaluation.settings import Settings
from medhelm.models.gateway import GATEWAY_VARIABLE, without_gateway

if TYPE_CHECKING:
    import ssl
    from socket import socket

    from medhelm.domain import Model
    from medhelm.evaluation.session import Session
    from medhelm.extensions.cluster.gateway_server import Gateway
    from medhelm.storage.store import Store

TOKEN_FILE = "gateway.token"  # noqa: S105 - a file's name
"""Default file for the token, in the store."""

DEFAULT_PORT = 8643
"""Default of `--port`."""

REDRAW_S, REPORT_S = 1.0, 60.0
"""Seconds between two updates in a terminal, and between two lines elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Options of a gateway."""

    names: tuple[str, ...] = option(
        "--model",
        "Serve this model or judge; repeatable.  [default: all models of models.yaml]",
        (),
        metavar="MODEL",
        completes="models",
    )
    budget_usd: float | None = option(
        "--budget",
        "Set the spending limit of the store, as `medhelm budget set` does.",
        metavar="USD",
        kind="dollars",
    )
    token_file: Path | None = option(
        "--tokens",
        "File with the accepted tokens, one per line, optionally after a name for the audit log.  "
        "[default: STORE/gateway.token, created if missing]",
        metavar="FILE",
    )


@click.command()
@options_of(GatewayOptions, "options", "names", "budget_usd")
@listen_options(DEFAULT_PORT, "Encrypt with these PEM files; required for other machines.")
@options_of(GatewayOptions, "options", "token_file")
@options_of(Settings, "settings", "allow_hosts", "service")
@shared_options("store", "models", "benchmarks", "offline", "json")
@click.pass_obj
def gateway(
    shared: Shared,
    /,
    options: GatewayOptions,
    port: int,
    socket_file: Path | None,
    host: str,
    certificate: tuple[Path, Path] | None,
    settings: Settings,
) -> int:
    """Call models for other processes and machines.

    The gateway owns the cache, keys, budget and audit log of a store. Workers (`medhelm run --gateway URL`) and tools
    that speak OpenAI's chat API use it as their model server, and need neither keys nor internet access.

    \b
    Examples:
      medhelm gateway --model openai/gpt-4o --budget 500
      medhelm gateway --allow-host api.openai.com --socket gate.sock
      medhelm gateway --host 0.0.0.0 --tls cert.pem key.pem --tokens FILE
    """
    from medhelm.evaluation.session import check_models
    from medhelm.results.cost import set_budget
    from medhelm.storage.store import create

    settings = replace(settings, offline=shared.offline)
    environment = without_gateway(os.environ)
    where = _ListenAddress(host, port, socket_file, certificate or None)
    where.check()
    models = _find_models(shared, options.names, replace(settings, max_cost_usd=options.budget_usd), environment)
    store = create(shared.store)
    if options.budget_usd is not None:
        set_budget(store.folder, options.budget_usd, pricing_of(shared, ()))
    check_models(models, settings, environment, store.folder)
    tokens = _token_file(options.token_file, store, where)
    listening, tls = where.listen()
    try:
        if shared.json:
            urls = {"url": where.url(listening), "token_file": str(tokens) if tokens else None}
            print_json({**urls, "models": [model.name for model in models]})
        else:
            _announce(where.url(listening), tokens, models)
        sys.stdout.flush()
        import asyncio

        return asyncio.run(_run(shared, store, settings, models, tokens, listening, tls))
    finally:
        listening.close()
        if socket_file is not None:
            socket_file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _ListenAddress:
    """The address or socket file that the gateway listens on."""

    host: str
    port: int
    socket_file: Path | None
    certificate: tuple[Path, Path] | None

    def check(self) -> None:
        """Raise UserError for an address that other machines could reach without TLS, and for unusable files."""
        from medhelm.io.http.listening import check_certificate, is_loopback_address

        if self.certificate and self.socket_file:
            raise UserError("--tls and --socket cannot be combined: use one of them.")
        if self.certificate:
            check_certificate(*self.certificate)
        elif self.socket_file is None and not is_loopback_address(self.host):
            raise UserError(
                f"--host {self.host}: prompts and tokens would be sent unencrypted between machines. Give a "
                "certificate with --tls, or use the default, 127.0.0.1, and forward the port with `ssh -L`."
            )

    def listen(self) -> tuple[socket, ssl.SSLContext | None]:
        """Return a bound socket and the TLS settings. Raises: UserError."""
        from medhelm.io.http.listening import listen_on, listen_on_file

        if self.socket_file is not None:
            return listen_on_file(self.socket_file), None
        listening = listen_on(self.host, self.port)
        if not self.certificate:
            return listening, None
        import ssl

        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*self.certificate)
        return listening, tls

    def url(self, listening: socket) -> str:
        """Return the address for workers: on this machine, or with TLS on any machine."""
        if self.socket_file is not None:
            return f"unix:{self.socket_file.absolute()}"
        import platform

        is_everywhere = self.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
        host = platform.node() if is_everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{listening.getsockname()[1]}"


def _find_models(
    shared: Shared, names: tuple[str, ...], settings: Settings, environment: Mapping[str, str]
) -> list[Model]:
    """Return the models to serve, with their prices; without names, those of models.yaml that can be used.

    Raises: UserError, MissingError, ConfigError.
    """
    from medhelm.evaluation.session import check_models, with_prices
    from medhelm.models.catalog import defined_models, find_models
    from medhelm.models.providers import answers_in_process

    if names:
        models = with_prices(find_models(names, file=shared.models_file, environment=environment, note=warn))
        if local := [model.name for model in models if answers_in_process(model.provider)]:
            raise UserError(f"--model {', '.join(local)}: runs in the process that uses it. Leave it out.")
        check_models(models, settings, environment)
        return models
    defined, problems = defined_models(file=shared.models_file, environment=environment)
    found = []
    for model in with_prices(model for model in defined if not answers_in_process(model.provider)):
        try:
            check_models([model], settings, environment)
            found.append(model)
        except MedHelmError as error:
            problems.append(str(error).removesuffix("Nothing was sent.").rstrip())
    for problem in problems:
        shared.note(f"not served: {problem}")
    if not found:
        raise UserError("no model to serve. Name one with --model, or define models in models.yaml. Nothing was sent.")
    return found


def _token_file(named: Path | None, store: Store, where: _ListenAddress) -> Path | None:
    """Return the file with the accepted tokens; None for a socket file without `--tokens`. Raises: UserError."""
    from medhelm.extensions.cluster.gateway import new_token_file, read_tokens

    if named is None and where.socket_file is not None:
        return None
    file = named or store.folder / TOKEN_FILE
    if named is None:
        new_token_file(file)
    read_tokens(file)
    return file.absolute()


def _announce(url: str, tokens: Path | None, models: list[Model]) -> None:
    click.echo(f"MedHELM's gateway serves {', '.join(model.name for model in models)}\nuntil Ctrl-C stops it, at\n")
    click.echo(f"  {url}\n")
    token = f" MEDHELM_GATEWAY_TOKEN_FILE={tokens}" if tokens else ""
    click.echo(f"Workers:      export {GATEWAY_VARIABLE}={url}{token}")
    if url.startswith("http"):
        click.echo(f"Other tools:  {url}/v1, with the token as the API key")


async def _run(
    shared: Shared,
    store: Store,
    settings: Settings,
    models: list[Model],
    tokens: Path | None,
    listening: socket,
    tls: ssl.SSLContext | None,
) -> int:
    """Serve until the first signal, let requests in flight finish, and return the exit code."""
    import asyncio

    from medhelm.benchmarks.catalog import ADDITIONAL
    from medhelm.evaluation.scheduler import on_interrupt
    from medhelm.evaluation.session import open_providers, open_session
    from medhelm.extensions.cluster.gateway import Tokens, read_tokens
    from medhelm.extensions.cluster.gateway_server import Access, Gateway, serve
    from medhelm.models.addresses import hosts_of, hosts_without_consent, record_consent
    from medhelm.models.cache_reader import CacheReader

    def known() -> bytes:
        with CacheReader(store.cache_file) as reader:
            return reader.beginnings(8)

    progress, environment = _Progress(shared, store), without_gateway(os.environ)
    async with open_session(store, settings, models, progress.note, environment) as session:
        served = Gateway(
            session.client,
            models,
            open_providers(models, session, environment, settings, ()),
            access=Access(
                tokens=Tokens(read_tokens(tokens), tokens, progress.note) if tokens else None,
                without_consent=hosts_without_consent(models, allowed=settings.allow_hosts),
                public={one.name for one in load(shared, ("public", ADDITIONAL)) if one.access == "public"},
            ),
            known=known,
            note=progress.note,
        )
        record_consent(session.http.audit, hosts_of(models), (), allowed=settings.allow_hosts)
        ended = asyncio.Event()

        def interrupt() -> None:
            if ended.is_set():
                served.abandon()
            else:
                progress.note("stopping when the requests in flight have finished; press Ctrl-C again to abandon them")
                ended.set()

        with on_interrupt(interrupt):
            showing = asyncio.ensure_future(progress.show(served, session))
            try:
                await serve(served, listening, tls, ended)
            finally:
                showing.cancel()
    progress.end(served, session)
    return 130


class _Progress:
    """Prints the state of the gateway: a line that changes in a terminal, one line a minute elsewhere."""

    def __init__(self, shared: Shared, store: Store) -> None:
        from medhelm.results.cost import budget_of

        self._shared = shared
        self._is_terminal = sys.stderr.isatty() and not shared.quiet
        self._shown = ""
        state = budget_of(store.folder)
        self._limit = state.balance.limit if state else None
        self._before = state.balance.held if state else 0

    def note(self, text: str) -> None:
        """Print a message above the state."""
        self._clear()
        self._shared.note(text)

    async def show(self, served: Gateway, session: Session) -> None:
        """Print the state each time that it has changed."""
        from asyncio import sleep

        last = ""
        while True:
            await sleep(REDRAW_S if self._is_terminal else REPORT_S)
            line = self._line(served, session)
            if line == last:
                continue
            last = line
            if self._is_terminal:
                self._clear()
                click.echo(line, err=True, nl=False)
                self._shown = line
            else:
                self._shared.note(line)

    def end(self, served: Gateway, session: Session) -> None:
        """Print the last state."""
        self.note(f"stopped. {self._line(served, session)}")

    def _clear(self) -> None:
        if self._shown:
            click.echo(f"\r{' ' * len(self._shown)}\r", err=True, nl=False)
            self._shown = ""

    def _line(self, served: Gateway, session: Session) -> str:
        from medhelm.domain.text import plural
        from medhelm.models.budget import NANO

        counts = served.counts
        failed = f", {counts.failed:,} failed" if counts.failed else ""
        spent = self._before / NANO + session.budget.spent_usd
        cost = f"{spent:.2f} USD" if self._limit is None else f"{spent:.2f} of {self._limit / NANO:.2f} USD"
        return (
            f"{plural(counts.requests, 'request')} ({counts.cached:,} cached{failed}), {counts.in_flight:,} in flight, "
            f"{plural(counts.workers, 'worker')}, {cost}"
        )
