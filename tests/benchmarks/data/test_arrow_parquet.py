"""Parquet, Arrow streams and Arrow files with an index (Feather): what becomes a row, and what is refused."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import duckdb
import nanoarrow
import pytest
from nanoarrow.ipc import StreamWriter

from bench.tools.mutation import mutated
from medhelm.benchmarks.data.column_formats import BATCH, SCHEMA, FlatbufferTable, messages
from medhelm.benchmarks.data.readers import READERS
from medhelm.benchmarks.sample_data.writers import write_arrow
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row
from tests.support.data_files import ODD, message, rows, written

FEATHER = {
    "lz4": (
        "eNrtVD1LA0EQnftKjrDFBiIEtDi10ELCKRFMZdKpIIZYKFYRcxoLDZgIERRCGtvgL7AVLCztbSytxNLSn2AXZ3fnLndrUOwdmJ15c293Zndnr1"
        "Krbe0sAgxRfAOAg5AMMEiBAy56KIaNGBC5ONo0Kn1BbaIWCVdxHZxgiXXyFAOyjf2LtvBfJceES8XNCO6Uxm0HwSlgDS5qSkZNuFd8lovxsWQQ"
        "2EE9aDUCkeAWeW+K64yr47gTnAj/GTkcZ4scablDTvtX8/SaOkG3o3w7iotz6xqqBiEMs6mTY3JFsGy5zsCASBhGuDxHxfmgXGINa0SL8rBYLK"
        "/ZObJlsktkuxpvoPEfISkhniX7rmHXSK7nEZ4nvKZ9rxNeiOVwYvsLj0PHplaXpcV1fmjtmc18vdxH2JMUnowj7Akohj6plH6SNymu1NjG5vMO"
        "W2feQev8qFnwOOxV0Tzdjer6Y14zptQDCR4jnqNd9zhezV8ulDaKOPiln+ox4vdB8Sy617B+5d74OZxT/XU/2vwJdLNInv5cTcPDqO0iGcp3p8"
        "6BYUenZJdz2ocNK9Qz4dstU+Ie2fg7gf9/zrd/zi4mr8h/9hc2u5Fh"
    ),
    "zstd": (
        "eNrtVL1OAkEQnjvu4CBbXAwFhT9nYoEWeCaYSCWU2miw0JbAKRYKEUg00QSpKI1PYGFjYmHjAxgbGxMqY6x8BEobo7O3c+feCo21k8zNfrPfzs"
        "9mbkvl8sb2EsAXiqsB2MAlBQziYIKFKxTNQAyILPwa9BU6QK2j5glvYhw8EONxMuQDsrXKSYuvX3yODqeCm+LcSYXb8rxDwBos1Ljv1eFW8Fla"
        "4mPJwLGJWm3UPJ7gCnmvgmuOqmO/7R3w9RNybDzNcyT8Dm3qX5xTa2p7x22xNkI/v7euJmrgwjCbuDnmR4SY4cdpahAKg2nMY4ScIeoc1RkDWX"
        "j/CeofG5d2JshmyM6SLZJdINtU+H2FfwdRCfAU2YGCh0o8i/qaIZzVovtFwvNSDlPqM7gWFetKXTHFr/IDm71f/HS0ZEiwZb99LkAXtUdK0pN5"
        "vWeAiy2cQGe3ceRUG529es55vNHg7bqV/EM+XdJwBiQeq/xcDBuzX3aXc4X1PH7cwqj8WnQefH+mwwdi7cy6dNNIsN71sXVHzz0EZX6sKnMF0t"
        "wH/TKc/rg/zTbVbcAKjyX9o8Ec9MnK/wP8vy2/3pYdTF7y3+ZvpzqWpg=="
    ),
    "uncompressed": (
        "eNrtVL1OwzAQvvyVqPKQoUIZGDIyVUEqEp1oR1hAYYAVtYEwQBANEkggIR6BJ+gIEg/QnaUjE+rAwGOwwdk+g3PQlYmTznfnfOc7f7bTz7Kt3R"
        "WAD5TUAYhAShMENCCAED0Ux8cYMApx9GnU+oxaoHYo3sZ1MMGT68Q0B2SH+5cj6b8ojAtXGtuU2CWGHeX5CWAPIWpDzbrwqPGiZeGxZZBxgDoo"
        "h7ksMEbcTGOD3/o4qvJj6U8RE2G2rLGgdhjR/nUe76nKLyrt+1/zkrfC0T1IEbBIzAm1Ini+qh87BEBGY/ziE7evoDn34FuE5Zu0kGxENiZ7S3"
        "bM8PcMP4G6TFitKYtnbL03VvedfTdObNUIrH0ZHI9d1pfH5uflS7mh/UvdwfuSHJRnyaA8PyzayV/HTw8/+3MtNXwYfrN0td3d7OCQdms8blyH"
        "d2kLYA4vxP46OT2w7qE5b4G3saFuYET1fFjDcdl6Mz0qeGrOzanX+3/r9be+h8X76l/5CW9gm2o="
    ),
}
"""Compression -> the same four columns, a Feather file, which was packed with zlib to be short here. Made with

    pyarrow.feather.write_feather(pyarrow.table({
        "text": ["Seen for cough. " * 8, "é", None],
        "codes": [["R05.9", "J45.909"], [], None],
        "seen": pyarrow.array([datetime(2150, 1, 31, 8, 15), None, None], pyarrow.timestamp("us")),
        "days": [1.5, 2.0, None],
    }), file, compression=...)
