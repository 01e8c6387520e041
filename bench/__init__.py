"""Speed and memory of whole processes, ours and others', as figures of one run."""
