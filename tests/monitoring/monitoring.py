"""Metrics, alerts, boards and docs/operations.md against the program and each other; README.md has the list."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

import planted
import promql
from cluster import Cluster
from prometheus import Prometheus

BINARY, SOURCE, TOOLS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
PROMTOOL = str(TOOLS / "promtool")
ALERTS = SOURCE / "deploy/monitoring/alerts.yaml"
CASES = SOURCE / "tests/monitoring/alerts_test.yaml"
BOARDS = SOURCE / "deploy/monitoring/boards"
OPERATIONS = SOURCE / "docs/operations.md"
RUNBOOK = "operations.md#"
SOURCES = ("base", "rpc", "process", "device", "worker_common", "ctx_worker", "gen_worker", "router", "kvtransfer", "cli", "api", "text")
PROMPT = "In the beginning was the word, and the word was long enough to be handed over. " * 8

SERIES_MAX = int(re.search(r"METRICS_SERIES_MAX (\d+)", (SOURCE / "base/metrics/metrics.h").read_text())[1])
TENANT_SERIES = 17 * 4  # when there is a tokens file

problems = []


def expect(is_right, sentence):
    if not is_right:
        problems.append(sentence)


def run(*words, text=None, folder=None):
    done = subprocess.run(words, input=text, cwd=folder, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


# ---- what is exported ----


def read_reference():
    """role -> name -> {type, labels, help} of `kvferry reference metrics`."""
    code, text = run(BINARY, "reference", "metrics")
    expect(code == 0, f"reference metrics ended with {code}")
    roles, role = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            role = roles.setdefault(line[3:], {})
        elif line.startswith("| `"):
            name, kind, labels, meaning = [cell.strip() for cell in line.strip("|").split("|", 3)]
            role[name.strip("`")] = {"type": kind, "labels": re.findall("`([^`]+)`", labels), "help": meaning}
    return roles


def read_page(process):
    with urllib.request.urlopen(f"http://{process.ports['metrics']}/metrics", timeout=10) as reply:
        return reply.read().decode()


def samples(page):
    """name, {label: value}, number of each line."""
    for line in page.splitlines():
        match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
        if match:
            labels = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or "")
            yield match[1], dict(labels), float(match[3])


def check_names(roles):
    """One name, one type, one meaning, one set of labels."""
    expect(set(roles) == {"router", "ctx-worker", "gen-worker"}, f"reference metrics has the roles {list(roles)}")
    first = {}
    for role, metrics in roles.items():
        for name, metric in metrics.items():
            other_role, other = first.setdefault(name, (role, metric))
            for key in metric:
                expect(metric[key] == other[key],
                       f"{name} has another {key} on {role} than on {other_role}: {metric[key]} and {other[key]}")
    return {name: dict(metric, values={}) for name, (_, metric) in first.items()}


def check_page(role, page, reference, exported):
    """What the process shows is what the reference says, and promtool's lint finds nothing."""
    _, text = run(PROMTOOL, "check", "metrics", text=page)
    faults = [line for line in text.splitlines() if line.strip() and not re.match(r"vllm:\S+ .*not contain ':'", line)]
    expect(not faults, f"promtool check metrics on {role}: {faults}")
    n_series = sum(not name.endswith("_bucket") for name, _, _ in samples(page))
    expect(n_series + TENANT_SERIES < SERIES_MAX, f"{role} has {n_series} series, and room for {SERIES_MAX}")
    page = "\n".join(line for line in page.splitlines() if "vllm:" not in line)
    shown = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    expect(shown == {name: metric["type"] for name, metric in reference.items()},
           f"{role} shows other metrics than the reference: {set(shown) ^ set(reference)}")
    for name, labels, _ in samples(page):
        name = promql.base_name(name, exported)
        own = {label: value for label, value in labels.items() if label != "le"}
        expect(name in reference and sorted(own) == sorted(reference[name]["labels"]),
               f"{role} shows {name} with the labels {sorted(own)}")
        for label, value in own.items():
            exported.get(name, {"values": {}})["values"].setdefault(label, set()).add(value)


# ---- figures ----


