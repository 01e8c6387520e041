"""From completions to scores."""
