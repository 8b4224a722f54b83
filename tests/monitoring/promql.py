"""What an expression of PromQL names: metrics, labels, labels' values. Enough of its grammar for alerts and boards."""

import re

KEYWORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool", "offset"}
# Of Prometheus and Kubernetes, not of a process.
ADDED_LABELS = {"job", "instance", "namespace", "pod"}
SUFFIXES = ("_bucket", "_sum", "_count")

TOKEN = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])"""
    r"""|(?P<number>[0-9.]+[a-z]*)|(?P<operator>=~|!~|!=|==|<=|>=|.))""",
    re.DOTALL,
)


def tokens(expression):
    return [(match.lastgroup, match[match.lastgroup]) for match in TOKEN.finditer(expression.strip())]


class Expression:
    """metrics: name -> [(label, operator, value)]; labels: those of by, on and without."""

    def __init__(self, text):
        self.metrics, self.labels = [], set()
        self.list = tokens(text)
        self.at = 0
        while self.at < len(self.list):
            self._next()

    def _peek(self, offset=0):
        return self.list[self.at + offset] if self.at + offset < len(self.list) else (None, None)

    def _next(self):
        kind, word = self._peek()
        self.at += 1
        if kind != "name":
            return
        if word in KEYWORDS:
            if self._peek()[1] == "(" and word not in ("and", "or", "unless", "bool"):
                self._take_label_list()
        elif self._peek()[1] not in ("(", "by", "without"):  # no function, no aggregation
            self.metrics.append((word, self._matchers()))

    def _take_label_list(self):
        while self._peek()[1] not in (")", None):
            kind, word = self._peek()
            if kind == "name":
                self.labels.add(word)
            self.at += 1

    def _matchers(self):
        found = []
        if self._peek()[1] != "{":
            return found
        while self._peek()[1] not in ("}", None):
            if self._peek()[0] == "name":
                found.append((self._peek()[1], self._peek(1)[1], self._peek(2)[1][1:-1]))
                self.at += 2
            self.at += 1
        return found


def base_name(name, exported):
    """The histogram that a series like x_bucket belongs to, else the name."""
    for suffix in SUFFIXES:
        if name.endswith(suffix) and exported.get(name[: -len(suffix)], {}).get("type") == "histogram":
            return name[: -len(suffix)]
    return name


def faults(text, exported):
    """exported: name -> {type, labels, values: label -> set}. Sentences about what no role exports."""
    expression = Expression(text)
    known_labels = set(ADDED_LABELS)
    for name, matchers in expression.metrics:
        base = base_name(name, exported)
        metric = exported.get(base)
        if not metric:
            yield f"{name}: no role exports that"
            continue
        if metric["type"] == "histogram" and base == name:
            yield f"{name}: a histogram, wanted {name}_bucket, _sum or _count"
        labels = set(metric["labels"]) | ADDED_LABELS
        if name.endswith("_bucket") and base != name:
            labels.add("le")
        known_labels |= labels
        for label, operator, value in matchers:
            if label not in labels:
                yield f"{name}{{{label}}}: it has no such label"
            elif label in metric["values"] and not value_is_known(operator, value, metric["values"][label]):
                yield f'{name}{{{label}{operator}"{value}"}}: no role shows that value'
    for label in sorted(expression.labels - known_labels):
        yield f"{label}: no metric of the expression has that label"


def value_is_known(operator, value, values):
    if operator in ("=", "!="):
        return value in values
    return all(any(re.fullmatch(part, known) for known in values) for part in value.split("|"))
