"""The reference model that a stage names, for trainers that load their own."""

import pytest
from tests.runtime.trl_compat.necessity import obsolete, parameters
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.kto_trainer import KTOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer


@pytest.mark.parametrize("trainer", [GRPOTrainer, RLOOTrainer])
def test_the_trainer_takes_no_reference_model(trainer: type) -> None:
    assert "ref_model" not in parameters(trainer.__init__), obsolete("named_reference")


@pytest.mark.parametrize("trainer", [DPOTrainer, KTOTrainer])
def test_other_trainers_take_one(trainer: type) -> None:
    assert "ref_model" in parameters(trainer.__init__)
