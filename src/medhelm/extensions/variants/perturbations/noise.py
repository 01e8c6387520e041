"""Perturbations of how a text is written: spelling errors, casing, white space. Its facts stay.

Spelling errors are in common words only. A slip in a clinical term can make another term (perineal, peroneal), or leave
two readings (hyptension), and one in a number, a unit or a negation changes the facts. `_COMMON` is the list of words
that may be misspelled, and `_REAL_WORDS` are words that a slip in one of them would make.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from random import Random

from medhelm.extensions.variants.perturbations.cases import check_texts, in_prose
from medhelm.extensions.variants.types import Perturbation

# --- spelling ---------------------------------------------------------------------------------------------------------

_COMMON_WORDS = """
about accompanied according achieve actually additional additionally address adequate advice advised after again
agreed allow allowed allows almost alone along already although always among amount another answer anything apparent
apparently appear appeared appears application applied apply appointment approach appropriate approximately areas
around arrived arrives article asked asking aspect associated attended attending available average aware based because
become becomes began begin beginning begins behind being believe believed believes belongs benefit better between
brief briefly bring brings brought called calls careful carefully carried caused causes causing certain certainly
change changed changes changing characterized charge child children choice choose clear clearly close closely
collected college combination comes common commonly community company compared comparison complain complained
complaining complains complaint complaints complete completed completely concern concerned concerning concerns
conducted confirm confirmed connected consider considered considering consistent consists contains content continue
continued continues correct could country couple course covered created current currently daily daughter decided
decision demonstrate demonstrated depending depends describe described describes describing despite detail detailed
details determine determined develop developed developing development develops difference differences different
difficult difficulty directly discuss discussed during earlier early easily eating effect effective effects either
employed encounter enough ensure entire entirely especially established estimate evaluate evaluated evaluation evening
event events every everyone everything evidence examination examine examined examining example excellent expected
experience experienced experiences experiencing explain explained explains explanation express extent extremely factor
factors family father feeling feelings feels figure final finally finding findings follow followed following follows
formed forms found frequent frequently friend friends further future general generally getting given gives giving
going gradually great group groups growing happen happened happens having health healthy helped helpful helps herself
himself history hospital hours house however husband identified identify immediately important improve improved
improvement improves include included includes including independent indicate indicated indicates indicating
individual individuals information initial initially instead intend interest interested interesting introduced
involved involves issue issues itself keeps kinds knowledge known large largely later learn leave leaves length letter
level likely little lived living located location looked looking looks mainly maintain maintained makes making
management manner married matter maybe means measure measured measures medical medication medications medicine
medicines meeting member members mention mentioned method methods might minute minutes moderate moment monitor month
months morning mostly mother moved moving multiple myself named namely national natural nature nearly necessary needed
needs neighbor night notice noticed noticing number numerous observe observed obtain obtained occasional occasionally
occur occurred occurring occurs office often older operation opinion option options order ordered other others
otherwise outside overall parent parents participate particular particularly parts patient patients people perform
performed performing performs perhaps period person personal phone physical physician picture place placed planned
planning plans please position possible possibly practice prefer preferred prepare prepared prescribe prescribed
prescription presence present presentation presented presenting presents previous previously primarily primary prior
probable probably problem problems procedure procedures process produce produced produces progress properly provide
provided provides public purpose question questions quickly quite rather reach reached reading really reason
reasonable reasons receive received receives receiving recent recently recommend recommendation recommendations
recommended record recorded records recovered refer referred refers regarding regular regularly relate related
relation relationship relatively remain remained remaining remains remember remove removed repeat repeated report
reported reporting reports represent represents request requested require required requires research respectively
response responsible result resulted resulting results return returned returns reveal revealed reveals review reviewed
routine satisfied schedule scheduled school section seemed seems separate series serious service services session
several share sharing should showed showing shown shows similar similarly simple since sister situation sleep slightly
social somebody someone something sometimes somewhat special specific specifically spent stage standard start started
starting starts state stated statement states station stayed still story strong strongly student students studied
studies study subject subjects subsequent subsequently suddenly suggest suggested suggests suitable summary support
supported supports suppose surgery surgical suspect suspected suspects symptom symptoms taken takes taking teacher
terms tested testing tests their themselves there therefore these thing things think thinking those though thought
through throughout times today together tomorrow total toward treat treated treating treatment treatments tried trying
types typical typically under undergo undergoes undergoing understand understanding underwent until useful using usual
usually variety various visit visited visiting visits waiting wakes walking wanted wants watch water weekend weeks
whatever whenever where whereas whether which while whole whose within woman women wonder words worked worker working
works worried would write writing written years yesterday young younger yourself
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that may be misspelled: none is a clinical term, a negation, a number or a unit."""
_WORDS_IN_REACH = """
abut afer agin aline aloe alow anther areed arras arter atter bean begun beings belive bing bings bought brig brigs
calks carful cased cases casing cerated chanted chanting chare charte chose cokes cold compete competed compliant
complin conduced cones conform conformed corse county coupe coveted crated crested curse decoded defail derail
derailed derails descrive discus earing eery effet endure enfire ensue enure ether evens evet expedience fatner fiend
fiends fining finings firms fond fored forked forks fried fund funding fundings geat gibes ging gong gret heath heathy
hells hoise hose identity incudes indicted indicting interset issus keels kids kins lager lare larve last lave laves
layer lean leat leve lied loomed looming looms loos loved loving males manly mans marred mater medial mediation
mediations mens menton meting mexical minuets moth moths naked neatly nerds noght norice odder pace paced panned
panning pans pars patent patents pease pervious planed planing pone practive precious preciously preform preformed
preforming preforms preset presets profess provable pubic quire quote rach rally rater rearing recommenced refereed
relayed repot requite requited retuned revel reveled revels revers sage sart sate sated sation seeks seep sees sent
serous shade shading shoed shoeing shoes sice sightly sill similary simular sine siser slent slep slighty snare
snaring snowed snowing snows sory sowed sowing sown sows spet staged stages stare stared stares staring starred stars
stat statin stating stats stave string stroy stull subnect suster taen tales tames teat teated teats teems terns
texted texting texts thee thins thong thongs three throughput tied ties tines ting tink tired toady tody tomes tose
tough tret trough tying util wafer wager waking wales waling walling waned were wether wich wile winder wite witing
woken woks wold wormed worming worms wrie wrote
"""
_REAL_WORDS = frozenset(_WORDS_IN_REACH.split())
"""Words that one slip in a common word would make."""
_WORDS_PER_SLIP = 15
"""Spelling errors are in about every 15th word, and in at least one."""
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBORS = {
    key: [
        other
        for y, other_row in enumerate(_KEYBOARD)
        for x, other in enumerate(other_row)
        if other != key and abs(y - row) <= 1 and abs(x + y / 2 - column - row / 2) <= 1
    ]
    for row, keys in enumerate(_KEYBOARD)
    for column, key in enumerate(keys)
}
"""Key -> the keys beside it."""
_CANDIDATE = re.compile(r"[a-z](?<![\w.@#/'’=<{\[-][a-z])[a-z]{4,}\b(?![@/'’=>}\]-]|\.\w)")
"""Words that are no part of an address, a placeholder or a compound. The letter first, which is faster to find."""
_WORDS = re.compile(r"[^\W_]+")


def _misspelled(text: str, rng: Random) -> str:
    """Return a text with spelling errors in some of its common words."""
    words = [found for found in _CANDIDATE.finditer(text) if found[0] in _COMMON]
    n = min(len(words), max(1, round(len(text.split()) / _WORDS_PER_SLIP)))
    for found in sorted(rng.sample(words, n), key=lambda one: -one.start()):
        text = text[: found.start()] + rng.choice(_slips(found[0])) + text[found.end() :]
    return text


@cache
def _slips(word: str) -> list[str]:
    """Return the ways to misspell a word: neighboring letters swapped, one dropped, or the key beside it hit.

    The first and the last letter stay. No slip makes another word.
    """
    found: set[str] = set()
    for place in range(1, len(word) - 1):
        before, letter, after = word[:place], word[place], word[place + 1 :]
        found.add(before + after)
        found.update(before + key + after for key in _NEIGHBORS[letter])
        if len(after) > 1:
            found.add(before + after[0] + letter + after[1:])
    return sorted(found - {word} - _REAL_WORDS - _COMMON)


@check_texts
def _check_spelling(old: str, new: str) -> str:
    """Check that facts stay, and that few words differ, by one slip each."""
    tokens, others = old.split(" "), new.split(" ")
    differ = [(token, other) for token, other in zip(tokens, others, strict=False) if token != other]
    if len(tokens) != len(others) or len(differ) > max(1, len(old.split()) // 10):
        return "Few words may be misspelled."
    if not all(_is_allowed(*pair) for pair in differ):
        return "Only common words may be misspelled, by one slip each, and none may become another word."
    return ""


@lru_cache(maxsize=50_000)
def _is_allowed(token: str, other: str) -> bool:
    """Return True if tokens differ only in common words, each of which became no word by one slip."""
    words = zip(_WORDS.findall(token), _WORDS.findall(other), strict=False)
    is_slip = all(_became_no_word(*pair) for pair in words if pair[0] != pair[1])
    return is_slip and _WORDS.sub("", token) == _WORDS.sub("", other)


def _became_no_word(word: str, new: str) -> bool:
    return word in _COMMON and new not in _REAL_WORDS and new not in _COMMON and _is_one_slip(word, new)


def _is_one_slip(word: str, new: str) -> bool:
    """Return True if one letter was dropped or replaced, or two neighbors were swapped.

    >>> _is_one_slip("about", "abuot"), _is_one_slip("about", "bauto")
    (True, False)
    """
    if len(word) != len(new):
        return any(word[:place] + word[place + 1 :] == new for place in range(len(word)))
    places = [place for place, (a, b) in enumerate(zip(word, new, strict=True)) if a != b]
    swapped = len(places) == 2 and places[1] == places[0] + 1 and word[places[0]] == new[places[1]]
    return len(places) == 1 or (swapped and word[places[1]] == new[places[0]])


# --- casing -----------------------------------------------------------------------------------------------------------

_SHORT_WORDS = """
add age ago aim air all an and any are arm as ask at ate bad be bed big bit box boy but buy by can car cry cup dad day
did do dog dry due ear eat egg end eye far fat fed few fit for get go got gum gut had has he her him hi hip his hot how
ice if ill in is it its jaw job joy key kid lab law lay leg let lid lie lip lot low man may me men met mix mom mud mum
my new no non nor not now nut odd of off oil old on one or our out own pay per pot pre pus put ran raw ray red rib rid
rub run sac sad saw say see set sex she sit six sky so son sun tax tea ten the tie tip to toe too top try two up us
use via was wax way we wet who why win won yes yet you
"""
_SHORT = frozenset(_SHORT_WORDS.split())
"""Words of two and three letters whose casing means nothing; others may be units, symbols or abbreviations."""
_UNITS = frozenset(
    "mmol umol nmol pmol mcg meq mosm mmhg cmh kcal kpa bpm hpf lpf min sec msec hrs lbs mol".split()  # noqa: SIM905
)
_ALPHABETIC = re.compile(r"(?<![^\W_])[A-Za-z]+(?![^\W_])")
_GAPS = re.compile(r"(\s+)")
_KEPT = re.compile(r"[\d@_\[\]{}<>]|://|www\.")
"""Signs of addresses, placeholders, and words with digits."""
_AGE = re.compile(r"\W*\d+(?:-(?:year|month|week|day|hour|minute|second|pound|pack|point|item|fold|old)s?)+\W*")
_EPONYM = re.compile(r"(?:disease|syndrome|sign|palsy|lamp|tumou?r|cells?|bodies|test|reflex|area)\b")
_ARTICLE = re.compile(r"A(?<!\SA)(?=\s[a-z\d])")


def _changes_case(word: str) -> bool:
    """Return True for words whose casing means nothing: no abbreviation, unit, chemical symbol, or mixed case.

    >>> [word for word in ["Patient", "US", "Mg", "mmol", "pH", "The", "fever"] if _changes_case(word)]
    ['Patient', 'The', 'fever']
    """
    if word[1:] != word[1:].lower():
        return False
    return word.lower() in _SHORT or (len(word) > 3 and word not in _UNITS)


@lru_cache(maxsize=50_000)
def _lowered(token: str) -> str:
    if _KEPT.search(token) or "'s" in token or "’s" in token:
        return token
    return _ALPHABETIC.sub(lambda m: m[0].lower() if m[0] != "I" and _changes_case(m[0]) else m[0], token)


@lru_cache(maxsize=50_000)
def _raised(token: str) -> str:
    if _KEPT.search(token):
        return token.upper() if _AGE.fullmatch(token) else token
    return _ALPHABETIC.sub(_raised_word, token)


def _raised_word(found: re.Match[str]) -> str:
    word = found[0]
    is_ending = len(word) < 3 and found.start() > 0 and found.string[found.start() - 1] in "'’"
    return word.upper() if word == "a" or is_ending or _changes_case(word) else word


def _in_lowercase(text: str, _rng: Random) -> str:
    """Return a text in lowercase, but for words whose casing means something, and eponyms such as Still's disease."""

    def article(found: re.Match[str]) -> str:
        return "a" if text[: found.start()].rstrip(" ")[-1:] in ("", "\n", ".", "?", "!") else "A"

    parts = _GAPS.split(_ARTICLE.sub(article, text))
    words = parts[::2]
    following = zip(words, map(_lowered, words), [*words[1:], ""], strict=True)
    parts[::2] = [word if word != low and _EPONYM.match(after) else low for word, low, after in following]
    return "".join(parts)


