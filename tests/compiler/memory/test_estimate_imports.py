"""The compiler starts without anything heavy, whatever it estimates later."""

import subprocess
import sys

SCRIPT = """
import sys
before = set(sys.modules)
from posttrain.compiler.facts.accelerators import accelerator
from posttrain.compiler.facts.model_shapes import known
from posttrain.compiler.memory.duration import Schedule, duration
from posttrain.compiler.memory.memory_estimate import estimate
from posttrain.compiler.memory.fit_suggestions import remedies
from posttrain.compiler.memory.workload import Workload

workload = Workload(model=known("Qwen/Qwen3-8B"), length=4096, rows=8)
device = accelerator("H100")
assert remedies(workload, device)
assert duration(workload, device, Schedule(steps=10, tokens=4096)).least > 0
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in names if name not in sys.stdlib_module_names))
"""


def test_an_estimate_imports_nothing_but_the_standard_library():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['posttrain']"
