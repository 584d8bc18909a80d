"""No class is above 400 lines or 30 methods."""

from __future__ import annotations

import ast

from tests.house.test_layering import modules

LINES, METHODS = 400, 30


def sizes(tree):
    """Yield the name of each class, its lines with decorators, and the methods in its body."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield node.name, node.end_lineno - first + 1, len(methods)


def too_large(tree):
    return {name for name, lines, methods in sizes(tree) if lines > LINES or methods > METHODS}


def test_no_class_is_too_large():
    assert set().union(*(too_large(tree) for _, tree in modules())) == set()


def test_a_class_above_a_limit_is_found():
    methods = [f"    def m{i}(self): pass" for i in range(METHODS)]
    whole = ["class C:", *methods, *(["    x = 1"] * (LINES - METHODS - 1))]
    assert next(sizes(ast.parse("\n".join(whole)))) == ("C", LINES, METHODS)
    assert too_large(ast.parse("\n".join(whole))) == set()
    assert too_large(ast.parse("\n".join([*whole, "    x = 1"]))) == {"C"}
    assert too_large(ast.parse("\n".join(["class C:", *methods, "    def more(self): pass"]))) == {"C"}
