"""release_state - what a cluster holds of a release, and what of it is not as it should be.

Each function gives its complaints, none when all is well. Fake nodes start no program, so what a kubelet would stumble
over is looked up here: every secret, claim and file that a pod names must be there."""

import re
from typing import Iterator

import yaml

COMPONENTS = ("router", "context", "generation", "aggregated")
PORTS = {"grpc": 50051, "http": 8000, "control": 50052, "metrics": 9400}
KINDS = ("deployments,pods,services,endpointslices,poddisruptionbudgets,horizontalpodautoscalers,configmaps,secrets,"
         "serviceaccounts,persistentvolumeclaims,certificates")


def labels(item: dict) -> dict:
    return item["metadata"].get("labels") or {}


def component_of(item: dict) -> str:
    return labels(item).get("app.kubernetes.io/component", "")


def name_of(item: dict) -> str:
    return item["metadata"]["name"]


def of_kind(items: list[dict], kind: str) -> list[dict]:
    return [item for item in items if item["kind"] == kind]


def components_of(values: dict) -> list[str]:
    return ["aggregated"] if values.get("mode") == "aggregated" else ["router", "context", "generation"]


def is_group(values: dict, component: str) -> bool:
    return (values.get(component, {}).get("workload") or {}).get("kind") == "LeaderWorkerSet"


def pods_wanted(values: dict) -> dict[str, int]:
    """By component, of those whose controller runs here."""
    wanted = {}
    for component in components_of(values):
        own = values.get(component) or {}
        scaling = own.get("autoscaling") or {}
        if is_group(values, component):
            wanted[component] = 0
        elif scaling.get("enabled"):
            wanted[component] = scaling.get("minReplicas", 1) if scaling.get("kind", "hpa") == "hpa" else 1
        else:
            wanted[component] = own.get("replicas", 1)
    return wanted


def pods_of(items: list[dict], component: str) -> list[dict]:
    return [pod for pod in of_kind(items, "Pod") if component_of(pod) == component]


def workers_of(items: list[dict]) -> list[dict]:
    """Pods of the release that stay, in place of those of its tests."""
    return [pod for pod in of_kind(items, "Pod") if component_of(pod) in COMPONENTS]


def is_ready(pod: dict) -> bool:
    conditions = {row["type"]: row["status"] for row in pod["status"].get("conditions", [])}
    return pod["status"]["phase"] == "Running" and conditions.get("Ready") == "True"


def image_of(pod: dict) -> str:
    return next(part["image"] for part in pod["spec"]["containers"] if part["name"] == "kvferry")


# ---- complaints ----