"""

CATEGORIES = {
    "uncompressed": (
        "eNrdVD1PAzEM9eXSNqoyRAihGxhuZGVn6CEGBiSkLiwdQGJGiIWVn9LxBgZGRkZ+Dv+gPDtOyUU9PlYsOU6cOH7Pzl23XF5eHRNtIB9EtE9J5u"
        "RpShNymEEqSxZmhXNsDfQeyvMePhwwHLuAHqpfwqB3UIebHbwO86D+JGuJp6rF8KzzhZxrcH5KMyAJiA/xxgnnOYO2WR62jzcPtyS5nHh49LL2"
        "0JmsUx5LkQ/z7jPeHrPI2kssGSt7je7Hanzx4Do1OGl150L9JuNX07h4tUFtHlcV613+7jRa5rH+BY+w5bG37Ucz6MeQz8kOPuYbPuEH/HO1CS"
        "fjfh3gPhjirq3ga0fwrTRnXmP7h3qXuH3Bs+xdPdKPsfUmvme5P/bEyWv2ivQa45Fi5rgnLdibxrdl3fXyF/Wld/mu/r7g89++13MA6eSf9Qkw"
        "3ku8"
    ),
    "lz4": (
        "eNrdVL1OwzAQviRua1UWypChSBmqVkisvEGCGLIgqi4wMBSJgQkhFtaIJ2FkYGDsyMjIYzDyBuXz+VI5pqTAiKXLnc/3993ZKefzk9MDohXWBx"
        "Fl1KwhGepTjzQkrEiRAjuHneUx6AZk5UfoYBBb3wKUi57dQNcgjcgaWg05FX2zHtifojE+TyIXbDeCfZ8GqCSFf+oi9myeI9DYy2P53cXtJXEu"
        "zRr7Nbw3oAHvmzyKHB6Le+nhNsjpUBv2pVhBQ1R59frxU/bJwdXa50x6kEmfaF2jy5nQ92sqfF/4rncWBfFI8HHsyfFoUdxjW280jdt22NbloX"
        "du+/Dc6kP2pQ+ZV5c/zzyYZ9iPaks/4o5+7G3Bn7Zx7UCcDGFZZ207i++1a86J4hpnHTiuPBzJBhzqF3OlYD8NZhXekeTnc/+T3cq9O7nPdvaa"
        "X50RhAupVYnzuwziTfxn4V2TDC+ia96PFr9lgP+//VcqFFLyv/UTXF9Z3g=="
    ),
}
"""The same for columns of categories: `{"ward": ["A", "B", "A"], "n": [10, 20, 10]}`, each `.dictionary_encode()`."""

SEEN: list[Row] = [
    {"text": "Seen for cough. " * 8, "codes": ["R05.9", "J45.909"], "seen": "2150-01-31T08:15:00", "days": 1.5},
    {"text": "é", "codes": [], "seen": None, "days": 2},
    {"text": None, "codes": None, "seen": None, "days": None},
]


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def parquet(path: Path, select: str) -> Path:
    """A Parquet file with what `select` gives."""
    import duckdb

    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.sql(select).write_parquet(str(path))
    return path


def test_negative_decimals_of_a_stream(tmp_path: Path) -> None:
    """nanoarrow reads their bytes as unsigned."""
    small, large = "-1.50::DECIMAL(10, 2)", "-12345678901234567890123456789.5::DECIMAL(38, 1)"
    relation = duckdb.sql(f"SELECT {small} AS a, [{small}, 2.25] AS b, {{'x': {large}}} AS c, (-5)::HUGEINT AS d")
    path = tmp_path / "x.arrow"
    with path.open("wb") as file, StreamWriter.from_writable(file) as writer:
        writer.write_stream(nanoarrow.ArrayStream(relation))
    [row] = rows(path, "arrow")
    assert row == {"a": -1.5, "b": [-1.5, 2.25], "c": {"x": "-12345678901234567890123456789.5"}, "d": -5}


def test_parquet(tmp_path: Path) -> None:
    select = (
        "SELECT i, i::DOUBLE AS d, i + 0.5::DOUBLE AS h, 'text ' || i AS \"Patient Note\", "
        "CASE WHEN i = 1 THEN NULL ELSE true END AS flag, {'a': [i]} AS nested FROM range(2500) t(i)"
    )
    found = rows(parquet(tmp_path / "odd [name]*.parquet", select), "parquet")
    assert len(found) == 2500
    assert found[1] == {"i": 1, "d": 1, "h": 1.5, "Patient Note": "text 1", "flag": None, "nested": {"a": [1]}}
    assert type(found[1]["d"]) is int
    assert [row["i"] for row in found] == list(range(2500)), "in the file's order"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("TIMESTAMP '2150-01-31 08:15:00'", "2150-01-31T08:15:00"),
        ("TIMESTAMP '2150-01-31 08:15:00.25'", "2150-01-31T08:15:00.250000"),
        ("TIMESTAMP_NS '2150-01-31 08:15:00'", "2150-01-31T08:15:00"),
        ("TIMESTAMPTZ '2150-01-31 08:15:00+02'", "2150-01-31T06:15:00+00:00"),
        ("[TIMESTAMPTZ '2150-01-31 08:15:00+00', NULL]", ["2150-01-31T08:15:00+00:00", None]),
        ("{'seen': [TIMESTAMPTZ '2150-01-31 08:15:00+00']}", {"seen": ["2150-01-31T08:15:00+00:00"]}),
        ("NULL::TIMESTAMPTZ", None),
        ("DATE '2150-01-31'", "2150-01-31"),
        ("TIME '08:15:00'", "08:15:00"),
        ("12.50::DECIMAL(9, 2)", 12.5),
        ("12.00::DECIMAL(9, 2)", 12),
        ("'0.1234567890123456789'::DECIMAL(38, 19)", "0.1234567890123456789"),
        ("'123456789012345678901234567890'::DECIMAL(38, 0)", 123456789012345678901234567890),
        ("9223372036854775807", 9223372036854775807),
        ("9007199254740993", 9007199254740993),
        ("NULL::DOUBLE", None),
        ("'u'::ENUM('u', 'v')", "u"),
        ("MAP {'a': 1}", {"a": 1}),
        (r"'\xC3\xA9'::BLOB", "é".encode()),
        ("uuid '00000000-0000-0000-0000-00000000000a'", "00000000-0000-0000-0000-00000000000a"),
    ],
)
def test_values_of_parquet_are_plain(tmp_path: Path, value: str, expected: object) -> None:
    path = parquet(tmp_path / "x", f'SELECT {value} AS "the ""value"""')
    (row,) = rows(path, "parquet")
    assert row == {'the "value"': expected}
    assert type(row['the "value"']) is type(expected)


