"""Pages for owners and readers of studies: the list, one study, its raters, differences, and its close.

An owner has the session of the site, or a link of one study with the role of an owner. A reader sees the progress of one
study, and its results after the close. Every form that changes a study carries the revision that its page showed, so
that of two owners at once the second one is told what the first one did.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from medhelm import __version__
from medhelm.domain.text import duration, listed, plural
from medhelm.errors import MedHelmError, StoreError, UserError
from medhelm.extensions.study.files import DECISIONS, EventKind, events, read_study, studies
from medhelm.extensions.study.types import Study
from medhelm.io.http.mounted_pages import BadFormError, SiteServer, read_form, visitor_of
from medhelm.results.formats.tables import MISSING, decimal, percent, with_minus
from medhelm.storage.store import Store

MOST_FORM_BYTES, MOST_UPLOAD_BYTES, MOST_FORM_FIELDS = 200_000, 40_000_000, 600
"""Most bytes of a form and of a file that is sent, and most fields of a form: a plan has four for each rater."""
