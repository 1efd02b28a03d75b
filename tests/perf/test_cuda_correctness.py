"""The parts of the GPU measurements that check results run on a CPU: installation, methods, resume."""

from pathlib import Path

import pytest
from tests.perf.cuda_runs import cells, run_dry, table

pytestmark = pytest.mark.slow


def test_libraries_import_and_their_kernels_agree_with_torch(tmp_path: Path) -> None:
    found = run_dry("install", tmp_path)
    imports = table(found, "Imports")
    assert {cells(imports, "imports")[name] for name in ("torch", "trl", "datasets", "posttrain")} == {"yes"}
    kernels = table(found, "Kernels")
    ran = [row for row in kernels.rows if row[1] == "yes"]
    assert len(ran) >= 4
    assert all(float(row[2]) < 0.02 for row in ran)
    assert "no: needs a GPU" in cells(kernels, "runs").values()


def test_methods_train_and_have_the_losses_of_a_trl_script(tmp_path: Path) -> None:
    found = run_dry("methods", tmp_path)
    methods = table(found, "Methods")
    ended = cells(methods, "ended")
    assert "needs a CUDA GPU" in ended.pop("sft_qlora")
    assert set(ended.values()) == {"yes"}
    compared = cells(methods, "TRL script")
    assert {name for name, verdict in compared.items() if verdict == "identical"} == {
        *("start", "sft_full", "sft_lora", "dpo_full", "reward_model_full", "grpo_full"),
    }
    assert cells(methods, "learns")["start"] == "yes"
    generated = table(found, "Evaluation and generation")
    assert set(cells(generated, "ended").values()) == {"yes"}


def test_methods_train_at_the_second_size(tmp_path: Path) -> None:
    found = run_dry("methods_large", tmp_path)
    methods = table(found, "Methods")
    compared = cells(methods, "TRL script")
    assert compared == {
        "start": "identical",
        "sft_full": "identical",
        "sft_lora": "identical",
        "sft_qlora": "",
    }


def test_killed_stages_of_all_methods_resume_identically(tmp_path: Path) -> None:
    found = run_dry("resume", tmp_path)
    resumed = table(found, "Killed and resumed")
    identical = dict.fromkeys(("grpo", "sft", "dpo", "reward_model", "ppo"), "identical")
    assert cells(resumed, "undisturbed runs") == identical
    assert cells(resumed, "resumed run") == identical
    assert all(step.isdecimal() for step in cells(resumed, "killed after step").values())
    assert all(cells(resumed, "resumed at step").values())
    causes = table(found, "What makes two runs equal")
    assert {row[2] for row in causes.rows} == {"identical"}
    assert len(causes.rows) == 4