def test_arrow(tmp_path: Path) -> None:
    content: list[Row] = [{"text": odd, "number": 1.0} for odd in ODD]
    write_arrow(content, tmp_path / "x", Source(kind="arrow"))
    found = rows(tmp_path / "x", "arrow")
    assert found == content
    assert all(type(row["number"]) is int for row in found)


@pytest.mark.parametrize("compression", FEATHER)
def test_feather_is_read_however_it_is_packed(tmp_path: Path, compression: str) -> None:
    assert rows(written(tmp_path, unpacked(FEATHER[compression])), "feather") == SEEN


@pytest.mark.parametrize("kind", ["arrow", "feather"])
def test_arrow_streams_and_files_are_recognized_by_content(tmp_path: Path, kind: str) -> None:
    file = unpacked(FEATHER["lz4"])
    assert rows(written(tmp_path, file), kind) == SEEN
    assert rows(written(tmp_path, file[8:]), kind) == SEEN


def test_dictionary_columns_are_read_as_their_values(tmp_path: Path) -> None:
    found = rows(written(tmp_path, unpacked(CATEGORIES["uncompressed"])), "feather")
    assert found == [{"ward": "A", "n": 10}, {"ward": "B", "n": 20}, {"ward": "A", "n": 10}]


def test_compressed_dictionary_columns_are_refused_because_they_would_be_misread(tmp_path: Path) -> None:
    words = message(written(tmp_path, unpacked(CATEGORIES["lz4"])), "feather")
    assert "has compressed dictionary columns, which cannot be read" in words
    assert "`compression='uncompressed'`" in words


@pytest.mark.parametrize("content", [b"", b"this is text, and nothing else, of some length", b"PK\x03\x04 broken"])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_files_of_another_format_are_reported(tmp_path: Path, kind: str, content: bytes) -> None:
    path = written(tmp_path, content)
    if kind != "parquet" and not content:
        assert rows(path, kind) == []
    else:
        assert f"{path}: cannot be read as" in message(path, kind)


