"""Tell where the data of stores was sent: by host and benchmark, from the audit log and the records of the runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from medhelm.domain import Run
from medhelm.domain.text import listed, plural
from medhelm.io.http.hosts import ConsentSource, host_of, is_inside, is_loopback
from medhelm.results.comparable import BASELINE, HARNESSES
from medhelm.results.formats.fields import INTEGER, STRING, Field, enum_of, fields_json, list_field, list_of, map_of
from medhelm.results.formats.tables import size_text
from medhelm.results.runs.selection import without_address
from medhelm.storage.audit import check_chain
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, find_store, open_store

HostPlace = Literal["this machine", "private network", "internet"]
"""Place of a host, as its name or address shows it."""

SentContent = Literal["prompts", "judging", "files", "nothing"]
"""Content of requests: prompts; prompts, completions and references, because there were judges among the models; files,
such as a published store; nothing, such as the download of data."""

LogState = Literal["intact", "missing", "damaged"]
"""State of an audit log."""

DataClaim = Literal["nothing left", "stayed inside", "left", "unknown"]
"""A conclusion: nothing left the machine; nothing left the private network; data left; it cannot be said."""

CONTENTS: Mapping[SentContent, str] = {
    "prompts": "prompts",
    "judging": "prompts, completions and references",
    "files": "files",
    "nothing": "no content (downloads, lists of models)",
}
"""Content -> words for people."""

CONSENT_SOURCES: Mapping[ConsentSource, str] = {
    "option": "the option --allow-host",
    "administrator": "the administrator's file",
}
"""Source of consent -> words for people."""

MOST_NAMED = 6
"""Most names in a sentence."""

SUBJECT = ("destination", "model", "benchmark", "user")
"""Fields of an entry of the log that say which sum it belongs to."""


@dataclass(slots=True, kw_only=True)
class SentRequests:
    """Requests to one host about one benchmark."""

    host: str
    """The host; "" for hosts of this machine and of the private network where their names are not shown."""
    place: HostPlace
    """Its place."""
    benchmark: str
    """Name of the benchmark, or several with commas; empty if the requests are about none."""
    content: SentContent
    """Content of all of them together."""
    requests: int = 0
    """HTTP requests."""
    model_requests: int = 0
    """Requests to models in them: a file for a batch API holds many."""
    bytes: int = 0
    """Bytes of their bodies."""
    first: str = ""
    """Time of the first one."""
    last: str = ""
    """Time of the last one."""
    models: set[str] = field(default_factory=set)
    """Models and judges that were asked."""
    users: set[str] = field(default_factory=set)
    """Users whose commands sent them; empty where they are not shown."""

    @property
    def shown_host(self) -> str:
        """Return the host, or its place where its name is not shown."""
        return self.host or self.place


@dataclass(slots=True, kw_only=True)
class ConsentUse:
    """Consent to send data of benchmarks that are not public to one host, given by one or more commands."""

    host: str
    """The host, as in `SentRequests`."""
    place: HostPlace
    """Its place."""
    benchmark: str
    """Names of the benchmarks, separated by commas; empty if a gateway was allowed to send data of any benchmark."""
    source: ConsentSource
    """The option of the command, or the administrator's file."""
    commands: int = 0
    """Number of commands with this consent."""
    first: str = ""
    """Time of the first one."""
    last: str = ""
    """Time of the last one."""
    users: set[str] = field(default_factory=set)
    """Users of these commands; empty where they are not shown."""

    def covers(self, one: SentRequests) -> bool:
        """Return True if it is consent to these requests."""
        benchmarks = self.benchmark.split(", ") if self.benchmark else one.benchmark.split(", ")
        return self.host == host_of(f"//{one.host}") and not {*benchmarks}.isdisjoint(one.benchmark.split(", "))


