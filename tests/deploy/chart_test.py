#!/usr/bin/env python3
"""chart_test.py KVFERRY SOURCE TOOLS - everything of the chart that can be seen without a cluster.

lint, every file of ci/ rendered and checked against the API's schemas, the tables assertions.yaml (what objects have)
and refused.yaml (values that are no values), claims about every pod of every rendering, and the program itself asked
whether it takes each configuration. Prints each failure and `N passed, N failed`; exit status 1 with any."""

import base64
import concurrent.futures
import contextlib
import copy
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

KVFERRY, SOURCE, TOOLS = (Path(argument).resolve() for argument in sys.argv[1:4])
CHART = SOURCE / "deploy/chart/kvferry"
HERE = SOURCE / "tests/deploy"
KUBERNETES = "1.34.4"
PREFIX = "x-kvferry"
COMMANDS = {"router": "router", "context": "ctx-worker", "generation": "gen-worker", "aggregated": "serve"}
CURL_HTTP_ERROR = 22
CHAT_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
passed, failures = 0, []


def check(claim: str, holds: bool, found: object = "") -> None:
    global passed
    if holds:
        passed += 1
    else:
        failures.append(f"{claim}: {found}" if found != "" else claim)


def run(*command, text: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True, cwd=cwd)


# ---- rendering ----

def helm_template(values: dict, chart: Path = CHART) -> subprocess.CompletedProcess:
    return run(TOOLS / "helm", "template", "x", chart, "--namespace", "ns", "--kube-version", KUBERNETES,
               "--values", "-", text=json.dumps(values))


def parse(text: str) -> dict:
    """Objects by "Kind/name", the release's prefix left out of the name."""
    objects = {}
    for item in yaml.safe_load_all(text):
        if item:
            name = item["metadata"]["name"].removeprefix(PREFIX).removeprefix("-")
            key = f"{item['kind']}/{name}"
            check(f"{key} is there once", key not in objects)
            objects[key] = item
    return objects


def merged(base: dict, over: dict) -> dict:
    result = copy.deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def in_parallel(function, items) -> list:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


# ---- a path into an object ----

def parts_of(path: str) -> list[str]:
    return [part.strip('"') for part in re.findall(r'"[^"]*"|\[[^\]]*\]|[^.\[\]"]+', path)]


def find(node, path: str):
    """`spec.ports[0].port`, `spec.ports[name=grpc]`, `metadata.labels."a.b/c"`, `data.file|yaml.key`; None: not there."""
    for part in parts_of(path):
        if part.endswith("|yaml"):
            node = node.get(part.removesuffix("|yaml")) if isinstance(node, dict) else None
            node = yaml.safe_load(node) if node is not None else None
        elif part.startswith("["):
            if not isinstance(node, list):
                return None
            key, equals, value = part[1:-1].partition("=")
            if not equals:
                node = node[int(key)] if int(key) < len(node) else None
            else:
                node = next((item for item in node if str(item.get(key)) == value), None)
        elif part == "#":
            node = len(node) if node is not None else None
        else:
            node = node.get(part) if isinstance(node, dict) else None
        if node is None:
            return None
    return node


def assert_line(case: str, line: str, objects: dict) -> None:
    """`Kind/name there`, `Kind/name absent`, `Kind/name path = JSON`, `... path absent`, `... path ~ part of the text`."""
    claim = f"{case}: {line}"
    what, _, rest = line.partition(" ")
    if rest in ("there", "absent"):
        check(claim, (what in objects) == (rest == "there"), sorted(objects))
        return
    if what not in objects:
        check(claim, False, f"there is no {what}")
        return
    if rest.endswith(" absent"):
        found = find(objects[what], rest.removesuffix(" absent"))
        check(claim, found is None, found)
    elif " ~ " in rest:
        path, wanted = rest.split(" ~ ", 1)
        found = find(objects[what], path)
        check(claim, found is not None and wanted in str(found), found)
    else:
        path, wanted = rest.split(" = ", 1)
        found = find(objects[what], path)
        check(claim, found == yaml.safe_load(wanted), found)


