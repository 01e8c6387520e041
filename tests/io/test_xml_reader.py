"""XML: what becomes a row, and that nothing in a file can blow up or reach out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medhelm.benchmarks.data.readers import READERS
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.office import parse_xml
from medhelm.io.rows import Row
from tests.support.data_files import message, rows, written

NOTES = """<?xml version="1.0" encoding="UTF-8"?>
<Ward name="A">
  <Note id="1">
    <Text>Fever &amp; cough,
  &lt;3 days&#33;</Text>
    <Code>R50.9</Code>
    <Code system="ICD-10">R05.9</Code>
  </Note>
  <Folder>
    <Note id="2"><Text><![CDATA[<none> &amp; ]]></Text></Note>
  </Folder>
</Ward>
"""


@pytest.mark.parametrize(
    ("element", "value"),
    [
        ("<x> a\n b </x>", {"#text": " a\n b "}),
        ("<x/>", {"#text": ""}),
        ("<x a='1' b=''/>", {"@a": "1", "@b": ""}),
        ("<x a='1'>t</x>", {"@a": "1", "#text": "t"}),
        ("<x>\n <y>1</y>\n</x>", {"y": "1"}),
        ("<x><y>1</y><z/><y>2</y></x>", {"y": ["1", "2"], "z": ""}),
        ("<x><y a='1'/><y>2</y><y><z>3</z></y></x>", {"y": [{"@a": "1"}, "2", {"z": "3"}]}),
        ("<x>one <y>two</y> three</x>", {"y": "two", "#text": "one  three"}),
        ("<x>a<!-- c --><?pi x?>b<![CDATA[<&]]></x>", {"#text": "ab<&"}),
        ("<x>&lt;&#233;&#x1F9D1;&quot;</x>", {"#text": '<é🧑"'}),
        ("<x a='1&#10;2'>a\r\nb</x>", {"@a": "1\n2", "#text": "a\nb"}),
        ("<x><p:y xmlns:p='u' p:a='1'/></x>", {"p:y": {"@xmlns:p": "u", "@p:a": "1"}}),
        ("<x><x>inner</x></x>", {"x": "inner"}),
    ],
)
def test_an_element_becomes_a_row(tmp_path: Path, element: str, value: Row) -> None:
    path = written(tmp_path, f"<r>\n {element} tail\n</r>")
    assert rows(path, "xml") == rows(path, "xml", rows="x") == rows(path, "xml", rows="r/x") == [value]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ("", ["1", None]),
        ("Note", ["1", "2"]),
        ("Ward/Note", ["1"]),
        ("Ward/Folder/Note", ["2"]),
    ],
)
def test_rows_are_the_elements_of_a_name_or_path(tmp_path: Path, wanted: str, ids: list[str | None]) -> None:
    assert [row.get("@id") for row in rows(written(tmp_path, NOTES), "xml", rows=wanted)] == ids


def test_the_whole_document_may_be_the_row(tmp_path: Path) -> None:
    (row,) = rows(written(tmp_path, NOTES), "xml", rows="Ward")
    assert row == {
        "@name": "A",
        "Note": {
            "@id": "1",
            "Text": "Fever & cough,\n  <3 days!",
            "Code": ["R50.9", {"@system": "ICD-10", "#text": "R05.9"}],
        },
        "Folder": {"Note": {"@id": "2", "Text": "<none> &amp; "}},
    }


def test_a_name_that_is_nowhere_is_told(tmp_path: Path) -> None:
    words = message(written(tmp_path, NOTES), "xml", rows="Ward/Notes")
    assert "`rows: Ward/Notes` matches no element. Did you mean `Note`?" in words


def test_rows_come_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path, "<r>" + "<x>1</x>\n" * 20_000 + "<y></r>")
    reader = READERS["xml"](path, Source(kind="xml"))
    assert next(reader) == {"#text": "1"}
    with pytest.raises(DataError, match=r"line 20001, column 6: not well-formed XML \(mismatched tag\)"):
        list(reader)


def laughs() -> str:
    """A text of 1 kB whose entities stand for 10 GB."""
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 11))
    return f'<!DOCTYPE r [<!ENTITY e0 "x">{entities}]><r><x>&e10;</x></r>'


DANGEROUS = [
    (laughs(), "line 1: defines an entity"),
    ('<!DOCTYPE r [<!ENTITY e "' + "x" * 9999 + '">]><r><x>' + "&e;" * 9999 + "</x></r>", "line 1: defines an entity"),
    ('<!DOCTYPE r [\n<!ENTITY e SYSTEM "file:///etc/hostname">]><r><x>&e;</x></r>', "line 2: defines an entity"),
    ('<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;]><r><x/></r>', "line 1: defines an entity"),
    ('<!DOCTYPE r [<!NOTATION n SYSTEM "n"><!ENTITY e SYSTEM "e" NDATA n>]><r/>', "line 1: defines an entity"),
    ('<!DOCTYPE r SYSTEM "r.dtd">\n<r><x>a&e;b</x></r>', "line 2: refers to an entity that is defined elsewhere"),
    ("<r><x>&e;</x></r>", "line 1, column 7: not well-formed XML (undefined entity)"),
    ("<r>" + "<x>" * 1_000_000, "line 1: elements are nested more than 200 deep"),
    ("<r/>\n<r/>", "line 2, column 1: not well-formed XML (junk after document element)"),
    ("", "line 1, column 1: not well-formed XML (no element found)"),
    ("<r><x>\0</x></r>", "line 1, column 7: not well-formed XML (not well-formed (invalid token))"),
]


@pytest.mark.parametrize(("text", "words"), DANGEROUS, ids=[words[:40] for _, words in DANGEROUS])
def test_what_is_dangerous_or_broken_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    assert message(path, "xml").startswith(f"{path}, {words}")
    for document in (path, text, text.encode()):
        with pytest.raises(DataError) as caught:
            parse_xml(document)
        place = path if isinstance(document, Path) else "the XML text"
        assert str(caught.value).startswith(f"{place}, {words}")


def test_a_document_type_without_entities_is_fine(tmp_path: Path) -> None:
    text = '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/r.dtd" [<!ATTLIST x a CDATA "usual">]><r><x>1</x></r>'
    assert rows(written(tmp_path, text), "xml") == [{"@a": "usual", "#text": "1"}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_the_encoding_is_the_one_that_the_document_names(tmp_path: Path, encoding: str) -> None:
    name = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?><r><x>é</x></r>'
    assert rows(written(tmp_path, text.encode(encoding)), "xml") == [{"#text": "é"}]
    assert parse_xml(text.encode(encoding))[0].text == "é"
    assert parse_xml(text)[0].text == "é", "a text has no encoding any more, whatever it says"


@pytest.mark.parametrize("encoding", ["martian", "big5"])
def test_an_encoding_that_cannot_be_read_is_told(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path, f'<?xml version="1.0" encoding="{encoding}"?><r><x>a</x></r>')
    assert "Save it as UTF-8" in message(path, "xml")


def test_a_document_for_hooks(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress(NOTES.encode()), "notes.xml.gz")
    for document in (packed, NOTES, NOTES.encode()):
        root = parse_xml(document)
        assert root.tag == "Ward"
        assert [note.get("id") for note in root.iter("Note")] == ["1", "2"]
        assert [code.text for code in root.findall("Note/Code")] == ["R50.9", "R05.9"]
        assert root[0].tail == "\n  "
    with pytest.raises(FileNotFoundError):
        parse_xml(tmp_path / "none.xml")


def test_real_questions_with_ranked_answers(data_dir: Path) -> None:
    path = data_dir / "medi_qa" / "MEDIQA2019-Task3-QA-TestSet-wLabels.xml"
    found = rows(path, "xml", rows="Question")
    assert len(found) == 150
    assert found == rows(path, "xml")
    answers = rows(path, "xml", rows="AnswerList/Answer")
    elements = parse_xml(path).findall("Question/AnswerList/Answer")
    assert [answer["@AID"] for answer in answers] == [element.get("AID") for element in elements]
    assert [answer["AnswerText"] for answer in answers] == [element.findtext("AnswerText") for element in elements]
