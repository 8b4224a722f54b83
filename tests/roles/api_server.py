"""A Kubernetes API server as far as EndpointSlices of one Service go, and one that misbehaves.

    api_server.py FOLDER SCENARIO

Writes a pod's service account into FOLDER, prints `ready PORT`, answers each request by the scenario's next
step, prints `done` before its last step ends, and then serves nobody any more. A request that is not what a step expects is a
sentence on standard error and the end. HTTP requests are read by Python's own server; answers are written byte
by byte. Their JSON is that of tests/discovery/k8s/answers, written after the schema of discovery.k8s.io/v1.
"""

import http.server
import json
import pathlib
import signal
import ssl
import sys
import time
import urllib.parse

import certificates

ANSWERS = pathlib.Path(__file__).resolve().parents[1] / "discovery" / "k8s" / "answers"
PATH = "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices"
LIFE_S = 300  # should nobody end it
TOKEN, NEXT_TOKEN = "eyJhbGciOiJSUzI1NiJ9.first._-", "eyJhbGciOiJSUzI1NiJ9.second"


def recorded(name):
    return (ANSWERS / name).read_bytes()


def slice_of(name, version, *ips, port=50052):
    return {"metadata": {"name": name, "namespace": "llm", "resourceVersion": str(version),
                         "labels": {"kubernetes.io/service-name": "kv-context"}},
            "addressType": "IPv4", "ports": [{"name": "control", "protocol": "TCP", "port": port}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips] or None}


def page(version, *slices, **metadata):
    return json.dumps({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
                       "metadata": {"resourceVersion": str(version), **metadata}, "items": slices}).encode()


def event(kind, item):
    typed = {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", **item}
    return json.dumps({"type": kind, "object": typed}).encode() + b"\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = (b"HTTP/1.1 200 OK\r\nAudit-Id: 1\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
           b"Transfer-Encoding: chunked\r\n\r\n")
LAST = b"0\r\n\r\n"


def sized(body, code=b"200 OK", more=b""):
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        code, more, len(body), body)


class Step:
    """What one request must be, and the bytes that answer it."""

    def __init__(self, *pieces, version=None, more=None, token=TOKEN, then=None, stays=False, is_list=False):
        self.pieces, self.version, self.more, self.token = pieces, version, more, token
        self.then, self.stays = then, stays
        self.is_list = is_list or version is None

    def check(self, handler):
        target = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(target.query, strict_parsing=True))
        wanted = {"labelSelector": "kubernetes.io/service-name=kv-context"}
        if self.is_list:
            wanted |= {"limit": query.get("limit", "none")} | ({"continue": self.more} if self.more else {})
        else:
            wanted |= {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": self.version,
                       "timeoutSeconds": query.get("timeoutSeconds", "none")}
        number = query.get("limit" if self.is_list else "timeoutSeconds", "0")
        if target.path != PATH or query != wanted or not number.isdigit() or int(number) < 1:
            return f"request {handler.path}, wanted {wanted}"
        if handler.headers["Authorization"] != f"Bearer {self.token}":
            return f"Authorization {handler.headers['Authorization']}"
        if handler.headers["Accept"] != "application/json" or "Host" not in handler.headers:
            return f"headers {handler.headers}"
        return None


def one(*ips, version=8200):
    """A LIST of one slice."""
    return Step(sized(page(version, slice_of("a", version, *ips))))


def stays(version, *lines):
    """A WATCH that brings these, and then nothing more."""
    return Step(CHUNKED, *map(chunk, lines), version=str(version), stays=True)


def endless(start, piece):
    """Until the client has enough of it."""
    yield start
    while True:
        yield piece


def split(data, size):
    return [data[i:i + size] for i in range(0, len(data), size)]


