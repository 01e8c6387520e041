"""The store's folder: made, opened, refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from medhelm.errors import StoreError, StoreFullError
from medhelm.storage.store import FORMAT, create, file_name, open_store


def test_a_new_store_can_be_opened_again(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        open_store(tmp_path / "new" / "store")
    assert not (tmp_path / "new").exists()
    created = create(tmp_path / "new" / "store")
    assert sorted(path.name for path in created.folder.iterdir()) == ["locks", "prompts", "runs", "store.json"]
    assert open_store(created.folder).folder == created.folder
    assert create(created.folder).folder == created.folder
    assert json.loads((created.folder / "store.json").read_text(encoding="utf-8")) == {"medhelm_store": FORMAT}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"medhelm_store": 99}', "layout version 99"),
        ('{"medhelm_store": "1"}', "layout version '1'"),
        ("{}", "does not belong to a store"),
        ("[]", "does not belong to a store"),
        ("not json", "does not belong to a store"),
    ],
)
def test_a_store_of_another_version_is_refused_and_left_alone(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "store.json").write_text(content, encoding="utf-8")
    for opener in (create, open_store):
        with pytest.raises(StoreError, match=said):
            opener(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]
    assert (tmp_path / "store.json").read_text(encoding="utf-8") == content


def test_a_folder_with_other_things_in_it_is_not_made_a_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_bytes(b"years of work")
    with pytest.raises(StoreError, match=r"has no store\.json"):
        create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.docx"]


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("", encoding="utf-8")
    for opener in (create, open_store):
        with pytest.raises(StoreError, match=r"^the store .*/store is a file\. Name a folder with --store\.$"):
            opener(tmp_path / "store")
    with pytest.raises(StoreError, match=r"cannot be written: .*Nothing was sent"):
        create(tmp_path / "store" / "store")


def test_space_is_advised_only_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> type[StoreError]:
        def fail(*_: object, **__: object) -> NoReturn:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "mkdir", fail)
        with pytest.raises(StoreError, match=r"ame another folder with --store\. Nothing was sent\.$") as refused:
            create(tmp_path / "store")
        assert ("Free some space, or" in str(refused.value)) == (number in (errno.ENOSPC, errno.EDQUOT))
        return refused.type

    assert refuse(errno.ENOSPC) is refuse(errno.EDQUOT) is StoreFullError
    assert refuse(errno.EROFS) is refuse(errno.EACCES) is StoreError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("openai/gpt-4o", "openai_gpt-4o"),
        ("openai/m@http://127.0.0.1:80/v1", "openai_m_http_127.0.0.1_80_v1"),
        ("../../etc", "etc"),
        ("..", "_"),
        ("😀", "_"),
        ("x" * 200, "x" * 80),
    ],
)
def test_names_become_safe_file_names(text: str, name: str) -> None:
    assert file_name(text) == name
