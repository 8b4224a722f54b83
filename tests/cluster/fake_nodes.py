#!/usr/bin/env python3
"""fake_nodes.py SOURCE TOOLS [CASE...] - the chart on a real control plane whose nodes are fake: installed, upgraded,
rolled back, tested, uninstalled with each of its ci/ values, and what must be refused is.

API server, scheduler and controllers are real; pods are declared running. What programs do, probes and networks is
seen by real_node.py only. $KVK_CACHE has what programs.sh builds. A line for each failure and each case,
then `N passed, N failed`; exit status 1 with any."""

import base64
import concurrent.futures
import json
import re
import sys
import threading
import time
from pathlib import Path

import release_state
import yaml
from fake_cluster import Case, FakeCluster, Stopped, documents, lost, until_well
from release_state import name_of, of_kind

CHART = Path(sys.argv[1]).resolve() / "deploy/chart/kvferry"
SCHEMAS = Path(sys.argv[1]).resolve() / "tests/deploy/schemas.py"
NEEDS = yaml.safe_load((Path(__file__).parent / "needs.yaml").read_text())
RELEASE = "x"
PROFILES = ("privileged", "baseline", "restricted")
# Values whose pods do not meet the restricted profile: what they meet, which components do not meet more, and why
LOOSER = {
    "everything": ("baseline", {"router", "context", "generation"}, "allowPrivilegeEscalation"),
    "gpu": ("privileged", {"router", "context", "generation"}, "hostPath"),
    "rdma": ("privileged", {"context", "generation"}, "IPC_LOCK"),
}
# Secrets that are drawn, and left by an uninstall; with other values it is the cluster key
KEPT = {"aggregated": set(), "aggregated-tls": {"x-kvferry-salt-key"}, "everything": {"llm-cluster-key"},
        "secure": set()}
COMES_BACK = {"default", "aggregated", "aggregated-tls"}
CHANGED = {"config": {"keepalive_ms": "21s"}, "image": {"tag": "changed", "digest": ""},
           **{component: {"image": {"tag": "changed"}} for component in release_state.COMPONENTS}}
READY_SECONDS = 60
HELM_WAIT = ("--wait", "--timeout", "120s")
NOT_HERE = {"LeaderWorkerSet": "LeaderWorkerSet", "ScaledObject": "KEDA", "Certificate": "cert-manager",
            "GRPCRoute": "Gateway API", "HTTPRoute": "Gateway API",
            "ServiceMonitor": "Prometheus operator", "PodMonitor": "Prometheus operator"}


