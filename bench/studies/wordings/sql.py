"""Wordings of SQL queries, of abstentions, and of texts that are neither."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle

from bench.studies.wordings import sql_held_out as held_out
from bench.studies.wordings.form import Form
from medhelm.scoring.sql.extract import find_query

ABSTAINS = "(abstains)"
"""Reading of a completion that abstains; None is for a text that neither abstains nor has a query."""

QUERIES = (
    "select count(*) from stay where ward = 'east'",
    "SELECT DISTINCT medication.routeadmin FROM medication WHERE medication.drugname = 'aspirin (ec) 81 mg'",
    'select t1."drug name" from (select drug as "drug name", count(*) as n from rx group by drug) t1 where t1.n >= 2',
    "with last as (select max(labtime) as t from lab) select labname from lab, last where lab.labtime = last.t",
    "SELECT name\nFROM patient\nWHERE age > 65\n  AND (ward = 1 OR ward = 2)\nORDER BY age DESC\nLIMIT 1",
    "select strftime('%Y', admittime) from admissions where subject_id = 10 and note like '%it''s; fine%'",
    "SELECT `patient`.`uniquepid` FROM `patient` WHERE `patient`.`gender` = 'f' LIMIT 5",
    "select ( select a.x from a where a.id = 1 ) - ( select b.x from b where b.id = 2 ) < 0",
)
"""Invented queries, without the semicolon at their end."""

ALONE = (
    "{q}",
    "{q};",
    "{q} ;",
    "{q};\n",
    "\n\n{q};",
    "```sql\n{q};\n```",
    "```sql\n{q}\n```",
    "```SQL\n{q};\n```",
    "```sqlite\n{q};\n```",
    "```sqlite3\n{q};\n```",
    "```\n{q};\n```",
    "```sql\n{q};",
    "~~~sql\n{q};\n~~~",
    "~~~\n{q}\n~~~",
    "````sql\n{q};\n````",
    "`{q}`",
    "`{q};`",
    '"{q};"',
    "“{q};”",
    "'{q};'",
    "({q})",
    "({q});",
    "<answer>{q};</answer>",
    "<answer>{q}</answer>",
    "<answer>\n```sql\n{q};\n```\n</answer>",
    "<sql>{q};</sql>",
    "<sql>{q}</sql>",
    "<SQL>\n{q};\n</SQL>",
    "<query>{q}</query>",
    "<sql_query>{q};</sql_query>",
    "<final_answer>{q};</final_answer>",
    "<output>{q};</output>",
    "<code>{q};</code>",
    "\\boxed{{{q}}}",
    "$\\boxed{{{q};}}$",
    "\\boxed{{\\text{{{q}}}}}",
    "[SQL]{q};[/SQL]",
    "> {q};",
    "- {q};",
    "1. {q};",
    "**{q};**",
    "\ufeff{q};",
    "{q};\u200b",
    "{q}\u200b",
    "\u200b{q};\u2060",
    "{q};\x00",
    "{q};</s>",
    "{q};<|im_end|>",
    "{q};<|eot_id|>",
    "{q};\n{q};",
    "{q}\n\n{q}",
    "{q};\n\n{q}",
    "```sql\n{q};\n```\n```sql\n{q};\n```",
    "-- the query\n{q};",
    "/* the query */ {q};",
    "SQL: {q};",
    "SQL Query: {q};",
    "sql\n{q};",
    "sqlite\n{q};",
    "sqlite> {q};",
    "Query: {q};",
    "Answer: {q};",
    "**Answer:** {q};",
    "**SQL Query:**\n{q};",
    "**SQL Query:**\n\n```sql\n{q};\n```",
    "### SQL Query\n{q};",
    "## Query\n\n{q}",
    "Assistant: {q};",
    "Final query:\n{q};",
    "Output:\n{q};",
    "Corrected query: {q};",
)
"""A query {q} with markup around it."""

JSON = (
    '{{"sql": {j}}}',
    '{{"query": {j}}}',
    '{{"answer": {j}}}',
    '{{"sql_query": {j}, "explanation": "It counts the rows; select is used."}}',
    '{{"explanation": "We select the rows.", "query": {j}}}',
    '```json\n{{"sql": {j}}}\n```',
    '[{{"sql": {j}}}]',
    '{{"answerable": true, "sql": {j}}}',
    '{{"result": {{"sql": {j}}}}}',
    "[{j}]",
    "{j}",
)
"""JSON; {j}: the query as a JSON string."""

PROSE = (
    "Here is the query:\n\n{q};",
    "Here's the SQL query:\n```sql\n{q};\n```",
    "Sure! Here is the SQL query:\n\n```sql\n{q};\n```\n\nThis query counts the rows that match; it returns one value.",
    "Certainly! You can use the following query:\n{q};\n\nLet me know if you need anything else.",
    "The SQL query is: {q};",
    "The query that answers the question is:\n{q}",
    "To answer this, select the rows of the table and count them:\n\n{q};",
    "We need to select from one table with a filter.\n\n```sql\n{q};\n```",
    "First, I look at the tables.\nThen I filter.\n\nSQL: {q};",
    "{q};\n\nThis query returns the number of rows.",
    "{q};\n\n**Explanation**: it counts rows from the table where the condition holds.",
    "{q}\n\n**Explanation**: it counts rows.",
    "{q}\n\n**Explanation:**\n- It counts rows.\n- It filters.",
    "{q}\n\n(This counts all.)",
    "{q}\n\n(Note: with no limit, all rows are returned.)",
    "{q}\n\n- it counts the rows",
    "{q}\n\n* it counts the rows",
    "{q}\n\n1. It counts the rows.",
    "{q}\nNote: this counts the rows.",
    "{q}\n\nNote: this counts the rows.",
    "{q}\nThis query counts the rows.",
    "{q}\n\nThis query counts the rows.",
    "{q}\nExplanation: it counts rows.",
    "{q}\n\nExplanation:\nIt counts the rows in the table.",
    "{q}\n\nIn this query, the rows are counted.",
    "{q}\n\nWith this query you get the rows.",
    "{q}\n\nWhere the condition holds, rows are counted.",
    "{q}\n\nAs requested, there is no explanation.",
    "{q}\n\nLet me know if you need more.",
    "{q}\n\nI hope this helps!",
    "{q}\n\n---\n\nIt counts the rows.",
    "{q}\n---\nIt counts the rows.",
    "{q}\n\n### Explanation\nIt counts the rows.",
    "{q}\n\n> It counts the rows.",
    '{q}\n\n"It counts the rows."',
    "{q}\n\nOutput: 5",
    "{q}\n\n| count |\n|---|\n| 5 |",
    "{q}\n```",
    "{q};\n```\nIt counts the rows.",
    "```sql\n{q};\n```\nResult:\n```\n5\n```",
    "```sql\n{q};\n```\nThe schema does not contain a table of visits, so stays are counted.",
    "```sql\nselect * from nothing;\n```\nThis is too simple. The correct query:\n```sql\n{q};\n```",
    "<think>select 1; or null? The schema does not have it.</think>\n{q};",
    "<think>The question cannot be answered.</think>\n```sql\n{q};\n```",
    "The question can be answered with:\n{q};",
    "Note that the schema does not have a column for it, but it can be derived:\n\n{q};",
    "There is no table of visits; I use the stays.\n```sql\n{q};\n```",
    "It is not possible to filter by name, so I use the number:\n```sql\n{q};\n```",
    'The query is "{q}".',
    "The query is `{q}`.",
    "The query is `{q};` and it counts rows.",
    "You can use `{q}` to count the rows.",
    "You can run {q}; to count the rows.",
    "Use: {q};",
    "Use this query -> {q};",
    "1. Find the table.\n2. Count its rows.\n\nFinal answer:\n{q};",
    "**Query**\n\n    {q};\n\nDone.",
    "The answer is ({q});",
    "```python\nquery = 1\n```\nSQL:\n```sql\n{q};\n```",
)
"""A query {q} in prose."""

ABSTENTIONS = (
    "",
    " ",
    "\n",
    "null",
    "NULL",
    "Null.",
    "null;",
    "None",
    "none.",
    "nan",
    "N/A",
    "n/a.",
    "NA",
    '""',
    "''",
    "``````",
    "```sql\n```",
    "```sql\n\n```",
    "```sql\nnull\n```",
    "```sql\nNULL;\n```",
    "```\n```",
    "{}",
    "[]",
    "()",
    ";",
    "-",
    "—",
    ".",
    "\u200b",
    "\ufeff",
    "<empty>",
    "<empty string>",
    "[empty string]",
    "(empty string)",
    "(empty)",
    "[empty]",
    "(blank)",
    "(no output)",
    "(no query)",
    "empty string",
    "Empty string.",
    "An empty string.",
    "*(empty string)*",
    "**Empty string**",
    "The answer is an empty string.",
    "The output is an empty string.",
    'The answer is "".',
    "Answer: null",
    "SQL Query: null",
    "SQL: N/A",
    "Answer: (empty string)",
    "I return an empty string.",
    "Returning an empty string.",
    "I'll return an empty string, since the schema has no such table.",
    '{"sql": ""}',
    '{"sql": null}',
    '{"query": null, "reason": "no table of contacts"}',
    '{"answer": "null"}',
    '{"sql": "", "explanation": "The schema has no such table."}',
    '{"answerable": false, "sql": null}',
    '{"answerable": false}',
    '```json\n{"sql": null}\n```',
    "-- empty",
    "-- The question cannot be answered with this schema.",
    "/* not answerable */",
    "```sql\n-- No query: there is no table of contacts\n```",
    "Not possible.",
    "Not possible",
    "It's not possible.",
    "This is not possible with the given schema.",
    "It is impossible to answer this question.",
    "Impossible to answer.",
    "No SQL query can be generated.",
    "No SQL query can be written for this question.",
    "No query can be formed.",
    "No valid SQL query is possible.",
    "No valid query exists for this question.",
    "No query.",
    "No SQL.",
    "No answer.",
    "No answer is possible.",
    "There is no valid SQL query for this question.",
    "There is no query that answers this.",
    "N/A - the schema has no emergency contact",
    "N/A: the database has no such information.",
    "N/A (no table of contacts)",
    "NULL - no table of contacts",
    "null -- the schema lacks contacts",
    "null (not answerable)",
    "None, since the schema has no such column.",
    "Null. The schema does not have appointments.",
    "The schema lacks emergency contacts.",
    "The schema lacks the necessary tables.",
    "The database lacks that information.",
    "The schema is missing a table for contacts.",
    "The required table is missing from the schema.",
    "The necessary columns are missing.",
    "The question is out of scope.",
    "Out of scope.",
    "Out-of-scope question.",
    "This is outside the scope of the database.",
    "This question is beyond the scope of the schema.",
    "Unanswerable",
    "Unanswerable.",
    "UNANSWERABLE",
    "This question is unanswerable.",
    "The question is unanswerable given the schema.",
    "Not answerable.",
    "Cannot answer.",
    "Can't answer this.",
    "Cannot be answered.",
    "The question cannot be answered.",
    "The question can't be answered with the given schema.",
    "The question can not be answered from this database.",
    "This question could not be answered.",
    "I cannot answer this question with the given schema.",
    "I can't write a query for this.",
    "I am unable to answer this question.",
    "I'm unable to generate a SQL query for this question.",
    "I was not able to write a query.",
    "We cannot determine this from the schema.",
    "Cannot be determined from the given schema.",
    "It cannot be derived from the tables.",
    "The schema does not contain emergency contacts.",
    "The schema doesn't contain a table for that.",
    "The schema does not include appointments.",
    "The schema does not provide this information.",
    "The schema does not support this question.",
    "The schema does not allow the question to be answered.",
    "The database does not store phone numbers.",
    "The database doesn't have this information.",
    "The tables do not hold appointments.",
    "None of the tables contain phone numbers.",
    "No table contains phone numbers.",
    "No column stores the phone number.",
    "No such table.",
    "No such column exists.",
    "No relevant table exists in the schema.",
    "No relevant data.",
    "No information available.",
    "No information about contacts is available in the schema.",
    "There is no table for family history.",
    "There is no column that stores the phone number.",
    "There is no information about contacts.",
    "There is no way to answer this.",
    "There are no tables for appointments in the schema.",
    "There isn't a table for appointments.",
    "There isn't enough information in the schema.",
    "Not enough information.",
    "Not enough data to answer.",
    "Insufficient information.",
    "Insufficient data in the schema.",
    "The information is insufficient.",
    "This information is not available in the database.",
    "This data is not available.",
    "Not available in the schema.",
    "Not in the schema.",
    "Not in schema",
    "The phone number is not part of the schema.",
    "The phone number is not stored in the database.",
    "Phone numbers are not included in the schema.",
    "Appointments aren't recorded in this database.",
    "The required data is not present in the given schema.",
    "The table for contacts does not exist.",
    "A contacts table doesn't exist in this schema.",
    "Such a table does not exist.",
    "Not applicable.",
    "Not supported by the schema.",
    "This question is not related to the database.",
    "The question is unrelated to the schema.",
    "The question does not relate to the given schema.",
    "The question is not answerable using SQL on this database.",
    "The question requires information that is not in the schema.",
    "Sorry, the question cannot be answered with this schema.",
    "I'm sorry, but this question can't be answered with the given tables.",
    "Unfortunately, the schema has no emergency contacts.",
    "The schema has no table for emergency contacts, so I return an empty string.",
    "Based on the schema, there is no way to answer this question. Therefore: null",
    "After reviewing the schema, I conclude that the question is not answerable.\n\nnull",
    "The question asks for a phone number, which the schema does not contain.\n\n(empty string)",
    "A query such as `SELECT phone FROM contact` would fail, because the schema has no table of contacts.",
    "The question cannot be answered: SELECT phone FROM contact would need a table that does not exist.",
    "You could try SELECT phone FROM contact, but the table does not exist.",
    "I cannot write `select phone from contact`, since there is no such table.",
    "The question cannot be answered. If there were a table `contact`, the query would be:\n"
    "```sql\nSELECT phone FROM contact;\n```",
    "This is not answerable with the given schema. With a contacts table, one could write:\n\n"
    "SELECT phone FROM contact;",
    "Cannot be answered: no table lets us select contacts from it.",
    "<think>select 1? No table.</think>",
    "<think>No table.</think>null",
)
"""Texts that abstain."""

ABSTENTION_DECORATIONS = (
    "{}",
    "**{}**",
    "`{}`",
    "```\n{}\n```",
    "<answer>{}</answer>",
    "<sql>{}</sql>",
    '"{}"',
    "> {}",
    "- {}",
    "Answer: {}",
    "SQL Query: {}",
    "\ufeff{}",
    "{}\u200b",
    "\\boxed{{{}}}",
)

NEITHER = (
    "SELECT;",
    "select",
    "SELECT",
    "```sql\nSELECT\n```",
    "four",
    "4",
    "The answer is 4.",
    "There are 4 patients.",
    "No patients were found.",
    "The patient did not have a record of aspirin use.",
    "The patient was not given aspirin.",
    "Aspirin",
    "yes",
    "no",
    "I'm sorry, I can't help with that.",
    "I cannot assist with medical requests.",
    "error",
    "with asthma as of today",
    "from stay where ward = 'east'",
    "<think>select 1;",
    "The result is an empty table.",
)
"""Texts without a query that do not abstain either."""


def _forms() -> Iterator[Form]:
    """Yield all wordings; each template with two queries."""
    queries = cycle(QUERIES)
    for template in (*ALONE, *PROSE):
        for query in (next(queries), next(queries), next(queries)):
            yield Form(text=template.format(q=query), expected=bare(query), group="query")
    for template in JSON:
        for query in QUERIES:
            yield Form(text=template.format(j=json.dumps(query)), expected=bare(query), group="JSON")
            yield Form(text=template.format(j=json.dumps(query + ";")), expected=bare(query), group="JSON")
    for text in ABSTENTIONS:
        marked = any(sign in text for sign in "`<\\{")
        for decoration in ABSTENTION_DECORATIONS[:1] if marked else ABSTENTION_DECORATIONS:
            yield Form(text=decoration.format(text), expected=ABSTAINS, group="abstention")
    for text in NEITHER:
        yield Form(text=text, expected=None, group="neither")


def _held_out() -> Iterator[Form]:
    """Yield the wordings that were written later."""
    queries = cycle(held_out.QUERIES)
    for template in held_out.AROUND:
        for query in (next(queries), next(queries), next(queries)):
            yield Form(text=template.format(q=query), expected=bare(query), group="query, held out")
    for template in held_out.JSON:
        for query in held_out.QUERIES:
            yield Form(text=template.format(j=json.dumps(query)), expected=bare(query), group="JSON, held out")
    for text in held_out.ABSTENTIONS:
        yield Form(text=text, expected=ABSTAINS, group="abstention, held out")
    for text in held_out.NEITHER:
        yield Form(text=text, expected=None, group="neither, held out")


def read(form: Form) -> str | None:
    """Read a query without its last semicolon; None if what is found is no SQL."""
    query = find_query(form.text)
    if query is None:
        return ABSTAINS
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"explain {query}")
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if not str(error).startswith("no such"):  # tables and columns do not exist, but the syntax is correct
            return None
    return bare(query)


def bare(query: str) -> str:
    """Return a query without comments before it, without semicolons after it, and with single spaces."""
    without = query
    while without.startswith(("--", "/*")):
        without = without.partition("\n" if without.startswith("--") else "*/")[2].strip()
    return " ".join(without.rstrip("; \n").split())


FORMS = [*_forms(), *_held_out()]