def of_pods(items: list[dict], wanted: dict[str, int]) -> list[str]:
    """As many as are wanted, all Ready, all of the newest template, and no other."""
    found = []
    for deployment in of_kind(items, "Deployment"):
        status, n = deployment["status"], wanted.get(component_of(deployment))
        counts = {kind: status.get(kind, 0)
                  for kind in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
        if set(counts.values()) != {n} or status.get("observedGeneration") != deployment["metadata"]["generation"]:
            found.append(f"{name_of(deployment)} wants {n} pods: {counts}")
    for component, n in wanted.items():
        pods = pods_of(items, component)
        ready = [pod for pod in pods if is_ready(pod)]
        if len(pods) != n or len(ready) != n:
            found.append(f"{component} wants {n} pods: {len(pods)} there, {len(ready)} Ready")
    return found


def of_endpoints(items: list[dict]) -> list[str]:
    """Each service leads to the pods of its component, all of them and no other, at their ports."""
    found = []
    slices = of_kind(items, "EndpointSlice")
    for service in of_kind(items, "Service"):
        pods = {name_of(pod) for pod in pods_of(items, service["spec"]["selector"]["app.kubernetes.io/component"])}
        own = [part for part in slices if labels(part).get("kubernetes.io/service-name") == name_of(service)]
        reached = {row["targetRef"]["name"] for part in own for row in part.get("endpoints") or []
                   if row["conditions"]["ready"]}
        if reached != pods:
            found.append(f"{name_of(service)} leads to {sorted(reached)}, its pods are {sorted(pods)}")
        wanted = {(port["name"], PORTS[port["name"]]) for port in service["spec"]["ports"]}
        ports = {(port["name"], port["port"]) for part in own for port in part.get("ports") or []}
        if pods and ports != wanted:
            found.append(f"{name_of(service)} leads to the ports {sorted(ports)}, not {sorted(wanted)}")
    return found


def of_controllers(items: list[dict], wanted: dict[str, int]) -> list[str]:
    """Disruption budgets count all pods and let one go; autoscalers find what they scale."""
    found = []
    for budget in of_kind(items, "PodDisruptionBudget"):
        n, status = wanted[component_of(budget)], budget.get("status", {})
        if n and (status.get("currentHealthy") != n or status.get("disruptionsAllowed", 0) < 1):
            found.append(f"disruption budget {name_of(budget)} of {n} pods: {status}")
    for scaler in of_kind(items, "HorizontalPodAutoscaler"):
        conditions = {row["type"]: row for row in scaler["status"].get("conditions") or []}
        if conditions.get("AbleToScale", {}).get("status") != "True":
            found.append(f"autoscaler {name_of(scaler)}: {conditions}")
    return found


def of_references(items: list[dict]) -> list[str]:
    """Every pod, with those of helm test: what it names is there, down to the files of its configuration."""
    held = held_names(items)
    found = []
    for pod in of_kind(items, "Pod"):
        found += [f"{name_of(pod)}: there is no {what}" for what in missing_of(pod["spec"], held)]
        found += [f"{name_of(pod)}: there is no file {path}" for path in missing_files(pod["spec"], held, items)]
    return found


def of_tokens(items: list[dict], values: dict) -> list[str]:
    """A pod has the API's token if it is a router that watches EndpointSlices, else none."""
    watches = (values.get("discovery") or {}).get("type") == "kubernetes"
    return [f"{name_of(pod)} {'has a' if has_token(pod) else 'has no'} token" for pod in of_kind(items, "Pod")
            if has_token(pod) != (watches and component_of(pod) == "router")]


def has_token(pod: dict) -> bool:
    return any("serviceAccountToken" in source for volume in pod["spec"].get("volumes", [])
               for source in volume.get("projected", {}).get("sources", []))


# ---- what pods name ----

def held_names(items: list[dict]) -> dict[tuple[str, str], set[str]]:
    """(kind, name) -> its keys. The secret of a Certificate counts as held: cert-manager would make it."""
    held = {(item["kind"], name_of(item)): set(item.get("data") or {}) for item in items
            if item["kind"] in ("Secret", "ConfigMap", "ServiceAccount")}
    for claim in of_kind(items, "PersistentVolumeClaim"):
        if claim["status"]["phase"] == "Bound":
            held["PersistentVolumeClaim", name_of(claim)] = set()
    for certificate in of_kind(items, "Certificate"):
        held["Secret", certificate["spec"]["secretName"]] = {"tls.crt", "tls.key", "ca.crt"}
    return held


def references_of(spec: dict) -> Iterator[tuple[str, str, str | None]]:
    """(kind, name, key or None) of what a pod cannot start without."""
    yield "ServiceAccount", spec["serviceAccountName"], None
    for secret in spec.get("imagePullSecrets", []):
        yield "Secret", secret["name"], None
    for volume in spec.get("volumes", []):
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
        for kind, source in sources_of(volume):
            name = source.get("secretName") or source["name"]
            yield kind, name, None
            for row in source.get("items", []):
                yield kind, name, row["key"]
    for container in spec["containers"] + spec.get("initContainers", []):
        for source in container.get("envFrom", []):
            for field, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
                if field in source:
                    yield kind, source[field]["name"], None
        for variable in container.get("env", []):
            for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                if field in variable.get("valueFrom", {}):
                    yield kind, variable["valueFrom"][field]["name"], variable["valueFrom"][field]["key"]


def sources_of(volume: dict) -> list[tuple[str, dict]]:
    kinds = (("secret", "Secret"), ("configMap", "ConfigMap"))
    return [(kind, volume[field]) for field, kind in kinds if field in volume]


def missing_of(spec: dict, held: dict) -> list[str]:
    return [f"{kind} {name}" + (f" with the key {key}" if key else "") for kind, name, key in references_of(spec)
            if (kind, name) not in held or (key and key not in held[kind, name])]


def files_of(spec: dict, container: dict, held: dict) -> set[str]:
    """The files that secrets and configurations put before a container."""
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    files = set()
    for mount in container.get("volumeMounts", []):
        for kind, source in sources_of(volumes[mount["name"]]):
            keys = held.get((kind, source.get("secretName") or source.get("name")), set())
            names = {row["path"] for row in source["items"]} if "items" in source else keys
            files |= {f"{mount['mountPath']}/{name}" for name in names}
    return files


def missing_files(spec: dict, held: dict, items: list[dict]) -> set[str]:
    """Of those that arguments and rows of the configuration name."""
    missing = set()
    texts = {name_of(item): item["data"].get("kvferry.yaml") for item in of_kind(items, "ConfigMap") if "data" in item}
    for container in spec["containers"] + spec.get("initContainers", []):
        named = {path for argument in container.get("args", []) for path in re.findall("(?:^|=)(/etc/kvferry/.*)", argument)}
        if any(path.endswith("/kvferry.yaml") for path in named):
            config = next(volume["configMap"]["name"] for volume in spec["volumes"] if volume["name"] == "config")
            rows = yaml.safe_load(texts.get(config) or "{}")
            named |= {value for value in rows.values() if value.startswith("/etc/kvferry/")}
        missing |= named - files_of(spec, container, held)
    return missing
