"""Patches of TRL and of the transformers Trainer below it: one file for each patch.

Code belongs here if an upgrade of TRL, transformers or accelerate can make it unnecessary, or break it
silently:

- it assigns to an attribute, method or module of these libraries;
- it overrides, calls or reads a private name (`_name`) of them;
- it avoids a defect of the pinned release, even if it does so through public arguments.

Code does not belong here if it only uses what the libraries document: arguments of a configuration class,
callbacks, public methods of a trainer, and subclasses that override public methods.

The docstring of each file cites the lines of the pinned release that make the patch necessary:

    trl/trainer/utils.py:928 `RepeatSampler.__init__`: `self.generator.manual_seed(seed)`

`tests/runtime/trl_compat` has a test file for each patch. It shows the defect in the installed release
without the patch, so that it fails once a release has fixed it: then delete the patch, its calls and its
tests. `test_trl_compat.py` compares the citations with the installed release, and rejects patches in other
packages. See "Upgrading TRL" in `CONTRIBUTING.md`.
"""
