"""The connection to a Ray cluster: `python -m posttrain.runtime.runners.cluster.ray_bridge ADDRESS`.

A process of its own imports Ray, which takes seconds and starts threads; the client imports only the
runners. It reads requests as lines of JSON and answers each with one line: {"result": ...} or {"error": ...,
"retriable": ...}.

A job is a detached actor, which outlives this process. It starts the program of the job as a child process
and ends with it. An actor's name has a random suffix, so that a pool can have several.
"""

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMESPACE = "posttrain"
_CONNECT_SECONDS = 5.0


class JobActor:
    """Runs the program of a job. Ray transfers this class by value: it uses no module of this project."""

    def __init__(self, name: str, namespace: str, command: list[str], environment: dict[str, str]) -> None:
        self._name, self._namespace = name, namespace
        output = environment.pop("POSTTRAIN_CLUSTER_OUTPUT")
        variables = {**os.environ, **environment, "POSTTRAIN_CLUSTER_JOB": name}
        variables["POSTTRAIN_CLUSTER_PARENT"] = str(os.getpid())
        with Path(output).open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=variables
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                raise
        threading.Thread(target=self._end_with_process, daemon=True).start()

    def terminate(self) -> None:
        self._process.terminate()

    def finish(self) -> None:
        import ray.actor

        ray.actor.exit_actor()

    def _end_with_process(self) -> None:
        import ray

        self._process.wait()
        ray.get_actor(self._name, self._namespace).finish.remote()
        time.sleep(10)
        os._exit(0)  # Ray did not answer


class RayBridge:
    """Answers the requests of a client."""

    def __init__(self, address: str) -> None:
        if address != "auto":  # Ray itself needs two minutes to find out that nothing listens
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        import ray

        self._ray = ray
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)

    def answer(self, request: Mapping[str, Any]) -> Any:
        match request["call"]:
            case "submit":
                return self._submit(request["job"])
            case "jobs":
                # Of all namespaces, it returns their names too; its type says only text.
                listed: list[Any] = list(self._ray.util.list_named_actors(all_namespaces=True))
                return [one["name"] for one in listed if one["namespace"] == NAMESPACE]
            case "nodes":
                return self._nodes()
            case "terminate":
                self._actor(request["id"]).terminate.remote()
            case call:
                assert call == "kill", "the scheduler makes no other call"
                self._ray.kill(self._actor(request["id"]), no_restart=True)
        return None

    def _actor(self, name: str) -> Any:
        return self._ray.get_actor(name, NAMESPACE)

    def _nodes(self) -> list[dict[str, Any]]:
        return [
            {"name": _node_name(node), "resources": node["Resources"]}
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def _submit(self, job: Mapping[str, Any]) -> str:
        name = f"{job['name']}.{secrets.token_hex(4)}"
        options: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_restarts": 0,
        }
        if job["nodes"] > 1:
            from posttrain.runtime.runners.cluster.ray_node_group import submit_group

            lost = [node["NodeID"] for node in self._ray.nodes() if _node_name(node) in job["excluded"]]
            submit_group(self._ray, name, NAMESPACE, {**job, "excluded": lost}, options)
            return name
        options |= job["options"]
        if job["node"]:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            ids = {_node_name(node): node["NodeID"] for node in self._ray.nodes()}
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(ids[job["node"]], soft=False)
        actor = self._ray.remote(JobActor).options(**options)
        actor.remote(name, NAMESPACE, list(job["command"]), dict(job["environment"]))
        return name


def _node_name(node: Mapping[str, Any]) -> str:
    """The address, which several nodes of one machine have, and the beginning of the id."""
    return f"{node['NodeManagerAddress']}/{node['NodeID'][:8]}"


def main(address: str) -> None:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Ray prints
    try:
        bridge = RayBridge(address)
    except Exception as error:
        _reply(
            replies,
            {
                "error": getattr(error, "strerror", None) or str(error) or type(error).__name__,
                "retriable": isinstance(error, OSError),
            },
        )
        return
    _reply(replies, {"result": None})
    for line in sys.stdin:
        try:
            _reply(replies, {"result": bridge.answer(json.loads(line))})
        except Exception as error:
            # An actor that ended has no name any more.
            _reply(
                replies,
                {"error": f"{type(error).__name__}: {error}", "retriable": not isinstance(error, ValueError)},
            )


def _reply(replies: Any, message: Mapping[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(sys.argv[1])
