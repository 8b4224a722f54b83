"""kubectl and helm, against the cluster that cluster.sh started."""

import json
import os
import pathlib
import subprocess
import tempfile


class Kubernetes:
    def __init__(self, tools, cluster):
        """tools: the folder with helm; cluster: that of cluster.sh (KVK_CACHE)."""
        self.helm_program = pathlib.Path(tools) / "helm"
        self.kubectl_program = pathlib.Path(cluster) / "bin" / "kubectl"
        self.environment = dict(os.environ, KUBECONFIG=str(pathlib.Path(cluster) / "state/pki/admin.kubeconfig"),
                                PATH=f"{tools}:{self.kubectl_program.parent}:{os.environ['PATH']}")

    def run(self, *words, text=None, succeeds=True, limit_s=600):
        """CompletedProcess, with text. RuntimeError with what it said: it failed, though it should have succeeded."""
        done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True,
                              timeout=limit_s, env=self.environment)
        if succeeds and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}\n{done.stdout[-2000:]}")
        return done

    def kubectl(self, *words, **more):
        return self.run(self.kubectl_program, *words, **more)

    def helm(self, *words, **more):
        return self.run(self.helm_program, *words, **more)

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json").stdout)

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def namespace(self, name, profile="restricted"):
        """profile: the Pod Security profile that it enforces."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {"pod-security.kubernetes.io/enforce": profile}}})

    def secret_of_files(self, namespace, name, **files):
        """files: key (with _ for .) and path or bytes."""
        with tempfile.TemporaryDirectory() as folder:
            flags = []
            for key, content in files.items():
                path = pathlib.Path(folder, key)
                path.write_bytes(content if isinstance(content, bytes) else pathlib.Path(content).read_bytes())
                flags.append(f"--from-file={key.replace('_', '.')}={path}")
            self.kubectl("-n", namespace, "create", "secret", "generic", name, *flags)

    def install(self, namespace, release, chart, values, command="install", limit="5m", **more):
        return self.helm(command, release, chart, "--namespace", namespace, "--values", "-", "--wait", "--timeout", limit,
                         text=json.dumps(values), **more)
