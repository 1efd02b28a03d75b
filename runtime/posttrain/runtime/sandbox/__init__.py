"""Runs programs that a model wrote, so that they can harm nothing and read no answers.

limits.py      what a program may take, and how its run ended
calls.py       system calls: which are allowed
seccomp.py     that list as a filter for the kernel
boxes.py       where a program runs: chosen, and proved to hold before the first program
bubblewrap.py  a box with namespaces of its own
landlock.py    a box without namespaces, for where these are not allowed; enter.py runs inside
running.py     one program with one input, watched until nothing of it is left
testing.py     a program's tests: what it gave is compared here, outside
languages/     how programs of a language are run: one file each
"""
