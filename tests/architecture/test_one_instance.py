"""The way of one instance through the code, as `medhelm.evaluation` describes it to newcomers."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import medhelm.evaluation
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm
from tests.support.servers.openai import Server

SOURCE = Path(medhelm.evaluation.__file__).parents[1]
FUNCTIONS = re.findall(r"^    ([a-z_]+\.[\w.]+)  ", medhelm.evaluation.__doc__ or "", re.MULTILINE)
"""The functions on the way, in order."""
MAX_MODULES = 20
FOR_JUDGES = "scoring.jury.panel."
"""Beginning of functions that an instance passes only if judges grade it."""


@contextmanager
def noted_calls(note: Callable[[str], object]) -> Iterator[None]:
    """Call `note` with the name of every called function of the package, such as `models.cache.Cache.get`."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            module = Path(path).relative_to(SOURCE).with_suffix("").parts
            note(".".join((*module, frame.f_code.co_qualname)))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_an_instance_goes_the_way_that_newcomers_read(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.script(chat("A"))
    first_calls: dict[str, int] = {}
    with noted_calls(lambda function: first_calls.setdefault(function, len(first_calls))):
        ran = medhelm(
            *("run", "pubmed_qa", "--tier", "sample", "--limit", "1", "--store", tmp_path / "store"),
            *("--model", f"openai/m@{server.url}"),
        )
    assert ran.code == 0, ran.err
    passed = [function for function in FUNCTIONS if not function.startswith(FOR_JUDGES)]
    assert [function for function in passed if function not in first_calls] == []
    assert sorted(passed, key=first_calls.__getitem__) == passed

    modules = {re.sub(r"(\.[A-Z]\w*)?\.\w+$", "", function) for function in FUNCTIONS}
    assert all((SOURCE / f"{module.replace('.', '/')}.py").is_file() for module in modules)
    assert 15 < len(modules) <= MAX_MODULES
