"""A router follows the EndpointSlices of a Service of Kubernetes, as a pod does: by its service account.

    workers_by_service.py KVFERRY_BINARY MODEL_FOLDER on|off (the router's seccomp filter)

Of own_network.sh. The API server is tests/roles/api_server.py; who answers at the endpoints are real workers.
"""

import os
import pathlib
import subprocess
import sys
import unittest

from workers_case import GONE_WITHIN_S, NEW_WITHIN_S, SECCOMP, WorkersCase

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
API_SERVER = pathlib.Path(__file__).resolve().parents[1] / "roles" / "api_server.py"


class WorkersByService(WorkersCase):
    def setUp(self):
        super().setUp()
        self.account = pathlib.Path(self.folder.name, "account")
        self.account.mkdir()
        self.api = subprocess.Popen([sys.executable, "-B", API_SERVER, self.account, "come_and_go"],
                                    stdout=subprocess.PIPE, text=True)
        os.environ["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        os.environ["KUBERNETES_SERVICE_PORT"] = self.api.stdout.readline().split()[1]

    def tearDown(self):
        super().tearDown()
        self.api.kill()
        self.api.wait()
        self.api.stdout.close()

    def mount_account(self):
        subprocess.run(["mount", "-t", "tmpfs", "none", "/var/run"], check=True)
        pathlib.Path(ACCOUNT).mkdir(parents=True)
        subprocess.run(["mount", "--bind", self.account, ACCOUNT], check=True)

    def test_all(self):
        self.without_an_account_there_is_no_start()
        self.mount_account()
        self.an_endpoint_is_a_worker()
        self.a_new_endpoint_gets_requests()
        self.an_endpoint_that_is_gone_gets_none()
        self.without_the_server_nothing_changes()

    def router_of(self, name, **more):
        return self.start(name, "router", "--context-workers", "k8s:///kv-context", "--generation-workers",
                          "127.0.2.1:50052", "--seccomp", SECCOMP, **more)

    def without_an_account_there_is_no_start(self):
        stranger = self.router_of("stranger", wants_ready=False)
        self.assertEqual(stranger.child.wait(10), 1)
        self.assertRegex(self.log(stranger), f"k8s:///kv-context: .*{ACCOUNT}")

    def an_endpoint_is_a_worker(self):
        self.router = self.router_of("router", wants_ready=False)
        self.one = self.context("one", "127.0.1.1:50052")
        self.two = self.context("two", "127.0.1.2:50052")
        self.generation = self.start("gen", "gen-worker", "--control-address", "127.0.2.1:50052", "--kv-transport", "tls",
                                     "--local-prefill-max-tokens", "0")
        self.within(NEW_WITHIN_S, "a generation worker", lambda: self.peers("gen-worker", "ready") == 1)
        self.within(NEW_WITHIN_S, "a context worker", lambda: self.peers("ctx-worker", "ready") == 1)
        self.ask(4)
        self.assertEqual((self.served(self.one), self.served(self.two)), (4, 0))

    def a_new_endpoint_gets_requests(self):
        (self.account / "two").touch()
        self.within(NEW_WITHIN_S, "two context workers", lambda: self.peers("ctx-worker", "ready") == 2)
        self.ask(4)
        self.assertGreater(self.served(self.two), 0)

    def an_endpoint_that_is_gone_gets_none(self):
        (self.account / "one_gone").touch()
        self.within(GONE_WITHIN_S, "it leaves", lambda: self.peers("ctx-worker", "ready") == 1)
        before = self.served(self.one)
        self.ask(4)
        self.assertEqual(self.served(self.one), before)
        self.assertNotIn("127.0.1.1:50052", self.ps())

    def without_the_server_nothing_changes(self):
        self.api.kill()
        self.api.wait()
        self.within(20, "it says so", lambda: "kv-context" in self.log(self.router).split("left")[-1])
        self.ask(2)
        self.stop(self.router, 5)
        for process in (self.generation, self.one, self.two):
            self.stop(process, 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
