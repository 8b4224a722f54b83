"""grpcio as who follows prefix caches: a worker's KvEventService.Watch, and SubscribeKvEvents of the router before them. What is
collected is what is there, with the right tokens and parents, through evictions, flushes, deaths, and readers that do not read.

    kv_events.py KVFERRY_BINARY MODEL_FOLDER

At the end every process must exit with 0, with streams open.
"""

import signal
import sys
import threading
import time
import unittest

import grpc
import inner_calls
from cluster import Process
from kvferry.internal.v1 import admin_pb2, admin_pb2_grpc, kv_events_pb2, kv_events_pb2_grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from openai_case import BINARY, LIMIT_S, MODEL, start_cluster, within
from smg.grpc.common import common_pb2
from vllm.grpc.engine import vllm_engine_pb2, vllm_engine_pb2_grpc

BLOCK = 16
ROOT = (0, 0)
K = kv_events_pb2


class Follower(threading.Thread):
    """Reads a stream until it ends."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lock = stream, threading.Lock()
        self.has, self.number, self.n_cleared, self.n_messages, self.wrong, self.code = {}, None, 0, 0, [], None
        self.start()

    def run(self):
        try:
            for message in self.stream:
                with self.lock:
                    self.n_messages += 1
                    self.take(message)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code = error.code()

    def store(self, name, parent, tokens):
        if name in self.has:
            self.wrong.append(f"{name} is stored twice")
        if parent is not None and parent not in self.has:
            self.wrong.append(f"{name} follows {parent}, which is not there")
        self.has[name] = (parent, tuple(tokens))

    def chains(self):
        """The tokens of each block with those before it."""
        with self.lock:
            def whole(name):
                parent, tokens = self.has[name]
                return (whole(parent) if parent is not None else ()) + tokens
            return {whole(name) for name in self.has}

    def end(self):
        self.stream.cancel()
        self.join(LIMIT_S)


def inner(process):
    """A channel of its own to a control port, which knows who answers."""
    plain = grpc.insecure_channel(process.ports["control"], options=[("grpc.use_local_subchannel_pool", 1)])
    channel = grpc.intercept_channel(plain, inner_calls.Signer(inner_calls.user_key()))
    admin_pb2_grpc.AdminServiceStub(channel).GetState(admin_pb2.GetStateRequest(), timeout=LIMIT_S)
    return channel


class OfWorker(Follower):
    def __init__(self, process, after=0, incarnation=0):
        self.untold, self.incarnation = set(), None
        stub = kv_events_pb2_grpc.KvEventServiceStub(inner(process))
        super().__init__(stub.Watch(K.WatchRequest(after=after, incarnation=incarnation)))

    def take(self, message):
        assert message.block_tokens == BLOCK
        hashes, parents, tokens = iter(message.hashes), iter(message.parent_hashes), list(message.token_ids)
        self.number, self.incarnation = message.sequence_number, message.incarnation
        for kind in message.kinds:
            if kind == K.KV_EVENT_KIND_CLEARED:
                self.has, self.untold, self.n_cleared = {}, set(), self.n_cleared + 1
                continue
            name = (next(hashes), next(hashes))
            if kind == K.KV_EVENT_KIND_REMOVED:
                self.has.pop(name, None)
                self.untold.discard(name)
                continue
            parent = (next(parents), next(parents))
            is_told = kind == K.KV_EVENT_KIND_STORED
            self.store(name, None if parent == ROOT else parent, tokens[:BLOCK] if is_told else ())
            if is_told:
                tokens = tokens[BLOCK:]
            else:
                self.untold.add(name)
        if tokens or next(hashes, None) is not None or next(parents, None) is not None:
            self.wrong.append("a message has more than its kinds say")


class OfRouter(Follower):
    def __init__(self, address, after=0, **more):
        self.loads, self.chunks = [], []
        self.channel = grpc.insecure_channel(address)
        stub = vllm_engine_pb2_grpc.VllmEngineStub(self.channel)
        super().__init__(stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(start_sequence_number=after, **more)))

    def take(self, batch):
        if batch.HasField("load"):
            assert batch.sequence_number == 0 and not batch.events and batch.load.load_only
            self.loads.append(batch.load)
            return
        if batch.HasField("snapshot"):
            self.chunks.append((batch.snapshot.index, batch.snapshot.count))
            if batch.snapshot.index == 0:
                assert batch.events[0].HasField("cleared")
                self.has, self.number, self.n_cleared = {}, None, self.n_cleared + 1
        if self.number is not None and batch.sequence_number != self.number + 1:
            self.wrong.append(f"{batch.sequence_number} comes after {self.number}")
        self.number = batch.sequence_number
        for event in batch.events:
            self.apply(event)

    def apply(self, event):
        for name in event.removed.block_hashes:
            self.has.pop(name, None)
        parent = event.stored.parent_block_hash if event.stored.HasField("parent_block_hash") else None
        for block in event.stored.blocks:
            assert block.block_size == BLOCK == len(block.token_ids)
            self.store(block.block_hash, parent, block.token_ids)
            parent = block.block_hash

    def end(self):
        super().end()
        self.channel.close()


def start(*router_arguments, workers=(), **more):
    arguments = ("--engine-address", "127.0.0.1:0", *router_arguments)
    cluster = start_cluster(*arguments, role_arguments=lambda role: list(workers) if role != "router" else [], **more)
    cluster.engine = grpc.insecure_channel(cluster.router.ports["engine"])
    cluster.public = grpc.insecure_channel(cluster.router.ports["grpc"])
    return cluster


def stop(cluster):
    cluster.engine.close()
    cluster.public.close()
    cluster.stop()


def ids(seed, n):
    """Tokens of a prompt; different seeds differ in the first one."""
    return [300 + seed] + [301 + (seed * 31 + i * 7) % 900 for i in range(n - 1)]


def generate(cluster, prompt, max_tokens=2, salt=""):
    request = generation_pb2.CompleteRequest(
        token_ids=generation_pb2.TokenIds(ids=prompt), cache_salt=salt,
        sampling=sampling_pb2.SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True))
    return generation_pb2_grpc.GenerationServiceStub(cluster.public).Complete(request, timeout=LIMIT_S)


def chains_of(prompt):
    return {tuple(prompt[: (i + 1) * BLOCK]) for i in range(len(prompt) // BLOCK)}


def flush(process):
    stub = admin_pb2_grpc.AdminServiceStub(inner(process))
    return stub.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest(), timeout=LIMIT_S).blocks_evicted


class Base(unittest.TestCase):
    def follow(self, follower):
        self.addCleanup(follower.end)
        return follower

    def expect_has(self, follower, chains):
        within(30, f"{len(chains)} blocks", lambda: chains <= follower.chains())
        self.assertEqual(follower.wrong, [])

    def expect_lacks(self, follower, chains):
        within(30, f"none of {len(chains)} blocks", lambda: not chains & follower.chains())
        self.assertEqual(follower.wrong, [])


class Events(Base):
    @classmethod
    def setUpClass(cls):
        cls.cluster = start()

    @classmethod
    def tearDownClass(cls):
        own = [OfWorker(cls.cluster.context), OfWorker(cls.cluster.generation), OfRouter(cls.cluster.router.ports["engine"])]
        within(30, "streams are open", lambda: all(f.n_messages for f in own))
        stop(cls.cluster)
        for follower in own:
            follower.join(30)
            assert follower.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), follower.code

    def all(self):
        workers = [self.follow(OfWorker(p)) for p in (self.cluster.context, self.cluster.generation)]
        return (*workers, self.follow(OfRouter(self.cluster.router.ports["engine"])))

    def test_a_prompt_is_stored_with_its_tokens_and_removed_with_its_last_holder(self):
        context, generation, router = self.all()
        prompt = ids(1, 100)
        generate(self.cluster, prompt)
        for follower in (context, generation, router):
            self.expect_has(follower, chains_of(prompt))
        self.assertGreater(flush(self.cluster.context), 0)
        self.expect_lacks(context, chains_of(prompt))
        time.sleep(0.2)  # a false removal would come in this time
        self.expect_has(router, chains_of(prompt))
        self.assertGreater(flush(self.cluster.generation), 0)
        self.expect_lacks(generation, chains_of(prompt))
        self.expect_lacks(router, chains_of(prompt))

    def test_prompts_that_share_their_beginning_share_its_blocks(self):
        context, _, router = self.all()
        one = ids(2, 96)
        other = one[:48] + ids(3, 48)
        generate(self.cluster, one)
        generate(self.cluster, other)
        for follower in (context, router):
            self.expect_has(follower, chains_of(one) | chains_of(other))

    def test_tokens_of_a_salted_prompt_are_told_to_nobody(self):
        context, generation, router = self.all()
        prompt = ids(4, 80)
        generate(self.cluster, prompt, salt="apart")
        within(30, "it is stored", lambda: len(context.untold) == 5 and len(generation.untold) >= 5)
        time.sleep(0.2)
        for follower in (context, generation, router):
            self.assertFalse(chains_of(prompt) & follower.chains())
            self.assertEqual(follower.wrong, [])

    def test_who_comes_later_has_the_same(self):
        before = self.all()
        for seed in range(10, 40):
            generate(self.cluster, ids(seed, 64 + seed))
        for follower in before:
            self.expect_has(follower, chains_of(ids(39, 103)))
        after = self.all()
        for one, other in zip(before, after):
            within(30, "both have the same", lambda: one.has == other.has and len(one.has) > 100)
            self.assertEqual((other.wrong, other.n_cleared), ([], 1))
        self.assertEqual([i for i, _ in after[2].chunks], list(range(after[2].chunks[0][1])))

    def test_who_was_away_goes_on_where_it_was(self):
        _, generation, router = self.all()
        generate(self.cluster, ids(41, 50))
        for follower in (generation, router):
            self.expect_has(follower, chains_of(ids(41, 50)))
            follower.end()
        generate(self.cluster, ids(42, 50))
        generation_again = self.follow(OfWorker(self.cluster.generation, generation.number, generation.incarnation))
        router_again = self.follow(OfRouter(self.cluster.router.ports["engine"], router.number, load_records_before_first_batch=True))
        for old, new in ((generation, generation_again), (router, router_again)):
            new.has.update(old.has)
            self.expect_has(new, chains_of(ids(42, 50)))
            self.assertEqual(new.n_cleared, 0)
        for number, incarnation in ((generation.number, 5), (10**9, generation.incarnation)):
            lost = self.follow(OfWorker(self.cluster.generation, number, incarnation))
            self.expect_has(lost, chains_of(ids(42, 50)))
            self.assertEqual(lost.n_cleared, 1)
        for number in (3, router.number + 10**6):
            lost = self.follow(OfRouter(self.cluster.router.ports["engine"], number))
            self.expect_has(lost, chains_of(ids(42, 50)))
            self.assertEqual(lost.n_cleared, 1)
            lost.end()

    def test_loads_come_about_once_a_second(self):
        router = self.follow(OfRouter(self.cluster.router.ports["engine"]))
        within(30, "three loads", lambda: len(router.loads) >= 3)
        samples = [load.sample for load in router.loads]
        self.assertEqual(samples, sorted(set(samples)))
        self.assertGreater(router.loads[0].max_running_requests, 0)

    def test_a_caller_has_a_share_of_the_streams(self):
        channel = grpc.insecure_channel(self.cluster.router.ports["engine"])
        stub = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        streams = [stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest()) for _ in range(4)]
        for stream in streams:
            next(stream)
        with self.assertRaises(grpc.RpcError) as caught:
            next(stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest()))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        channel.close()
        within(30, "they are gone", lambda: self.cluster.router.metric("kvferry_kv_event_streams") == 0)

    def test_strangers_are_told_nothing(self):
        with grpc.insecure_channel(self.cluster.generation.ports["control"]) as channel:
            with self.assertRaises(grpc.RpcError) as caught:
                next(kv_events_pb2_grpc.KvEventServiceStub(channel).Watch(K.WatchRequest(), timeout=LIMIT_S))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        for port in ("grpc", "engine"):
            with grpc.insecure_channel(self.cluster.router.ports[port]) as channel:
                with self.assertRaises(grpc.RpcError) as caught:
                    next(kv_events_pb2_grpc.KvEventServiceStub(channel).Watch(K.WatchRequest(), timeout=LIMIT_S))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


class Small(Base):
    """Pools that keep evicting, and a ring that readers fall behind of."""

    def test_who_does_not_read_delays_nobody_and_is_told_anew(self):
        cluster = start("--slow-reader-ms", "60s", workers=("--kv-blocks", "160", "--kv-events-max", "64", "--slow-reader-ms", "60s"))
        try:
            stuck = kv_events_pb2_grpc.KvEventServiceStub(inner(cluster.generation)).Watch(K.WatchRequest())
            gateway = grpc.insecure_channel(cluster.router.ports["engine"])
            stuck_too = vllm_engine_pb2_grpc.VllmEngineStub(gateway).SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
            generation = self.follow(OfWorker(cluster.generation))
            router = self.follow(OfRouter(cluster.router.ports["engine"]))
            for seed in range(150):
                generate(cluster, ids(seed, 400))
            self.expect_has(generation, {tuple(ids(149, 400)[:BLOCK])})
            fresh = self.follow(OfWorker(cluster.generation))
            within(30, "both have the same", lambda: generation.has == fresh.has and len(fresh.has) > 20)
            fresh = self.follow(OfRouter(cluster.router.ports["engine"]))
            within(30, "both have the same", lambda: router.has == fresh.has and len(fresh.has) > 20)
            self.assertEqual((generation.wrong, router.wrong), ([], []))
            self.assertGreater(cluster.generation.metric("kvferry_kv_evictions_total"), 1000)
            late = Follower.__new__(OfWorker)
            late.untold, late.incarnation = set(), None
            Follower.__init__(late, stuck)
            within(30, "who reads at last has the same", lambda: late.has == generation.has)
            late.end()
        finally:
            stop(cluster)  # while a gateway reads nothing
        stuck_too.cancel()
        gateway.close()

    def test_a_worker_that_dies_has_nothing_and_counts_anew(self):
        cluster = start()
        try:
            router = self.follow(OfRouter(cluster.router.ports["engine"]))
            generation = self.follow(OfWorker(cluster.generation))
            prompt = ids(7, 100)
            generate(cluster, prompt)
            for follower in (router, generation):
                self.expect_has(follower, chains_of(prompt))
            flush(cluster.context)
            time.sleep(0.2)
            self.expect_has(router, chains_of(prompt))
            number = generation.number
            old = cluster.generation
            old.child.send_signal(signal.SIGKILL)
            old.child.wait()
            self.expect_lacks(router, chains_of(prompt))
            within(30, "its stream ends", lambda: generation.code is not None)
            old.ports_file.unlink()
            new = Process(BINARY, MODEL, cluster.folder.name, "gen-worker", "--local-prefill-max-tokens", "8", "--control-address",
                          old.ports["control"])
            cluster.processes[cluster.processes.index(old)] = cluster.generation = new
            within(30, "the router sees it", lambda: cluster.router.metric("kvferry_peers", 'state="ready"') == 2)
            again = self.follow(OfWorker(new, number, generation.incarnation))
            generate(cluster, ids(8, 100))
            for follower in (again, router):
                self.expect_has(follower, chains_of(ids(8, 100)))
            self.assertEqual(again.n_cleared, 1)
            self.assertNotEqual(again.incarnation, generation.incarnation)
        finally:
            stop(cluster)

    def test_without_events_it_says_so(self):
        cluster = start("--kv-event-blocks-max", "0", workers=("--kv-events-max", "0"))
        try:
            for follower in (OfWorker(cluster.generation), OfRouter(cluster.router.ports["engine"])):
                follower.join(LIMIT_S)
                self.assertEqual(follower.code, grpc.StatusCode.UNIMPLEMENTED)
        finally:
            stop(cluster)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