def _in_uppercase(text: str, _rng: Random) -> str:
    """Return a text in uppercase, but for words whose casing means something."""
    return "".join(map(_raised, _GAPS.split(text)))


@check_texts
def _check_case(old: str, new: str) -> str:
    """Check that nothing but casing differs, and that abbreviations, units and words with digits keep theirs."""
    if old.casefold() != new.casefold():
        return "Only casing may change."
    differ = {(token, other) for token, other in zip(old.split(), new.split(), strict=True) if token != other}
    if not all(_may_change_case(*pair) for pair in differ):
        return "Abbreviations, units, and words with digits keep their casing."
    return ""


@lru_cache(maxsize=50_000)
def _may_change_case(token: str, other: str) -> bool:
    """Return True if casing means nothing in the words in which two tokens differ."""
    pairs = zip(_WORDS.findall(token), _WORDS.findall(other), strict=True)
    differ = [word for word, new in pairs if word != new]
    return all(word.isalpha() and word[1:] == word[1:].lower() and word not in _UNITS for word in differ)


# --- white space ------------------------------------------------------------------------------------------------------

_PLAIN_WORD = re.compile(r"[A-Za-z]{2,}[,;.]?")
_COLUMNS = re.compile(r" {2,}\S.* {2,}")
_SPACE_AFTER_NUMBER = re.compile(r"\d[^\S\n]+(?=\S)")
_NUMBER_WITH_SPACE = re.compile(r"\d[^\S\n]+")
_EVERY = 12
"""About every 12th space between words changes."""


