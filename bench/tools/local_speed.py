"""Measure the speed of local models and print a JSON object. Runs in the environment of the medhelm command.

    python bench/tools/local_speed.py hf|hf-gpu|vllm

`hf`: a small model with random weights on the processor (`local_hf.py`). `hf-gpu`: a model of realistic size with
random weights on a GPU (`local_gpu.py`). `vllm`: a fake server (`local_vllm.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))  # run by its path, it would not find its package

from bench.tools import local_gpu, local_hf, local_vllm

MEASURES: dict[str, Callable[[], dict[str, float]]] = {
    "hf": local_hf.measure,
    "hf-gpu": local_gpu.measure,
    "vllm": local_vllm.measure,
}

if __name__ == "__main__":
    if sys.argv[1] == "work":  # one of the processes that `hf` compares
        local_hf.work(sys.argv[2], Path(sys.argv[3]))
    else:
        print(json.dumps(MEASURES[sys.argv[1]]()))
