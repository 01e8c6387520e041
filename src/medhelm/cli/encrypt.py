"""`medhelm encrypt` and `medhelm decrypt`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, shared_options

if TYPE_CHECKING:
    from medhelm.results.runs.encryption import ConvertedStore


@click.command()
@click.option(
    "--new-key",
    is_flag=True,
    help="Replace the key of an encrypted store by the first of the keys given; the old one must follow it.",
)
@shared_options("store", "json")
@click.pass_obj
def encrypt(shared: Shared, new_key: bool) -> int:
    """Encrypt a store, or create an encrypted one.

    From then on everything with text is encrypted on the disk with AES-256-GCM: prompts, completions, references,
    judgments, and messages that quote them. Every command works as before, as long as it is given the key by one of
    MEDHELM_STORE_KEY_FILE (a file), MEDHELM_STORE_KEY_COMMAND (a command that prints it, such as a vault's client) or
    MEDHELM_STORE_KEY: 32 random bytes in base64 or hexadecimal digits, several keys one a line. An interrupted
    conversion loses nothing: repeat the command. Without the key, nothing can be recovered.

    \b
    Example:
      openssl rand -base64 32 > /secure/medhelm.key
      export MEDHELM_STORE_KEY_FILE=/secure/medhelm.key
      medhelm encrypt --store STORE
    """
    from medhelm.results.runs.encryption import encrypt_store

    done = encrypt_store(shared.store, os.environ, new_key=new_key)
    if shared.json:
        _print_json(done)
    elif new_key:
        click.echo(f"{shared.store} now opens with the key of fingerprint {done.fingerprint}")
    elif not done.changed:
        click.echo(f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}")
    else:
        click.echo(f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}. {_amount(done)}")
        click.echo("Keep a copy of the key elsewhere: nothing can be recovered without it.", err=True)
        if done.files or done.completions:
            click.echo(
                "The plain files were deleted, but backups, snapshots and blocks that the disk has not overwritten may "
                "still hold them.",
                err=True,
            )
    return 0


@click.command()
@shared_options("store", "json")
@click.pass_obj
def decrypt(shared: Shared) -> int:
    """Turn an encrypted store into plain files.

    An interrupted conversion loses nothing: repeat the command.

    \b
    Example:
      medhelm decrypt --store STORE
    """
    from medhelm.results.runs.encryption import decrypt_store

    done = decrypt_store(shared.store, os.environ)
    if shared.json:
        _print_json(done)
    else:
        click.echo(f"{shared.store} is not encrypted{f' any more. {_amount(done)}' if done.changed else ''}")
    return 0


def _amount(done: ConvertedStore) -> str:
    damaged = f", {done.damaged:,} damaged ones left out" if done.damaged else ""
    return f"Converted: {done.files:,} files, {done.completions:,} completions of the cache{damaged}."


def _print_json(done: ConvertedStore) -> None:
    print_json(
        {
            "state": done.state,
            "changed": done.changed,
            "fingerprint": done.fingerprint,
            "files": done.files,
            "completions": done.completions,
            "damaged": done.damaged,
        }
    )
