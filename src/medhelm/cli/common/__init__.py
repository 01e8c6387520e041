"""Parts that commands share: options, shell completion and progress lines."""