def _respaced(text: str, rng: Random) -> str:
    """Return a text with some double spaces, spaces at ends of lines, and, if it is one line, line breaks."""
    lines = text.split("\n")
    is_one_line = len(lines) == 1
    for place, line in enumerate(lines):
        parts = _GAPS.split(line)
        is_plain = [*map(_is_plain_word, parts)]
        gaps = [gap for gap in range(1, len(parts), 2) if is_plain[gap - 1] and is_plain[gap + 1] and parts[gap] == " "]
        if not gaps or _is_table(line):
            continue
        for gap in sorted(rng.sample(gaps, max(1, len(gaps) // _EVERY)), reverse=True):
            parts[gap] = rng.choice(["  ", "\n", " \n"] if is_one_line else ["  "])
        lines[place] = "".join(parts) + ("" if is_one_line else rng.choice(["", " "]))
    return "\n".join(lines)


def _is_table(line: str) -> bool:
    """Return True if the spaces of a line that is not empty may have a meaning."""
    has_columns = "  " in line and _COLUMNS.search(line) is not None
    return has_columns or line[0].isspace() or any(sign in line for sign in ("\t", "|", "___"))


@lru_cache(maxsize=50_000)
def _is_plain_word(token: str) -> bool:
    return _PLAIN_WORD.fullmatch(token) is not None


def _spaces_beside_numbers(text: str) -> tuple[list[str], list[str]]:
    """Return the spaces after and before numbers, with a digit. Those before are found from the end: that is faster."""
    return _SPACE_AFTER_NUMBER.findall(text), _NUMBER_WITH_SPACE.findall(text[::-1])


@check_texts
def _check_spaces(old: str, new: str) -> str:
    """Check that words, lines of texts with several, and the spaces beside numbers stay."""
    if old.split() != new.split():
        return "Only white space may change."
    if "\n" in old and [line.split() for line in old.split("\n")] != [line.split() for line in new.split("\n")]:
        return "Texts of several lines keep their lines."
    if _spaces_beside_numbers(old) != _spaces_beside_numbers(new):
        return "Spaces beside numbers stay."
    return ""


# --- perturbations ----------------------------------------------------------------------------------------------------

PERTURBATIONS = (
    Perturbation(
        name="typos",
        title="Spelling errors",
        description="Misspells about every 15th word: only common words, never clinical terms, numbers or negations.",
        apply=in_prose(_misspelled),
        check=_check_spelling,
    ),
    Perturbation(
        name="lowercase",
        title="Lowercase",
        description="Writes words in lowercase, but for abbreviations, units and symbols.",
        apply=in_prose(_in_lowercase),
        check=_check_case,
    ),
    Perturbation(
        name="uppercase",
        title="Uppercase",
        description="Writes words in uppercase, but for units and symbols.",
        apply=in_prose(_in_uppercase),
        check=_check_case,
    ),
    Perturbation(
        name="whitespace",
        title="White space",
        description="Adds double spaces, spaces at the ends of lines, and line breaks; lines and tables stay.",
        apply=in_prose(_respaced),
        check=_check_spaces,
    ),
)
"""The perturbations of this module."""
