"""Checks a recipe without a profile and with each of its profiles, and names the profiles of diagnostics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.diagnostic import Diagnostic

# The profiles that one compilation applies.
Selection = tuple[str, ...]


def check_profiles(
    names: Sequence[str],
    request: CompileRequest,
    selected: Sequence[Diagnostic],
    compile_selection: Callable[[CompileRequest], Sequence[Diagnostic]],
) -> list[Diagnostic]:
    """The diagnostics of the recipe without a profile, with each profile, and with those of the request.

    `selected` are the diagnostics of the request. A diagnostic that several of them share appears once."""
    shared = _for_checks(request)
    found: dict[Selection, Sequence[Diagnostic]] = {}
    for selection in ((), *((name,) for name in names)):
        if selection == request.profiles:
            found[selection] = selected
        else:
            found[selection] = _without_options(compile_selection(replace(shared, profiles=selection)))
    found.setdefault(request.profiles, selected)
    return _merge(found)


def _without_options(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics without those at --set options: the options are meant for the selected profiles, and
    may name what only these declare."""
    return [one for one in diagnostics if not _is_option(one)]


def _is_option(diagnostic: Diagnostic) -> bool:
    return diagnostic.span.file.startswith("--")


def _merge(found: Mapping[Selection, Sequence[Diagnostic]]) -> list[Diagnostic]:
    first: dict[tuple[object, ...], Diagnostic] = {}
    selections: dict[tuple[object, ...], list[Selection]] = {}
    for selection, diagnostics in found.items():
        for one in diagnostics:
            identity = (one.code, one.span, one.message)
            first.setdefault(identity, one)
            selections.setdefault(identity, []).append(selection)
    return [
        replace(one, profiles=() if _is_option(one) else _names(selections[identity]))
        for identity, one in first.items()
    ]


def _names(selections: Sequence[Selection]) -> tuple[str, ...]:
    """The profiles to name. A combination is named if none of its profiles has the diagnostic alone."""
    if () in selections:
        return ()
    alone = {selection[0] for selection in selections if len(selection) == 1}
    return tuple(
        dict.fromkeys(
            " + ".join(selection)
            for selection in selections
            if len(selection) == 1 or alone.isdisjoint(selection)
        )
    )


def _for_checks(request: CompileRequest) -> CompileRequest:
    """The request without a plan, and with files that are read once for all compilations."""
    from functools import cache

    return replace(
        request,
        # Only the lockfile is compared with the plan.
        needs_plan=request.lock is not None,
        read=cache(request.read),
        digest=cache(request.digest) if request.digest else None,
        read_prefix=cache(request.read_prefix) if request.read_prefix else None,
    )
