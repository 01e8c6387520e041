"""Words around the labels of a list, as parts of regular expressions."""

from __future__ import annotations

NOUN = (
    r"(?:labels?|diagnos[ei]s|conditions|categor(?:y|ies)|class(?:es)?|tags?|topics?|findings|symptoms|problems?"
    r"|predictions?|predicted|extracted|answers?|outputs?|results?|responses?|list|options?|comorbidities"
    r"|medical\shistory|impression|assessment|disorders|diseases|codes?|dx)"
)
"""Names of a list of labels."""
SUBJECT = r"(?:patient|note|text|case|document|report|record|person|man|woman|child|summary)"
"""Subjects of a sentence with labels."""
VERB = (
    r"(?:is|are|was|were|be|been|has|have|had|includes?|contains?|mentions?|shows?|describes?|documents?|assign|choose"
    r"|select(?:ed)?|predict|labeled|(?<=d\s)label|classif(?:y|ied)|identif(?:y|ied)|found|suggests?|indicates?|supports?"
    r"|carries|suffers|presents|lists?|say|apply|applies|identified|diagnosed|think|believe)"
)
"""Verbs between a subject and its labels."""
ADVERB = (
    r"(?:probabl[ey]|(?:most\s)?likely|possibl[ey]|presumed|suspected|hence|thus|therefore|so|overall|in\s(?:summary|conclusion)|finally"
    r"|sure|certainly|of\scourse|okay|ok|yes|both|only|just|here\s(?:you\sgo|they\sare)|all\sthat\sapply|it's|i'm\sconfident\sit\sis|yes\sto|based\son\sthe\s\w+)"
)
"""Words before a label that are not part of it."""
QUALIFIER = (
    r"(?:ranking|ranked|order(?:ed)?|primary|secondary|main|other|additional|principal|further|also|i\smeant|i\sassign"
    r"|i\schoose)"
)
"""A heading that says which of the labels follow."""
REJECTED = (
    r"(?:absent|negative|excluded|unlikely|denied|rejected|ruled\sout|n/a|false|none|no(?=\W*$|[,;.])|0(?![.\d%])"
    r"|not\s(?:present|applicable|documented|mentioned|found|seen|supported|included|selected|indicated|active|\w+ed)"
    r"|❌|✗|✘|✖|☐|⬜|\[\s?\]|(?:nein|non|não)(?=\W*$|[,;.])|ausentes?|negativ[oa]|nicht\svorhanden)"
)
"""Remarks on a label that does not apply."""
CONFIRMED = (
    r"(?:yes|true|1(?![.\d%])|present|positive|✅|✓|✔|☑|\[[xX]\]|sí|ja|oui|sim|presentes?"
    r"|présente?|vorhanden|positiv[oa])"
)
"""Remarks on a label that applies."""
MARK = r"(?:[✅✓✔☑❌✗✘✖☐⬜]|\[[xX ]?\])"
"""Signs beside a label that say whether it applies."""