class Server(http.server.HTTPServer):
    def __init__(self, folder, scenario):
        self.folder = folder
        self.certificates = certificates.Folder(folder)
        self.certificates.ca()
        self.certificates.ca("other")
        self.certificates.make_server()
        self.write("token", TOKEN + "\n")
        self.write("namespace", "llm\n")
        self.write("ca.crt", "kubelet's\n" + self.certificates.file("ca").read_text())
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_certificate("server")
        self.refused = []  # what to do at the next failed handshakes
        self.steps = list(getattr(self, scenario)())
        self.socket = self.context.wrap_socket(self.socket, server_side=True)

    def write(self, name, text):
        new = self.folder / f"new.{name}"
        new.write_text(text)
        new.rename(self.folder / name)

    def load_certificate(self, name):
        self.context.load_cert_chain(self.certificates.file(name), self.certificates.file(name, "key"))

    def get_request(self):
        try:
            return super().get_request()
        except OSError:
            if self.refused:
                self.refused.pop(0)()
            raise

    def serve(self):
        print("ready", self.server_port, flush=True)
        while self.steps:
            self.handle_request()

    def handle_error(self, request, client_address):
        if isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError, ssl.SSLError)):
            return
        super().handle_error(request, client_address)
        sys.exit(1)

    # ---- scenarios ----

    def follow(self):
        first, second = recorded("page_1.json"), recorded("page_2.json")
        yield Step(CHUNKED, *map(chunk, split(first, 1000)), LAST)
        yield Step(sized(second), more=json.loads(first)["metadata"]["continue"])
        yield Step(CHUNKED, *map(chunk, split(recorded("watch.jsonl"), 97)), LAST, version="8124")
        yield stays(8190, event("DELETED", slice_of("kv-context-x7k2p", 8191)))

    def expired(self):
        yield one("10.0.0.1")
        yield Step(CHUNKED, chunk(recorded("watch_expired.jsonl")), LAST, version="8200")
        yield one("10.0.0.2", version=8300)
        yield Step(sized(recorded("expired.json"), b"410 Gone"), version="8300")
        yield Step(sized(page(8400, slice_of("a", 1, "10.0.0.7"), **{"continue": "x y/+&="})))
        yield Step(sized(recorded("expired.json"), b"410 Gone"), more="x y/+&=")
        yield one("10.0.0.3", version=8500)
        yield stays(8500)

    def rotated(self):
        rotate = lambda: self.write("token", NEXT_TOKEN)
        yield Step(sized(recorded("unauthorized.json"), b"401 Unauthorized"), then=rotate)
        yield Step(sized(page(8200, slice_of("a", 1, "10.0.0.1"))), token=NEXT_TOKEN)
        yield Step(CHUNKED, chunk(event("MODIFIED", slice_of("a", 8201, "10.0.0.2"))), version="8200", token=NEXT_TOKEN,
                   stays=True)

    def cut(self):
        line = event("ADDED", slice_of("b", 8202, "10.0.0.3"))
        yield one("10.0.0.1")
        yield Step(CHUNKED, chunk(event("MODIFIED", slice_of("a", 8201, "10.0.0.2"))), chunk(line[:50]), version="8200")
        yield Step(CHUNKED, b"7f\r\n" + line[:60], version="8201")
        yield stays(8201, line)

    def slow(self):
        yield Step(*split(sized(page(8200, slice_of("a", 1, "10.0.0.1"))), 1))
        lines = event("BOOKMARK", slice_of("", 8201)) + b"\n" + event("ADDED", slice_of("b", 8202, "10.0.0.2"))
        yield Step(*split(CHUNKED + b"".join(map(chunk, split(lines, 3))), 1), version="8200", stays=True)

    def empty(self):
        yield Step(sized(recorded("empty.json")))
        yield stays(8124, event("ADDED", slice_of("a", 8125, "10.0.0.1")), event("ADDED", slice_of("b", 8126)))

    def wrong_ca(self):
        self.write("ca.crt", self.certificates.file("other").read_text())
        nothing = lambda: None
        self.refused = [nothing, nothing, lambda: self.write("ca.crt", self.certificates.file("ca").read_text())]
        yield one("10.0.0.1") if not self.refused else self.never()
        yield stays(8200)

    def wrong_name(self):
        self.certificates.make("elsewhere", "DNS:127.0.0.1,IP:127.0.0.2,DNS:elsewhere.example",
                               kind=("rsa:2048",))  # the kind of the one that replaces it
        self.load_certificate("elsewhere")
        self.refused = [lambda: None, lambda: self.load_certificate("server")]
        yield self.never()
        yield stays(8200)

    def never(self):
        """A LIST that nobody may have asked for while handshakes are to be refused."""
        step = one("10.0.0.1")
        check = step.check
        step.check = lambda handler: check(handler) or ("trusted" if self.refused else None)
        return step

    def lies(self):
        many = [slice_of(f"s{i}", 1, *[f"10.1.{i}.{j}" for j in range(250)]) for i in range(9)]
        for data in (
                b"", b"\0" * 100, b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n{}",
                b"HTTP/1.1 200 OK\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
                b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n",
                sized(recorded("forbidden.json"), b"403 Forbidden"), sized(b"<html>", b"503 Service Unavailable"),
                sized(b"{}", b"429 Too Many Requests", b"Retry-After: 0\r\n"),
                sized(b""), sized(b"{}"), sized(b"null"), sized(b"[" * 100000), sized(b'{"kind":"PodList"}'),
                sized(b"\xff\xfe"), sized(page(1, {})), sized(page(1, [])), sized(page("")), sized(page("v" * 500)),
                sized(page(1, slice_of("a", 1, "10.0.0.256"))), sized(page(1, slice_of("a", 1, "10.0.0.1", port=0))),
                sized(page(1, slice_of("n" * 254, 1))), sized(page(1, *many)),
                sized(page(1, **{"continue": "c" * 5000})),
                sized(page(1, *[slice_of(f"s{i}", 1) for i in range(257)]))):
            yield Step(data)
        yield Step(endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000))
        yield Step(endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b" " * 16384))
        yield Step(endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", b" " * 16384))
        yield Step(endless(CHUNKED, chunk(b"[" * 16384)))
        yield one("10.0.0.1")
        for line in (b"{}\n", b"nothing\n", b"[" * 5000 + b"\n", event("ADDED", {}), event("OTHER", slice_of("a", 1)),
                     event("ADDED", slice_of("a", 8999, "fd00::1")), event("BOOKMARK", {"metadata": {}})):
            yield Step(CHUNKED, chunk(line), version="8200")
            yield one("10.0.0.1")
        yield Step(endless(CHUNKED, chunk(b" " * 16384)), version="8200")
        yield Step(sized(recorded("forbidden.json"), b"403 Forbidden"), version="8200")
        yield Step(CHUNKED, LAST, version="8200")
        yield stays(8200, event("MODIFIED", slice_of("a", 8201, "10.0.0.2")))

    def silent(self):
        yield Step(stays=True)
        yield Step(CHUNKED[:40], stays=True)
        yield one("10.0.0.1")
        yield Step(stays=True, version="8200")
        yield Step(CHUNKED, stays=True, version="8200")
        yield Step(CHUNKED, chunk(b"{\"type\":"), stays=True, version="8200")
        yield Step(endless(CHUNKED, chunk(b"\n")), version="8200")
        yield stays(8200, event("MODIFIED", slice_of("a", 8201, "10.0.0.2")))

    def mute(self):
        yield Step(stays=True)

    def watched(self):
        yield one("10.0.0.1")
        yield stays(8200)

    def flood(self):
        yield one("10.0.0.1")
        yield Step(endless(CHUNKED, chunk(event("BOOKMARK", slice_of("", 8200)) * 50)), version="8200")

    def come_and_go(self):
        """One endpoint; a second when there is a file `two`; the second alone when there is `one_gone`."""
        yield one("127.0.1.1")
        yield Step(CHUNKED, self.when("two", chunk(event("MODIFIED", slice_of("a", 8201, "127.0.1.1", "127.0.1.2")))),
                   self.when("one_gone", chunk(event("MODIFIED", slice_of("a", 8202, "127.0.1.2")))),
                   version="8200", stays=True)

    def when(self, name, data):
        while not (self.folder / name).exists():
            time.sleep(0.05)
        yield data

    def unready(self):
        """Nobody answers TCP's connections but the kernel."""
        print("ready", self.server_port, flush=True)
        print("done", flush=True)
        time.sleep(600)
        yield


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, self.close_connection = self.server, True
        step = server.steps.pop(0)
        if wrong := step.check(self):
            print(f"api_server: {wrong}", file=sys.stderr, flush=True)
            sys.exit(1)
        if not server.steps:
            print("done", flush=True)
        if step.then:
            step.then()
        for piece in step.pieces:
            for data in (piece,) if isinstance(piece, bytes) else piece:
                self.wfile.write(data)
        if step.stays:
            self.connection.recv(1)  # the client's end

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    signal.alarm(LIFE_S)
    Server(pathlib.Path(sys.argv[1]), sys.argv[2]).serve()
