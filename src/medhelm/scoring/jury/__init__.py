"""Judge completions: prompts for judges, parsing of their replies, and aggregation into the jury's score.

The judged text is untrusted: it may contain instructions, finished verdicts and closing tags. `prompts` delimits it
with tags that it cannot know, `parsing` accepts only the judge's own words, and `prompt_injection` reports attempts.
"""
