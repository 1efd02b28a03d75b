"""A Jinja sandbox with a limit on the work of one rendering, for chat templates.

A template comes with a model or from a user, and can loop endlessly. The limit counts steps of loops, calls
of macros, and the sizes of the values that operations read or create. It does not measure time: a template
succeeds or fails on every machine alike. Operations whose result can be much larger than their operands, such
as a repetition or a text format, are estimated before they run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import wraps
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType
from typing import Any, cast

from jinja2 import Environment, Template, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from posttrain.runtime.models.template_budget import Budget, check_arguments, check_product, too_much

MAX_TEMPLATE_CHARS = 1_000_000
_CHARGE, _LOOP, _STEP = "posttrain_charge", "posttrain_loop", "posttrain_step"
# These format or repeat by an integer argument.
_WIDTH_FILTERS = frozenset({"center", "indent", "batch", "slice", "wordwrap", "tojson", "truncate"})
_MACRO_UNITS = 20  # a call takes as long as this many steps of a loop
# What Jinja passes to filters in addition to their arguments.
_NOT_VALUES = (Environment, Context, nodes.EvalContext)


class _BoundedTemplate(Template):
    def new_context(self, *args: Any, **options: Any) -> Context:
        """Start a rendering. The first argument has the variables of the template."""
        environment: Any = self.environment
        environment.budget.reset(args[0] if args else options.get("vars"))
        return super().new_context(*args, **options)


class _Filters(dict[str, Any]):
    """The filters of an environment. Each one that is added gets a limit."""

    def __init__(self, filters: Mapping[str, Any], budget: Budget) -> None:
        super().__init__()
        self._budget = budget
        for name, function in filters.items():
            self[name] = function

    def __setitem__(self, name: str, function: Callable[..., Any]) -> None:
        budget = self._budget

        @wraps(function)
        def limited(*args: Any, **options: Any) -> Any:
            values = [arg for arg in (*args, *options.values()) if not isinstance(arg, _NOT_VALUES)]
            budget.spend(1 + sum(len(value) for value in values if isinstance(value, str)))
            check_arguments(name, values, budget, widths=name in _WIDTH_FILTERS)
            return budget.charge(function(*args, **options))

        super().__setitem__(name, limited)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The environment in which chat templates run."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})
    template_class = _BoundedTemplate

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.budget = Budget()
        self.filters: Any = _Filters(self.filters, self.budget)
        dict.update(
            self.filters,
            {_CHARGE: self.budget.charge, _LOOP: self._loop, _STEP: self._step},
        )
        self.finalize = self.budget.charge

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise too_much(f"has {len(source)} characters; the limit is {MAX_TEMPLATE_CHARS}")
        self.budget.reset()  # constant expressions are evaluated while the template is compiled
        template = super()._parse(source, name, filename)
        _Limiter().visit(template)
        template.set_environment(self)
        return template

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator in ("*", "**"):
            check_product(operator, left, right, self.budget)
        elif operator == "%" and isinstance(left, str):
            parts = cast(tuple[Any, ...], right) if isinstance(right, tuple) else (right,)
            check_arguments("format", [left, *parts], self.budget, widths=True)
        return self.budget.charge(super().call_binop(context, operator, left, right))

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        of = getattr(__obj, "__self__", None)
        values = [*args, *kwargs.values()]
        if isinstance(of, str | bytes | int | list | tuple | Mapping):
            self.budget.charge(of)
            check_arguments(getattr(__obj, "__name__", ""), [of, *values], self.budget, widths=True)
        elif isinstance(__obj, FunctionType | BuiltinFunctionType | BuiltinMethodType):
            check_arguments("", values, self.budget, widths=True)
        result = super().call(__context, __obj, *args, **kwargs)
        return result if isinstance(result, Namespace) else self.budget.charge(result)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` with a limit. The sandbox replaces the method by a function without its text."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = value.__self__

        @wraps(wrapped)
        def limited(*args: Any, **kwargs: Any) -> str:
            check_arguments("format", [text, *args, *kwargs.values()], self.budget, widths=True)
            return wrapped(*args, **kwargs)

        return limited

    def _loop(self, values: Any) -> Any:
        """The values of a loop, whose items are counted."""
        if isinstance(values, Sized):
            self.budget.spend(1 + len(values))
            return values
        return self._counted(values) if isinstance(values, Iterable) else values

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.budget.spend(1)
            yield value

    @pass_context
    def _step(self, _context: Context, units: int) -> str:
        """A run of the body of a loop or a macro, which outputs this many characters of plain text.

        It takes a context so that Jinja does not evaluate it when the template is compiled.
        """
        self.budget.spend(1 + units)
        return ""


class _Limiter(NodeTransformer):
    """Adds the limits to the syntax tree of a template."""

    def visit(self, node: nodes.Node, *args: Any, **options: Any) -> nodes.Node:
        self.generic_visit(node)
        match node:
            case nodes.For():
                node.iter = _filtered(node.iter, _LOOP)
                node.body.insert(0, _step(node))
            case nodes.Macro() | nodes.CallBlock():
                node.body.insert(0, _step(node, _MACRO_UNITS))
            case nodes.Compare():
                node.expr = _charged(node.expr)
                for operand in node.ops:
                    operand.expr = _charged(operand.expr)
            case nodes.Concat():
                node.nodes = [_charged(operand) for operand in node.nodes]
                return _charged(node)
            case nodes.List() | nodes.Dict():
                return _charged(node)
            case nodes.Tuple(ctx="load") | nodes.Getitem(ctx="load", arg=nodes.Slice()):
                return _charged(node)
            case _:
                pass
        return node


def _charged(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filtered(node, _CHARGE)


def _filtered(node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _step(node: nodes.Node, units: int = 0) -> nodes.Stmt:
    units += sum(len(data.data) for data in node.find_all(nodes.TemplateData))
    return nodes.ExprStmt(_filtered(nodes.Const(units, lineno=node.lineno), _STEP), lineno=node.lineno)
