"""A Prometheus that scrapes the processes of a cluster every second and evaluates the alerts."""

import json
import pathlib
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import yaml

LIMIT_S = 60


def free_port():
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        return port.getsockname()[1]


class Prometheus:
    def __init__(self, binary, folder, targets, rules):
        folder = pathlib.Path(folder)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "kvferry", "static_configs": [{"targets": targets, "labels": {"namespace": "test"}}]}
            ],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self.log = open(folder / "prometheus.log", "w+")
        self.address = f"127.0.0.1:{free_port()}"
        self.child = subprocess.Popen(
            [binary, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.address}"],
            stdout=self.log, stderr=subprocess.STDOUT, cwd=folder,
        )

    def _get(self, path, **words):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.loads(reply.read())["data"]

    def query(self, expression):
        """[(labels, value)]; an expression that Prometheus refuses is an HTTPError."""
        return [(sample["metric"], float(sample["value"][1]))
                for sample in self._get("query", query=expression)["result"]]

    def wait(self, expression, what):
        """Until it gives something."""
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                if self.query(expression):
                    return
            except OSError:
                pass  # it starts
            if self.child.poll() is not None or time.monotonic() > until:
                self.log.seek(0)
                raise RuntimeError(f"prometheus: no {what}:\n{self.log.read()}")
            time.sleep(0.1)

    def rules(self):
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def stop(self):
        self.child.terminate()
        self.child.wait(LIMIT_S)
        self.log.close()