class Release(Case):
    """A release `x` in a namespace of its own."""

    def __init__(self, cluster: FakeCluster, name: str, values: dict):
        super().__init__(cluster, name)
        self.values = values
        self.values_file = cluster.state / f"{self.namespace}.yaml"
        self.written: list[dict] = []
        self.wanted = release_state.pods_wanted(values)

    def prepare(self, profile: str) -> None:
        self.values_file.write_text(yaml.safe_dump(self.values))
        needs = NEEDS.get(self.name, [])
        in_namespace, text = ("-n", self.namespace), yaml.safe_dump_all(needs)
        if needs:
            self.cluster.kubectl(*in_namespace, "delete", "--ignore-not-found", "-f", "-", text=text)
        self.cluster.fresh_namespace(self.namespace, profile)
        if needs:
            made = self.cluster.kubectl(*in_namespace, "create", "-f", "-", text=text)
            self.must_do("what the values need is made", made)
        self.before = self.cluster.names(self.namespace)

    def helm(self, *arguments, values: dict | None = None):
        text = json.dumps(values or {})
        return self.cluster.helm("-n", self.namespace, *arguments, *(("--values", "-") if values else ()), text=text)

    def template(self) -> str:
        return self.must_do("renders", self.helm("template", RELEASE, CHART, "--values", self.values_file,
                                              "--kube-version", self.cluster.version())).stdout

    def items(self) -> list[dict]:
        return self.cluster.objects(self.namespace, release_state.KINDS)

    def secrets(self, names: set[str]) -> dict[str, dict]:
        return {name_of(item): item["data"] for item in of_kind(self.items(), "Secret") if name_of(item) in names}

    # ---- steps ----

    def dry_run(self) -> None:
        """The server takes every object, strictly, and without a warning."""
        text = self.template()
        done = self.must_do("the server takes every object", strict_dry_run(self.cluster, self.namespace, text))
        self.check("without a warning", "Warning" not in done.stderr, done.stderr.strip())
        kinds = {NOT_HERE[item["kind"]] for item in documents(text) if item["kind"] in NOT_HERE}
        self.notes += [f"no controller of {kind} here: objects only" for kind in sorted(kinds)]

    def install(self, claim: str) -> None:
        balanced = threading.Thread(target=self.balance)
        balanced.start()
        done = self.helm("install", RELEASE, CHART, "--values", self.values_file, *HELM_WAIT)
        balanced.join()
        self.must_do(claim, done)
        self.check(f"{claim}: without a warning", not re.search("warning|violate", done.stderr, re.I), done.stderr)

    def balance(self) -> None:
        """Gives load balancers an address, as a cloud would; helm waits for it."""
        if (self.values.get("router") or {}).get("service", {}).get("type") == "LoadBalancer":
            service = ("-n", self.namespace, "service", f"{RELEASE}-kvferry")
            self.cluster.kubectl("wait", "--for=create", "--timeout=60s", *service)
            address = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}})
            self.cluster.kubectl("patch", *service, "--subresource=status", "--type=merge", "--patch", address)

    def upgrade(self, changes: dict, *arguments):
        return self.helm("upgrade", RELEASE, CHART, "--values", self.values_file, *arguments, values=changes)

    def settle(self, claim: str) -> list[dict]:
        """All pods there, in their services, with all that they name; every object held as it was written."""
        seen: list[dict] = []

        def complaints() -> list[str]:
            seen[:] = self.items()
            return [*release_state.of_pods(seen, self.wanted), *release_state.of_endpoints(seen),
                    *release_state.of_controllers(seen, self.wanted)]
        left = until_well(READY_SECONDS, complaints)
        self.must(f"{claim}: pods, services and controllers", not left, left)
        for what, found in (("what pods name", release_state.of_references(seen)),
                            ("tokens", release_state.of_tokens(seen, self.values))):
            self.check(f"{claim}: {what}", not found, found)
        text = self.must_do(f"{claim}: helm has the manifest", self.helm("get", "manifest", RELEASE)).stdout
        held = self.must_do(f"{claim}: every object is there",
                         self.cluster.kubectl("-n", self.namespace, "get", "-f", "-", "-o", "json", text=text))
        for written, live in zip(documents(text), json.loads(held.stdout)["items"], strict=True):
            found = lost(written, live)
            self.check(f"{claim}: {written['kind']} {name_of(written)} is held as it was written", not found, found)
        self.written = documents(text)
        return seen

    def rows(self, items: list[dict]) -> list[dict]:
        return [yaml.safe_load(item["data"]["kvferry.yaml"]) for item in of_kind(items, "ConfigMap")
                if "kvferry.yaml" in item.get("data", {})]

    def images(self, items: list[dict]) -> set[str]:
        """Of running pods, and of templates whose controller is not here."""
        groups = [{"spec": item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]}
                  for item in of_kind(self.written, "LeaderWorkerSet")]
        return {release_state.image_of(pod) for pod in release_state.workers_of(items) + groups}

    def uninstall(self, claim: str, kept: set[str], pods: set[str]) -> None:
        """Nothing is left but secrets that are kept, and what helm never deletes: the pods of its last test."""
        self.must_do(claim, self.helm("uninstall", RELEASE, *HELM_WAIT))
        may_stay = {f"secret/{name}" for name in kept} | {f"pod/{name}" for name in pods}
        left = until_well(READY_SECONDS, lambda: sorted((self.cluster.names(self.namespace) - self.before) ^ may_stay))
        self.check(f"{claim}: nothing is left but {sorted(may_stay)}", not left, left)


def strict_dry_run(cluster: FakeCluster, namespace: str, text: str):
    return cluster.kubectl("-n", namespace, "create", "--dry-run=server", "--validate=strict", "-f", "-", text=text)


# ---- a file of ci/ ----

