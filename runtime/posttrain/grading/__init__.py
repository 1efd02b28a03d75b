"""Grading mathematics: is this answer equal to that one?

Three-valued, exact where it can be, and safe on anything a model may write. The door is `grade.py`;
`extract.py` finds an answer in a completion; `options.py` holds what may be chosen. No text is ever
evaluated: it is tokenised, parsed into the small tree of `tree.py`, and compared.
"""