# ---- what holds for every rendering ----

def pod_of(item: dict) -> dict | None:
    if item["kind"] == "Pod":
        return {"metadata": item["metadata"], "spec": item["spec"]}
    if item["kind"] == "Deployment":
        return item["spec"]["template"]
    if item["kind"] == "LeaderWorkerSet":
        return item["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    return None


def is_restricted(case: str, pod: dict) -> None:
    """Kubernetes' restricted profile, rule by rule, and what the chart promises beyond it."""
    spec = pod["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        check(f"{case}: no {key}", not spec.get(key))
    context = spec["securityContext"]
    check(f"{case}: not root", context["runAsNonRoot"] is True and context["runAsUser"] == 65532, context)
    check(f"{case}: seccomp", context["seccompProfile"] == {"type": "RuntimeDefault"}, context)
    check(f"{case}: no service links", spec.get("enableServiceLinks") is False)
    for container in spec["containers"] + spec.get("initContainers", []):
        if not container["image"].startswith("registry.example/") or "kvferry" in container["image"]:
            own = container["securityContext"]
            name = f"{case} {container['name']}"
            check(f"{name}: no escalation", own["allowPrivilegeEscalation"] is False)
            check(f"{name}: read-only root", own["readOnlyRootFilesystem"] is True)
            check(f"{name}: drops all", own["capabilities"]["drop"] == ["ALL"])
            check(f"{name}: adds at most IPC_LOCK", set(own["capabilities"].get("add", [])) <= {"IPC_LOCK"})
            check(f"{name}: no shell", "command" not in container and container["args"][0] not in ("sh", "bash"))
    allowed = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "hostPath", "image"}
    for volume in spec.get("volumes", []):
        kind = next(key for key in volume if key != "name")
        check(f"{case}: volume {volume['name']} is one that is known", kind in allowed, volume)
        if kind == "emptyDir" and volume["name"] != "more":
            check(f"{case}: volume {volume['name']} has a bound", "sizeLimit" in volume["emptyDir"], volume)
    for container in spec["containers"]:
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            check(f"{case}: mount {mount['name']} has a volume", mount["name"] in volumes)


def named_ports(pod: dict) -> dict:
    container = next(item for item in pod["spec"]["containers"] if item["name"] == "kvferry")
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


def ports_agree(case: str, objects: dict, values: dict) -> None:
    """What the program listens on, the container declares, services and probes name, and policies open: one number."""
    row_of = {"grpc": "grpc_address", "http": "http_address", "control": "control_address",
              "health": "health_address", "metrics": "metrics_address"}
    for key, item in objects.items():
        pod = pod_of(item)
        if not pod or item["kind"] == "Pod":
            continue
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        ports = named_ports(pod)
        config = yaml.safe_load(objects[f"ConfigMap/{component}"]["data"]["kvferry.yaml"])
        for name, row in row_of.items():
            listens = config.get(row) or None
            check(f"{case} {key}: {row} is the port {name}",
                  (f":{ports[name]}" if name in ports else None) == listens, listens)
        container = next(part for part in pod["spec"]["containers"] if part["name"] == "kvferry")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            check(f"{case} {key}: {probe} asks the health port", container[probe]["grpc"]["port"] == ports["health"])
            check(f"{case} {key}: {probe} asks its service",
                  container[probe]["grpc"]["service"] == probe.removesuffix("Probe"))
        check(f"{case} {key}: a kubelet can ask the health port", config.get("health_tls") == (
            "no" if "tls_certificate" in config else None))
        delay, limit = (int(config[row].removesuffix("s")) for row in ("drain_delay_ms", "drain_limit_ms"))
        given = (values.get(component) or {}).get("terminationGracePeriodSeconds", 0)
        check(f"{case} {key}: grace = delay + limit + 5, or more if so given",
              pod["spec"]["terminationGracePeriodSeconds"] == max(delay + limit + 5, given))
        policy = objects.get(f"NetworkPolicy/{component}")
        if policy:
            opened = {rule_port["port"] for rule in policy["spec"]["ingress"] for rule_port in rule["ports"]}
            data = {int(config["ucx_port_range"].split("-")[0])} if "ucx_port_range" in config else set()
            check(f"{case} {key}: the policy opens ports that there are", opened <= set(ports.values()) | data, opened)
            check(f"{case} {key}: and those that are needed",
                  {port for name, port in ports.items() if name in ("grpc", "http", "metrics")} | data <= opened, opened)
            for rule in policy["spec"]["ingress"]:
                if {port["port"] for port in rule["ports"]} & ({50052} | data):
                    check(f"{case} {key}: control and data ports only from somebody", bool(rule.get("from")), rule)
        for name, service in objects.items():
            if service["kind"] == "Service" and service["spec"]["selector"]["app.kubernetes.io/component"] == component:
                for port in service["spec"]["ports"]:
                    check(f"{case} {name}: port {port['name']} is one of the pod's", port["targetPort"] in ports)
        check(f"{case} {key}: the service account's token only where it is used",
              pod["spec"]["automountServiceAccountToken"] == (config.get("context_workers", "")[:4] == "k8s:"))
        labels = pod["metadata"]["labels"]
        check(f"{case} {key}: role label", labels["llm-d.ai/role"] == {
            "context": "prefill", "generation": "decode", "aggregated": "both"}[component]
            if component != "router" else "llm-d.ai/role" not in labels)


# ---- the program's word ----

def tables_of_program() -> dict[str, set[str]]:
    """Command -> the keys that it knows."""
    tables, command = {}, None
    for line in run(KVFERRY, "reference", "config").stdout.splitlines():
        if line.startswith("## "):
            command = line.removeprefix("## ").removeprefix("kvferry ")
            tables[command] = set()
        elif line.startswith("| `") and command:
            tables[command].add(line.split("`")[1].split()[0].replace("-", "_").removeprefix("__"))
    return tables


def make_files(folder: Path) -> None:
    """The files that the chart mounts, made as docs/tls.md makes them."""
    def openssl(*arguments: str) -> None:
        done = run("openssl", *arguments, cwd=folder)
        if done.returncode:
            raise SystemExit(f"openssl {' '.join(arguments)}: {done.stderr}")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-subj", "/CN=ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt")
    names = [f"URI:kvferry://{cluster}/role/{role}" for cluster in ("kvferry", "prod")
             for role in ("router", "context", "generation")]
    for name in ["DNS:x-kvferry.ns.svc", *names]:
        stem = name.split("://")[-1].replace("/", "-") if "://" in name else "tls"
        (folder / "extensions").write_text(f"subjectAltName={name}\n")
        openssl("req", *curve, "-subj", "/CN=x", "-keyout", f"{stem}.key", "-out", f"{stem}.csr")
        openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "extensions", "-out", f"{stem}.crt")
    (folder / "cluster.key").write_text(base64.b64encode(bytes(range(32))).decode() + "\n")
    (folder / "tokens.yaml").write_text(f"tokens:\n  - tenant: a\n    sha256: {'0' * 64}\n")
    (folder / "salt.key").write_text(base64.b64encode(bytes(32)).decode() + "\n")
    (folder / "chat").mkdir()  # as a kubelet lays a ConfigMap down
    (folder / "chat/..1").mkdir()
    (folder / "chat/..1/chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "chat/..data").symlink_to("..1")
    (folder / "chat/chat_template.jinja").symlink_to("..data/chat_template.jinja")


def placed(row: str, value: str, component: str, config: dict, folder: Path) -> str:
    """A mounted path as one of the files that make_files has made; a pod's network device and GPU as what this machine has."""
    if row == "ucx_net_devices":
        return "lo"
    if row == "device" and value.startswith("cuda:"):
        return "auto"
    if not value.startswith("/etc/kvferry/"):
        return value
    own = f"{config.get('cluster_name', 'kvferry')}-role-{component}"
    return str(folder / {
        "cluster_key": "cluster.key", "tokens_file": "tokens.yaml", "salt_key_file": "salt.key",
        "chat_template": "chat/chat_template.jinja",
        "tls_certificate": "tls.crt", "tls_key": "tls.key", "tls_client_ca": "ca.crt",
        "peer_certificate": f"{own}.crt", "peer_key": f"{own}.key", "peer_ca": "ca.crt"}[row])


def config_file(component: str, config: dict, folder: Path) -> Path:
    file = Path(tempfile.mkstemp(dir=folder, suffix=".yaml")[1])
    file.write_text("".join(f"{row}: {json.dumps(placed(row, value, component, config, folder))}\n"
                            for row, value in config.items()))
    return file


def ask_program(component: str, config: dict, folder: Path) -> subprocess.CompletedProcess:
    file = config_file(component, config, folder)
    return run(KVFERRY, COMMANDS[component], SOURCE / "model/demo", f"--config={file}", "--check-config")


def program_agrees(case: str, objects: dict, tables: dict, folder: Path) -> None:
    for key, item in objects.items():
        pod = pod_of(item)
        if not pod:
            continue
        for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
            if container["name"] in ("kvferry", "check-model"):
                arguments_agree(f"{case} {key}", container, tables)
        if item["kind"] == "Pod":
            continue
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        config = yaml.safe_load(objects[f"ConfigMap/{component}"]["data"]["kvferry.yaml"])
        known = {}
        for row, value in config.items():
            is_text = isinstance(value, str)
            check(f"{case} {key}: {row} is a text", is_text, value)
            is_known = row in tables[COMMANDS[component]]
            check(f"{case} {key}: {COMMANDS[component]} has the row {row}", is_known)
            if is_known:
                known[row] = value
        answer = ask_program(component, known, folder)
        check(f"{case} {key}: kvferry {COMMANDS[component]} --check-config",
              answer.returncode == 0 and "valid" in answer.stdout, answer.stderr)


def arguments_agree(case: str, container: dict, tables: dict) -> None:
    command = container["args"][0]
    check(f"{case}: {command} is a command", command in tables, sorted(tables))
    every = {row for table in tables.values() for row in table}
    for argument in container["args"][1:]:
        if argument == "--":
            break
        if argument.startswith("--"):
            flag = argument[2:].split("=")[0].replace("-", "_")
            check(f"{case}: {command} has the flag {argument}",
                  flag in tables[command] | {"config", "strict_environment"})
    for variable in container.get("env", []):
        if variable["name"].startswith("KVFERRY_"):
            row = variable["name"].removeprefix("KVFERRY_").lower()
            check(f"{case}: {variable['name']} is a row", row in every | {"strict_environment", "token"})


# ---- the parts ----

def test_lint() -> None:
    for version in ("1.28.0", KUBERNETES):
        done = run(TOOLS / "helm", "lint", "--strict", "--kube-version", version, CHART)
        check(f"helm lint --strict for {version}", done.returncode == 0, done.stdout + done.stderr)
    old = run(TOOLS / "helm", "template", "x", CHART, "--kube-version", "1.27.0")
    check("Kubernetes 1.27 is too old", old.returncode != 0 and "kubeVersion" in old.stderr, old.stderr)


def conform(text: str) -> subprocess.CompletedProcess:
    place = str(HERE / "schemas" / "{{ .ResourceKind }}{{ .KindSuffix }}.json")
    return run(TOOLS / "kubeconform", "-strict", "-kubernetes-version", KUBERNETES, "-schema-location", place, text=text)


def test_ci_values(tables: dict, folder: Path) -> None:
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    check("12 files of values or more", len(files) >= 12, len(files))
    all_values = [yaml.safe_load(file.read_text()) or {} for file in files]
    for file, values, done in zip(files, all_values, in_parallel(helm_template, all_values)):
        case = file.name.removesuffix("-values.yaml")
        check(f"{case}: renders", done.returncode == 0, done.stderr)
        if done.returncode:
            continue
        verdict = conform(done.stdout)
        check(f"{case}: kubeconform", verdict.returncode == 0, verdict.stdout)
        objects = parse(done.stdout.replace("name: llm", f"name: {PREFIX}"))
        for key, item in objects.items():
            labels = item["metadata"].get("labels", {})
            check(f"{case} {key}: has the release's labels",
                  labels.get("app.kubernetes.io/instance") == "x" or key.endswith("-more"), labels)
            check(f"{case} {key}: has a namespace", item["metadata"].get("namespace") == "ns"
                  or item["kind"] == "Pod" or key.endswith("-more"))
            if pod_of(item):
                is_restricted(f"{case} {key}", pod_of(item))
        ports_agree(case, objects, values)
        program_agrees(case, objects, tables, folder)


def test_conform_can_fail() -> None:
    text = helm_template({}).stdout
    for right, wrong in (("periodSeconds:", "periodSecond:"), ("containerPort:", "containrPort:"),
                         ("podSelector:", "podSelektor:"), ("clusterIP:", "clusterIp:")):
        check(f"kubeconform refuses {wrong}", conform(text.replace(right, wrong)).returncode != 0)


def test_program_can_fail(folder: Path) -> None:
    good = {"control_address": "127.0.0.1:50052"}
    check("the program takes a good row", ask_program("router", {**good, "generation_workers": "a:1"}, folder).returncode == 0)
    for row, value in (("no_such_row", "1"), ("poll_ms", "fast"), ("health_address", ":50053")):
        check(f"the program refuses {row}: {value}", ask_program("router", {**good, row: value}, folder).returncode != 0)


def test_assertions() -> None:
    cases = yaml.safe_load((HERE / "assertions.yaml").read_text())
    renderings = in_parallel(helm_template, [case.get("values") or {} for case in cases])
    for case, done in zip(cases, renderings):
        check(f"{case['case']}: renders", done.returncode == 0, done.stderr)
        if done.returncode == 0:
            objects = parse(done.stdout)
            for line in case["then"]:
                assert_line(case["case"], line, objects)


def test_refused() -> None:
    """Each line `path = JSON => part of the message`; several paths are joined by ` and `."""
    rows = []
    for line in (HERE / "refused.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            settings, _, message = line.partition(" => ")
            values: dict = {}
            for setting in settings.split(" and "):
                path, _, value = setting.partition(" = ")
                nested = yaml.safe_load(value)
                for part in reversed(parts_of(path)):
                    nested = {part: nested}
                values = merged(values, nested)
            rows.append((line, message, values))
    check("80 refused values or more", len(rows) >= 80, len(rows))
    for (line, message, _), done in zip(rows, in_parallel(lambda row: helm_template(row[2]), rows)):
        check(f"refused: {line}", done.returncode != 0 and message in done.stderr, done.stderr.strip()[-300:].replace("\n", " "))


def test_key() -> None:
    keys = []
    for _ in range(2):
        objects = parse(helm_template({}).stdout)
        keys.append(base64.b64decode(objects["Secret/cluster-key"]["data"]["cluster.key"]).decode())
    check("the drawn key is 32 bytes in base64", all(len(base64.b64decode(key)) == 32 for key in keys), keys)
    check("and drawn anew", keys[0] != keys[1])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cluster.key").write_text(keys[0])
        config = {"control_address": ":50052", "insecure": "yes", "generation_workers": "a:1",
                  "cluster_key": str(Path(folder) / "cluster.key")}
        answer = ask_program("router", config, Path(folder))
        check("the program takes the drawn key", answer.returncode == 0, answer.stderr)


def test_manifest() -> None:
    """What the init container runs: the list that Python's hashlib makes of the demo model is good, a spoilt one is not."""
    model = SOURCE / "model/demo"
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in sorted(model.iterdir())
             if file.is_file()]
    with tempfile.NamedTemporaryFile("w", suffix=".sums") as file:
        for text, is_good in ((lines, True), ([lines[0].replace("a", "b"), *lines[1:]], False), (lines[:-1], False)):
            file.seek(0)
            file.truncate()
            file.write("\n".join(text) + "\n")
            file.flush()
            done = run(KVFERRY, "check-model", model, f"--manifest={file.name}")
            check(f"check-model --manifest says {is_good}", (done.returncode == 0) == is_good, done.stderr)


def test_pods_of_helm_test() -> None:
    """The arguments of the pods of `helm test`, given to the program with a real server; with one that has no context
    worker the pod that expects a hand-over fails."""
    objects = parse(helm_template({}).stdout)
    for n_context_workers, expected in ((1, {"test-handover": 0, "test-short": 0}),
                                        (0, {"test-handover": 1, "test-short": 0})):
        with tempfile.TemporaryDirectory() as folder:
            addresses = [f"--{port}-address=127.0.0.1:0" for port in ("grpc", "http", "control", "health", "metrics")]
            server = subprocess.Popen(
                [KVFERRY, "serve", SOURCE / "model/demo", *addresses, "--log-level=error",
                 f"--n-context-workers={n_context_workers}", f"--ports-file={folder}/ports"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            server.stdout.readline()  # it says so when it is ready
            address = json.loads((Path(folder) / "ports").read_text())["grpc"]
            instead = {"--server": address, "--cache-salt": "s"}
            if not n_context_workers:  # nothing to wait for
                instead["--handover-wait-ms"] = "1s"
            for name, status in expected.items():
                arguments = objects[f"Pod/{name}"]["spec"]["containers"][0]["args"]
                done = run(KVFERRY, *[f"{flag}={instead[flag]}" if (flag := argument.split("=")[0]) in instead else argument
                                      for argument in arguments])
                check(f"{name} with {n_context_workers} context workers: {status}", done.returncode == status, done.stderr)
            server.terminate()
            server.communicate()


@contextlib.contextmanager
def served(objects: dict, folder: Path):
    """`kvferry serve` with the configuration of an aggregated pod, but for free ports of the loopback and a short drain; its ports."""
    config = yaml.safe_load(objects["ConfigMap/aggregated"]["data"]["kvferry.yaml"])
    ports_file = folder / "ports"
    ports_file.unlink(missing_ok=True)
    addresses = [f"--{port}-address=127.0.0.1:0" for port in ("grpc", "http", "health", "metrics") if config[f"{port}_address"]]
    server = subprocess.Popen(
        [KVFERRY, "serve", SOURCE / "model/demo", f"--config={config_file('aggregated', config, folder)}", *addresses,
         "--http-hosts=*",  # in a pod it is no loopback port
         "--drain-delay-ms=0", f"--ports-file={ports_file}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        server.stdout.readline()  # it says so when it is ready
        yield json.loads(ports_file.read_text())
    finally:
        server.terminate()
        server.communicate()


def curl(arguments: list[str], address: str, token: str, folder: Path) -> subprocess.CompletedProcess:
    """As the container runs it, with the secrets of make_files, and the service's name at that address."""
    places = {"/etc/kvferry/tls/ca.crt": folder / "ca.crt", "/etc/kvferry/client/tls.crt": folder / "tls.crt",
              "/etc/kvferry/client/tls.key": folder / "tls.key"}
    given = [str(places.get(argument, argument)).replace("$(KVFERRY_TOKEN)", token) for argument in arguments]
    return run("curl", "--connect-to", f"::{address}", *given)


def test_http_pod_of_helm_test(folder: Path) -> None:
    """What its containers run, against an aggregated pod's program with the chart's configuration: as installed, and with
    TLS, client certificates, tokens and a chat template. A wrong token, and a port that is not open, fail."""
    token = f"kvf_{'5' * 64}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    (folder / "tokens.yaml").write_text(f"tokens:\n  - tenant: a\n    sha256: {digest}\n")
    plain = {"mode": "aggregated", "http": {"enabled": True}}
    secure = {"tls": {"mode": "secret", "existingSecret": "s", "clientCa": {"enabled": True}},
              "auth": {"tokens": {"existingSecret": "t"}}, "chat": {"existingConfigMap": "c"},
              "tests": {"token": {"existingSecret": "u"}, "clientCertificateSecret": "v"}}
    for case, values in (("plain", plain), ("secure", {**plain, **secure})):
        objects = parse(helm_template(values).stdout)
        containers = {item["name"]: item["args"] for item in objects["Pod/test-http"]["spec"]["containers"]}
        check(f"{case}: the pod asks for health and a completion", set(containers) == {"health", "completion"}, containers)
        with served(objects, folder) as ports:
            for name, arguments in containers.items():
                done = curl(arguments, ports["http"], token, folder)
                check(f"{case}: {name}", done.returncode == 0, done.stderr + done.stdout)
            answer = json.loads(done.stdout)
            check(f"{case}: the completion is a text", answer["choices"][0]["text"] and
                  answer["usage"]["completion_tokens"] == 16, answer)
            chat = [argument.replace("/v1/", "/v1/chat/").replace(
                '"prompt": "In the beginning"', '"messages": [{"role": "user", "content": "Who?"}]')
                for argument in containers["completion"]]
            check(f"{case}: chat {'works' if case == 'secure' else 'needs a template'}",
                  curl(chat, ports["http"], token, folder).returncode == (0 if case == "secure" else CURL_HTTP_ERROR))
            if case == "secure":
                done = curl(containers["completion"], ports["http"], token[:-1] + "6", folder)
                check("a wrong token fails", done.returncode == CURL_HTTP_ERROR and "401" in done.stderr, done.stderr)
                bare = containers["health"][:containers["health"].index("--cert")] + containers["health"][-1:]
                check("no client certificate fails", curl(bare, ports["http"], token, folder).returncode not in (0, 22))
    off = parse(helm_template({"mode": "aggregated"}).stdout)
    with served(off, folder) as ports:
        check("http.enabled false: serve opens no HTTP port", not ports.get("http"), ports)


def test_versions() -> None:
    """The chart's appVersion is the program's."""
    said = run(KVFERRY, "version").stdout.split("\n")[0]
    wanted = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    check("appVersion is the program's", re.search(rf"\b{re.escape(wanted)}\b", said) is not None, said)


def test_metric_names() -> None:
    """What roles are scaled by is a metric of that role."""
    sections = re.split(r"^## ", run(KVFERRY, "reference", "metrics").stdout, flags=re.M)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for component in ("context", "generation"):
        name = values[component]["autoscaling"]["metric"]["name"]
        section = next(text for text in sections if text.startswith(f"{COMMANDS[component]}\n"))
        check(f"{component} has the metric {name}", f"`{name}`" in section)


def test_readme() -> None:
    done = run(TOOLS / "helm-docs", "--dry-run", "--log-level", "error", "--chart-search-root", CHART)
    check("README.md is what helm-docs makes (make chart-docs)",
          done.returncode == 0 and done.stdout.strip() == (CHART / "README.md").read_text().strip(), done.stderr)
    undescribed = re.findall(r"^\| (\S+) \|[^|]*\|[^|]*\|\s*\|$", (CHART / "README.md").read_text(), re.M)
    allowed = re.compile(r"\.(requests|limits)\.|probes\.\w+\.|updateStrategy\.|[sS]ecurityContext\.|"
                         r"grafana_dashboard|metricsFrom|dnsTo|autoscaling\.metric")
    check("every value is described", not [key for key in undescribed if not allowed.search(key)], undescribed)


def test_schema_is_strict() -> None:
    """Each object of values.yaml refuses a key that is not in it, but for those that are handed on as they are."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def walk(node: dict, value: dict, path: str) -> None:
        node = schema["$defs"][node["$ref"].split("/")[-1]] if "$ref" in node else node
        properties = node.get("properties")
        if properties is None:
            return
        check(f"the schema of {path or 'values'} is strict", node.get("additionalProperties") is False)
        for key, item in value.items():
            check(f"the schema knows {path}{key}", key in properties)
            if isinstance(item, dict) and key in properties:
                walk(properties[key], item, f"{path}{key}.")
        unset = set(properties) - set(value) - {"global", "requests", "limits", "claims", "registry", "repository",
                                                "tag", "flavour", "digest"}
        check(f"values.yaml has a default for each key of {path or 'values'}", not unset, unset)

    walk(schema, values, "")


def test_monitoring_files() -> None:
    """The chart's copies are deploy/monitoring's; and what objects are made of them, also where there are none yet."""
    made = SOURCE / "deploy/monitoring"
    if made.is_dir():
        done = run(SOURCE / "deploy/chart/files.sh", "--check")
        check("deploy/chart/kvferry/files is deploy/monitoring (make chart-files)", done.returncode == 0, done.stdout)
    both = {"monitoring": {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}}
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "kvferry"
        shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("files"))
        bare = helm_template(both, chart)
        check("alerts without a file are refused", bare.returncode != 0 and "files/alerts.yaml" in bare.stderr)
        (chart / "files/boards").mkdir(parents=True)
        rule = {"alert": "A", "expr": "up == 0", "annotations": {"summary": "{{ $labels.pod }} is down"}}
        (chart / "files/alerts.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}))
        board = json.dumps({"title": "T", "panels": [{"legendFormat": "{{pod}}"}]}, indent=2)
        (chart / "files/boards/hand_over.json").write_text(board)
        done = helm_template(both, chart)
        check("alerts and boards render", done.returncode == 0, done.stderr)
        objects = parse(done.stdout)
        check("the alerts' own templates stay", find(objects, '"PrometheusRule/".spec.groups[0].rules[0]') == rule)
        check("the board is the file's text", find(objects, '"ConfigMap/board-hand-over".data."hand_over.json"') == board)
        check("Grafana finds it", find(objects, '"ConfigMap/board-hand-over".metadata.labels.grafana_dashboard') == "1")
        check("they conform", conform(done.stdout).returncode == 0)
    if (CHART / "files/alerts.yaml").exists():
        done = helm_template(both)
        check("the chart's own alerts and boards render", done.returncode == 0, done.stderr)
        check("and conform", conform(done.stdout).returncode == 0)


def test_notes() -> None:
    """NOTES.txt is rendered into an object of a copy, as helm shows it only with a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "kvferry"
        shutil.copytree(CHART, chart)
        (chart / "templates/notes.yaml").write_text(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n"
            'data:\n  notes: {{ include "kvferry/templates/NOTES.txt" . | toJson }}\n')
        for values, wanted in (({}, "grpcurl -plaintext -d '"), ({"mode": "aggregated"}, "in one pod"),
                               ({"tls": {"mode": "secret", "existingSecret": "s"}}, "grpcurl -cacert ca.crt"),
                               ({"auth": {"tokens": {"existingSecret": "t"}}}, "authorization: Bearer"),
                               ({"networkPolicy": {"enabled": False}}, "no NetworkPolicy protects them"),
                               ({"http": {"enabled": True, "port": 80}}, "curl http://127.0.0.1:8000/v1/completions -d '{"),
                               ({"http": {"enabled": True}, "tls": {"mode": "secret", "existingSecret": "s"},
                                 "auth": {"tokens": {"existingSecret": "t"}}},
                                "curl --cacert ca.crt --connect-to x-kvferry.ns.svc:8000:127.0.0.1:8000 -H \"authorization: "
                                "Bearer $KVFERRY_TOKEN\" https://x-kvferry.ns.svc:8000/v1/completions")):
            objects = parse(helm_template(values, chart).stdout)
            text = find(objects, '"ConfigMap/notes".data.notes') or ""
            check(f"NOTES of {values}: {wanted}", wanted in text and "{{ " not in text, text)


def main() -> int:
    tables = tables_of_program()
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        test_lint()
        test_ci_values(tables, Path(folder))
        test_program_can_fail(Path(folder))
        test_http_pod_of_helm_test(Path(folder))
    for test in (test_conform_can_fail, test_assertions, test_refused, test_key, test_manifest, test_pods_of_helm_test,
                 test_versions, test_metric_names, test_readme, test_schema_is_strict, test_monitoring_files, test_notes):
        test()
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
