"""Builds runs with the classes of the runtime, and drives a browser to inspect their reports."""

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posttrain.runtime import atomic_io
from posttrain.runtime.events import EventWriter
from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_reader import read_run
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import finish_run, new_run, run_key
from posttrain.spec.keys import digest, key_parts
from posttrain.spec.plan import Plan, SourceLocation, Step, StepInput

REWARD = {
    "reads": {"completion": "text", "answer": "text"},
    "nodes": [
        {"id": "right.when", "op": "equal", "operands": {}, "params": {}},
        {
            "id": "right",
            "op": "score",
            "operands": {
                "when": {"node": "right.when"},
                "then": {"value": 3.0},
                "else": {"value": -1.0},
            },
            "params": {},
        },
    ],
    "returns": "right",
}
METRICS = {"accuracy": {"kind": "rate", "node": "right.when"}}


def make_step(id: str, kind: str = "train", **fields: Any) -> Step:
    """A step of a plan; inputs can be ids of other steps."""
    inputs = fields.pop("inputs", ())
    if not isinstance(inputs, dict):
        inputs = {name: StepInput(step=name) for name in inputs}
    values = {"kind": kind, "id": id, "environment": {"torch": "2.13.0"}}
    return Step(
        id=id,
        kind=kind,
        entry="posttrain.runtime.verbs.script:run",
        params=fields.pop("params", {}),
        place=SourceLocation(file="recipe.yaml", line=3, column=1),
        key=digest(values),
        key_parts=key_parts(values),
        key_values=values,
        inputs=inputs,
        **fields,
    )


def make_plan(*steps: Step, **fields: Any) -> Plan:
    about = {"name": "sums", "description": "It learns to add.", "seed": 7, "target": {"nodes": 1}}
    return Plan(steps=steps, tracking=("tensorboard",), **{**about, **fields})


def make_run(*steps: Step | StepRecord, **fields: Any) -> RunRecord:
    """A run record without a folder; each plain step took ten seconds."""
    records = [
        StepRecord(step=s, key=s.key, state="done", attempt=1, began=10.0 * n, ended=10.0 * n + 10)
        if isinstance(s, Step)
        else s
        for n, s in enumerate(steps)
    ]
    about = {
        "name": "20260101-000000-sums",
        "recipe": "recipe.yaml",
        "plan": make_plan(*(record.step for record in records)),
        "began": 0.0,
        "ended": 10.0 * len(records),
        "result": "finished",
    }
    return RunRecord(steps=tuple(records), **{**about, **fields})


class RunBuilder:
    """Creates a run in a home with the classes of the runtime."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.run = root
        self.states: dict[str, str] = {}

    def begin(self, *steps: Step, **about: Any) -> None:
        self.run = new_run(self.home, make_plan(*steps, **about), Path("recipes/sums/recipe.yaml"))
        self.journal = Journal(self.run / "journal.sqlite")
        self.plan = make_plan(*steps)

    def key(self, id: str) -> str:
        return run_key(self.plan.step(id), self.run.name)

    def work(self, id: str, events: list[tuple[str, dict[str, Any]]] = (), log: str = "") -> Path:
        """The working directory of a step with events."""
        work = self.home.workdir(self.key(id))
        workdir.prepare(work, self.plan.step(id), {}, self.run)
        writer = EventWriter(work / "record" / "events.jsonl")
        writer.emit("started", attempt=1)
        for kind, fields in events:
            writer.emit(kind, **fields)
        (work / "record" / "log").write_text(log)
        self.journal.update_step(id, "running", reason="", attempt=1)
        return work

    def done(self, id: str, events: list[tuple[str, dict[str, Any]]] = (), **facts: Any) -> None:
        work = self.work(id, events)
        (work / "files").mkdir()
        (work / "files" / "model.safetensors").write_bytes(b"weights")
        known = {"facts": facts, "cost": {"seconds": 2.5, "peak_memory_mb": 120.0}}
        receipt = workdir.write_receipt(work, self.plan.step(id).key, **known)
        workdir.commit(work, self.plan.step(id), self.key(id), receipt, self.home.store)
        self.settle(id, "done", **known)

    def cached(self, id: str) -> None:
        manifest = atomic_io.read_json(self.home.store.root / self.key(id) / "manifest.json")
        self.settle(id, "cached", facts=manifest["facts"], cost=manifest["cost"])

    def settle(self, id: str, state: str, reason: str = "", **known: Any) -> None:
        self.states[id] = state
        self.journal.update_step(id, state, reason=reason, **known)

    def end(self) -> None:
        finish_run(self.journal, self.states)
        self.journal.close()

    def record(self, **environment: str) -> RunRecord:
        return read_run(self.home, self.run, environment)

    def page(self, **environment: str) -> str:
        return render_page(self.record(**environment))


@pytest.fixture
def run_builder(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path / "home")


@pytest.fixture(scope="session")
def make() -> Any:
    """The builders above, for tests that need no folder."""

    class Makers:
        step = staticmethod(make_step)
        plan = staticmethod(make_plan)
        run = staticmethod(make_run)
        reward = REWARD
        metrics = METRICS

    return Makers


@pytest.fixture(scope="session")
def browser(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    found = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors do not collide with the standard ones."""
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return above[0], above[1]


class Browser:
    """Chromium, driven over the pipes of its DevTools protocol."""

    def __init__(self, program: Path, profile: Path) -> None:
        (command_in, command_out), (reply_in, reply_out) = _pipe(), _pipe()
        # Chromium reads the protocol from descriptor 3 and writes it to descriptor 4.
        joined = f'exec "$0" "$@" 3<&{command_in} 4>&{reply_out}'
        command = ["bash", "-c", joined, str(program), *_FLAGS, f"--user-data-dir={profile}"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, pass_fds=(command_in, reply_out), stdout=quiet, stderr=quiet)
        os.close(command_in)
        os.close(reply_out)
        self._commands, self._replies = os.fdopen(command_out, "wb"), os.fdopen(reply_in, "rb")
        self._rest = b""
        self._number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.session = None
        self.call("Browser.close")
        self.process.wait(30)
        self._commands.close()
        self._replies.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._replies.fileno(), 1 << 20)
            assert data, "the browser is gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def look(self, width: int = 1280, height: int = 900, scheme: str = "light", script: bool = True) -> None:
        """Set how the browser displays the page."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)

    def open(self, page: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Console messages of any level, and exceptions, since the page was opened."""
        self.value("new Promise(requestAnimationFrame)")
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in methods]

    def requests(self) -> list[str]:
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag with the left button."""
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        for kind, (x, y) in (
            ("mouseMoved", start),
            ("mousePressed", start),
            ("mouseMoved", middle),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            held = {"button": "left", "buttons": 1, "clickCount": 1} if kind != "mouseMoved" else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)
