"""Tests that the compiler starts without heavy imports."""

import subprocess
import sys

SCRIPT = """
import sys
before = set(sys.modules)
from posttrain.compiler.facts.accelerators import find_accelerator
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.duration import ExpectedWork, estimate_duration
from posttrain.compiler.memory.memory_estimate import estimate_memory
from posttrain.compiler.memory.fit_suggestions import suggest_fits
from posttrain.compiler.memory.workload import Workload

workload = Workload(model=find_shape("Qwen/Qwen3-8B"), length=4096, rows=8)
device = find_accelerator("H100")
assert suggest_fits(workload, device)
assert estimate_duration(workload, device, ExpectedWork(steps=10, tokens_per_row=4096)).min_seconds > 0
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in names if name not in sys.stdlib_module_names))
"""


def test_an_estimate_imports_nothing_but_the_standard_library():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['posttrain']"
