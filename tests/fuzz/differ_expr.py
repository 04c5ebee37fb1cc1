#!/usr/bin/python3
"""Differential fuzz of JMESPath: our expr room against Debian's python3-jmespath.

    tests/fuzz/differ_expr.py PROGRAM SECONDS [SEED]

PROGRAM is tests/fuzz/answer_expr.c, built. Random expressions over random documents go to both;
each difference must be one of those listed below (REASONS), or it ends in an error that shows the
smallest found. Without python3-jmespath it says so and succeeds: `make fuzz` installs it.
"""
import functools
import json
import random
import re
import subprocess
import sys
import time
import types

try:
    import jmespath
    from jmespath import ast, exceptions, functions, visitor
    from jmespath.parser import Parser
except ImportError:
    print("fuzz: differ_expr skipped, python3-jmespath is not installed")
    sys.exit(0)

BATCH = 500
NAMES = ["a", "b", "c", "d", "e_1", '"a b"', '"\\u00e9"', '"a"']
KEYS = ["a", "b", "c", "d", "e_1", "a b", "\u00e9"]
STRINGS = ["", "a", "b", "abc", "10", "-1.5", "x y", "\u00e9\u00e0", "\U0001f600z", "true", "null", "1e3", "A"]
NUMBERS = [0, 1, -1, 2, 3, 10, 1.5, -0.5, 100, 1e3, 2.0, 1000000]


# ---- documents ----

