"""One AppWorld task. Runs in AppWorld's interpreter, without this package."""

import os
import re
import shutil
from importlib import import_module
from typing import Any

_CODE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)


class AppWorldEpisode:
    def __init__(self, version: str) -> None:
        from importlib.metadata import version as installed

        if installed("appworld") != version:
            raise RuntimeError(f"AppWorld {installed('appworld')} is installed, but {version} is required")
        self._world: Any = None

    def reset(self, row: dict[str, Any], seed: int) -> str:
        # A separate output folder: several episodes may run the same task.
        self._world = import_module("appworld").AppWorld(
            task_id=row["task_id"], experiment_name=f"posttrain-{os.getpid()}", random_seed=seed % 2**31
        )
        task = self._world.task
        person = task.supervisor
        return (
            f"My name is {person.first_name} {person.last_name}, my email is {person.email} and my phone"
            f" number is {person.phone_number}. Do this task for me with the Python variable `apis`, then"
            f" call apis.supervisor.complete_task().\n\n{task.instruction}"
        )

    def step(self, text: str) -> tuple[str, bool]:
        """Run the code of a turn: its fenced blocks, or the whole text if it has none."""
        blocks = _CODE.findall(text)
        output = self._world.execute("\n".join(blocks) if blocks else text)
        return str(output).strip(), bool(self._world.task_completed())

    def score(self) -> float:
        result = self._world.evaluate()
        return result.pass_count / result.num_tests if result.num_tests else 0.0

    def close(self) -> None:
        folder = self._world.base_output_directory
        self._world.close()
        shutil.rmtree(folder, ignore_errors=True)