def life_of_a_release(release: Release) -> None:
    name = release.name
    kept = KEPT.get(name, {"x-kvferry-cluster-key"})
    release.prepare(LOOSER[name][0] if name in LOOSER else "restricted")
    release.dry_run()
    release.install("installs")
    first = release.settle("installed")
    keys, images, rows = release.secrets(kept), release.images(first), release.rows(first)
    release.check("the drawn secrets are there", set(keys) == kept, sorted(keys))
    check_drawn(release, keys)
    refused_by_stricter_profiles(release, first)
    for extra in EXTRAS.get(name, []):
        extra(release, first)

    release.must_do("upgrades", release.upgrade(CHANGED, *HELM_WAIT))
    second = release.settle("upgraded")
    release.check("upgraded: every image is the new one",
                  all(image.endswith((":changed", ":changed-cuda")) for image in release.images(second)), release.images(second))
    release.check("upgraded: every configuration has the new row",
                  all(row["keepalive_ms"] == "21s" for row in release.rows(second)))
    release.check("upgraded: every pod is a new one", not uids(first) & uids(second), uids(first) & uids(second))
    release.check("upgraded: the drawn keys are the same", release.secrets(kept) == keys)

    release.must_do("rolls back", release.helm("rollback", RELEASE, *HELM_WAIT))
    third = release.settle("rolled back")
    release.check("rolled back: the first images", release.images(third) == images, release.images(third))
    release.check("rolled back: the first configuration", release.rows(third) == rows)
    release.check("rolled back: every pod is a new one", not uids(second) & uids(third))
    release.check("rolled back: the drawn keys are the same", release.secrets(kept) == keys)
    for extra in AFTER_ROLLBACK.get(name, []):
        extra(release, images)

    test_pods = tested(release)
    release.uninstall("uninstalls", kept, test_pods)
    if name in COMES_BACK:
        release.check("uninstalled: the drawn keys are the same", release.secrets(kept) == keys)
        release.install("comes back")
        release.settle("come back")
        release.check("come back: the drawn keys are the same", release.secrets(kept) == keys)
        release.uninstall("uninstalls again", kept, test_pods)


def uids(items: list[dict]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in release_state.workers_of(items)}


def check_drawn(release: Release, secrets: dict[str, dict]) -> None:
    for name, data in secrets.items():
        key = base64.b64decode(base64.b64decode(next(iter(data.values()))))
        release.check(f"{name} is a key of 32 bytes", len(data) == 1 and len(key) == 32, len(key))


def tested(release: Release) -> set[str]:
    """The pods of helm test, which had what they name."""
    done = release.must_do("helm test", release.helm("test", RELEASE, "--timeout", "60s"))
    items = release.items()
    pods = {name_of(pod) for pod in release_state.pods_of(items, "test")}
    n_pods = 3 if release.values.get("http", {}).get("enabled") else 2
    release.check(f"helm test ran {n_pods} pods", len(pods) == n_pods and all(
        re.search(rf"TEST SUITE:\s+{name}\n(?:.*\n)*?Phase:\s+Succeeded", done.stdout) for name in pods), done.stdout)
    found = release_state.of_references(items)
    release.check("helm test: what pods name", not found, found)
    return pods


def refused_by_stricter_profiles(release: Release, items: list[dict]) -> None:
    """A namespace with more than what a case's namespace enforces refuses just those pods that are said to need it."""
    if release.name not in LOOSER:
        return
    enforced, components, why = LOOSER[release.name]
    for profile in PROFILES[PROFILES.index(enforced) + 1:]:
        for component in release.wanted:
            spec = {key: value for key, value in release_state.pods_of(items, component)[0]["spec"].items()
                    if key not in ("serviceAccountName", "serviceAccount", "nodeName", "priority", "preemptionPolicy")}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
            done = strict_dry_run(release.cluster, f"profile-{profile}", json.dumps(pod))
            release.check(f"{profile} {'refuses' if component in components else 'takes'} a pod of {component}",
                          ("violates PodSecurity" in done.stderr and why in done.stderr) if component in components
                          else done.returncode == 0, done.stderr)


# ---- what one file of ci/ has to show beside that ----

def router_reads_endpoints(release: Release, _items: list[dict]) -> None:
    """The router's account may watch EndpointSlices of its namespace; that is all, and nobody else may."""
    for component, namespace, verb, resource, may in (
            ("router", release.namespace, "watch", "endpointslices.discovery.k8s.io", True),
            ("router", release.namespace, "delete", "endpointslices.discovery.k8s.io", False),
            ("router", release.namespace, "get", "secrets", False),
            ("router", "default", "watch", "endpointslices.discovery.k8s.io", False),
            ("context", release.namespace, "watch", "endpointslices.discovery.k8s.io", False)):
        account = f"system:serviceaccount:{release.namespace}:{RELEASE}-kvferry-{component}"
        said = release.cluster.kubectl("-n", namespace, "auth", "can-i", verb, resource, f"--as={account}").stdout
        release.check(f"{component} may {verb} {resource} in {namespace}: {may}",
                      said.strip() == ("yes" if may else "no"), said)


