"""Mutants of a module: its functions with one small change each.

Only bodies of functions are changed, no defaults, decorators, annotations, assertions, texts of
errors or lines of a log: what stands outside of functions ran before a mutant takes their place.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_UNTOUCHED = (ast.Assert, ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
"""Nothing inside of these is changed."""

_LOGGED = re.compile(r"_?log(ger)?\.(debug|info|warning|error|exception)\(")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one place.

    Attributes:
        path: The module's file.
        function: The qualified name of the innermost function around it.
        first_line: Where that begins, its decorators included.
        line: Where the change is.
        before: The statement, or the first line of it.
        after: The same with the change.
        number: Which one of its module's.
    """

    path: str
    function: str
    first_line: int
    line: int
    before: str
    after: str
    number: int


@dataclass(frozen=True, slots=True)
class _Site:
    """A place that can be changed, and what changes it."""

    function: str
    first_line: int
    line: int
    statement: ast.stmt
    is_removed: bool
    change: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mutation is; see `Mutation`."""

    path: str
    function: str
    line: int
    number: int

    def mutation(self) -> Mutation:
        """Return what is changed there."""
        tree = ast.parse(Path(self.path).read_text(encoding="utf-8"))
        site = _nth(tree, self.number)
        before = _first_line(site.statement)
        site.change()
        after = "pass" if site.is_removed else _first_line(site.statement)
        return Mutation(
            self.path, site.function, site.first_line, site.line, before, after, self.number
        )


def places(path: str) -> list[Place]:
    """Return where the mutations of a module are, all of them."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return [Place(path, one.function, one.line, at) for at, one in enumerate(_sites(tree))]


def mutate(path: str, number: int) -> ast.Module:
    """Return a module with one of its mutations."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    _nth(tree, number).change()
    return ast.fix_missing_locations(tree)


def _nth(tree: ast.Module, number: int) -> _Site:
    return next(site for at, site in enumerate(_sites(tree)) if at == number)


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]


def _sites(tree: ast.Module) -> Iterator[_Site]:
    yield from _definitions(tree.body, "")


def _definitions(body: list[ast.stmt], outer: str) -> Iterator[_Site]:
    """Find the functions of a module or class."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{outer}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(node, outer)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, outer: str) -> Iterator[_Site]:
    name = f"{outer}{node.name}"
    first_line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    for statement, change, line, is_removed in _statements(node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(statement, f"{name}.<locals>.")
        elif change is not None:
            yield _Site(name, first_line, line, statement, is_removed, change)


_Found = tuple[ast.stmt, Callable[[], None] | None, int, bool]


def _statements(body: list[ast.stmt]) -> Iterator[_Found]:
    """Give the changes of statements, and the functions among them without any."""
    for at, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node, None, 0, False
            continue
        if _is_told(node):
            continue
        if isinstance(node, ast.Raise) or _is_call(node):
            put = ast.copy_location(ast.Pass(), node)
            yield node, partial(body.__setitem__, at, put), node.lineno, True
        if isinstance(node, _UNTOUCHED):
            continue
        yield from _of_statement(body, at, node)
        for _, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            for part in parts:
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    yield from _statements(part.body)
            if parts and isinstance(parts[0], ast.ExceptHandler | ast.match_case):
                continue
            if parts and isinstance(parts[0], ast.stmt):
                yield from _statements(value)
            else:
                for change, line in _expressions(node, value):
                    yield node, change, line, False


def _is_told(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring or a line of a log."""
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or bool(_LOGGED.match(ast.unparse(node)))


def _is_call(node: ast.stmt) -> bool:
    """Say whether a statement is there for what it does: a call, or an `await` of one."""
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    if isinstance(value, ast.Await | ast.YieldFrom | ast.Yield) and value.value is not None:
        value = value.value
    return isinstance(value, ast.Call | ast.Lambda)


def _of_statement(body: list[ast.stmt], at: int, node: ast.stmt) -> Iterator[_Found]:
    """Give the changes of a statement as a whole."""

    def found(change: Callable[[], None]) -> _Found:
        return node, change, node.lineno, False

    match node:
        case ast.If() | ast.While() if _is_negated_as_a_whole(node.test):
            yield found(partial(setattr, node, "test", _negated(node.test)))
        case ast.Return(value=value) if value is not None and not _is_constant(value):
            yield found(partial(setattr, node, "value", ast.Constant(None)))
        case ast.AugAssign(op=op) if type(op) in _CALCULATED:
            yield found(partial(setattr, node, "op", _CALCULATED[type(op)]()))
        case ast.Break() | ast.Continue():
            put = ast.copy_location(ast.Pass(), node)
            yield node, partial(body.__setitem__, at, put), node.lineno, True


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _is_negated_as_a_whole(test: ast.expr) -> bool:
    """Say whether to negate a condition is not what is done to its one comparison anyway."""
    match test:
        case ast.Constant():
            return False
        case ast.Compare(ops=[op]):
            return isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return True


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _expressions(parent: ast.AST, value: Any) -> Iterator[tuple[Callable[[], None], int]]:
    """Give the changes of an expression, or of some, and of all that they consist of."""
    if isinstance(value, list):
        for one in value:
            yield from _expressions(parent, one)
        return
    if not isinstance(value, ast.AST) or isinstance(value, (*_UNTOUCHED, ast.pattern)):
        return
    if isinstance(value, ast.keyword) and value.arg == "strict":  # an assertion of `zip`
        return
    if isinstance(parent, ast.AnnAssign) and value is parent.annotation:
        return
    yield from _of_expression(value)
    for _, part in ast.iter_fields(value):
        yield from _expressions(value, part)


def _of_expression(node: ast.AST) -> Iterator[tuple[Callable[[], None], int]]:
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                if type(op) in _COMPARED:
                    yield partial(ops.__setitem__, at, _COMPARED[type(op)]()), node.lineno
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _CALCULATED:
            if not any(isinstance(one, ast.JoinedStr) for one in (left, right)):
                yield partial(setattr, node, "op", _CALCULATED[type(op)]()), node.lineno
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield partial(setattr, node, "op", other), node.lineno
        case ast.IfExp(test=test) if _is_negated_as_a_whole(test):
            yield partial(setattr, node, "test", _negated(test)), node.lineno
        case ast.UnaryOp(op=ast.USub()):
            yield partial(setattr, node, "op", ast.UAdd()), node.lineno
        case ast.Constant(value=bool() as value):
            yield partial(setattr, node, "value", not value), node.lineno
        case ast.Constant(value=int() as number):
            yield partial(setattr, node, "value", number + 1), node.lineno
        case _:
            return