def add_consent(found: dict[tuple[str, ...], ConsentUse], entry: Mapping[str, Any], *, with_names: bool = True) -> None:
    """Add an entry of an audit log to the sums if it is about consent. `with_names`: as for `data_use`."""
    if entry.get("action") != "consent":
        return
    host, benchmark, user, time = (str(entry.get(name, "")) for name in ("destination", "benchmark", "user", "time"))
    place = _place(host)
    source: ConsentSource = "administrator" if entry.get("source") == "administrator" else "option"
    shown = host if with_names or place == "internet" else ""
    new = ConsentUse(host=shown, place=place, benchmark=benchmark, source=source, first=time)
    one = found.setdefault((shown, place, benchmark, source), new)
    one.commands += 1
    one.last = time
    if with_names and user:
        one.users.add(user)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLog:
    """The audit log of one store."""

    store: str
    """Name of the store."""
    state: LogState
    """Its state."""
    entries: int = 0
    """Number of entries up to the first problem."""
    problem: str = ""
    """The problem of a damaged log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUse:
    """The hosts that got data of some stores, as far as it is known."""

    claim: DataClaim
    """The conclusion."""
    sent: Sequence[SentRequests]
    """Requests by host and benchmark: first those over the internet."""
    logs: Sequence[StoreLog]
    """The audit log of each store."""
    unlogged: Mapping[str, int]
    """Benchmark -> runs that needed a server and have no entry in a log for their model or one of their judges."""
    forwarded: Mapping[str, Sequence[str]]
    """Host on the internet that a gateway or proxy server was asked to reach -> benchmarks. The log has the gateway."""
    imported: Mapping[str, int]
    """Harness -> runs whose completions it requested. They were not sent from here."""
    clusters: Sequence[str]
    """Machines of clusters that computed models or metrics."""
    consents: Sequence[ConsentUse] = ()
    """Consent to send data that is not public, by host, as the logs record it."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Benchmark with runs -> its name for people."""

    def named(self, benchmarks: Iterable[str]) -> str:
        """Return benchmarks as a list in a sentence."""
        return listed(sorted(self.titles.get(name, name) for name in benchmarks), MOST_NAMED)

    def consent_sentence(self, one: ConsentUse) -> str:
        """Return who consented to what, and when."""
        data = "data that is not public"
        if one.benchmark:
            data = f"data of {self.named(one.benchmark.split(', '))}, which is not public,"
        days = " to ".join(sorted({one.first[:10], one.last[:10]}))
        given = ", ".join([*sorted(one.users)[:MOST_NAMED], days])
        host = one.host or f"the {one.place}"
        return f"Sending {data} to {host} was permitted by {CONSENT_SOURCES[one.source]} ({given})."

    @property
    def why_unknown(self) -> list[str]:
        """Return the reasons why the list may lack something, as sentences."""
        found = []
        for log in self.logs:
            if log.state == "damaged":
                found.append(f"The audit log of {log.store} was changed or is damaged: {log.problem}.")
            elif log.state == "missing" and self.unlogged:
                found.append(f"The store {log.store} has no audit log.")
        if self.unlogged:
            runs = plural(sum(self.unlogged.values()), "run")
            found.append(
                f"{runs} of {self.named(self.unlogged)} used a model server, and the log has no such "
                "request: the run was copied from elsewhere, or the log was removed."
            )
        return found


def data_use(stores: Sequence[Path], *, with_names: bool = False) -> DataUse:
    """Return where the data of some stores was sent.

    Hosts, requests and bytes come from the audit logs, which are checked as `medhelm audit verify` does. The records of
    the runs show what a log lacks.

    Parameters: with_names, True to name hosts of the private network and users, which belong to no publication.
    Raises: StoreError for a folder that is no store, or a log that cannot be read.
    """
    reader = _Reader(with_names)
    for path in stores:
        reader.read(path)
    return DataUse(
        claim=reader.claim(),
        sent=sorted(reader.sent.values(), key=_by_distance),
        logs=reader.logs,
        unlogged=dict(sorted(reader.unlogged.items())),
        forwarded={host: sorted(names) for host, names in sorted(reader.forwarded.items())},
        imported=dict(sorted(reader.imported.items())),
        clusters=sorted(reader.clusters) if with_names else sorted(set(map(_place, reader.clusters))),
        consents=sorted(reader.consents.values(), key=lambda one: (one.host, one.benchmark, one.source)),
        titles=reader.titles,
    )


def place_of(destination: str) -> tuple[str, HostPlace]:
    """Return the host of an address in the audit log and its place.

    >>> place_of("https://api.openai.com"), place_of("http://10.0.0.5:8000"), place_of("unix:gate.sock")
    (('api.openai.com', 'internet'), ('10.0.0.5:8000', 'private network'), ('this machine', 'this machine'))
    """
    host = host_of(destination)
    if not host:
        return "this machine", "this machine"  # a socket file
    place = _place(host)
    return (host if place == "internet" else destination.partition("://")[2]), place