def workers_are_on_gpus(release: Release, items: list[dict]) -> None:
    for component in release.wanted:
        nodes = {pod["spec"]["nodeName"] for pod in release_state.pods_of(items, component)}
        on_gpus = {node.startswith("kvk-gpu-") for node in nodes}
        release.check(f"{component} is {'not ' if component == 'router' else ''}on nodes with GPUs",
                      on_gpus == {component != "router"}, sorted(nodes))


def no_gpu_to_spare(release: Release, images: set[str]) -> None:
    """With a worker on each GPU an upgrade that starts the new pod first finds no place, and the old pods stay."""
    surge = {"updateStrategy": {"maxSurge": 1, "maxUnavailable": 0}}
    workers = {component: {**CHANGED[component], **surge} for component in ("context", "generation")}
    done = release.upgrade({**CHANGED, **workers}, "--wait", "--timeout", "15s")
    release.check("maxSurge 1 with no GPU to spare: the upgrade fails", done.returncode != 0)
    items = release.items()
    stuck = [pod for pod in release_state.workers_of(items) if "nodeName" not in pod["spec"]]
    told = [row.get("message", "") for pod in stuck for row in pod["status"].get("conditions", [])]
    release.check("its pods wait for a GPU",
                  len(stuck) == 2 and all("Insufficient nvidia.com/gpu" in line for line in told), told)
    release.must_do("goes back to what fits", release.helm("rollback", RELEASE, *HELM_WAIT))
    release.check("back to what fits: the first images", release.images(release.settle("back to what fits")) == images)


def only_what_changed_rolls(release: Release, _images: set[str]) -> None:
    """A row of one component replaces its pods and no others; the same values again replace none."""
    before = release.items()
    row = {"context": {"config": {"keepalive_ms": "22s"}}}
    for claim, rolls in (("a row of context", {"context"}), ("the same again", set())):
        release.must_do(f"{claim}: upgrades", release.upgrade(row, *HELM_WAIT))
        after = release.settle(claim)
        for component in release.wanted:
            old, new = (uids(release_state.pods_of(items, component)) for items in (before, after))
            release.check(f"{claim}: {component} {'rolls' if component in rolls else 'stays'}",
                          (old != new) == (component in rolls))
        before = after


EXTRAS = {"gpu": [workers_are_on_gpus], "kubernetes-discovery": [router_reads_endpoints]}
AFTER_ROLLBACK = {"gpu": [no_gpu_to_spare], "default": [only_what_changed_rolls]}


def on_every_gpu(cluster: FakeCluster, values: dict) -> dict:
    """The same values with as many workers as there are GPUs."""
    nodes = cluster.get("nodes", "-l", "type=gpu")["items"]
    n_gpus = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes)
    half = n_gpus // 2
    return {**values, "context": {**values["context"], "replicas": half},
            "generation": {**values["generation"], "replicas": n_gpus - half}}


# ---- what must not work ----

def misspelt_fields(release: Release) -> None:
    """The strict dry run that every case begins with refuses a field that the API or a CRD does not have."""
    release.prepare("restricted")
    text = release.template()
    release.must_do("without a mistake it is taken", strict_dry_run(release.cluster, release.namespace, text))
    for right, wrong in (("periodSeconds", "periodSecond"), ("podSelector", "podSelektor"),
                         ("scrapeTimeout", "scrapTimeout"), ("rolloutStrategy", "rollOutStrategy")):
        done = strict_dry_run(release.cluster, release.namespace, text.replace(f"{right}:", f"{wrong}:"))
        release.check(f"{wrong} is refused",
                      done.returncode != 0 and re.search(f'unknown field "[^"]*{wrong}"', done.stderr), done.stderr)


