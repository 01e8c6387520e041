"""The plan of a study: what is rated, by whom, in which order, and what raters could learn from the texts."""