def _place(host: str) -> HostPlace:
    return "this machine" if is_loopback(host) else "private network" if is_inside(host) else "internet"


def _by_distance(one: SentRequests) -> tuple[object, ...]:
    places: Sequence[HostPlace] = ("internet", "private network", "this machine")
    return one.content == "nothing", places.index(one.place), one.host, one.benchmark, one.content


class _Reader:
    """Adds up the audit logs of stores, and compares them with the runs."""

    def __init__(self, with_names: bool) -> None:
        self.with_names = with_names
        self.sent: dict[tuple[str, ...], SentRequests] = {}
        self.logs: list[StoreLog] = []
        self.unlogged: Counter[str] = Counter()
        self.forwarded: dict[str, set[str]] = {}
        self.imported: Counter[str] = Counter()
        self.clusters: set[str] = set()
        self.consents: dict[tuple[str, ...], ConsentUse] = {}
        self.titles: dict[str, str] = {}
        self._asked: dict[tuple[str, str], set[str]] = {}
        """Model and benchmark -> hosts, in the log of the store that is being read."""
        self._known: dict[tuple[str | bool, ...], SentRequests] = {}
        """Subject of entries in that log -> their sum."""

    def read(self, path: Path) -> None:
        """Add one store."""
        store, runs = find_store(path), load_runs(open_store(path), variants=True)
        self._asked, self._known = {}, {}
        self._read_log(store, path.resolve().name, runs)
        for run in runs:
            self.titles[run.benchmark] = run.title
            if run.has_imported_completions and run.origin:
                self.imported[HARNESSES.get(run.origin.harness, run.origin.harness)] += 1
            self._compare(run)

    def _read_log(self, store: Store, name: str, runs: Sequence[Run]) -> None:
        if not store.audit_file.exists():
            self.logs.append(StoreLog(store=name, state="missing"))
            return
        judges = {(judge.name, run.benchmark) for run in runs for judge in run.judges}
        checked = check_chain(store.audit_file, each=lambda line: self._add(json.loads(line), judges))
        state: LogState = "damaged" if checked.problem else "intact"
        self.logs.append(StoreLog(store=name, state=state, entries=checked.n, problem=checked.problem))

    def _add(self, entry: Mapping[str, Any], judges: Collection[tuple[str, str]]) -> None:
        """Add an entry of the log. `judges`: judge and benchmark."""
        add_consent(self.consents, entry, with_names=self.with_names)
        if entry.get("action") == "cluster":
            self.clusters.update(map(str, entry.get("nodes", ())))
        if entry.get("action") != "request":
            return
        size = entry.get("bytes", 0)
        key = (*(entry.get(name, "") for name in SUBJECT), bool(size))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._sum_of(entry, judges)
        found.requests += 1
        found.model_requests += entry.get("requests", 0)
        found.bytes += size
        found.last = entry.get("time", "")
        found.first = found.first or found.last

    def _sum_of(self, entry: Mapping[str, Any], judges: Collection[tuple[str, str]]) -> SentRequests:
        """Return the sum that a request belongs to, with its model and user."""
        destination, model, benchmark, user = (entry.get(name, "") for name in SUBJECT)
        is_empty = not entry.get("bytes", 0)
        host, place = place_of(destination)
        content: SentContent = "nothing" if is_empty else "prompts" if model else "files"
        shown = host if self.with_names or place == "internet" else ""
        new = SentRequests(host=shown, place=place, benchmark=benchmark, content=content)
        found = self.sent.setdefault((shown, place, benchmark, content), new)
        if model:
            found.models.add(without_address(model))
        if self.with_names and user:
            found.users.add(user)
        for one in benchmark.split(", ") if not is_empty else ():
            self._asked.setdefault((model, one), set()).add(host_of(destination))
            if content == "prompts" and (model, one) in judges:
                found.content = "judging"
        return found

    def _compare(self, run: Run) -> None:
        """Note what the log lacks about a run, and hosts behind a gateway."""
        called = {judge.name: judge for judge in run.judges}
        own = run.resolved_model
        is_called = not run.model.startswith(BASELINE) and not run.has_imported_completions
        if is_called and own and own.addresses:
            called[run.model] = own
        lacking = is_called and own is None and (run.model, run.benchmark) not in self._asked
        for name, model in called.items():
            if not model.addresses:
                continue
            asked = self._asked.get((name, run.benchmark))
            lacking = lacking or asked is None
            for host in map(host_of, model.addresses):
                if asked and host not in asked and not is_inside(host):
                    self.forwarded.setdefault(host, set()).add(run.benchmark)
        self.unlogged[run.benchmark] += lacking

    def claim(self) -> DataClaim:
        """Return what can be said."""
        self.unlogged = +self.unlogged
        places = {one.place for one in self.sent.values() if one.bytes} | set(map(_place, self.clusters))
        if "internet" in places or self.forwarded:
            return "left"
        if self.unlogged or any(log.state == "damaged" for log in self.logs):
            return "unknown"
        return "stayed inside" if "private network" in places else "nothing left"


