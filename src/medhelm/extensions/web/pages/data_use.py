"""The page of hosts that got requests of the stores, by benchmark, and of the gaps of the audit logs."""

from __future__ import annotations

from medhelm.domain.text import listed
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, json_download
from medhelm.results.formats.fields import table_of
from medhelm.results.runs.data_use import (
    CONSENT_FIELDS,
    LOG_FIELDS,
    SENT_FIELDS,
    DataUse,
    SentRequests,
    as_json,
    data_use,
    sentences,
)


def page(site: Site, request: PageRequest) -> Page:
    """Return the page. The static site names no host of the private network and no user."""
    found = use_of(site, with_names=not request.is_static)
    rows, headers, _ = table_of(SENT_FIELDS, found.sent)
    logs, log_headers, _ = table_of(LOG_FIELDS, found.logs)
    consents, consent_headers, _ = table_of(CONSENT_FIELDS, found.consents)
    values = {
        "found": found,
        "sentences": sentences(found),
        "headers": headers,
        "rows": list(zip(found.sent, rows, [_closed(site, one) for one in found.sent], strict=True)),
        "consents": list(zip(found.consents, consents, strict=True)),
        "consent_headers": consent_headers,
        "unrecorded": [
            _sent_sentence(found, one)
            for one in found.sent
            if _closed(site, one) and not any(consent.covers(one) for consent in found.consents)
        ],
        "log_headers": log_headers,
        "logs": logs,
        "numeric": ("Requests", "Sent", "Commands", "Entries"),
        "title_of": lambda names: [
            (name, found.titles.get(name) or site.title_of(name)) for name in names.split(", ") if name
        ],
    }
    return Page(template="data_use.html", title="Where data went", values=values)


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same as JSON."""
    del request
    return json_download(as_json(use_of(site, with_names=True)), "data")


def use_of(site: Site, *, with_names: bool) -> DataUse:
    """Return where the data of the stores went, read again when a log has grown."""
    logs = [store / "audit.jsonl" for store in site.stores]
    sizes = tuple(log.stat().st_size if log.exists() else -1 for log in logs)
    return site.keep(("data use", with_names, sizes), lambda: data_use(site.stores, with_names=with_names))


def _closed(site: Site, one: SentRequests) -> bool:
    """Return True if requests that left this machine held data of a benchmark that is not public."""
    if one.place == "this machine" or not one.bytes:
        return False
    return any(site.access_of(name) != "public" for name in one.benchmark.split(", ") if name)


def _sent_sentence(found: DataUse, one: SentRequests) -> str:
    """Return who sent data that is not public to another machine, and when."""
    users = listed(sorted(one.users), 3)
    days = one.first[:10] if one.first[:10] == one.last[:10] else f"{one.first[:10]} to {one.last[:10]}"
    names = found.named(name for name in one.benchmark.split(", ") if name)
    return f"{names} to {one.shown_host}{f', by {users}' if users else ''}, {days}"
