"""Types the commands of docs/kubernetes.md, in their order, into a shell: each block "```sh", with kubectl, helm and kvferry
in its path and REGISTRY set. Blocks "```yaml NAME" are written into files; the chart must take every block of YAML."""

import pathlib
import re
import subprocess
import tempfile

from checks import check

BLOCK = re.compile(r"^```(sh|yaml)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 400
# what a person does who starts a port-forward: looks whether it is there
FORWARDED = "for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/50051) 2>/dev/null && break; sleep 0.1; done\n"


def type_all(kubernetes, source, kvferry, registry, namespace="kvferry"):
    kubernetes.namespace(namespace)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("deploy", "docs"):
            pathlib.Path(folder, name).symlink_to(source / name)
        pathlib.Path(folder, "bin").mkdir()
        pathlib.Path(folder, "bin/kvferry").symlink_to(kvferry)
        environment = dict(kubernetes.environment, REGISTRY=registry)
        environment["PATH"] = f"{folder}/bin:{environment['PATH']}"
        n_typed = 0
        for language, name, text in BLOCK.findall((source / "docs/kubernetes.md").read_text()):
            if language == "yaml":
                rendered = kubernetes.helm("template", "x", source / "deploy/chart/kvferry", "--kube-version", "1.34.4",
                                           "--values", "-", text=text, succeeds=False)
                check(f"docs/kubernetes.md: the chart takes {text.splitlines()[0]}", rendered.returncode == 0, rendered.stderr)
                if name:
                    pathlib.Path(folder, name).write_text(text)
                continue
            text = re.sub(r"(port-forward .*&\n)", rf"\1{FORWARDED}", text)
            # jobs that a block leaves in the background end with it
            done = subprocess.run(["bash", "-e", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"], cwd=folder,
                                  env=environment, capture_output=True, text=True, timeout=LIMIT_S)
            n_typed += 1
            check(f"docs/kubernetes.md: block {n_typed} succeeds", done.returncode == 0,
                  f"{text}{done.stdout[-1500:]}{done.stderr[-1500:]}")
        check("docs/kubernetes.md has commands", n_typed >= 4, n_typed)
    left = kubernetes.get("-n", namespace, "deployments,services,secrets,configmaps,networkpolicies,poddisruptionbudgets")
    left = [f"{item['kind']}/{item['metadata']['name']}" for item in left["items"]]
    check("docs/kubernetes.md: at its end nothing is left", left in ([], ["ConfigMap/kube-root-ca.crt"]), left)
