"""Restores a lost cache, or damaged rows of one, from the records of the store, so that nothing is bought twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from medhelm.domain import Completion
from medhelm.models.cache import Cache, Row, row_of, worth_keeping
from medhelm.storage.store import Store


class CacheRecovery:
    """Restores what is lost while a cache is in use."""

    def __init__(self, store: Store, cache: Cache, note: Callable[[str], object] | None) -> None:
        """Restore an empty cache at once, and damaged rows when they are read. `note` receives messages for the user.

        Raises: StoreError if the cache cannot be written; it then stays empty.
        """
        self._store, self._cache, self._note = store, cache, note or str
        cache.recover = self._find
        if cache.is_empty and (n_restored := cache.restore(bought_rows(store))):
            self._note(
                f"{cache.path} was missing or empty, although the store holds runs. {n_restored:,} completions were "
                "restored from their records and are not requested again. Others, such as those of interrupted runs, "
                "are lost."
            )

    def report(self) -> None:
        """Send a message about the damaged rows that were read, if any."""
        if n := len(self._cache.damaged):
            self._note(
                f"{self._cache.path}: {n:,} completion{'s are' if n > 1 else ' is'} damaged (wrong checksum). "
                f"{self._cache.n_recovered:,} restored from the records of runs; the others count as missing and are "
                "requested again. Check the disk."
            )

    def _find(self, digest: bytes) -> tuple[str, Completion] | None:
        from medhelm.storage.recovery.completions_in_records import find_bought  # lazy: rows are seldom damaged

        found = find_bought(self._store, digest)
        return (found.model, _as_bought(found.completion)) if found and worth_keeping(found.completion) else None


def bought_rows(store: Store) -> Iterator[Row]:
    """Yield the rows of the cache that follow from the records of the store."""
    from medhelm.storage.recovery.completions_in_records import bought_completions  # lazy: only for an empty cache

    for digest, model, completion in bought_completions(store):
        if worth_keeping(completion):
            yield row_of(digest, _as_bought(completion), model)


def _as_bought(completion: Completion) -> Completion:
    """Return a completion as a service gave it: records name the judge as the place of its failure."""
    failure = completion.failure
    return replace(completion, failure=replace(failure, boundary="provider")) if failure else completion
