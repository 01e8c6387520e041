"""Turn a provider's error responses into failure codes and advice."""
