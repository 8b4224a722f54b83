#!/usr/bin/env python3
"""Writes the Grafana boards of boards/ from the panels below: boards.py [FOLDER]. Change them here."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WHERE = 'namespace=~"$namespace",instance=~"$instance"'
WIDTH, HEIGHT, COLUMNS = 8, 8, 24


def rate(metric, by, labels=""):
    """Of a counter, a second."""
    where = f"{labels},{WHERE}" if labels else WHERE
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))"


def gauge(metric, by="instance", labels=""):
    where = f"{labels},{WHERE}" if labels else WHERE
    return f"sum by ({by}) ({metric}{{{where}}})"


def quantiles(metric, *percents):
    """Of a histogram: (expression, legend) each."""
    return [
        (f"histogram_quantile({p / 100:g}, {rate(metric + '_bucket', 'le')})", f"p{p}")
        for p in percents
    ]


def panel(title, unit, description, *targets, **defaults):
    return {"title": title, "unit": unit, "description": description, "targets": targets, "defaults": defaults}


# What both workers have of their work: noun is prefill, or decode.


def waits(noun):
    return panel("Wait for a slot", "s", f"Time that a {noun} waits for a slot and KV blocks.",
                 *quantiles(f"kvferry_{noun}_queue_seconds", 50, 95, 99))


def running_and_waiting(noun):
    return panel("Running and waiting", "none", f"{noun.capitalize()}s that run, and that wait for a slot.",
                 (gauge(f"kvferry_{noun}s_running"), "running {{instance}}"),
                 (gauge(f"kvferry_{noun}s_waiting"), "waiting {{instance}}"),
                 (gauge("kvferry_sequences_max"), "places {{instance}}"))


def ends(noun):
    return panel(f"{noun.capitalize()}s", "reqps", f"{noun.capitalize()}s by how they ended.",
                 (rate(f"kvferry_{noun}s_total", "code, reason") + " > 0", "{{code}} {{reason}}"))


PROCESS = [
    panel("CPU", "none", "CPUs that each process uses.",
          (rate("process_cpu_seconds_total", "instance"), "{{instance}}")),
    panel("Memory", "bytes", "Resident memory of each process.",
          (gauge("process_resident_memory_bytes"), "{{instance}}")),
    panel("Calls", "reqps", "gRPC calls by method and code: inner ones and probes included.",
          (rate("kvferry_calls_total", "method, code") + " > 0", "{{method}} {{code}}")),
]

KV = [
    panel("KV blocks", "none", "By state. Cached blocks are evicted for new requests.",
          (gauge("kvferry_kv_blocks", "state"), "{{state}}"),
          (gauge("kvferry_kv_blocks_max", "job"), "pool")),
    panel("KV usage", "percentunit", "Share of each pool that is neither free nor only cached. Above 0.95, requests wait for blocks.",
          (gauge("kvferry_kv_cache_usage_ratio"), "{{instance}}"), min=0, max=1),
    panel("Prefix cache", "percentunit", "Share of the prompt tokens that each worker found in its prefix cache.",
          (rate("kvferry_prefix_hit_tokens_total", "instance") + " / " +
           rate("kvferry_prefix_query_tokens_total", "instance"), "{{instance}}"), min=0, max=1),
]

BOARDS = {
    "router": ("kvferry: router", "router", [
        panel("Requests", "reqps", "Requests of clients, by how they ended. The reason is that of google.rpc.ErrorInfo.",
              (rate("kvferry_requests_total", "code, reason") + " > 0", "{{code}} {{reason}}")),
        panel("First token", "s", "Time from the arrival of a request to its first token.",
              *quantiles("kvferry_request_ttft_seconds", 50, 95, 99)),
        panel("Between tokens", "s", "Time between two messages with tokens of one request.",
              *quantiles("kvferry_request_itl_seconds", 50, 95, 99)),
        panel("Running and waiting", "none", "Requests that run on a worker, and that wait for one.",
              (gauge("kvferry_requests_running"), "running {{instance}}"),
              (gauge("kvferry_requests_waiting"), "waiting {{instance}}"),
              (gauge("kvferry_requests_max"), "at most {{instance}}")),
        panel("Tokens that wait", "none", "Prompt tokens of the requests that wait for a worker.",
              (gauge("kvferry_requests_waiting_tokens"), "{{instance}}")),
        panel("Wait for a worker", "s", "Time from the arrival of a request to the call of its first worker.",
              *quantiles("kvferry_request_queue_seconds", 50, 95, 99)),
        panel("Workers", "none", "Workers that the routers know, by role and state.",
              (gauge("kvferry_peers", "instance, role, state"), "{{role}} {{state}} {{instance}}")),
        panel("Placements", "reqps", "What decided the choice of workers; retries and waits beside it.",
              (rate("kvferry_router_decisions_total", "kind, reason"), "{{kind}} {{reason}}")),
        panel("Whole requests", "s", "Time from the arrival of a request to its end.",
              *quantiles("kvferry_request_duration_seconds", 50, 95, 99)),
        panel("Prompt length", "none", "Prompt tokens of a request.",
              *quantiles("kvferry_request_prompt_tokens", 50, 95)),
        panel("Reply length", "none", "Tokens generated for a request.",
              *quantiles("kvferry_request_generated_tokens", 50, 95)),
        panel("Tokens", "none", "Tokens sent to clients, per second.",
              (rate("kvferry_router_relayed_tokens_total", "instance"), "{{instance}}")),
        panel("Refused", "reqps", "Calls without a valid token, calls between processes without authentication, connections and streams over a limit.",
              (rate("kvferry_token_failures_total", "reason"), "token {{reason}}"),
              (rate("kvferry_auth_failures_total", "reason"), "proof {{reason}}"),
              (rate("kvferry_relay_struck_total", "limit") + " > 0", "limit {{limit}}")),
        *PROCESS,
    ]),
    "context": ("kvferry: context workers", "ctx-worker", [
        panel("Tokens that wait", "none", "Prompt tokens that are not computed yet. Scale context workers by this.",
              (gauge("kvferry_prefills_waiting_tokens"), "{{instance}}")),
        waits("prefill"),
        running_and_waiting("prefill"),
        ends("prefill"),
        panel("Time of a prompt", "s", "Time from the admission of a prompt to its last token.",
              *quantiles("kvferry_prefill_seconds", 50, 95, 99)),
        panel("Time of a step", "s", "One forward pass.",
              *quantiles("kvferry_step_seconds", 50, 95)),
        panel("Prompt tokens", "none", "Per second: computed, or from the prefix cache of the worker.",
              (rate("kvferry_prompt_tokens_total", "instance, source"), "{{source}} {{instance}}")),
        panel("Tokens of a step", "none", "How full the batches are.",
              *quantiles("kvferry_batch_tokens", 50, 95)),
        panel("KV transfers that timed out", "none", "In 5 minutes. Their blocks were reserved for a generation worker that did not commit.",
              (f"sum by (instance) (increase(kvferry_kv_leases_expired_total{{{WHERE}}}[5m]))", "{{instance}}")),
        *KV,
        *PROCESS,
    ]),
    "generation": ("kvferry: generation workers", "gen-worker", [
        panel("Tokens", "none", "Tokens generated per second.",
              (rate("kvferry_generated_tokens_total", "instance"), "{{instance}}")),
        running_and_waiting("decode"),
        waits("decode"),
        ends("decode"),
        panel("Time of a step", "s", "One forward pass: about the time between two tokens of a request.",
              *quantiles("kvferry_step_seconds", 50, 95, 99)),
        panel("Sequences of a step", "none", "Sequences that decode together.",
              *quantiles("kvferry_batch_sequences", 50, 95)),
        panel("Prompts by place", "reqps", "On a context worker, or the reason why here.",
              (rate("kvferry_prompts_total", "place"), "{{place}}")),
        panel("Prompt tokens", "none", "Per second, by where their KV came from.",
              (rate("kvferry_prompt_tokens_total", "source"), "{{source}}")),
        panel("Time of a prompt computed here", "s", "Time from its admission to its last token.",
              *quantiles("kvferry_prefill_seconds", 50, 95)),
        *KV,
        *PROCESS,
    ]),
    "hand-over": ("kvferry: KV transfer", "gen-worker|ctx-worker", [
        panel("KV transfers", "reqps", "By how they ended.",
              (rate("kvferry_kv_handovers_total", "result"), "{{result}}")),
        panel("Failures", "reqps", "KV transfers that failed, by reason.",
              (rate("kvferry_kv_transfer_failures_total", "reason") + " > 0", "{{reason}}")),
        panel("KV bytes", "Bps", "Bytes of KV blocks per second, by transport and direction.",
              (rate("kvferry_kv_transfer_bytes_total", "transport, direction"), "{{direction}} {{transport}}")),
        panel("Time of a transfer", "s", "Time from the first ready blocks to the commit.",
              *quantiles("kvferry_kv_transfer_seconds", 50, 95, 99)),
        panel("Time of a commit", "s", "The last part of a KV transfer: a call to the context worker and its answer.",
              *quantiles("kvferry_kv_commit_seconds", 50, 95, 99)),
        panel("Commits", "reqps", "By the answer of the context worker.",
              (rate("kvferry_kv_commits_total", "result"), "{{result}}")),
        panel("Tokens received and computed again", "none", "Per second. Tokens are computed again after a failed KV transfer.",
              (rate("kvferry_kv_tokens_received_total", "job"), "received"),
              (rate("kvferry_kv_tokens_recomputed_total", "job"), "computed again")),
        panel("Blocks in KV transfers", "none", "Pinned: reserved for a generation worker. Inbound: being fetched. Quarantined: waiting for the end of an operation.",
              (gauge("kvferry_kv_blocks", "instance, state", 'state=~"pinned|inbound|quarantined"'), "{{state}} {{instance}}")),
        panel("Lost blocks", "none", "In use, but of no request and no transfer: a bug of kvferry. Always 0.",
              (gauge("kvferry_kv_blocks_unowned"), "{{instance}}")),
        panel("KV transfers that timed out", "none", "In 5 minutes.",
              (f"sum by (instance) (increase(kvferry_kv_leases_expired_total{{{WHERE}}}[5m]))", "{{instance}}")),
        panel("Data port: connections", "none", "Of transports unix and tls.",
              (gauge("kvferry_data_port_connections", "state"), "{{state}}")),
        panel("Data port: refused", "reqps", "Connections closed before authentication, messages dropped, KV reads refused.",
              (rate("kvferry_data_port_refused_total", "reason"), "{{reason}}"),
              (rate("kvferry_data_port_bad_messages_total", "job"), "bad messages"),
              (rate("kvferry_kv_pieces_refused_total", "job"), "pieces")),
    ]),
}


def variable(name, query):
    return {
        "name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name},
        "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def variables(role):
    info = f'kvferry_build_info{{role=~"{role}"'
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "data source"},
        variable("namespace", f"label_values({info}}}, namespace)"),
        variable("instance", f'label_values({info},namespace=~"$namespace"}}, instance)'),
    ]


def grafana_panel(index, what):
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": what["title"],
        "description": what["description"],
        "datasource": SOURCE,
        "gridPos": {"x": index * WIDTH % COLUMNS, "y": index * WIDTH // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": what["unit"], "min": 0, **what["defaults"]}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(what["targets"])
        ],
    }


def board(name, title, role, panels):
    return {
        "uid": f"kvferry-{name}",
        "title": title,
        "tags": ["kvferry"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables(role)},
        "annotations": {"list": []},
        "panels": [grafana_panel(index, what) for index, what in enumerate(panels)],
    }


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "boards"
    for name, (title, role, panels) in BOARDS.items():
        text = json.dumps(board(name, title, role, panels), indent=2)
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
