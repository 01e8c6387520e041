"""Models on this machine: inference in this process with `hf/`, and servers that a run starts with `vllm/`."""
