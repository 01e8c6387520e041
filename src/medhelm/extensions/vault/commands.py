"""`medhelm encrypt` and `medhelm decrypt`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.global_options import Shared, shared_options
from medhelm.cli.common.printing import print_json

if TYPE_CHECKING:
    from medhelm.extensions.vault.conversion import ConvertedStore


@click.command()
@click.option(
    "--new-key",
    is_flag=True,
    help="Change the key of an encrypted store to the first key given; the old key must be given after it.",
)
@shared_options("store", "json")
@click.pass_obj
def encrypt(shared: Shared, new_key: bool) -> int:
    """Encrypt a store, or create an encrypted one.

    Everything with text is then encrypted on the disk with AES-256-GCM: prompts, completions, references, judgments,
    and messages that quote them. Commands work as before, but need the key in one of MEDHELM_STORE_KEY_FILE (a file),
    MEDHELM_STORE_KEY_COMMAND (a command that prints it, such as the client of a vault) or MEDHELM_STORE_KEY. A key is
    32 random bytes in base64 or hexadecimal digits, one key per line. If the conversion is interrupted, repeat the
    command: nothing is lost. Without the key, nothing can be recovered.

    \b
    Example:
      openssl rand -base64 32 > /secure/medhelm.key
      export MEDHELM_STORE_KEY_FILE=/secure/medhelm.key
      medhelm encrypt --store STORE
    """
    from medhelm.extensions.vault.conversion import encrypt_store
    from medhelm.reports.formats.json import plain_json

    done = encrypt_store(shared.store, os.environ, new_key=new_key)
    if shared.json:
        print_json(plain_json(done))
    elif new_key:
        click.echo(f"{shared.store} now opens with the key of fingerprint {done.fingerprint}")
    elif not done.changed:
        click.echo(f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}")
    else:
        click.echo(
            f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}. {_converted_text(done)}"
        )
        click.echo("Keep a copy of the key elsewhere: nothing can be recovered without it.", err=True)
        if done.files or done.completions:
            click.echo(
                "The plain files were deleted, but backups, snapshots and unused disk blocks may still hold them.",
                err=True,
            )
    return 0


@click.command()
@shared_options("store", "json")
@click.pass_obj
def decrypt(shared: Shared) -> int:
    """Convert an encrypted store to plain files.

    If the conversion is interrupted, repeat the command: nothing is lost.

    \b
    Example:
      medhelm decrypt --store STORE
    """
    from medhelm.extensions.vault.conversion import decrypt_store
    from medhelm.reports.formats.json import plain_json

    done = decrypt_store(shared.store, os.environ)
    if shared.json:
        print_json(plain_json(done))
    else:
        click.echo(f"{shared.store} is not encrypted{f' any more. {_converted_text(done)}' if done.changed else ''}")
    return 0


def _converted_text(done: ConvertedStore) -> str:
    damaged = f", {done.damaged:,} damaged ones left out" if done.damaged else ""
    return f"Converted: {done.files:,} files, {done.completions:,} completions of the cache{damaged}."
