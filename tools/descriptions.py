"""Descriptions of keys and columns whose definitions in code hold names and types only.

`tools.reference` refuses to write a page when a key or a column has no description here, or a description no key.
"""

from __future__ import annotations

BENCHMARK_KEYS: dict[str, str] = {
    "name": "Id in snake case; the same as the folder's name.",
    "title": "Name for people.",
    "description": "What a model has to do, in a sentence or two.",
    "aliases": "Alternative ids, accepted everywhere.",
    "taxonomy": "Place in the taxonomy of medical work; `medhelm taxonomy` lists it.",
    "taxonomy.category": "Category id.",
    "taxonomy.subcategory": "Subcategory id. New ones are allowed.",
    "taxonomy.task": "The task in words.",
    "access": "Who can get the data: everyone, people who sign an agreement, or one institution.",
    "citation": "Address of the paper.",
    "license": "License of the data.",
    "helm": "Class of the same benchmark in HELM: module and class below `helm.benchmark.scenarios`, for exchange.",
    "source": "The data files and how to read them.",
    "source.kind": "Format of the data files. With `folder`, a hook reads them.",
    "source.location": "URL for `medhelm data fetch`: of a file, with `{revision}` and `{file}`, or of an archive.",
    "source.revision": "Pinned revision of the data.",
    "source.files": (
        'Path below the data folder -> sha256, in reading order; `""` while a file still changes. A path may be a '
        "pattern such as `notes/*.txt`; its sha256 is that of the lines `<sha256>  <name>` of its files. A name that "
        "ends in `.gz` is unpacked."
    ),
    "source.scoring_files": "Files that only scoring needs, such as a database; path -> sha256.",
    "source.file_column": "Adds a column with the name of the file a row comes from.",
    "source.rows": "json: path of the list in the document; xml: name of the row elements.",
    "source.key": "json: column that receives the keys of a keyed object.",
    "source.sheet": "xlsx: name of the sheet.",
    "source.encoding": "Encoding of text files. Default UTF-8; csv and tsv: UTF-8, UTF-16 or Windows-1252, detected.",
    "source.delimiter": "csv: character between cells, or `tab`; by default the one of `,` `;` tab `|` that fits.",
    "source.header_row": "csv, tsv, xlsx: line or row of the header, from 1; by default the first that is not a title.",
    "source.expected_count": "Number of instances; any other number is an error.",
    "source.note": "Who has the data, and how to apply for it.",
    "columns": "Field -> column, where their names differ; `options.A` reaches into nested JSON.",
    "id": "Columns that identify a row; by default its position in the source file.",
    "cluster": "Column whose equal values mark rows that are not independent: one patient, one note.",
    "group": "Column of groups. Each group is drawn separately; by the published rule all groups have equal weight.",
    "require": "Skip rows in which one of these columns is empty.",
    "drop_duplicates": "Count rows with the same prompt and reference once.",
    "choices": "Options of a choice question; leave this out for open questions. A list is short for `texts`.",
    "choices.texts": "The same options for every instance.",
    "choices.columns": "Columns that hold the options.",
    "choices.labels": "Reply with a letter, or with the option's text.",
    "choices.missing": "Text of an empty option; needs `columns`.",
    "positive": "Option of the positive class, such as the disease, for sensitivity and specificity.",
    "forbidden_perturbations": (
        "Perturbation that would change the reference -> the reason, as a sentence that ends with a period. "
        "`run --perturb` refuses it."
    ),
    "answer": "The reference. A text is short for `column`.",
    "answer.column": "Column that holds the reference.",
    "answer.form": "Form of the reference: text, letter, number, or a set of labels.",
    "answer.values": "Text in the column -> the reference that it means, such as `{Y: yes, N: no}`.",
    "metadata": "Columns for metrics; models never see them.",
    "slices": "Columns by whose values scores are shown.",
    "slices.column": "Name of the column.",
    "slices.bands": "For numbers: where each band but the first begins, such as `[18, 65]` for an age.",
    "sample": "Selection of the instances to evaluate; all if empty.",
    "sample.size": "Number of instances to draw, from each group if there are groups.",
    "sample.pool": "Draw only from this many rows at the start of a larger data set.",
    "sample.offset": "Position in that larger data set at which this source starts.",
    "sample.ids_file": "JSON list of the ids to evaluate.",
    "sample.ids_sha256": "sha256 of that file.",
    "sample.variant": "Passed to the hook as `variant`.",
    "sample.expected_count": "Number of instances after selection; any other number is an error.",
    "samples": "More named selections, with the same keys as `sample`; `--sample NAME` chooses one.",
    "system": "Template of a system message.",
    "prompt": "Template of the user message: `{field}` is a column, `{options}` the list of options.",
    "conversation": "Instead of `prompt`: column with a JSON list of `{role, content}` that the model continues.",
    "shorten": "Field that loses its oldest part if a prompt is too long for a model; `none` forbids truncation.",
    "stop": "Sequences that end a completion.",
    "max_tokens": "Limit on completion tokens.",
    "metrics": "Names of metrics; the first is the main one.",
    "rubric": "Instructions for judges; needed for the metric `jury`.",
    "rubric.task": "Role of the judge and what it sees.",
    "rubric.form": "Grades on a scale, or points for each criterion that is met.",
    "rubric.scale": "Lowest and highest grade.",
    "rubric.reference": "Show the reference to judges.",
    "rubric.question": "Template of the question that judges see; default: the prompt's only field, or all of it.",
    "rubric.criteria": "Criterion -> description, or the keys below.",
    "rubric.criteria.*.description": "Question that the judge answers.",
    "rubric.criteria.*.lower_is_better": "True if the lowest grade is the best.",
    "rubric.low_means": "Meaning of the lowest grade that judges see; default: `very poor`.",
    "rubric.show_points": "form `points`: show judges the points of a criterion.",
    "rubric.floor": "Grades that a completion must reach: one floor, or a list of them. Judges do not see them.",
    "rubric.floor.criterion": "Name of the criterion.",
    "rubric.floor.at_least": "Lowest grade that is good enough.",
    "rubric.floor.at_most": "Highest grade that is good enough, for a criterion with `lower_is_better`.",
    "rubric.extended": "Texts that differ in a second rubric, which `--rubric extended` uses.",
    "rubric.extended.task": "The task in that rubric.",
    "rubric.extended.criteria": "Criterion -> its description in that rubric.",
    "rubric.criteria.*.points": "form `points`: points for meeting the criterion; negative for a harm.",
    "rubric.criteria.*.tags": "form `points`: tags whose scores are reported separately.",
    "rubric.criteria_column": "Column with each instance's own criteria.",
    "rules": "Differences between the published and the corrected rule, for the table of benchmarks.",
    "rules.published": "Rule of the reference implementation.",
    "rules.corrected": "Rule that MedHELM uses by default.",
    "rules.why": "The reason for the difference.",
}
"""Key of benchmark.yaml -> meaning."""

