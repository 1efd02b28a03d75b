"""Runs the steps of action.yml as a runner of GitHub Actions does, with the parts of GitHub that they use."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from tests.recipe_command import ROOT

ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_NAME = re.compile(r"[a-z_]+(?:\.[a-z_-]+)+")


class ActionRun:
    """A job with this action as its only step. `status` is that of the job."""

    def __init__(
        self, workspace: Path, scratch: Path, github: Mapping[str, Any], inputs: Mapping[str, str], api: str
    ) -> None:
        self.scratch = scratch
        self.status = 0
        self.outputs: dict[str, str] = {}
        self.log = ""
        self._workspace, self._api = workspace, api
        self._context: dict[str, Any] = {"github": github, "steps": {}, "inputs": {}}
        for name, one in ACTION["inputs"].items():
            given = inputs.get(name, one.get("default", ""))
            self._context["inputs"][name] = self._expand(given)

    def run(self) -> "ActionRun":
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if")
            is_due = self.status == 0 if condition is None else bool(self._evaluate(condition[3:-2]))
            self._context["steps"][step["id"]] = {"outcome": "skipped", "outputs": {}}
            if is_due:
                self._run_step(step)
        for name, one in ACTION["outputs"].items():
            self.outputs[name] = self._expand(one["value"])
        return self

    @property
    def outcomes(self) -> dict[str, str]:
        return {name: step["outcome"] for name, step in self._context["steps"].items()}

    @property
    def summary(self) -> str:
        return (self.scratch / "summary.md").read_text()

    def _run_step(self, step: Mapping[str, Any]) -> None:
        output = self.scratch / f"output-{step['id']}"
        output.touch()
        (self.scratch / "summary.md").touch()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RECIPE_")},
            "CI": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": self._api,
            "GITHUB_OUTPUT": str(output),
            "GITHUB_REPOSITORY": "org/project",
            "GITHUB_STEP_SUMMARY": str(self.scratch / "summary.md"),
            "RUNNER_TEMP": str(self.scratch),
            **{name: self._expand(str(value)) for name, value in step["env"].items()},
        }
        assert step["shell"] == "bash"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self._workspace,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self.log += done.stdout
        self.status = self.status or done.returncode
        values = dict(line.split("=", 1) for line in output.read_text().splitlines())
        outcome = "failure" if done.returncode else "success"
        self._context["steps"][step["id"]] = {"outcome": outcome, "outputs": values}

    def _expand(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: str(self._evaluate(found[1]) or ""), text)

    def _evaluate(self, expression: str) -> Any:
        """The value of an expression with names, texts, `&&`, `||`, `==` and `!cancelled()`."""
        python = _NAME.sub(lambda found: repr(self._value(found[0])), expression)
        python = python.replace("!cancelled()", "True").replace("&&", "and").replace("||", "or")
        return eval(python, {"__builtins__": {}})

    def _value(self, name: str) -> Any:
        value: Any = self._context
        for part in name.split("."):
            value = cast(dict[str, Any], value).get(part, "") if isinstance(value, Mapping) else ""
        return value


class Comments:
    """The comments of one pull request, behind GitHub's API."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.can_write = True

    def add(self, body: str, kind: str = "Bot") -> dict[str, Any]:
        self.items.append({"id": len(self.items) + 1, "body": body, "user": {"type": kind}})
        return self.items[-1]


@contextmanager
def comment_server(comments: Comments) -> Iterator[str]:
    """The address of a server with the calls that the action makes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(part.split("=") for part in self.path.partition("?")[2].split("&"))
            size, page = int(query["per_page"]), int(query["page"])
            self._answer(200, comments.items[size * (page - 1) : size * page])

        def do_POST(self) -> None:
            self._write(comments.add)

        def do_PATCH(self) -> None:
            comment = comments.items[int(self.path.rpartition("/")[2]) - 1]
            self._write(lambda body: comment.update(body=body) or comment)

        def _write(self, apply: Any) -> None:
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != "Bearer secret-token" or not comments.can_write:
                self._answer(403, {"message": "Resource not accessible by integration"})
            elif len(data["body"]) > 65_536:
                self._answer(422, {"message": "body is too long"})
            else:
                self._answer(201, apply(data["body"]))

        def _answer(self, status: int, value: Any) -> None:
            assert self.path.startswith("/repos/org/project/issues/"), self.path
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def recipe_program(folder: Path) -> Path:
    """A program `recipe` that runs this checkout."""
    path = folder / "recipe"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m posttrain.cli.main "$@"\n')
    path.chmod(0o755)
    return path
