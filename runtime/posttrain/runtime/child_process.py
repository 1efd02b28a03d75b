"""Runs a module as a program that the kernel asks to end when the one that started it is gone:
`python -m posttrain.runtime.child_process PARENT MODULE ...`.
"""

import runpy
import signal
import sys

from posttrain.runtime.worker import die_with_parent

if __name__ == "__main__":
    # Asked, and not killed, it can end the processes of its own as well. What it becomes keeps this.
    die_with_parent(int(sys.argv[1]), signal.SIGTERM)
    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