def check_figures(cluster):
    """One request, as all three processes count it."""
    router, context, generation = cluster.router, cluster.context, cluster.generation
    code, text = run(BINARY, "generate", "--server", router.ports["grpc"], "--max-tokens", "9", "--temperature", "0",
                     PROMPT)
    expect(code == 0, f"kvferry generate: {text}")
    ok = 'code="OK",reason=""'
    wait = {  # engines show their figures after a step, calls when they are over for the peer
        "requests": lambda: router.metric("kvferry_requests_total", ok) == 1,
        "decodes": lambda: generation.metric("kvferry_decodes_total", ok) == 1,
        "prefills": lambda: context.metric("kvferry_prefills_total", ok) == 1,
        "calls": lambda: router.metric(
            "kvferry_calls_total", 'method="kvferry.v1.GenerationService/Generate",code="OK"') == 1,
        # Commit, for who has its answer may cut Prefill's short.
        "inner calls": lambda: context.metric(
            "kvferry_calls_total", 'method="kvferry.internal.v1.ContextWorkerService/Commit",code="OK"') == 1,
        "hand-overs": lambda: generation.metric("kvferry_kv_handovers_total", 'result="committed"') == 1,
        "rest": lambda: all(w.metric("kvferry_kv_blocks", f'state="{s}"') == 0
                            for w in (context, generation) for s in ("active", "pinned", "inbound", "quarantined")),
    }
    for what, is_so in wait.items():
        cluster_wait(is_so, what)
    n_prompt = router.metric("kvferry_request_prompt_tokens_sum")
    agreements = {
        "each process is ready": lambda: [p.metric("kvferry_ready") for p in cluster.processes] == [1, 1, 1],
        "bytes sent are those received": lambda: 0 < context.metric(
            "kvferry_kv_transfer_bytes_total", 'direction="sent"') == generation.metric(
            "kvferry_kv_transfer_bytes_total", 'direction="received"'),
        "tokens computed there are those received here": lambda: n_prompt == context.metric(
            "kvferry_prompt_tokens_total", 'source="compute"') == generation.metric(
            "kvferry_prompt_tokens_total", 'source="remote"'),
        "tokens generated are those relayed": lambda: 9 == generation.metric("kvferry_generated_tokens_total") ==
            router.metric("kvferry_router_relayed_tokens_total") ==
            router.metric("kvferry_request_generated_tokens_sum"),
        "one wait of each kind": lambda: [
            router.metric("kvferry_request_queue_seconds_count"),
            context.metric("kvferry_prefill_queue_seconds_count"),
            generation.metric("kvferry_decode_queue_seconds_count")] == [1, 1, 1],
        "one prompt was computed, there": lambda: [
            context.metric("kvferry_prefill_seconds_count"),
            generation.metric("kvferry_prefill_seconds_count")] == [1, 0],
        "one transfer with its commit": lambda: [
            generation.metric("kvferry_kv_transfer_seconds_count"),
            generation.metric("kvferry_kv_commit_seconds_count")] == [1, 1],
        "the commit is a part of the transfer": lambda: 0 < generation.metric("kvferry_kv_commit_seconds_sum") <=
            generation.metric("kvferry_kv_transfer_seconds_sum"),
        "batches held the prompt": lambda: context.metric("kvferry_batch_tokens_sum") == n_prompt,
        "the pool is the sum of its blocks": lambda: all(
            w.metric("kvferry_kv_blocks") == w.metric("kvferry_kv_blocks_max") > 0 for w in (context, generation)),
        "nothing is lost": lambda: all(w.metric("kvferry_kv_blocks_unowned") == 0 for w in (context, generation)),
        "nothing waits": lambda: router.metric("kvferry_requests_waiting_tokens") == 0 == context.metric(
            "kvferry_prefills_waiting_tokens") == generation.metric("kvferry_decodes_waiting_tokens"),
        "capacities are told": lambda: all(
            w.metric(name) > 0 for w in (context, generation)
            for name in ("kvferry_sequences_max", "kvferry_queue_max", "kvferry_kv_block_tokens")),
    }
    for claim, holds in agreements.items():  # which are counted one after the other
        cluster_wait(holds, f"one request, that {claim},")


def check_refusal(cluster):
    """A failure is counted by its reason, where the client was told of it and as a call."""
    code, text = run(BINARY, "generate", "--server", cluster.router.ports["grpc"], PROMPT * 100)
    expect(code != 0, f"a prompt beyond the context was taken: {text}")
    cluster_wait(lambda: cluster.router.metric("kvferry_requests_total", 'reason="PROMPT_TOO_LONG"') == 1, "the refusal")
    cluster_wait(lambda: cluster.router.metric(
        "kvferry_calls_total", 'Generate",code="INVALID_ARGUMENT"') == 1, "the refused call")


def cluster_wait(is_so, what, limit_s=20):
    until = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > until:
            problems.append(f"figures of {what} did not come")
            return
        time.sleep(0.02)


# What an endpoint picker reads of a model server, by its defaults, and where else we say it.
COMPAT = {
    "vllm:num_requests_waiting": "_waiting",
    "vllm:num_requests_running": "_running",
    "vllm:kv_cache_usage_perc": "kvferry_kv_cache_usage_ratio",
    "vllm:cache_config_info": None,
}


