#!/usr/bin/env python3
"""schemas.py OUT_FOLDER - writes the JSON schemas that kubeconform checks the chart's objects by, strict: a key that
the API does not have is an error. Needs Go, its module proxy and PyYAML; run by hand when the chart renders a new kind.

Sources, by Go modules of pinned versions: Kubernetes' own OpenAPI document, and the CustomResourceDefinitions of who
defines the other kinds. Descriptions are left out."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

KUBERNETES = "k8s.io/kubernetes@v1.34.4"
# (API group's first word, version, kind) of what the chart renders
KINDS = {
    ("", "v1", kind) for kind in ("ConfigMap", "Pod", "Secret", "Service", "ServiceAccount")
} | {
    ("apps", "v1", "Deployment"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
}
# module -> files of CustomResourceDefinitions, and the version that the chart renders
CRDS = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        (f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml", "v1")
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")],
    "github.com/kedacore/keda/v2@v2.21.0": [("config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1")],
    "sigs.k8s.io/gateway-api@v1.4.0": [
        (f"config/crd/standard/gateway.networking.k8s.io_{kind}.yaml", "v1") for kind in ("grpcroutes", "httproutes")],
    "sigs.k8s.io/lws@v0.8.0": [("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml", "v1")],
    "github.com/cert-manager/cert-manager@v1.18.2": [
        ("deploy/crds/crd-certificates.yaml", "v1")],
}
LEFT_OUT = {"description", "x-kubernetes-validations", "example", "externalDocs"}


def module_folder(module: str) -> Path:
    done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, check=True, cwd="/")
    return Path(json.loads(done.stdout)["Dir"])


def strict(node, definitions: dict, seen: tuple = ()):
    """The schema with references put in their places, and no key beside those that it names."""
    if isinstance(node, list):
        return [strict(item, definitions, seen) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        if name in seen:
            return {}
        if name.endswith(("IntOrString", "resource.Quantity")):
            return {"type": ["string", "number"]}
        return strict(definitions[name], definitions, seen + (name,))
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "number"]}
    result = {}
    for key, value in node.items():
        if key in LEFT_OUT or key.startswith("x-"):
            continue
        if key == "properties":
            result[key] = {name: strict(item, definitions, seen) for name, item in value.items()}
        elif key in ("enum", "required", "default"):
            result[key] = value
        else:
            result[key] = strict(value, definitions, seen)
    if "properties" in result and "additionalProperties" not in result \
            and not node.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    return result


def write(folder: Path, group: str, version: str, kind: str, schema: dict) -> None:
    group = group.split(".")[0]
    name = "-".join([kind.lower(), *([group] if group else []), version]) + ".json"
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    (folder / name).write_text(json.dumps(schema, sort_keys=True, separators=(",", ":")) + "\n")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    swagger = json.loads((module_folder(KUBERNETES) / "api/openapi-spec/swagger.json").read_text())
    definitions = swagger["definitions"]
    for name, definition in definitions.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", []):
            if (gvk["group"], gvk["version"], gvk["kind"]) in KINDS:
                write(folder, gvk["group"], gvk["version"], gvk["kind"], strict(definition, definitions, (name,)))
    for module, files in CRDS.items():
        for path, version in files:
            crd = yaml.safe_load((module_folder(module) / path).read_text())["spec"]
            served = next(item for item in crd["versions"] if item["name"] == version)
            schema = strict(served["schema"]["openAPIV3Schema"], {})
            schema["properties"]["metadata"] = {"type": "object"}
            write(folder, crd["group"], version, crd["names"]["kind"], schema)
    print(len(list(folder.glob("*.json"))), "schemas")


if __name__ == "__main__":
    main()
