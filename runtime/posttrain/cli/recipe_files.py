"""Finds the files that a recipe consists of: those that its compilation reads, with all its profiles."""

import posixpath
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from posttrain.cli.compile import compile_request, display_path, lock_file
from posttrain.cli.diagnostics_output import report_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.spec.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posttrain.compiler.text.compile_request import CompileRequest
    from posttrain.spec.plan import Plan

T = TypeVar("T")


@record(kw_only=True)
class RecipeFiles:
    """A recipe with the files that it reads, by their paths below its folder."""

    file: Path
    files: frozenset[str]
    lock: Path | None
    plan: "Plan"


def collect_files(file: Path) -> RecipeFiles:
    """Compile a recipe and each of its profiles, and record what they read.

    The versions of libraries are those of the lock, or else those that this release is tested with: the plan
    does not depend on the machine. Exits after errors.
    """
    from posttrain.compiler.diagnosis.diagnostics import Diagnostics
    from posttrain.compiler.parsing.expand import profile_names
    from posttrain.compiler.parsing.parse import parse

    lock = lock_file(file) if lock_file(file).is_file() else None
    read: set[str] = set()
    request = _recording(compile_request(file, (), (), locked=lock is not None), read)
    request = replace(request, stack=_stack(request))
    plan = _compile(request, file)
    tree = parse(request.source, Diagnostics())
    assert tree is not None, "a recipe that compiles has a tree"
    for profile in profile_names(tree, request):
        _compile(replace(request, profiles=(profile,)), file)
    # Those of the artifacts that it extends are published already.
    own = frozenset(name for name in read if (file.parent / name).is_file())
    return RecipeFiles(file=file, files=own, lock=lock, plan=plan)


def _compile(request: "CompileRequest", file: Path) -> "Plan":
    from posttrain.compiler.pipeline import compile_recipe

    outcome = compile_recipe(request)
    report_diagnostics(outcome.diagnostics, file, "text", err=True)
    if outcome.plan is None:
        of = f" with the profile {request.profiles[0]}" if request.profiles else ""
        click.echo(f"{display_path(file)}{of} has errors: it is not published", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    return outcome.plan


def _stack(request: "CompileRequest") -> "Mapping[str, str]":
    from posttrain.spec.lockfile import parse_lock
    from posttrain.spec.pinned_versions import PINNED_VERSIONS

    if request.lock is None:
        return PINNED_VERSIONS
    try:
        locked = parse_lock(request.lock.data.decode()).values
    except ValueError:
        return PINNED_VERSIONS  # the compiler reports the invalid lock
    return {**PINNED_VERSIONS, **{name: value for (kind, name), value in locked.items() if kind == "stack"}}


def _recording(request: "CompileRequest", read: set[str]) -> "CompileRequest":
    """The request with access to files that records the names of those that exist."""

    def record_name(name: str, found: T | None) -> T | None:
        if found is not None:
            read.add(posixpath.normpath(name))
        return found

    digest, prefix = request.digest, request.read_prefix
    assert digest is not None, "a request of the command line reads files"
    assert prefix is not None, "a request of the command line reads files"

    def read_file(name: str) -> bytes | None:
        return record_name(name, request.read(name))

    def file_digest(name: str) -> str | None:
        return record_name(name, digest(name))

    def read_prefix(name: str, most: int) -> bytes | None:
        return record_name(name, prefix(name, most))

    return replace(request, read=read_file, digest=file_digest, read_prefix=read_prefix)


def produces_key(recipe: Path, key: str) -> bool:
    """Whether a recipe has a step with a key: with its lock or without, as written or with one of its
    profiles."""
    from posttrain.cli.compile import compile_file
    from posttrain.compiler.diagnosis.diagnostics import Diagnostics
    from posttrain.compiler.parsing.expand import profile_names
    from posttrain.compiler.parsing.parse import parse

    for locked in (False, True) if lock_file(recipe).is_file() else (False,):
        outcome, request = compile_file(recipe, (), (), locked)
        tree = parse(request.source, Diagnostics())
        profiles = [] if tree is None else profile_names(tree, request)
        plans = [
            outcome.plan,
            *(compile_file(recipe, (), (profile,), locked)[0].plan for profile in profiles),
        ]
        if any(step.key == key for plan in plans if plan is not None for step in plan.steps):
            return True
    return False
