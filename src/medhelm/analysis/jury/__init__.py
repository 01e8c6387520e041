"""Quality of the judges: agreement, bias, and effect on the ranking."""
