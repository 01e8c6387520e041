"""Agreement between raters, and between the jury and clinicians."""