def check_compat(worker, noun):
    found = {name: (labels, value) for name, labels, value in samples(read_page(worker)) if name.startswith("vllm:")}
    expect(set(found) == set(COMPAT), f"metrics_compat vllm shows {set(found)}")
    for name, own in COMPAT.items():
        own = f"kvferry_{noun}{own}" if own and own.startswith("_") else own
        expect(not own or found[name][1] == worker.metric(own), f"{name} is not {own}")
    labels = {"block_size": f"{worker.metric('kvferry_kv_block_tokens'):g}",
              "num_gpu_blocks": f"{worker.metric('kvferry_kv_blocks_max'):g}"}
    expect(found["vllm:cache_config_info"] == (labels, 1), f"vllm:cache_config_info: {found}")


# ---- alerts ----


def read_rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def promtool_cases(groups, alertname=None):
    """promtool test rules with the cases of one alert, or of all."""
    with tempfile.TemporaryDirectory() as folder:
        cases = yaml.safe_load(CASES.read_text())
        if alertname:
            cases["tests"] = [case for case in cases["tests"] if case["name"].split()[0] == alertname]
        pathlib.Path(folder, "alerts.yaml").write_text(yaml.safe_dump({"groups": groups}))
        pathlib.Path(folder, "cases.yaml").write_text(yaml.safe_dump(cases))
        return run(PROMTOOL, "test", "rules", "cases.yaml", folder=folder)


def check_cases(rules):
    code, text = promtool_cases(yaml.safe_load(ALERTS.read_text())["groups"])
    expect(code == 0, f"promtool test rules: {text}")
    # An alert that never fires, and one that always does, must be found by its cases.
    for rule in rules:
        for never_or_always in ("vector(0) > 1", 'label_replace(vector(1), "planted", "yes", "", "")'):
            wrong = {"alert": rule["alert"], "expr": never_or_always, "labels": rule["labels"]}
            code, _ = promtool_cases([{"name": "planted", "rules": [wrong]}], rule["alert"])
            expect(code != 0, f"{rule['alert']}: no case finds that its expression is {never_or_always}")


def firing_labels(alertname):
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for test in case.get("promql_expr_test", []):
            for sample in test.get("exp_samples", []):
                if f'alertname="{alertname}"' in sample["labels"]:
                    return set(re.findall(r'([a-z_]+)="', sample["labels"]))
    return set()


def check_rule(rule, sections):
    name = rule["alert"]
    annotations = rule["annotations"]
    expect(set(annotations) == {"summary", "description", "runbook"}, f"{name} has the annotations {set(annotations)}")
    expect(annotations.get("runbook") == RUNBOOK + name.lower(), f"{name}: runbook is {annotations.get('runbook')}")
    expect(name in sections, f"{name}: docs/operations.md has no section of that name")
    expect(rule["labels"].get("severity") in ("critical", "warning", "info"), f"{name}: severity {rule['labels']}")
    for label in re.findall(r"\$labels\.([a-z_]+)", annotations["summary"] + annotations["description"]):
        expect(label in firing_labels(name), f"{name}: its text has the label {label}, which it does not have")


# ---- boards ----


def board_expressions():
    """board and panel, expression as Prometheus gets it."""
    for path in sorted(BOARDS.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"].replace("$__rate_interval", "5m")


def check_boards():
    names = {path.name for path in BOARDS.glob("*.json")}
    expect(names == {"router.json", "context.json", "generation.json", "hand-over.json"}, f"boards: {names}")
    with tempfile.TemporaryDirectory() as folder:
        code, text = run(sys.executable, "-B", str(SOURCE / "deploy/monitoring/boards.py"), folder)
        expect(code == 0, f"boards.py: {text}")
        for name in names:
            expect(pathlib.Path(folder, name).read_text() == (BOARDS / name).read_text(),
                   f"boards/{name} is not what boards.py writes")
    for path in BOARDS.glob("*.json"):
        board = json.loads(path.read_text())
        variables = [variable["name"] for variable in board["templating"]["list"]]
        expect(variables == ["datasource", "namespace", "instance"], f"{path.name}: variables {variables}")
        for panel in board["panels"]:
            has_words = panel["description"] and panel["fieldConfig"]["defaults"]["unit"] and panel["targets"]
            expect(has_words, f"{path.name}: {panel['title']} lacks a description, a unit or a target")


def check_parse(expressions):
    rules = [{"record": f"board:{i}", "expr": text} for i, (_, text) in enumerate(expressions)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}, file)
        file.flush()
        code, text = run(PROMTOOL, "check", "rules", file.name)
        expect(code == 0, f"promtool cannot read an expression of a board: {text}")


