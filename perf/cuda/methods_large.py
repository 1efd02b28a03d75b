"""The part `methods` at 1.5 B parameters."""

from perf.cuda.bench import Bench
from perf.cuda.methods import run_with_model


def run(bench: Bench) -> None:
    run_with_model(bench, "medium")
