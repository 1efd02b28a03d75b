"""Runs a module as a process that receives SIGTERM when its parent dies.

`python -m posttrain.runtime.child_process PARENT MODULE ...`
"""

import runpy
import signal
import sys

from posttrain.runtime.worker import die_with_parent

if __name__ == "__main__":
    # SIGTERM instead of SIGKILL, so that the process can end its own children. An exec keeps the setting.
    die_with_parent(int(sys.argv[1]), signal.SIGTERM)
    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