def value(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.45:
        return rng.choice([None, True, False, rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice(STRINGS), rng.choice(STRINGS)])
    if kind < 0.72:
        if rng.random() < 0.5:  # all of one type, as sort, sum and join require
            pool = rng.choice([NUMBERS, STRINGS])
            return [rng.choice(pool) for _ in range(rng.randrange(5))]
        return [value(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {key: value(rng, depth - 1) for key in rng.sample(KEYS, rng.randrange(len(KEYS)))}


# ---- expressions ----

def literal(rng):
    kind = rng.random()
    if kind < 0.35:
        return "'%s'" % rng.choice(STRINGS)
    return "`%s`" % json.dumps(value(rng, 1)).replace("`", "\\`")


def index(rng):
    return str(rng.choice([0, 1, -1, 2, -2, 5, -7]))


def slice_text(rng):
    part = lambda: rng.choice(["", "", index(rng)])
    step = rng.choice(["", ":", ":1", ":2", ":-1", ":-2", ":0"])
    return "[%s:%s%s]" % (part(), part(), step)


ARITY = {  # the 26 functions of the specification
    "abs": 1, "avg": 1, "ceil": 1, "contains": 2, "ends_with": 2, "floor": 1, "join": 2, "keys": 1,
    "length": 1, "map": "&1", "max": 1, "max_by": "1&", "merge": "n", "min": 1, "min_by": "1&",
    "not_null": "n", "reverse": 1, "sort": 1, "sort_by": "1&", "starts_with": 2, "sum": 1,
    "to_array": 1, "to_number": 1, "to_string": 1, "type": 1, "values": 1,
}


def call(rng, depth):
    name = rng.choice(list(ARITY))
    shape = ARITY[name]
    one = lambda: expression(rng, depth - 1)
    if rng.random() < 0.02:
        return "%s(%s)" % (rng.choice(["nothing", name]), ", ".join(one() for _ in range(rng.randrange(4))))
    if shape == "&1":
        return "%s(&%s, %s)" % (name, one(), one())
    if shape == "1&":
        return "%s(%s, &%s)" % (name, one(), one())
    count = rng.randrange(1, 4) if shape == "n" else shape
    return "%s(%s)" % (name, ", ".join(one() for _ in range(count)))


def primary(rng, depth):
    kind = rng.random()
    if depth <= 0 or kind < 0.35:
        return rng.choice(NAMES)
    if kind < 0.45:
        return literal(rng)
    if kind < 0.5:
        return "@"
    if kind < 0.65:
        return call(rng, depth)
    if kind < 0.73:
        return "(%s)" % expression(rng, depth - 1)
    if kind < 0.8:
        return "[%s]" % ", ".join(expression(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    if kind < 0.88:
        names = rng.sample(NAMES[:-1], rng.randrange(1, 4))  # no name twice: our parser would keep only the last one
        return "{%s}" % ", ".join("%s: %s" % (name, expression(rng, depth - 1)) for name in names)
    if kind < 0.92:
        return rng.choice(["*", "[*]", "[]", "[%s]" % index(rng), slice_text(rng)])
    return "!%s" % primary(rng, depth - 1)


def suffix(rng, depth):
    kind = rng.random()
    if kind < 0.4:
        return "." + rng.choice(NAMES)
    if kind < 0.5:
        return "[%s]" % index(rng)
    if kind < 0.6:
        return slice_text(rng)
    if kind < 0.7:
        return "[*]"
    if kind < 0.77:
        return "[]"
    if kind < 0.84:
        return ".*"
    if kind < 0.92:
        return "[?%s]" % expression(rng, depth - 1)
    if kind < 0.96:
        return "." + call(rng, depth)
    return ".[%s]" % expression(rng, depth - 1) if rng.random() < 0.5 else ".{%s: %s}" % (rng.choice(NAMES), expression(rng, depth - 1))


def expression(rng, depth):
    text = primary(rng, depth)
    while depth > 0 and rng.random() < 0.45:
        text += suffix(rng, depth)
    if depth > 0 and rng.random() < 0.25:
        operator = rng.choice(["==", "!=", "<", "<=", ">", ">=", "&&", "||", "|"])
        text += " %s %s" % (operator, expression(rng, depth - 1))
    return text


def spoil(rng, text):
    """Now and then one that is not quite an expression."""
    if rng.random() < 0.95 or not text:
        return text
    at = rng.randrange(len(text))
    if text[at] == "&":
        return text
    return text[:at] + rng.choice(["", ".", "[", "]", "`", "'", " ", "*", "(", "{", "-", "\\"]) + text[at + rng.randrange(2):]


# ---- the two answers ----

def by_python(source, document):
    try:
        found = jmespath.compile(source).search(document)
        json.dumps(found)
        return {"value": found}
    except exceptions.UnknownFunctionError:
        return {"fault": "unknown-function"}
    except exceptions.ArityError:
        return {"fault": "invalid-arity"}
    except exceptions.JMESPathTypeError:
        return {"fault": "invalid-type"}
    except exceptions.JMESPathError:
        return {"fault": "syntax"}
    except Exception as error:  # an error that its authors did not expect
        return {"fault": "python: " + type(error).__name__}


def by_ours(program, cases):
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([program], input=text.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(cases)
    return answers


def is_same(left, right):
    """1 == 1.0, but true != 1, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right or abs(left - right) <= 1e-12 * max(abs(left), abs(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


# ---- differences that are right, each with its reason ----
#
# Where the Python implementation does not follow the specification, this file patches it if
# possible:

# `!a.b` is `!(a.b)`: what follows a name binds closer than `!`, comparisons do not.
Parser.BINDING_POWER["not"] = 8
# Only numbers are ordered; Python's implementation also compares strings.
visitor._is_comparable = visitor._is_actual_number
# All of `.b.c` in `a.*.b.c` belongs to the projection, as in `*.b.c`; Python's implementation ends
# it after b.
plain_dot = Parser._token_led_dot


def led_dot(parser, left):
    if parser._current_token() != "star":
        return plain_dot(parser, left)
    parser._advance()
    return ast.value_projection(left, parser._parse_projection_rhs(parser.BINDING_POWER["star"]))


Parser._token_led_dot = led_dot
# `a[0][1:].b` is a projection, as `a[1:].b` is; Python's implementation ignores that after an
# index.
plain_lbracket = Parser._token_led_lbracket


def led_lbracket(parser, left):
    if parser._current_token() not in ("number", "colon"):
        return plain_lbracket(parser, left)
    return parser._project_if_slice(left, parser._parse_index_expression())


Parser._token_led_lbracket = led_lbracket
# to_string() of an array or an object leaves characters unchanged; Python's implementation escapes
# all but ASCII.
functions.json = types.SimpleNamespace(dumps=functools.partial(json.dumps, ensure_ascii=False), loads=json.loads)

# The other differences are accepted, depending on the source and both answers:

REASONS = []


def reason(text):
    return lambda test: REASONS.append((text, test)) or test


@reason("a slice of step 0, an unknown function, a wrong number of arguments, a missing & and one that the function does not take are found when it is compiled, by python's only when it is reached")
def _(source, ours, theirs):
    return ours.get("fault") in ("invalid-value", "unknown-function", "invalid-arity") or (
        ours.get("fault") == "invalid-type" and re.search(r"map\(|_by\(|(?<!&)&(?!&)", source))


@reason("python's ends in an exception of Python's own, ours in a fault; in contains() of what a text cannot hold in false")
def _(source, ours, theirs):
    return theirs.get("fault", "").startswith("python: ") and ("fault" in ours or re.search(r"contains\s*\(", source))


def misses_comma(source):
    """Whether a value ends and another one begins with nothing between them, as in f(a b), 'a'b, *`1`."""
    tokens = re.findall(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|\w+|&&|!=|\S""", source)
    for left, right in zip(tokens, tokens[1:]):
        if re.search(r"[\w\"'`)\]}@*]$", left) and re.match(r"[\w\"'`@{]|&$|!$", right):
            return True
        if right == "(" and re.search(r"[\"'`)\]}@*]$", left):
            return True
    return False


@reason("a syntax error comes before all others, and a missing comma, f(a b), is one, or an argument, f(a, ); python's finds it later or never")
def _(source, ours, theirs):
    return ours.get("fault") == "syntax" and (
        "fault" in theirs or misses_comma(source) or re.search(r"[\w\"')\]}@`]\s+\[|,\s*\)", source))


@reason("merge() checks the types of all its arguments; python's of the first")
def _(source, ours, theirs):
    return ours.get("fault") == "invalid-type" and "merge(" in source


@reason("two numbers in one place of a slice, as in [0-1:]; python's takes the last")
def _(source, ours, theirs):
    return ours.get("fault") == "syntax" and re.search(r"\d[ -]+\d", source)


@reason("a multiselect list right after a projection, as in *[a], is outside the grammar; python's takes it")
def _(source, ours, theirs):
    return ours.get("fault") == "syntax" and re.search(r"[*\]]\s*\[\s*(?:[^\]\d:*?-]|\*\s*[^\]\s])", source)


@reason("a projection goes on after a multiselect, a[*].[b][0]; python's ends there")
def _(source, ours, theirs):
    return re.search(r"\.\s*[\[{]", source)


def is_json(text):
    try:
        json.loads(text.replace("\\`", "`"))
        return True
    except ValueError:
        return False


@reason("`...` that is not JSON: the old grammar's bare word, which ours takes without blanks at its ends, and not where it begins as JSON does or is empty")
def _(source, ours, theirs):
    return any(not is_json(text) for text in re.findall(r"`((?:\\.|[^`\\])*)`", source)) and (
        ours.get("fault") == "syntax" or re.search(r"`\s|\s`", source))


@reason("half of a surrogate pair in `...`, which is no text; python's takes it")
def _(source, ours, theirs):
    return ours.get("fault") == "syntax" and re.search(r"`[^`]*\\?u[dD][89a-fA-F][0-9a-fA-F]{2}", source)


@reason("contains() of a truth value and a number, which are equal in Python alone (True == 1)")
def _(source, ours, theirs):
    return "value" in ours and "value" in theirs and "contains(" in source


@reason("to_string() of a whole number, which JSON writes without a fraction; python's writes 1.0")
def _(source, ours, theirs):
    return "value" in ours and "value" in theirs and "to_string(" in source


@reason("to_number() of a text that is a number in Python and not in JSON, such as '-1. '")
def _(source, ours, theirs):
    return "value" in ours and "value" in theirs and "to_number(" in source


def excuse(source, ours, theirs):
    for text, test in REASONS:
        if test(source, ours, theirs):
            return text
    return None


# ---- the run ----

def shrink_key(case):
    return len(case[0][0]) + len(json.dumps(case[0][1]))


def main():
    program, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    end, runs, excused, found = time.monotonic() + seconds, 0, {}, []
    while time.monotonic() < end and len(found) < 200:
        cases = [[spoil(rng, expression(rng, 3)), value(rng, 3)] for _ in range(BATCH)]
        for case, ours in zip(cases, by_ours(program, cases)):
            theirs = by_python(*case)
            runs += 1
            if ours.keys() == theirs.keys() and is_same(ours.get("value"), theirs.get("value")) and ours.get("fault") == theirs.get("fault"):
                continue
            text = excuse(case[0], ours, theirs)
            if text:
                excused[text] = excused.get(text, 0) + 1
            else:
                found.append((case, ours, theirs))
    for text, count in sorted(excused.items()):
        print("fuzz: differ_expr: %6d times: %s" % (count, text))
    for case, ours, theirs in sorted(found, key=shrink_key)[:20]:
        print("fuzz: differ_expr: %s\n  over     %s\n  ours     %s\n  python's %s" % (case[0], json.dumps(case[1]), json.dumps(ours), json.dumps(theirs)), file=sys.stderr)
    if found:
        print("fuzz: differ_expr failed: %d differences without a reason in %d runs, seed %d" % (len(found), runs, seed), file=sys.stderr)
        sys.exit(1)
    print("fuzz: differ_expr ok, %d runs, seed %d" % (runs, seed))


main()
