"""Runs a plan: checks that it can run here, executes its steps, and records the run in the home.

Every client calls this function: the command line, and programs that compile a recipe or read a plan file.
"""

from collections.abc import Container, Generator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.execution.executor import execute
from posttrain.runtime.execution.run_context import RunContext, ignore_product
from posttrain.runtime.execution.run_errors import HomeNotWritable, PreflightFailed
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.selection import Selection, SelectionOptions, check_selection, select_steps
from posttrain.runtime.execution.step_progress import SATISFIED_STATES
from posttrain.runtime.execution.stop_request import StopRequest
from posttrain.runtime.machine import Machine, this_machine
from posttrain.runtime.preflight.finding import has_errors
from posttrain.runtime.preflight.run_preflight import run_preflight
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.runners.place_connection import connect_place, create_dispatch
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.run_labels import RunLabels
from posttrain.runtime.store.runs import finish_run, new_run
from posttrain.spec.place import Place
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.artifacts.shared_cache import SharedCache
    from posttrain.runtime.runners.cluster.scheduler import Scheduler

# Steps in these states have not changed anything, so the run needs no report.
_UNCHANGED_STATES = ("cached", "skipped")


@record(kw_only=True)
class CacheOptions:
    """A repository of a registry that shares products."""

    reference: Reference
    # Whether new products are pushed to it.
    writes: bool = True


@record(kw_only=True)
class RunOptions:
    """How to run a plan."""

    # The file from which the plan was compiled. It is not read: its folder contains the user's files.
    recipe: Path
    # The stages to run; all steps of the plan when None.
    selection: SelectionOptions | None = None
    # The resources that the steps can use; those of this machine when None.
    machine: Machine | None = None
    # The cluster on which the steps run; None for this machine.
    place: Place | None = None
    # Whether to send metrics to the trackers that the plan names.
    track: bool = True
    # Whether to write the HTML report at the end.
    report: bool = True
    # The registry with the products of others; None to use only those of the home.
    cache: CacheOptions | None = None
    # What the user calls the run. No key contains it.
    labels: RunLabels | None = None


@record(kw_only=True)
class RunResult:
    """The result of a run that started."""

    # The folder of the run.
    run: Path
    # The final state of each step of the plan, by id.
    states: Mapping[str, str]
    # Whether a stop was requested.
    stopped: bool
    # The report; None when it was not requested, when no step ran, or after an error.
    report: Path | None = None
    # Why the report could not be written. It does not change the result of the run.
    report_error: str = ""

    @property
    def succeeded(self) -> bool:
        return all(state in SATISFIED_STATES for state in self.states.values())


def run_plan(
    plan: Plan,
    home: Home,
    options: RunOptions,
    observer: RunObserver | None = None,
    stop_request: StopRequest | None = None,
) -> RunResult:
    """Run a plan; finished steps are not run again, and interrupted ones resume.

    Returns the result also when steps fail. Raises `RunRefused` if the run cannot start. `stop_request` stops
    the run from a signal handler or from another thread.
    """
    observer = observer or RunObserver()
    stop_request = stop_request or StopRequest()
    selection = None if options.selection is None else select_steps(plan, options.selection)
    if problem := home.write_problem():
        raise HomeNotWritable(home.root, problem)
    machine = options.machine or this_machine(gpus=any(step.resources.gpus for step in plan.steps))
    with (
        connect_place(options.place) as scheduler,
        _shared_cache(options, home, observer, stop_request) as cache,
    ):
        chosen = [step for step in plan.steps if selection is None or step.id in selection.steps]
        products = [] if cache is None else cache.find(chosen)
        start = _StartCheck(plan, home, options, selection, machine, observer, scheduler)
        start.check({product.step.key for product in products})
        if cache is not None and not cache.fetch(products):
            start.check(())  # steps that will run after all
        run = new_run(home, plan, options.recipe.absolute(), options.labels)
        with closing(Journal(run / "journal.sqlite")) as journal, _mark_active(home, run):
            context = RunContext(
                home=home,
                recipe_dir=options.recipe.parent,
                journal=journal,
                on_state_change=observer.on_change,
                on_product=ignore_product if cache is None else cache.push,
                run_name=run.name,
                selection=selection,
                runner=create_dispatch(options.place, scheduler),
                stop_request=stop_request,
                machine=machine,
                place=options.place,
            )
            with _launch_trackers(context, plan, run, options, observer), observer.execution(run):
                states = execute(plan, context)
            finish_run(journal, states)
    result = RunResult(run=run, states=states, stopped=stop_request.level > 0)
    return _with_report(home, result) if options.report else result


@contextmanager
def _shared_cache(
    options: RunOptions, home: Home, observer: RunObserver, stop_request: StopRequest
) -> "Generator[SharedCache | None]":
    """The cache of a run. Its uploads end before the run does, unless it is stopped at once."""
    if options.cache is None:
        yield None
        return
    from posttrain.runtime.artifacts.shared_cache import SharedCache

    def report(step: Step, done: int, total: int) -> None:
        observer.on_change(step.id, "fetching", {"done": done, "total": total})

    cache = SharedCache(
        home, options.cache.reference, writes=options.cache.writes, note=observer.note, on_fetch=report
    )
    try:
        yield cache
    finally:
        cache.close(wait=stop_request.level < 2)


@contextmanager
def _mark_active(home: Home, run: Path) -> Generator[None]:
    """Hold the lock of an active run."""
    alive = acquire_lock(home.run_lock(run))
    try:
        yield
    finally:
        alive.discard()


@record
class _StartCheck:
    """What a run needs before it starts."""

    plan: Plan
    home: Home
    options: RunOptions
    selection: Selection | None
    machine: Machine
    observer: RunObserver
    scheduler: "Scheduler | None"

    def check(self, fetched: Container[str]) -> None:
        """Check that every selected step has its inputs, and everything else that the preflight can see.

        `fetched` are the keys of products that will be in the store.
        """

        def is_finished(step: Step) -> bool:
            return step.pinned and (step.key in fetched or self.home.store.find(step.key) is not None)

        if self.selection is not None:
            check_selection(self.plan, self.selection, is_finished)
        findings = run_preflight(
            self.plan,
            self.home,
            self.options.recipe.parent,
            None if self.selection is None else self.selection.steps,
            self.machine,
            self.options.place,
            self.scheduler,
            is_finished=is_finished,
        )
        if findings:
            self.observer.on_findings(findings)
        if has_errors(findings):
            raise PreflightFailed(findings)


def _launch_trackers(
    context: RunContext, plan: Plan, run: Path, options: RunOptions, observer: RunObserver
) -> AbstractContextManager[object]:
    if not plan.tracking or not options.track:
        return nullcontext()
    from posttrain.runtime.trackers.tracker_launcher import TrackerLauncher

    return TrackerLauncher(plan, context.home, run, observer.note, lambda: context.stop_request.level > 1)


def _with_report(home: Home, result: RunResult) -> RunResult:
    """Write the report, if the run changed anything."""
    from posttrain.runtime.report.report_writer import write_report

    if all(state in _UNCHANGED_STATES for state in result.states.values()):
        return result
    try:
        return replace(result, report=write_report(home, result.run))
    except Exception as error:
        return replace(result, report_error=str(error))