# --- in words ---------------------------------------------------------------------------------------------------------


def sentences(found: DataUse) -> list[str]:
    """Return where the data went in sentences; the first one says whether any left. Internal hosts are not named."""
    lines = [_first_sentence(found), *_sentences_by_host(found), *map(found.consent_sentence, found.consents)]
    for host, names in found.forwarded.items():
        lines.append(
            f"A gateway passed requests about {found.named(names)} on to {host}; its own audit log has the details."
        )
    if found.claim in ("left", "unknown"):
        lines += found.why_unknown
    if downloads := sorted({one.host for one in found.sent if one.content == "nothing" and one.place == "internet"}):
        lines.append(f"Files or lists of models were fetched from {listed(downloads, MOST_NAMED)}; no data was sent.")
    for harness, n in found.imported.items():
        lines.append(
            f"The completions of {plural(n, 'run')} were imported from {harness}. This store does not know where "
            "their prompts were sent."
        )
    if found.clusters:
        lines.append(f"A cluster computed models or metrics; its machines: {listed(found.clusters, MOST_NAMED)}.")
    if found.claim in ("nothing left", "stayed inside") and any(one.bytes for one in found.sent):
        lines.append(
            "The audit log ends at these servers. If one of them passes requests on, that is recorded there, not here."
        )
    return lines


def _first_sentence(found: DataUse) -> str:
    n = sum(one.requests for one in found.sent if one.bytes)
    requests = f"all {plural(n, 'request')} of {'this store' if len(found.logs) == 1 else 'these stores'}"
    if found.claim == "left":
        hosts = sorted({one.host for one in found.sent if one.place == "internet" and one.bytes} | {*found.forwarded})
        return f"Data was sent over the internet, to {listed(hosts, MOST_NAMED) if hosts else 'a cluster'}."
    if found.claim == "unknown":
        return "It cannot be said whether data left this machine."
    if found.claim == "stayed inside":
        return f"Nothing left the private network: {requests} went to servers on this machine or in it."
    if n:
        return f"Nothing left this machine: {requests} went to servers on it."
    return "Nothing left this machine: the runs needed no server, and no request with data was recorded."


def _sentences_by_host(found: DataUse) -> Iterable[str]:
    """Yield a sentence for each host on the internet that got data."""
    by_host: dict[str, list[SentRequests]] = {}
    for one in found.sent:
        if one.place == "internet" and one.bytes:
            by_host.setdefault(one.host, []).append(one)
    for host, own in by_host.items():
        names = {name for one in own for name in one.benchmark.split(", ") if name}
        about = f" of {found.named(names)}" if names else ""
        size, days = size_text(sum(one.bytes for one in own)), sorted(one.first[:10] for one in own)
        last = max(one.last[:10] for one in own)
        when = f"on {last}" if days[0] == last else f"from {days[0]} to {last}"
        contents = {one.content for one in own}
        what = CONTENTS[next(kind for kind in ("judging", "prompts", "files") if kind in contents)]
        yield f"{host} got {what}{about}: {plural(sum(one.requests for one in own), 'request')}, {size}, {when}."


# --- fields -----------------------------------------------------------------------------------------------------------


def _time_fields(by: str) -> list[Field[Any]]:
    """Return the fields of times and users. `by`: heading of the users."""
    return [
        Field("first", lambda one: one.first, kind="text", heading="First (UTC)", text=lambda one: _minute(one.first)),
        Field("last", lambda one: one.last, kind="text", heading="Last (UTC)", text=lambda one: _minute(one.last)),
        Field("users", lambda one: sorted(one.users), kind="texts", heading=by, hide_empty=True,
              text=lambda one: listed(sorted(one.users), 3) or None),
    ]  # fmt: skip


