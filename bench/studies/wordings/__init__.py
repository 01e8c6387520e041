"""How many wordings of an answer each reader reads, in the forms that models write.

    .venv/bin/python -m bench.studies.wordings [READER]... [--show N]

A reader's module exports `FORMS`, the wordings, and `read`, which applies the reader to one. A wrong reading is worse
than none: tests require that no form is read wrongly, and that fewer than 1% are unread.
"""