JURY_FILE_KEYS: tuple[tuple[str, str, str, str], ...] = (
    ("`judges`", "list of text", "**required**", "Names of models, as `--judge` takes them."),
    (
        "`at_least`",
        "whole number",
        "`2`, or `1` for a single judge",
        "Number of judges that must have graded every criterion for an instance to have a score.",
    ),
)
"""Rows about jury files: key, value, default, meaning."""

_COMPLETION = {
    "finish_reason": "Reason why the completion ended, in the provider's words.",
    "failure_boundary": "Where a failure happened: `provider`, `metric`, ...; NULL if there is none.",
    "failure_code": "Code of the failure, such as `refusal` or `timeout`.",
    "failure_message": "The failure in words.",
    "input_tokens": "Input tokens, cached ones included.",
    "cached_input_tokens": "Of these, tokens read from the provider's cache.",
    "output_tokens": "Output tokens, hidden reasoning included.",
    "reasoning_tokens": "Of these, hidden reasoning.",
    "latency_s": "Seconds from sending to the complete reply.",
    "reported_model": "Name under which the server answered.",
    "batched": "True if it was bought through a batch API, at half the price.",
    "fingerprint": "Fingerprint of the server's configuration, where it sends one.",
    "refused_parts": "Optional parameters that the server refused and that were left out.",
    "cache_write_tokens": "Of the input, tokens written into the provider's cache.",
    "received": "When it arrived: seconds since 1970, UTC; NULL if unknown, or computed in this process.",
}

_PLACE = {
    "position": "Position of the instance in the run, from 0.",
    "instance_id": "Id of the instance: the data set's own, else its position in the source file.",
}

