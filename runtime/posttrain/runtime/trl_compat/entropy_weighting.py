"""Weights the entropy bonus of a micro-batch by its tokens.

GRPO's entropy bonus is a mean over the tokens of a micro-batch, averaged over the micro-batches of an
optimizer step and over the processes. Tokens of short completions would weigh more, and the result would
depend on the micro-batch size. Here the bonus is the mean over all tokens of the step.

    trl/trainer/grpo_trainer.py:3200 `GRPOTrainer._compute_loss`: `effective_mask.sum().clamp(min=1.0)`
"""

from typing import Any


def entropy_weighting_trainer(base: Any) -> Any:
    """Derive a GRPO trainer class with the mean entropy of an optimizer step as its bonus.

    An adaptive coefficient, and a bonus on high-entropy tokens only, are left as they are.
    """

    class EntropyWeightingTrainer(base):
        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            if not self.entropy_coef or self.use_adaptive_entropy or self.top_entropy_quantile < 1.0:
                return super()._compute_loss(model, inputs)
            coefficient = self.entropy_coef
            self.entropy_coef = coefficient * self._token_weight(inputs)
            try:
                return super()._compute_loss(model, inputs)
            finally:
                self.entropy_coef = coefficient
                logged = self._metrics["train"].get("entropy_coef")
                if logged:
                    logged[-1] = coefficient

        def _token_weight(self, inputs: Any) -> float:
            """Return the micro-batch's tokens in relation to the mean of the step's micro-batches."""
            number, size = (
                self._step % self.args.steps_per_generation,
                self.current_gradient_accumulation_steps,
            )
            first = number - number % size
            step = sum(_loss_tokens(one) for one in self._buffered_inputs[first : first + size])
            step = self.accelerator.reduce(step, reduction="sum").clamp(min=1)
            return float(_loss_tokens(inputs) * size * self.accelerator.num_processes / step)

    return EntropyWeightingTrainer


def _loss_tokens(inputs: Any) -> Any:
    mask = inputs["completion_mask"]
    return (mask if "tool_mask" not in inputs else mask * inputs["tool_mask"]).sum()
