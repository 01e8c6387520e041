"""Unlocks an encrypted store, for this process.

`store.json` of an encrypted store has layout version 2, which older versions of medhelm refuse, and a section
`encryption` with the wrapped key (see `io.encryption.keys`) and the state of its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.errors import StoreError, UserError
from medhelm.io.encryption.keys import VARIABLE, new_section, open_section, read_user_keys
from medhelm.io.encryption.places import key_of, register

SECTION, STATE = "encryption", "state"
"""Key of the section in `store.json`, and in the section that of the state: `complete`, `encrypting`, `decrypting`."""


def complete_section(folder: Path) -> dict[str, str]:
    """Return the section of a new store, with the user's key of the environment. Raises: as `read_user_keys`."""
    keys = read_user_keys(os.environ)
    refuse_key_inside(folder, os.environ)
    return {**new_section(keys[0]), STATE: "complete"}


def refuse_key_inside(folder: Path, environment: Mapping[str, str]) -> None:
    """Raise UserError for a key that would be copied with the store."""
    file = Path(environment.get(f"{VARIABLE}_FILE") or os.devnull).expanduser().resolve()
    if file.is_relative_to(folder.resolve()):
        raise UserError(f"{file} is inside the store that it protects. Move the key elsewhere. Nothing was changed.")


def unlock(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Make the files of an encrypted store readable and writable for this process. `manifest`: content of `store.json`.

    Raises: StoreError for a wrong key, a damaged section, or a store that is being converted; MissingError without a
    key, or without the package.
    """
    section = manifest.get(SECTION)
    if not isinstance(section, dict):
        raise StoreError(f"{folder / 'store.json'} is damaged: it has no section `{SECTION}`. Restore it from a copy.")
    if (state := section.get(STATE)) != "complete":
        command = "medhelm decrypt" if state == "decrypting" else "medhelm encrypt"
        raise StoreError(
            f"the store {folder} is being converted, or the conversion was interrupted. Wait until `{command}` ends, "
            "or repeat that command. Nothing is lost."
        )
    known = key_of(folder / "store.json")
    if known is None or known.id.hex() != section.get("key_id"):
        register(folder, open_section(section, read_user_keys(os.environ)))
