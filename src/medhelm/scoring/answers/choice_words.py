"""Words that tell what a completion says about an option, in the languages of medical benchmarks.

Every word has a role, which is one character. A statement is then a short string of roles: "The answer is not B" is
"uainM". Languages share one table, since a word of one is no common word with another role in the others.
"""

from __future__ import annotations

import re
from functools import cache

OPTION, CONTRADICTORY = "M", "Z"
"""Roles of an option, and of a letter beside the text of another option."""

_ENGLISH = {
    # names the answer
    "a": (
        "answer answers ans response reply solution key verdict judgment judgement conclusion decision output result "
        "prediction classification selection exception integer answer_key answer_choice answer_option "
        "textbook_answer exam_answer board_answer expected_answer intended_answer"
    ),
    # names an option
    "o": "option choice letter alternative one fit match l'option l'opzione l'opció l'alternative",
    # heads a list of options
    "O": (
        "options choices alternatives distractors other_options others answer_choices answer_options "
        "other_choices the_others each_option each_choice other_answers incorrect_options incorrect_answers "
        "wrong_answers following"
    ),
    # right
    "c": "correct right ✅ ✔ ☑ ✓ correctly",
    # better
    "d": (
        "favored wins best better true preferred preferable superior more_likely most_accurate most_suitable "
        "most_appropriate most_likely more_appropriate more_suitable makes_the_most_sense makes_sense "
        "has_the_strongest_support edges_it applies fits_best best_explains best_accounts_for best_fits best_matches "
        "best_describes what_i_would_choose what_i'd_choose only_option_left only_choice_left only_one_left "
        "only_one_left_standing only_option_that_explains only_one_that_explains "
        "only_option_that_fits only_one_that_fits only_option_that_matches only_one_that_matches "
        "only_option_that_accounts_for only_one_that_accounts_for "
        "only_answer_left only_option_remaining only_choice_remaining only_one_remaining only_option_that_remains "
        "only_one_that_remains only_option_standing only_one_standing last_one_standing"
    ),
    # wrong
    "x": (
        "incorrect incorrectly wrong false unlikely excluded exclude excluding eliminate eliminated eliminating "
        "ruled_out rule_out ruling_out contraindicated inappropriate less_likely least_likely_correct inaccurate "
        "untrue unsuitable not_indicated would_be_considered answer_to_a_different answer_to_another distractor trap "
        "unnecessary outdated obsolete partially_correct partly_correct almost_correct partially_right partly_right "
        "rarely_correct hardly_the_answer second-line no_longer_recommended not_recommended would_need would_require "
        "unrelated irrelevant ❌ ✗ ✘ ✖ anything_but less_appropriate rejected reject"
    ),
    # what a question asks for
    "p": (
        "diagnosis diagnoses step treatment drug cause mechanism test explanation management therapy finding "
        "of_choice intervention medication etiology pathogen organism least_likely procedure investigation "
        "condition label score rating class"
    ),
    # is
    "i": (
        "is was be are were equals it's its that's this's seems appears remains becomes lies stands stands_out_as "
        "matches fits it_is means meaning says"
    ),
    # leads to an option
    "v": (
        "confident_in judged_as consistent_with compatible_with corresponds_to correspond_to points_to point_to "
        "points_toward suggests suggest indicates indicate leaving leaves leaves_us_with leave_us_with making makes "
        "explained_by supports support favors favor prefer prefers has is_called matches_with left_with "
        "narrows_it_down_to narrowed_down_to comes_down_to boils_down_to typical_of characteristic_of leads_to"
    ),
    # denies what follows
    "n": ("not isn't ain't can't cannot wouldn't shouldn't won't doesn't don't didn't wasn't aren't neither nor never"),
    # denies what follows, but not what precedes: "A: nothing else fits"
    "N": (
        "nothing no_evidence no_finding no_findings no_feature no_features no_sign no_signs no_reason doubt doubt_that "
        "doubtful hesitant avoid hardly far_from none_of_the_findings none_of_the_features none_of_these_findings"
    ),
    # chooses
    "h": (
        "all_but all_except commit_to committing_to i_recommend i'd_recommend i_would_recommend everything_but "
        "everything_except none_but none_except nothing_but all_options_except all_options_but settled_on choose "
        "chose go_for give_it give_it_a gets_a it_gets give select pick choosing selecting picking go_with "
        "going_with opt_for opting_for answer_with say vote vote_for vote_is lean_toward lean_towards lean_to lean "
        "leaning leaning_toward leaning_towards except except_for select_option assign judge output_is settle_on "
        "reply_with respond_with went_with conclude mark return circle rate_this judge_it judge_this exception_of"
    ),
    # concludes
    "s": (
        "so thus therefore hence final finally overall conclude_that ultimately consequently in_conclusion "
        "in_summary to_summarize in_short accordingly revised"
    ),
    # but
    "b": "but however yet whereas instead_it_is",
    # supposes
    "f": (
        "was_going_to was_about_to if unless depending suppose assuming otherwise initially initial_answer "
        "initial_impression initial_thought at_first first_thought at_first_glance first_glance common_mistake "
        "one_might one_may you_might many_would many_people students some_would tempting provided_that "
        "hypothetically i_said might_seem may_seem might_think preliminary had_the_patient had_she had_he had_there "
        "were_the_patient were_there it_depends runner-up second_best second_most_likely next_best_option "
        "next_best_choice next_best_answer my_second_choice second_choice_is initial_guess first_guess "
        "example_answer trap_answer user_thinks user_says user_said user's_answer you_said you_think you_thought "
        "next_, student's_answer student_answered student_chose one_could_argue could_argue some_argue some_textbooks "
        "some_sources older_guidelines previously_the_answer previous_question previous_question's"
    ),
    # grants
    "g": "although though while even_if even_though despite whereas_in albeit whether",
    # may be
    "m": "could might may can possibly perhaps",
    # compares
    "t": "than over rather_than instead_of compared_with compared_to as_opposed_to in_preference_to",
    # explains
    "e": "because since as due for given which e.g. based according per",
    # retracts
    "r": (
        "take_that_back strike_that never_mind i_was_wrong wait actually correction scratch sorry apologies "
        "apologize apologise mistake reconsider reconsidering hmm reflection oops closer_inspection "
        "second_thought second_thoughts looking_again rechecking upon_review misread misspoke edit edited update "
        "amended double-check"
    ),
    # adds nothing
    "u": (
        "to_this_question to_the_question if_i_had_to_guess if_i_have_to_guess if_i_have_to_choose does did "
        "little_doubt without_doubt beyond_doubt true_statement here's alone if_i_had_to_choose if_i_had_to_pick "
        "if_i_had_to_pick_one if_i_must_choose if_forced_to_choose if_pressed maybe easily without_a_doubt no_doubt "
        "for_sure the a an this that these it my your our i we you one's most likely probably clearly definitely "
        "indeed certainly here now only single would will should must have_to has_to just simply also both either "
        "i'd i'll i'm we'd sure okay ok well yes-no of_course believe think think_that believe_that believe_it am "
        "being obviously surely undoubtedly very more out judged clear next first unfortunately sadly in_fact "
        "sure_thing thing absolutely hallucinated factual statement statements please respectively always already "
        "really truly there all"
    ),
    # preposition
    "k": (
        "of in with to from by among between on at into about regarding under obtain order perform start initiate "
        "begin administer"
    ),
    # or
    "|": "vs versus or and/or",
    # and
    "&": "then and_then followed_by as_is and plus as_well_as",
}
_OTHERS = {
    "a": (
        "respuesta resposta gabarito réponse antwort lösung risposta antwoord svar svaret vastaus odpowiedź "
        "odpowiedzią odpověď răspuns răspunsul válasz odgovor ответ ответом відповідь отговор отговорът cevap "
        "yanıt الإجابة الجواب اجابة إجابة جواب پاسخ תשובה התשובה उत्तर जवाब উত্তর উত্তরটি பதில் விடை సమాధానం "
        "đáp_án câu_trả_lời trả_lời jawaban jawabannya jawapan jawapannya sagot jibu ìdáhùn idahun amsa amsar መልስ "
        "απάντηση svarið atsakymas vastus solución solução soluzione solution_finale rezultat conclusión "
        "conclusão resultado"
    ),
    "o": (
        "antwortmöglichkeit opción opção option_finale opzione optie opsi opcja opció opțiunea alternativa "
        "alternativ letra lettre lettera buchstabe proposition vaihtoehto вариант варіант الخيار خيار گزینه "
        "विकल्प বিকল্প pilihan chaguo seçenek seçeneğidir şık şıkkı şıkkıdır seçeneği lựa_chọn phương_án vraag "
        "inciso literal"
    ),
    "c": (
        "correcta correcto correta correto correcte juste bonne richtig richtige richtigen korrekt korrekte "
        "korrekta corretta corretto giusta esatta juist juiste goede rätt rätta riktig riktige riktiga rigtig "
        "rigtige rigtigt oikea prawidłowa prawidłową prawidłowy poprawna poprawną poprawny správná správně "
        "správný corect corectă corecta helyes točan tačan ispravan правильный правильным верный верным правильно "
        "верно правильна правильною верният правилният doğru الصحيحة الصحيح صحيحة صحیح درست הנכונה נכון सही সঠিক "
        "சரியான సరైన đúng benar tepat betul tama tamang sahihi ትክክለኛው σωστή σωστό chính_xác cierta certa correctă"
    ),
    "x": (
        "incorrecta incorreta incorrecte falsch sbagliata onjuist fel nieprawidłowa неверный неправильный yanlış "
        "خطأ غلط गलत salah"
    ),
    "p": "diagnóstico diagnostic diagnose diagnosi diagnosis_nya tratamiento tratamento traitement behandlung",
    "i": (
        "es est ist è é jest to är er on este je jeste е это является lautet sunt est-ce هي هو است ہے है হল হলো "
        "είναι là está está_na adalah ialah ay ni ita_ce ce ነው היא हैं yra są dır dir olan"
    ),
    "n": (
        "no_es não_é pas nicht non_è non niet inte ikke ei nie nem не ليست ليس لیس không không_phải không_phải_là "
        "bukan si hindi_ang δεν όχι 不是 não"
    ),
    # denies what precedes
    "z": "नहीं değil değildir 아니라 아니고 ではなく じゃなく नही",
    "h": (
        "elegiría escogería escolheria elijo escojo escolho choisis wähle scelgo kies väljer velger vælger "
        "wybieram выбираю обираю seçiyorum chọn pilih أختار memilih marque"
    ),
    "s": (
        "por_tanto por_lo_tanto portanto logo donc daher somit also_ist folglich quindi pertanto dus därför "
        "dlatego следовательно таким_образом поэтому итак vậy do_đó jadi finale dolayısıyla لذلك अतः इसलिए "
        "final_de"
    ),
    "b": "sino mas mais sondern ma bensì maar utan lecz ale а tetapi tapi melainkan بل mà",
    "u": (
        "la el le les l a(z) az de het det den das die der il lo una un en η το ο ang o são será sería seria être "
        "jest_to la_opción đó ja y_a ich je_vous eu yo"
    ),
}
_UNSPACED = {
    "a": "正确答案 正確答案 答案 正解 答え 答 解答 正答 回答 정답 올바른_답 옳은_답 답 คำตอบ ตอบ 最佳答案 结论",
    "o": "选项 選項 選択肢 선택지 보기 ข้อ 번 項 项",
    "c": "正确 正確 正しい 対 が正解 가_정답 이_정답 ที่ถูกต้อง ถูกต้อง 올바른 옳은",
    "x": "错误 錯誤 不正确 不正確 排除 誤り 틀린",
    "p": "最可能的诊断 诊断 診斷 診断 진단",
    "i": "是 为 為 は 은 는 です だ 입니다 이다 예요 이에요 이네요 คือ である",
    "n": "不是 并非 不选",
    "z": "ではなく じゃなくて 가_아니라 이_아니라 아니라",
    "h": "应选 应选择 應選擇 應選 选择 選擇 故选 故選 所以选 选 選 本题选",
    "s": "因此 综上所述 故 所以 したがって 따라서 よって",
    "b": "而是",
    "u": "我 的 本题 本題 가 이 を が 를 을 로 라 이라 と思います と思う 더",
}
_ROLE_OF_SIGN = {
    **dict.fromkeys(".!。．！।۔።", "."),
    **dict.fromkeys(";；؛", ";"),
    **dict.fromkeys("?？؟", "?"),
    **dict.fromkeys(",，、،", ","),
    **dict.fromkeys("()[]{}<>|（）【】《》〔〕〈〉", "("),
    **dict.fromkeys(":=→—–：⇒", ":"),
    **dict.fromkeys("/&", "|"),
    "\n": "\n",
}


