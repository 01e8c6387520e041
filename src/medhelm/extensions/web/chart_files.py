"""Charts as files: SVG, PNG where the extra `figures` is installed, and their numbers as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from medhelm.extensions.web.charts.heat_map import ShadedTable
from medhelm.extensions.web.page import Download, PageNotFound, PageRequest, Values, text_download
from medhelm.reports.charts import rendering
from medhelm.reports.charts.chart import Chart


def formats(is_static: bool = False) -> list[str]:
    """Return the formats of a chart that this installation can make; the static site has no PNG files."""
    return ["svg", "png", "csv"] if rendering.is_installed() and not is_static else ["svg", "csv"]


def chart_links(
    request: PageRequest, route: str, name: str, parameters: Mapping[str, Values], kinds: Sequence[str] = ()
) -> dict[str, str]:
    """Return the addresses of the files of a chart: format -> URL. `kinds`: the formats; empty for all."""
    shown = kinds or formats(request.is_static)
    return {kind: request.links.to(route, {**parameters, "chart": f"{name}.{kind}"}) for kind in shown}


def chart_file(name: str, charts: Mapping[str, Callable[[], Chart | ShadedTable | None]]) -> Download:
    """Return a chart by the name of its file, such as `cost.svg`.

    Parameters: charts, name -> function that makes it. Raises: PageNotFound for another name or format.
    """
    stem, _, suffix = name.rpartition(".")
    found = charts[stem]() if stem in charts else None
    if found is None or suffix not in formats():
        raise PageNotFound(f"The chart `{name[:80]}` does not exist.")
    if suffix == "csv":
        return text_download(found.csv, stem, "csv")
    if isinstance(found, ShadedTable) or not found.has_data:
        raise PageNotFound(f"`{stem}` has no picture; its numbers are in {stem}.csv.")
    media = {"svg": "image/svg+xml", "png": "image/png"}[suffix]
    picture = rendering.render(str(found.svg), [suffix])[suffix]
    return Download(content=picture, media_type=media, file_name=f"{stem}.{suffix}")
