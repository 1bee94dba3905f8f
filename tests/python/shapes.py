"""Source texts of session modules of shapes that no release has, each made from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

PREFIXES = ("HERMES_SESSION_", "HERMES_", "ACME_CTX_", "MY_BOT_SESSION_", "x.", "")
WORDS = [
    f"{thing}{part}"
    for thing in ("platform", "chat", "user", "session", "thread", "message", "tenant", "ui_session", "task", "region")
    for part in ("", "_id", "_key", "_name", "_type")
]


@dataclass
class Shape:
    """A module's source, the native calls its functions should make, and whether the parity run can drive it."""

    source: str
    native: dict[str, tuple[str, ...]]
    parity: bool
    traits: list[str]


@dataclass
class _Variable:
    name: str
    word: str
    attribute: str
    ref: str = ""

    def set(self, value: str) -> str:
        return f"{self.ref}.set({value})"


@dataclass
class _Maker:
    """Writes one module."""

    random: Random
    lines: list[str] = field(default_factory=list)
    native: dict[str, tuple[str, ...]] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)

    def pick(self, what: str, *choices: str) -> str:
        chosen = self.random.choice(choices)
        self.traits.append(f"{what}: {chosen}")
        return chosen

    def maybe(self, odds: float) -> bool:
        return self.random.random() < odds

    def write(self, text: str) -> None:
        self.lines.append(text)

    def make(self) -> Shape:
        self.imports()
        self.sentinel()
        self.make_variables()
        self.make_map()
        self.latch = self.pick("latch", "global", "global", "none", "list", "counter")
        self.write(
            {"list": "_state = [False]", "counter": "BINDS = 0", "none": ""}.get(self.latch, "LATCH = False").replace(
                "LATCH", "_session_context_engaged"
            )
        )
        if self.latch == "global":
            self.write("def session_context_engaged():\n    return _session_context_engaged")
        self.hook = self.pick("hook", "none", "try", "in the function", "module")
        if self.hook == "module":
            self.write("import shape_hooks")
        verbs = [self.bind, self.clear, self.reset, self.read]
        if self.maybe(0.25):
            missing = self.random.choice(verbs)
            verbs.remove(missing)
            self.traits.append(f"missing: {missing.__name__}")
        if self.maybe(0.3):
            self.random.shuffle(verbs)
        for verb in verbs:
            verb()
        self.extras()
        # The parity run knows the sentinel by that name, and takes a default that is a variable for a difference.
        told = self.unset == "_UNSET" and self.objective and self.storage != "defaults"
        parity = told and {self.bind, self.clear, self.read} <= set(verbs)
        return Shape("\n\n".join(filter(None, self.lines)) + "\n", self.native, parity, self.traits)

    def imports(self) -> None:
        form, self.var = self.random.choice(
            [
                ("from contextvars import ContextVar", "ContextVar"),
                ("from contextvars import ContextVar, Token, copy_context", "ContextVar"),
                ("import contextvars", "contextvars.ContextVar"),
                ("import contextvars as cv", "cv.ContextVar"),
                ("from contextvars import ContextVar as Var, Token as Tok", "Var"),
                ("from contextvars import *", "ContextVar"),
                (
                    "try:\n    from contextvars import ContextVar\nexcept ImportError:\n    ContextVar = None",
                    "ContextVar",
                ),
                ("import json, contextvars, sys", "contextvars.ContextVar"),
                (
                    "def _make(*a, **k):\n    from contextvars import ContextVar\n    return ContextVar(*a, **k)",
                    "_make",
                ),
                ("class Imports:\n    import contextvars as inside", "Imports.inside.ContextVar"),
            ]
        )
        # A star import may bring any name: what needs a builtin has no known form then.
        self.builtins = "import *" not in form
        self.traits.append(f"import: {form.splitlines()[-1].strip()}")
        future = "from __future__ import annotations\n" if self.maybe(0.3) else ""
        self.write(f'"""A session module."""\n{future}import os\n{form}\nfrom typing import Any')

    def sentinel(self) -> None:
        self.unset = "_UNSET" if self.maybe(0.8) else "_NEVER"
        forms = {
            "object()": ("object()", True),
            "a class": ("type('Unset', (), {'__repr__': lambda self: '<UNSET>'})()", True),
            "falsy": ("type('Unset', (), {'__bool__': lambda self: False})()", True),
            "None": ("None", False),
            "a text": ("'(unset)'", False),
            "Ellipsis": ("...", False),
            "a tuple": ("()", False),
        }
        form = self.pick("sentinel", "object()", "object()", "object()", *forms)
        source, self.objective = forms[form]
        self.write(f"{self.unset}: Any = {source}")
        self.default = self.pick("default", "sentinel", "sentinel", "sentinel", "sentinel", "none", "empty", "mixed")

    def made(self, variable: _Variable) -> str:
        default = self.default if self.default != "mixed" else self.random.choice(["sentinel", "none", "empty"])
        ending = {"sentinel": f", default={self.unset}", "none": "", "empty": ", default=''"}[default]
        return f"{self.var}({variable.name!r}{ending})"

    def make_variables(self) -> None:
        count = self.random.choice([1, 2, 3, self.random.randint(1, 40), self.random.randint(4, 20)])
        prefix = self.random.choice(PREFIXES)
        style = self.random.choice(["_SESSION_{}", "{}_VAR", "_v_{}", "_{}"])
        words = self.random.sample(WORDS, count)
        self.variables = []
        for word in words:
            attribute = style.format(word.upper())
            self.variables.append(_Variable(prefix + word.upper(), word, attribute, attribute))
        self.storage = self.pick(
            "storage", "globals", "globals", "globals", "map", "class", "defaults", "bound", "object"
        )
        self.traits.append(f"{count} variables")
        getattr(self, f"keep_in_{self.storage}")()
        self.flag = None
        if self.maybe(0.6):
            self.flag = _Variable("FLAG", "async_delivery", "_ASYNC", "_ASYNC")
            self.write(f"_ASYNC = {self.made(self.flag)}")

    def keep_in_globals(self) -> None:
        annotation = f": {self.var}" if self.maybe(0.3) else ""
        self.write("\n".join(f"{v.attribute}{annotation} = {self.made(v)}" for v in self.variables))

    def keep_in_map(self) -> None:
        for variable in self.variables:
            variable.ref = f"_VAR_MAP[{variable.name!r}]"

    def keep_in_class(self) -> None:
        body = "\n".join(f"    {v.attribute} = {self.made(v)}" for v in self.variables)
        for variable in self.variables:
            variable.ref = f"Vars.{variable.attribute}"
        self.write(f"class Vars:\n{body}")

    def keep_in_defaults(self) -> None:
        parameters = ", ".join(f"p{index}={self.made(v)}" for index, v in enumerate(self.variables))
        names = "".join(f"p{index}, " for index in range(len(self.variables)))
        for index, variable in enumerate(self.variables):
            variable.ref = f"_held()[{index}]"
        self.write(f"def _held({parameters}):\n    return ({names})")

    def keep_in_bound(self) -> None:
        for index, variable in enumerate(self.variables):
            variable.ref = f"_get{index}.__self__"
        self.write("\n".join(f"_get{index} = {self.made(v)}.get" for index, v in enumerate(self.variables)))

    def keep_in_object(self) -> None:
        fields = ", ".join(f"{v.attribute}={self.made(v)}" for v in self.variables)
        for variable in self.variables:
            variable.ref = f"VARS.{variable.attribute}"
        self.write(f"import types\nVARS = types.SimpleNamespace({fields})")

    def make_map(self) -> None:
        entries = list(self.variables)
        if self.maybe(0.3):
            self.random.shuffle(entries)
        value = self.made if self.storage == "map" else (lambda variable: variable.ref)
        body = ", ".join(f"{v.name!r}: {value(v)}" for v in entries)
        if self.maybe(0.15):
            body += f", 'ALIAS': {entries[0].ref}" if self.storage != "map" else ""
        form = self.pick("map", "dict", "dict", "dict", "ordered", "subclass", "proxy")
        written = {
            "dict": f"_VAR_MAP = {{{body}}}",
            "ordered": f"import collections\n_VAR_MAP = collections.OrderedDict({{{body}}})",
            "subclass": f"class Map(dict):\n    pass\n_VAR_MAP = Map({{{body}}})",
            "proxy": f"from types import MappingProxyType\n_VAR_MAP = MappingProxyType({{{body}}})",
        }
        self.write(written[form])

    @property
    def named(self) -> bool:
        return all(variable.ref.isidentifier() for variable in self.variables)

    def refs(self, variables: list[_Variable]) -> str:
        return "(" + "".join(f"{variable.ref}, " for variable in variables) + ")"

    def call_hook(self, verb: str, value: str) -> tuple[str, tuple[str, ...]]:
        """The lines that call the hook, and the kinds of native call in them."""
        call = f"shape_hooks.heard({verb!r}, {value})"
        if self.hook == "try":
            text = f"    try:\n        from shape_hooks import heard\n        heard({verb!r}, {value})\n"
            return text + "    except Exception:\n        pass\n", ("import",)
        if self.hook == "in the function":
            return f"    import shape_hooks\n    {call}\n", ()
        return (f"    {call}\n", ()) if self.hook == "module" else ("", ())

    def function(self, name: str, signature: str, body: str, verb: tuple[str, ...], hook: tuple[str, ...]) -> None:
        self.write(f"def {name}({signature}):\n{body}".rstrip())
        if verb or hook:
            self.native[name] = verb + hook

    def bind(self) -> None:
        pairs = [(variable, variable.word) for variable in self.variables]
        if self.maybe(0.3):
            self.random.shuffle(pairs)
        if len(pairs) > 2 and self.maybe(0.2):
            self.traits.append("a keyword fills two")
            pairs[0] = (pairs[0][0], pairs[1][1])
        keywords = [variable.word for variable in self.variables] + ["cwd"]
        if self.maybe(0.5):
            self.random.shuffle(keywords)
        default = self.random.choice(["''", "''", "''", "None", "0", self.unset])
        parameters = [f"{keyword}={default}" for keyword in keywords]
        if self.flag:
            parameters.insert(self.random.randrange(len(parameters) + 1), "async_delivery=True")
        if self.maybe(0.15):
            parameters.insert(self.random.randrange(len(parameters)), "*")
        latch = {
            "global": "    global _session_context_engaged\n    _session_context_engaged = True\n",
            "list": "    _state[0] = True\n",
            "counter": "    global BINDS\n    BINDS += 1\n",
            "none": "",
        }[self.latch]
        form = self.pick("bind", "list", "list", "zip", "zip", "statements", "dict", "comprehension", "returned")
        text, verb = getattr(self, f"bind_{form}")(pairs)
        hook, kinds = self.call_hook("bind", "cwd")
        ending = "" if form == "returned" else "    return tokens\n"
        if form == "returned":
            hook, kinds = "", ()
        self.function("set_session_vars", ", ".join(parameters), latch + text + hook + ending, verb, kinds)

    def flag_value(self) -> str:
        return self.random.choice(["bool(async_delivery)", "bool(async_delivery)", "async_delivery"])

    def bind_list(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        sets = [variable.set(word) for variable, word in pairs]
        if self.flag:
            sets.append(self.flag.set(self.flag_value()))
        known = self.named and len(sets) > 1 and (self.builtins or "bool" not in sets[-1])
        return f"    tokens = [{', '.join(sets)}]\n", ("bind",) if known else ()

    def bind_zip(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        order = [variable for variable, _ in pairs]
        words = "(" + "".join(f"{word}, " for _, word in pairs) + ")"
        self.write(f"_ORDER = {self.random.choice(['', 'list'])}({self.refs(order)})")
        given = self.pick("zip values", "in place", "a tuple", "a list", "an iterator")
        made = {"in place": "", "a tuple": words, "a list": f"list({words})", "an iterator": f"iter({words})"}[given]
        text = f"    values = {made}\n" if made else ""
        values = "values" if made else words
        text += f"    tokens = [var.set(value) for var, value in zip(_ORDER, {values})]\n"
        if not self.flag:
            return text, ()
        value = self.flag_value()
        return text + f"    tokens.append({self.flag.set(value)})\n", (
            "bind",
        ) if self.builtins and "bool" in value else ()

    def bind_statements(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        text = "    tokens = []\n" + "".join(f"    tokens.append({v.set(word)})\n" for v, word in pairs)
        return text + (f"    tokens.append({self.flag.set(self.flag_value())})\n" if self.flag else ""), ()

    def bind_dict(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        body = ", ".join(f"{variable.name!r}: {word}" for variable, word in pairs)
        text = f"    tokens = []\n    for name, value in {{{body}}}.items():\n"
        return text + "        tokens.append(_VAR_MAP[name].set(value))\n", ()

    def bind_comprehension(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        body = "".join(f"({variable.ref}, {word}), " for variable, word in pairs)
        return f"    tokens = [var.set(value) for var, value in ({body})]\n", ()

    def bind_returned(self, pairs: list[tuple[_Variable, str]]) -> tuple[str, tuple[str, ...]]:
        return f"    return [{', '.join(variable.set(word) for variable, word in pairs)}]\n", ()

    def filled(self, value: str, form: str) -> tuple[str, tuple[str, ...]]:
        flag = f"    {self.flag.set(self.unset)}\n" if self.flag else ""
        if form == "tuple":
            text = f"    for var in {self.refs(self.variables)}:\n        var.set({value})\n"
            return text + flag, ("fill",) if self.named else ()
        if form == "map":
            return f"    for var in _VAR_MAP.values():\n        var.set({value})\n" + flag, ("fill",)
        if form == "keys":
            return f"    for name in _VAR_MAP:\n        _VAR_MAP[name].set({value})\n" + flag, ()
        if form == "statements":
            return "".join(f"    {variable.set(value)}\n" for variable in self.variables) + flag, ()
        if form == "only bound":
            text = "    for var in _VAR_MAP.values():\n        if var.get(None) is not None:\n"
            return text + f"            var.set({value})\n" + flag, ()
        assert form == "tokens", form
        return "    for token in reversed(tokens or []):\n        token.var.reset(token)\n", ()

    def clear(self) -> None:
        form = self.pick("clear", "tuple", "tuple", "map", "keys", "statements", "only bound", "tokens")
        text, verb = self.filled(self.random.choice(["''", "''", "''", "None"]), form)
        hook, kinds = self.call_hook("clear", "None")
        self.function("clear_session_vars", self.random.choice(["tokens", "tokens=None"]), text + hook, verb, kinds)

    def reset(self) -> None:
        form = self.pick("reset", "tuple", "map", "map", "keys", "statements", "only bound")
        text, verb = self.filled(self.unset, form)
        hook, kinds = self.call_hook("reset", "None")
        self.function("reset_session_vars", "", text + hook, verb, kinds)

    def read(self) -> None:
        form = self.pick("read", *_READS, "if", "walrus", "import inside", "os inside")
        text = _READS[form].replace("UNSET", self.unset)
        native = ("read",) if form in ("if", "walrus", "import inside", "os inside") else ()
        self.function("get_session_env", "name, default=''", text, native, ())

    def extras(self) -> None:
        first = self.variables[0]
        for title, text in _EXTRAS.items():
            if self.maybe(0.3):
                self.traits.append(f"extra: {title}")
                text = text.replace("UNSET", self.unset).replace("FIRST_NAME", first.name).replace("FIRST", first.ref)
                self.write(text)
        if self.flag and self.maybe(0.5):
            self.write("def declare_stateless_channel():\n    _ASYNC.set(False)")
            self.write(
                f"def async_delivery_supported():\n    stated = _ASYNC.get({self.unset})\n"
                f"    return stated is {self.unset} or bool(stated)"
            )


_IF = (
    "    var = _VAR_MAP.get(name)\n    if var is not None:\n        value = var.get()\n        if value is not UNSET:\n"
)
_READS = {
    "if": _IF + "            return value\n    return os.getenv(name, default)\n",
    "import inside": "    import os\n" + _IF + "            return value\n    return os.getenv(name, default)\n",
    "os inside": "    '''Read.'''\n    import os\n\n"
    + _IF
    + "            return value\n    return os.getenv(name, default)\n",
    "walrus": "    held = _VAR_MAP.get(name)\n    if held is not None and (found := held.get()) is not UNSET:\n"
    "        return found\n    return os.getenv(name, default)\n",
    "no environment": _IF + "            return value\n    return default\n",
    "truth": _IF.replace("value is not UNSET", "value")
    + "            return value\n    return os.getenv(name, default)\n",
    "environ": _IF + "            return value\n    return os.environ.get(name, default)\n",
    "in": "    if name in _VAR_MAP and _VAR_MAP[name].get() is not UNSET:\n        return _VAR_MAP[name].get()\n"
    "    return os.getenv(name, default)\n",
    "lookup": "    try:\n        value = _VAR_MAP[name].get()\n    except LookupError:\n        value = UNSET\n"
    "    return os.getenv(name, default) if value is UNSET else value\n",
    "text": _IF + "            return str(value)\n    return os.getenv(name, default)\n",
}
_EXTRAS = {
    "snapshot": "def snapshot():\n    return {name: var.get(UNSET) for name, var in _VAR_MAP.items()}",
    "bound names": "def bound():\n    return [name for name in _VAR_MAP if _VAR_MAP[name].get(UNSET) is not UNSET]",
    "first": "def current():\n    return FIRST.get(None)",
    "set one": "def put(name, value):\n    return _VAR_MAP[name].set(value)",
    "restore": "def restore(token):\n    token.var.reset(token)\n    return token.var.name",
    "scope": "from contextlib import contextmanager\n@contextmanager\ndef scoped(value=None):\n"
    "    before = FIRST.get(UNSET)\n"
    "    token = FIRST.set(value)\n    try:\n        yield token\n    finally:\n        FIRST.set(before)",
    "coroutine": "async def fetch(name):\n    return _VAR_MAP[name].get(UNSET)",
    "walk": "def walk():\n    for name, var in _VAR_MAP.items():\n        yield name, var, var.get(UNSET)",
    "lambda": "by_position = lambda index=0: list(_VAR_MAP.values())[0].get(UNSET)",
    "current id": "def set_current(value):\n    os.environ['FIRST_NAME' or 'X'] = value\n    FIRST.set(value)",
    "child": "def child_env():\n    env = {}\n    for name, var in _VAR_MAP.items():\n        value = var.get(UNSET)\n"
    "        if value is not UNSET:\n            env[name] = '' if value is None else str(value)\n    return env",
    "inside a copy": "def peek(value):\n    import contextvars\n    context = contextvars.copy_context()\n"
    "    context.run(FIRST.set, value)\n    return context.run(FIRST.get), FIRST.get(UNSET)",
    "sorted": "def ordered():\n    return sorted(_VAR_MAP.values(), key=lambda var: var.name)",
    "keyed by variable": "COUNTS = {}\ndef count(name):\n"
    "    COUNTS[_VAR_MAP[name]] = COUNTS.get(_VAR_MAP[name], 0) + 1\n"
    "    return COUNTS[_VAR_MAP[name]]",
    "closure": "def _reader(var):\n    def reader(default=None):\n        return var.get(default)\n    return reader\n"
    "read_first = _reader(FIRST)",
    "a name that is taken": "_native = 'mine'\ndef taken():\n    return _native",
    "old values": "def old():\n    token = FIRST.set('new')\n    before = token.old_value is token.MISSING\n"
    "    FIRST.reset(token)\n    return before",
}


def shape(seed: int) -> Shape:
    return _Maker(Random(seed)).make()