def _words(table: dict[str, str]) -> dict[str, str]:
    return {word.replace("_", " "): role for role, words in table.items() for word in words.split()}


YES_AND_NO = {
    **dict.fromkeys(("sí", "si", "oui", "ja", "sim", "да", "是", "はい", "네"), "yes"),
    **dict.fromkeys(("non", "nein", "não", "nao", "нет", "否", "いいえ", "아니요"), "no"),
}
"""Words of other languages that count if a completion is nothing else."""


@cache
def roles() -> dict[str, str]:
    """Return word or sign, in lower case -> role."""
    return {**_words(_OTHERS), **_words(_UNSPACED), **_words(_ENGLISH), **_ROLE_OF_SIGN}


@cache
def phrases() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return first word -> the words that follow it in phrases with one role, the longest first."""
    split = [tuple(re.findall(r"[^\s()]+|[()]", phrase)) for phrase in roles() if " " in phrase or "(z" in phrase]
    following: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in sorted(split, key=len, reverse=True):
        following.setdefault(first, []).append(tuple(rest))
    return {first: tuple(rests) for first, rests in following.items()}


@cache
def unspaced_words() -> str:
    """Return a pattern of the words of languages that are written without spaces."""
    return "|".join(map(re.escape, sorted(_words(_UNSPACED), key=len, reverse=True)))