RECORD_COLUMNS: dict[str, str] = {
    **_PLACE,
    "cluster": "Cluster of the instance; empty if it is independent.",
    "group": "Group of the instance; empty if there are none.",
    "request_digest": "Key of the completion in the cache, in hex.",
    "left_out": "Characters of the prompt that were left out to fit the context window.",
    "completion": "Text of the completion; NULL if the request failed.",
    **_COMPLETION,
    "score_failure": "Reason why a score is missing, for each metric without one.",
    "suspicions": "Signs of prompt injection aimed at judges, as JSON.",
    "jury_coverage": "Share of the expected judgments that exist; NULL without a jury.",
    "unreadable": "True if the main metric finds no answer in the text; NULL if that is not known or does not apply.",
    "reasoning": "Text that the model wrote before its answer, or beside it; NULL for none. It is never scored.",
    "token_logprobs": "Log-probabilities of tokens, as JSON: `[[token, logprob, {alternative: logprob}], ...]`.",
}
"""Column of records.parquet -> meaning."""

JUDGMENT_COLUMNS: dict[str, str] = {
    **_PLACE,
    "judge": "Name of the judge.",
    "criterion": "Criterion of the rubric.",
    "score": "Grade, or 1 for met and 0 for not met; NULL if the judgment failed.",
    "points": "Points for meeting the criterion; NULL for rubrics with grades.",
    "failure_code": "Reason why the judgment is missing.",
    "failure_message": "The same in words.",
    "explanation": "The judge's explanation.",
}
"""Column of judgments.parquet -> meaning."""

REPLY_COLUMNS: dict[str, str] = {
    **_PLACE,
    "judge": "Name of the judge.",
    "part": "Number of the prompt among those about this completion, from 0.",
    "attempt": "0 for the first attempt, 1 for the second.",
    "request_digest": "Key in the cache, in hex.",
    "text": "Everything the judge wrote; NULL if the request failed.",
    **_COMPLETION,
    "verification_code": "Code that the prompt asked for; empty or NULL if it asked for none.",
}
"""Column of replies.parquet -> meaning."""

PROMPT_COLUMNS: dict[str, str] = {
    **_PLACE,
    "messages": "The prompt as JSON: a list of role and content.",
    "choices": "The options as JSON; NULL for open questions.",
    "references": "The references as JSON, each with whether it is correct.",
    "criteria": "The criteria of the instance as JSON, if each instance has its own; missing in older files.",
    "metadata": "Columns of the data by whose values scores can be shown, as JSON; missing in older files.",
}
"""Column of prompts/*.parquet -> meaning."""

CACHE_COLUMNS: dict[str, str] = {
    "digest": "Digest of the request: model, prompt, limits and settings. Prompts themselves are not stored.",
    "model": "Name of the model.",
    "text": "Text of the completion; NULL for a kept failure.",
    "failure_code": "`refusal` or `length`: failures that were paid for and would recur.",
    "failure_message": "The same in words.",
    "finish_reason": "Reason why the completion ended, in the provider's words.",
    "input": "Input tokens, cached ones included.",
    "cached_input": "Of these, tokens read from the provider's cache.",
    "output": "Output tokens, hidden reasoning included.",
    "reasoning": "Of these, hidden reasoning.",
    "latency_s": "Seconds from sending to the complete reply.",
    "reported_model": "Name under which the server answered.",
    "created": "When it was received: seconds since 1970, UTC.",
    "batched": "1 if it was bought through a batch API.",
    "fingerprint": "Fingerprint of the server's configuration, where it sends one.",
    "refused_parts": "Optional parameters that the server refused.",
    "cache_write": "Of the input, tokens written into the provider's cache.",
    "reasoning_text": "Reasoning that the server returned beside the text; NULL for none.",
    "token_logprobs": "Log-probabilities of tokens, as in records; NULL for none.",
    "checksum": "CRC-32 of all other values; NULL if the row was found damaged and will be replaced.",
}
"""Column of cache.sqlite, table `completions` -> meaning."""

EXIT_CODES: dict[int, str] = {
    0: "Done.",
    1: "Finished, but some requests, judgments or scores failed; the counts are shown. For `verify`: something "
    "differs. For `gate`: a model is worse.",
    2: "A mistake in the command, a file or a name. Nothing was run or sent; one message names all problems.",
    3: "Stopped by the budget (`--max-cost`). Everything received is kept.",
    4: "Something needed is missing: data, a key, an optional package, disk space.",
    5: "Undecided (`gate`): too few instances to say whether a model is worse, or some benchmarks are not compared.",
    130: "Interrupted. Everything received is kept; run the same command again to continue.",
}
"""Exit code -> meaning."""
