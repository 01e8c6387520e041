"""One place of a reply, looked at alone."""

from __future__ import annotations

from medhelm.scoring.answers.options import OptionMatch, clean_text, match_option, prepare_options
from tests.support.cases import table

OPTIONS = prepare_options(("A", "B", "C"), ("Yes.", "no", "  Not   sure "))


@table(
    ("reply", "text"),
    [
        ("B", "B"),
        ("  **B**  \n\n\n no ", "B\nno"),
        ("\\boxed{B}", "answer: {B}"),
        ("<answer>B</answer>", "answer: B"),
        ("\\text{B}", "{B}"),
        ("<think>A</think>B", "B"),
        ("Ｂ：ｎｏ", "B:no"),
        ("B</s><|eot_id|>", "B"),
        ("x < 5 and y > 3", "x < 5 and y > 3"),
        ("", ""),
    ],
)
def test_a_cleaned_completion(reply: str, text: str) -> None:
    assert clean_text(reply) == text


def test_options_are_prepared_in_lower_case_and_longest_first() -> None:
    assert OPTIONS.letters == {"A": 0, "B": 1, "C": 2}
    assert OPTIONS.texts == (("not sure", 2), ("yes", 0), ("no", 1))
    assert OPTIONS.own == ("yes", "no", "not sure")


def test_options_named_by_their_texts_have_no_letters() -> None:
    assert prepare_options(("0", "1"), ("0", "1")).letters == {}


def test_the_first_of_equal_texts_is_found() -> None:
    assert prepare_options(("A", "B"), ("none", "None.")).texts == (("none", 0),)


@table(
    ("text", "at", "reading"),
    [
        ("B", 0, OptionMatch(1, True)),
        ("B. no", 0, OptionMatch(1, True)),
        ("B. because of that", 0, OptionMatch(1, False)),
        ("so B", 0, OptionMatch(1, True)),
        ("x B", 1, OptionMatch(1, True)),
        ("not sure", 0, OptionMatch(2, True)),
        ("C\nnext line", 0, OptionMatch(2, True)),
        ("B or C", 0, OptionMatch(None, False)),
        ("B. yes", 0, OptionMatch(None, False)),
        ("both", 0, OptionMatch(None, False)),
        ("Bx", 0, None),
        ("nobody", 0, None),
        ("A patient", 0, None),
        ("", 0, None),
    ],
)
def test_the_option_at_one_place(text: str, at: int, reading: OptionMatch | None) -> None:
    assert match_option(text, text.lower(), at, OPTIONS) == reading


def test_a_line_longer_than_the_examined_part_is_not_whole() -> None:
    text = "B." + "." * 400
    assert match_option(text, text.lower(), 0, OPTIONS) == OptionMatch(1, False)
