"""Whether a finished gate lets what stands after it through."""

from posttrain.runtime.store import Product
from posttrain.spec.plan import Step


def opens(step: Step, product: Product) -> bool:
    """The verdict, read with what the gate says about failures and about verdicts that are open."""
    match product.facts["verdict"]:
        case "pass":
            return True
        case "fail":
            return step.params["on_fail"] == "warn"
        case _:
            return step.params["on_inconclusive"] in ("warn", "pass")
