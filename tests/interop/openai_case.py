"""What tests of the OpenAI-compatible port share: a cluster with that port, clients of it, the end of all that they own.

    SCRIPT KVFERRY_BINARY MODEL_FOLDER
"""

import pathlib
import subprocess
import sys
import time

from cluster import Cluster

BINARY, MODEL = sys.argv[1:3]
NAME = "acme/demo"  # of the model: a slash must survive a path
LONG = "In the beginning God created the heaven and the earth. " * 12
TEMPLATE = pathlib.Path(__file__).with_name("small_chat.jinja")
LIMIT_S = 180
STATES = ("active", "pinned", "inbound", "quarantined")


def start_cluster(*router_arguments, **more):
    arguments = ("--served-model-name", NAME, "--chat-template", str(TEMPLATE), *router_arguments)
    return Cluster(BINARY, MODEL, True, local_prefill_max_tokens=8, router_arguments=arguments, **more)


def url_of(cluster, scheme="http"):
    return f"{scheme}://{cluster.router.ports['http']}/v1"


def within(limit_s, what, is_so):
    until = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < until, f"{what}: not within {limit_s} s"
        time.sleep(0.02)


def owned_blocks(cluster):
    return sum(worker.metric("kvferry_kv_blocks", f'state="{state}"')
               for worker in (cluster.context, cluster.generation) for state in STATES)


def stop_cluster(cluster):
    """Nothing is owned, KV has crossed, and every process ends with 0."""
    within(30, "no block is owned", lambda: owned_blocks(cluster) == 0)
    assert cluster.generation.metric("kvferry_kv_transfer_bytes_total") > 0, "no KV has crossed"
    cluster.stop()


def generated(cluster, prompt, max_tokens, *flags):
    """What kvferry.v1 answers."""
    done = subprocess.run([BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", str(max_tokens),
                           "--temperature", "0", *flags, prompt], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")