def test_truncated_files_are_reported(tmp_path: Path) -> None:
    file = unpacked(FEATHER["lz4"])
    for size in range(1, len(file), 7):
        assert f"{tmp_path / 'x'}: " in message(written(tmp_path, file[:size]), "feather"), size
    assert "is truncated. Get it again" in message(written(tmp_path, file[:-1]), "feather")
    whole = parquet(tmp_path / "p", "SELECT 1 AS a").read_bytes()
    assert "cannot be read as Parquet" in message(written(tmp_path, whole[:-9]), "parquet")


def test_an_implausible_description_is_reported(tmp_path: Path) -> None:
    def damaged(kind: int, place: Callable[[FlatbufferTable], int], content: bytes) -> str:
        data = bytearray(unpacked(FEATHER["lz4"]))
        stream = io.BytesIO(data)
        stream.seek(8)
        part = next(part for part in messages(stream) if part.kind == kind)
        assert part.content is not None
        at = part.start + 8 + place(part.content)
        data[at : at + len(content)] = content
        return message(written(tmp_path, bytes(data)), "feather")

    assert "it is damaged: a length is invalid" in damaged(BATCH, lambda batch: batch.field(0) or 0, b"\xff" * 8)
    assert "it is damaged: a column has no type" in damaged(
        SCHEMA, lambda schema: schema.tables(1)[2].field(2) or 0, b"\0"
    )


CRASH = bytes.fromhex("480000000000000000000000080008000000040008000000")
"""Inserted at byte 320 of the compressed categories, it makes nanoarrow write outside its memory."""


def test_file_on_which_nanoarrow_crashes_is_an_error(tmp_path: Path) -> None:
    file = unpacked(CATEGORIES["lz4"])
    shifted = file[:320] + CRASH + file[320:571] + b"\x01" + file[572:]
    words = message(written(tmp_path, shifted), "feather")
    assert words.startswith(f"{tmp_path / 'x'}: cannot be read as Arrow (the process that reads it ended with SIG")
    assert words.endswith("Save it as Parquet, or export it again.")


@pytest.mark.long
def test_mutated_arrow_files_are_rows_or_an_error(tmp_path: Path) -> None:
    files = [unpacked(text) for text in (*FEATHER.values(), *CATEGORIES.values())]
    read, refused = 0, []
    for seed in range(200):
        random = Random(seed)
        path = written(tmp_path, mutated(random, random.choice(files)))
        try:
            read += isinstance(rows(path, "feather"), list)
        except DataError as error:
            refused.append(str(error))
    assert read + len(refused) == 200
    assert min(read, len(refused)) > 0
    assert all(text.startswith(f"{tmp_path / 'x'}: ") for text in refused)


def test_arrow_keeps_binary_values_and_numbers_beyond_json(tmp_path: Path) -> None:
    content: list[Row] = [{"raw": b"\x00\xff", "number": float("inf")}, {"raw": None, "number": 2.5}]
    schema = nanoarrow.struct({"raw": nanoarrow.binary(), "number": nanoarrow.float64()})
    array = nanoarrow.c_array_from_buffers(
        schema,
        length=2,
        buffers=[None],
        children=[
            nanoarrow.c_array([row["raw"] for row in content], nanoarrow.binary()),
            nanoarrow.c_array([row["number"] for row in content], nanoarrow.float64()),
        ],
    )
    with StreamWriter.from_path(tmp_path / "x") as writer:
        writer.write_array(array)
    assert rows(tmp_path / "x", "arrow") == content


def test_reading_arrow_can_stop_early(tmp_path: Path) -> None:
    write_arrow([{"text": "word " * 1000} for _ in range(3000)], tmp_path / "x", Source(kind="arrow"))
    found = READERS["arrow"](tmp_path / "x", Source(kind="arrow"))
    assert next(found) == {"text": "word " * 1000}
    found.close()  # type: ignore[attr-defined]  # a generator


def test_an_old_feather_file_is_reported(tmp_path: Path) -> None:
    words = message(written(tmp_path, b"FEA1" + bytes(99)), "feather")
    assert "is a Feather file of version 1. Save it as version 2, or as Parquet" in words


def test_real_arrow_equals_real_json_lines(data_dir: Path) -> None:
    folder = data_dir / "medhallu"
    arrow = rows(folder / "pqa_labeled_train.arrow", "arrow")
    assert arrow == rows(folder / "pqa_labeled_train.jsonl", "jsonl")
    assert len(arrow) == 1000
    assert isinstance(arrow[0]["Knowledge"], list)
