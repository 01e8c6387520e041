"""`medhelm docs`."""

from __future__ import annotations

import click

from medhelm.cli.common.global_options import Shared, shared_options
from medhelm.cli.common.printing import print_json


@click.command()
@click.argument("page", required=False)
@click.option("--path", "only_path", is_flag=True, help="Print the path of the file instead of its text.")
@shared_options("json")
@click.pass_obj
def docs(shared: Shared, page: str | None, only_path: bool) -> int:
    """List or print the documentation.

    PAGE is a name from the list, with or without its folder. Editors can check benchmark.yaml with
    `benchmark.schema.json`.

    \b
    Examples:
      medhelm docs
      medhelm docs benchmark_yaml
      medhelm docs benchmark.schema.json --path
    """
    from medhelm.io.package_docs import find_document, find_documents, title_of

    if page is not None:
        path = find_document(page)
        if shared.json:
            print_json({"path": str(path), "text": path.read_text(encoding="utf-8")})
        else:
            click.echo(path if only_path else path.read_text(encoding="utf-8"), nl=only_path)
        return 0
    documents = find_documents()
    titles = {name: title_of(path) for name, path in documents.items()}
    if shared.json:
        print_json(
            {"documents": [{"name": name, "title": titles[name], "path": str(documents[name])} for name in documents]}
        )
        return 0
    width = max(map(len, documents))
    for name, title in titles.items():
        click.echo(f"{documents[name]}" if only_path else f"{name:<{width}}  {title}".rstrip())
    return 0
