"""Grades mathematical answers: decides whether a candidate equals a reference.

The verdict is equal, different or undecided. Comparisons are exact where possible, and safe on any text that
a model generates. The entry point is `grader.py`. `extraction.py` finds the answer in a completion, and
`options.py` has the settings. No text is ever evaluated: it is tokenized, parsed into the tree of
`expression_tree.py`, and compared.
"""