SENT_FIELDS: list[Field[SentRequests]] = [
    Field("host", lambda one: one.host, kind="text", heading="Host", text=lambda one: one.shown_host,
          meaning="Host, with its port unless it is on the internet; empty where its name is not shown."),
    Field("place", lambda one: one.place, kind="text", heading="Where", schema=enum_of(get_args(HostPlace))),
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark",
          text=lambda one: one.benchmark or None, meaning="Name, or several with commas; empty if about none."),
    Field("content", lambda one: one.content, kind="text", heading="Content", text=lambda one: CONTENTS[one.content],
          schema=enum_of(CONTENTS), meaning="Content of the requests."),
    Field("models", lambda one: sorted(one.models), kind="texts", heading="Models and judges",
          text=lambda one: listed(sorted(one.models), 3) or None),
    Field("requests", lambda one: one.requests, kind="whole number", heading="Requests", meaning="HTTP requests."),
    Field("model_requests", lambda one: one.model_requests, kind="whole number",
          meaning="Requests to models in them: a file for a batch API holds many."),
    Field("bytes", lambda one: one.bytes, kind="whole number", heading="Sent",
          text=lambda one: size_text(one.bytes) if one.bytes else "0", meaning="Bytes of the bodies of requests."),
    *_time_fields("Sent by"),
]  # fmt: skip
"""Requests to one host about one benchmark."""

CONSENT_FIELDS: list[Field[ConsentUse]] = [
    Field("host", lambda one: one.host, kind="text", heading="Host", text=lambda one: one.host or one.place,
          meaning="Host; empty where its name is not shown."),
    Field("place", lambda one: one.place, kind="text", schema=enum_of(get_args(HostPlace))),
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Data of",
          text=lambda one: one.benchmark or "any benchmark",
          meaning="Name, or several with commas; empty if a gateway may send data of any benchmark."),
    Field("source", lambda one: one.source, kind="text", heading="Permitted by", schema=enum_of(CONSENT_SOURCES),
          text=lambda one: CONSENT_SOURCES[one.source],
          meaning="Source: the option --allow-host of a command, or the administrator's file."),
    Field("commands", lambda one: one.commands, kind="whole number", heading="Commands"),
    *_time_fields("Given by"),
]  # fmt: skip
"""Consent to send data that is not public to one host."""

LOG_FIELDS: list[Field[StoreLog]] = [
    Field("store", lambda log: log.store, kind="text", heading="Store"),
    Field("state", lambda log: log.state, kind="text", heading="Audit log", schema=enum_of(get_args(LogState)),
          text=lambda log: "none: the first request begins it" if log.state == "missing" else log.state),
    Field("entries", lambda log: log.entries, kind="whole number", heading="Entries"),
    Field("problem", lambda log: log.problem, kind="text", heading="Problem", hide_empty=True),
]  # fmt: skip
"""The audit log of a store."""

FIELDS: list[Field[DataUse]] = [
    Field("claim", lambda found: found.claim, kind="text", schema=enum_of(get_args(DataClaim))),
    Field("sentences", sentences, kind="texts"),
    list_field("sent", SENT_FIELDS, lambda found: found.sent),
    list_field("consents", CONSENT_FIELDS, lambda found: found.consents),
    list_field("logs", LOG_FIELDS, lambda found: found.logs),
    Field("unlogged", lambda found: dict(found.unlogged), kind="object", schema=map_of(INTEGER),
          meaning="Benchmark -> runs that needed a server and have no entry in a log."),
    Field("forwarded", lambda found: {host: list(names) for host, names in found.forwarded.items()}, kind="object",
          schema=map_of(list_of(STRING)),
          meaning="Host behind a gateway -> benchmarks."),
    Field("imported", lambda found: dict(found.imported), kind="object", schema=map_of(INTEGER),
          meaning="Harness -> runs whose completions it requested."),
    Field("clusters", lambda found: found.clusters, kind="texts", meaning="Machines of clusters."),
]  # fmt: skip
"""The hosts that got data of stores."""


def as_json(found: DataUse) -> dict[str, Any]:
    """Return where the data went as JSON."""
    return fields_json(FIELDS, found)


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")