def check_scraped(prometheus):
    """On the real figures: every panel has data, every alert can be evaluated, and none fires."""
    prometheus.wait('sum(kvferry_requests_total{reason="PROMPT_TOO_LONG"}) == 1', "figures of the requests")
    # Two more scrapes of each process: then all has come, and there are two samples for a rate.
    n_scrapes = "min(count_over_time(kvferry_ready[1h]))"
    prometheus.wait(f"{n_scrapes} >= {prometheus.query(n_scrapes)[0][1] + 2:g}", "more scrapes")
    for where, expression in board_expressions():
        expression = re.sub(r"\$(namespace|instance)", ".*", expression)
        try:
            found = prometheus.query(expression)
        except OSError as error:
            expect(False, f"{where}: prometheus refuses it: {error}")
            continue
        expect(found or expression.endswith("> 0"), f"{where}: there is nothing to show")
    cluster_wait(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()), "the alerts")
    expect(len(prometheus.rules()) == len(read_rules()), "prometheus has not all alerts")
    for rule in prometheus.rules():
        expect(rule["health"] == "ok", f"{rule['name']}: health {rule['health']}: {rule.get('lastError')}")
        expect(rule["state"] == "inactive", f"{rule['name']} is {rule['state']} on a cluster that is well")


# ---- docs ----


def source_strings():
    """What C's string literals say, adjacent ones joined."""
    text = "\n".join(path.read_text() for folder in SOURCES for path in sorted((SOURCE / folder).rglob("*.c")))
    return re.sub(r'"\s*(?:PRI\w+\s*)?"', "", text)


def logs_event(quote, strings):
    """`event key=... key=...`: one call of log_event or log_access has the event and the keys, in that order."""
    event, *keys = re.split(r" (?=[a-z_]+=)", quote)
    call = f'"{re.escape(event)}"' + "".join(rf'[^;]*?LOG_\w+\("{key.split("=")[0]}"' for key in keys)
    return re.search(r"log_(?:event|access)\([^;]*?" + call, strings)


def check_quotes(text, strings):
    """Log: `words ... words`, of a sentence, the dots stand for what differs; or an event with its fields."""
    quotes = [quote for line in re.findall(r"^Log: (.*)$", text, re.MULTILINE) for quote in re.findall("`([^`]+)`", line)]
    expect(len(quotes) >= 10, f"docs/operations.md quotes {len(quotes)} lines of logs")
    for quote in quotes:
        pattern = "%.{1,12}?".join(re.escape(part) for part in quote.split("..."))
        is_written = logs_event(quote, strings) if "=" in quote else re.search('"[^"]*' + pattern, strings)
        expect(is_written, f"docs/operations.md quotes `{quote}`, which no code writes")


def main():
    planted.check(expect)
    roles = read_reference()
    exported = check_names(roles)
    cluster = Cluster(BINARY, str(SOURCE / "model/demo"), True, "--metrics-compat", "vllm")
    scraper = None
    try:
        targets = [process.ports["metrics"] for process in cluster.processes]
        scraper = Prometheus(TOOLS / "prometheus", cluster.folder.name, targets, ALERTS)
        scraper.wait("sum(kvferry_ready) == 3", "first figures")
        check_figures(cluster)
        check_refusal(cluster)
        check_compat(cluster.context, "prefills")
        check_compat(cluster.generation, "decodes")
        for process, role in ((cluster.router, "router"), (cluster.context, "ctx-worker"),
                              (cluster.generation, "gen-worker")):
            check_page(role, read_page(process), roles[role], exported)
        check_scraped(scraper)
    finally:
        if scraper:
            scraper.stop()
        cluster.stop()

    operations = OPERATIONS.read_text()
    sections = set(re.findall(r"^### (\S+)$", operations, re.MULTILINE))
    rules = read_rules()
    check_cases(rules)
    for rule in rules:
        check_rule(rule, sections)
    known = {rule["alert"] for rule in rules}
    expect(not {s for s in sections if s.startswith("Kvferry")} - known, "docs/operations.md has sections of no alert")
    check_quotes(operations, source_strings())

    check_boards()
    boards = list(board_expressions())
    check_parse(boards)
    for where, expression in [(rule["alert"], rule["expr"]) for rule in rules] + boards:
        for fault in promql.faults(expression, exported):
            expect(False, f"{where}: {fault}")
    for name in set(re.findall(r"`((?:kvferry|process)_[a-z_]+)", operations)):
        expect(promql.base_name(name, exported) in exported, f"docs/operations.md: {name} is exported by no role")

    for problem in problems:
        print(f"monitoring: {problem}")
    print(f"monitoring: {len(rules)} alerts, {len(boards)} expressions of boards, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
