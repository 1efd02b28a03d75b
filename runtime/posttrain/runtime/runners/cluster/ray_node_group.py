"""A job on several nodes of a Ray cluster: one actor on each node, in a placement group.

A detached actor owns the placement group and the other actors, so that Ray removes all of them when it ends,
whatever happens to the client. It ends when the program of node 0 does. Ray transfers the classes by value:
they use no module of this project.
"""

import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class NodeActor:
    """Runs the program of the job on one node."""

    def __init__(self, job: str, index: int, command: list[str], environment: dict[str, str]) -> None:
        import ray

        environment = dict(environment)
        output = environment.pop("POSTTRAIN_CLUSTER_OUTPUT")
        variables = {**os.environ, **environment, "POSTTRAIN_CLUSTER_JOB": job}
        variables["POSTTRAIN_CLUSTER_PARENT"] = str(os.getpid())
        variables["POSTTRAIN_CLUSTER_NODE_INDEX"] = str(index)
        # As the bridge names it, which lists the nodes.
        own = ray.get_runtime_context().get_node_id()
        address = next(node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == own)
        variables["POSTTRAIN_CLUSTER_NODE"] = f"{address}/{own[:8]}"
        with Path(output).open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=variables
            )

    def wait(self) -> int:
        return self._process.wait()

    def terminate(self) -> None:
        self._process.terminate()


class NodeGroupActor:
    """Owns the placement group and the actors of a job."""

    def __init__(
        self,
        name: str,
        namespace: str,
        command: list[str],
        environment: dict[str, str],
        bundle: dict[str, float],
        excluded: list[str],
        nodes: int,
    ) -> None:
        self._name, self._namespace = name, namespace
        self._command, self._environment = command, environment
        self._bundle, self._excluded, self._nodes = bundle, excluded, nodes
        self._actors: list[Any] = []
        threading.Thread(target=self._run, daemon=True).start()

    def terminate(self) -> None:
        for actor in self._actors:
            actor.terminate.remote()

    def finish(self) -> None:
        import ray.actor

        ray.actor.exit_actor()

    def _run(self) -> None:
        import ray
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        labels = {"ray.io/node-id": f"!in({','.join(self._excluded)})"} if self._excluded else {}
        group = placement_group(
            [self._bundle] * self._nodes,
            strategy="STRICT_SPREAD",
            bundle_label_selector=[labels] * self._nodes,
        )
        try:
            ray.get(group.ready())
            own = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
            options: dict[str, Any] = {own[name]: self._bundle[name] for name in own if name in self._bundle}
            options["resources"] = {name: value for name, value in self._bundle.items() if name not in own}
            for index in range(self._nodes):
                placed = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                kind = ray.remote(NodeActor).options(
                    scheduling_strategy=placed, max_restarts=0, max_concurrency=2, **options
                )
                self._actors.append(kind.remote(self._name, index, self._command, self._environment))
            ray.get(self._actors[0].wait.remote())
            # The other programs see the end of the first one, and end by themselves.
            ray.wait([actor.wait.remote() for actor in self._actors], num_returns=self._nodes, timeout=15)
        except Exception as error:
            with Path(self._environment["POSTTRAIN_CLUSTER_OUTPUT"]).open("a") as log:
                log.write(f"{type(error).__name__}: {error}\n")
        finally:
            remove_placement_group(group)
            ray.get_actor(self._name, self._namespace).finish.remote()
            time.sleep(10)
            os._exit(0)  # Ray did not answer


def submit_group(
    ray: Any, name: str, namespace: str, job: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Create the actors of a job. `options` are those of a detached actor."""
    import sys

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    own = {**options, "num_cpus": 0}
    if job["excluded"]:  # Ray may not know yet that they are dead
        own["label_selector"] = {"ray.io/node-id": f"!in({','.join(job['excluded'])})"}
    actor = ray.remote(NodeGroupActor).options(**own)
    actor.remote(
        name,
        namespace,
        list(job["command"]),
        dict(job["environment"]),
        dict(job["bundle"]),
        list(job["excluded"]),
        job["nodes"],
    )