def privileged_container(release: Release) -> None:
    """Admission is real: a container with more than the profile gets no pod, and helm says that nothing came up."""
    release.prepare("restricted")
    done = release.helm("install", RELEASE, CHART, "--values", release.values_file, "--wait", "--timeout", "10s")
    release.check("the install fails", done.returncode != 0)
    items = release.items()
    release.check("no router pod came", not release_state.pods_of(items, "router"))
    pods = [name_of(pod) for pod in release_state.workers_of(items)]
    release.check("context and generation came", len(pods) == 2, pods)
    events = [event.get("message", "") for event in release.cluster.objects(release.namespace, "events")]
    release.check("the namespace refused it", any('violates PodSecurity "restricted' in line and "privileged" in line
                                                  for line in events), events)


def upgrade_that_cannot_run(release: Release) -> None:
    """Pods that find no node: helm --atomic goes back by itself; meanwhile no old pod went away."""
    release.prepare("restricted")
    release.install("installs")
    first = release.settle("installed")
    nowhere = {component: {**CHANGED[component], "nodeSelector": {"type": "none"}} for component in release.wanted}
    done = release.upgrade({**CHANGED, **nowhere}, "--atomic", "--timeout", "10s")
    release.check("the upgrade fails", done.returncode != 0 and "has been rolled back" in done.stderr, done.stderr)
    items = release.settle("gone back")
    release.check("the old pods never went", uids(items) == uids(first) and uids(items))


def failing_test(release: Release) -> None:
    """helm test fails when its pods do."""
    release.prepare("restricted")
    release.install("installs")
    done = release.helm("test", RELEASE, "--timeout", "60s")
    release.check("helm test fails", done.returncode != 0 and re.search(r"Phase:\s+Failed", done.stdout),
                  done.stdout + done.stderr)


def one_list_of_crds(release: Release) -> None:
    """The CRDs here are those that tests/deploy checks renderings by, in the same versions."""
    sys.path.insert(0, str(SCHEMAS.parent))
    from schemas import CRDS
    script = (Path(__file__).parent / "programs.sh").read_text()
    for module in CRDS:
        release.check(f"programs.sh has {module}", module in script)


GROUPS = {"context": {"workload": {"kind": "LeaderWorkerSet"}}, "monitoring": {"serviceMonitor": {"enabled": True}}}
CONTROLS = {
    "misspelt-fields": (misspelt_fields, GROUPS),
    "privileged-container": (privileged_container, {"router": {"securityContext": {
        "privileged": True, "allowPrivilegeEscalation": True}}}),
    "upgrade-that-cannot-run": (upgrade_that_cannot_run, {}),
    "failing-test": (failing_test, {"commonLabels": {"outcome": "failed"}}),
    "one-list-of-crds": (one_list_of_crds, {}),
}


# ---- all of it ----

def run_case(cluster: FakeCluster, name: str) -> Release:
    start = time.monotonic()
    if name in CONTROLS:
        case, values = CONTROLS[name]
    else:
        case, values = life_of_a_release, yaml.safe_load((CHART / f"ci/{name}-values.yaml").read_text()) or {}
        values = on_every_gpu(cluster, values) if name == "gpu" else values
    release = Release(cluster, name, values)
    try:
        case(release)
    except Stopped:
        pass
    except Exception as error:
        release.check("the case runs to its end", False, f"{type(error).__name__} {error}")
    cluster.kubectl("delete", "namespace", release.namespace, "--ignore-not-found", "--wait=false")
    lines = [f"FAILED {name}: {failure}" for failure in release.failures]
    lines += [f"{name}: {release.passed} passed, {len(release.failures)} failed, {time.monotonic() - start:.1f} s"]
    print("\n".join(lines + [f"    {note}" for note in release.notes]), flush=True)
    return release


def main() -> int:
    cluster = FakeCluster(Path(sys.argv[2]).absolute())
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    every = [file.name.removesuffix("-values.yaml") for file in files] + list(CONTROLS)
    unknown = set(sys.argv[3:]) - set(every)
    if unknown:
        raise SystemExit(f"no case: {sorted(unknown)}; there are {every}")
    try:
        cluster.start()
        cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(NEEDS["cluster"]))
        for profile in PROFILES[1:]:
            cluster.fresh_namespace(f"profile-{profile}", profile)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            releases = list(pool.map(lambda name: run_case(cluster, name), sys.argv[3:] or every))
    finally:
        cluster.end()
    n_failed = sum(len(release.failures) for release in releases)
    print(f"{sum(release.passed for release in releases)} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
