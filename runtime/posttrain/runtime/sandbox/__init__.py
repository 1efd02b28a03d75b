"""Runs programs that a model wrote, isolated from the machine and from the expected answers.

limits.py             the resource limits and the result of a run
job.py                a program with its input and limits, and the protocol of sandboxes
syscalls.py           the allowed and forbidden system calls
seccomp.py            compiles these lists to a seccomp filter
sandbox_selection.py  selects the sandbox, and tests its isolation before the first program runs
bubblewrap.py         a sandbox with namespaces
landlock.py           a sandbox without namespaces, for containers that do not allow them
landlock_launcher.py  runs inside the Landlock sandbox and starts the program
process_runner.py     runs one program with one input, until all its processes have ended
program_tests.py      runs the tests of a program and compares its output outside the sandbox
languages/            the supported programming languages, one file each
"""
