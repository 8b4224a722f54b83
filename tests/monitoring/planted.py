"""Expressions with one thing wrong each: promql.faults must say so."""

import promql

EXPORTED = {
    "kvferry_a_total": {"type": "counter", "labels": ["reason"], "values": {"reason": {"X", "Y"}}},
    "kvferry_b_seconds": {"type": "histogram", "labels": [], "values": {}},
}

WRONG = {
    "kvferry_c_total": "no role exports that",
    "rate(kvferry_a[5m])": "no role exports that",
    "kvferry_a_total_sum": "no role exports that",
    'kvferry_a_total{code="X"}': "no such label",
    'kvferry_a_total{reason="Z"}': "no role shows that value",
    'kvferry_a_total{reason=~"X|Z"}': "no role shows that value",
    "sum by (code) (kvferry_a_total)": "has that label",
    "kvferry_a_total > 1 and on (code) kvferry_a_total": "has that label",
    "histogram_quantile(0.9, rate(kvferry_b_seconds[5m]))": "a histogram, wanted",
    'kvferry_b_seconds_sum{le="1"}': "no such label",
}

RIGHT = (
    'sum by (namespace, reason) (rate(kvferry_a_total{reason=~"X|Y",instance=~"$instance"}[5m])) / 2 > 0.5',
    "histogram_quantile(0.9, sum by (le) (rate(kvferry_b_seconds_bucket[5m]))) > 1 and on (job) kvferry_a_total",
    "kvferry_b_seconds_sum / kvferry_b_seconds_count",
)


def check(expect):
    for expression, wanted in WRONG.items():
        found = list(promql.faults(expression, EXPORTED))
        expect(len(found) == 1 and wanted in found[0], f"planted {expression}: found {found}")
    for expression in RIGHT:
        found = list(promql.faults(expression, EXPORTED))
        expect(not found, f"nothing planted in {expression}: found {found}")
