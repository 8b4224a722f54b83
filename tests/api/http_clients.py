"""Clients that others have written, against an HTTP port: http.client, urllib, curl where there is one, ssl.

    http_clients.py HTTP_ECHO

Each test is a function here whose name begins with test_. Standard library only.
"""

import http.client
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

BINARY = sys.argv[1] if len(sys.argv) > 1 else ""
LIMIT_S = 60
LARGE = bytes(range(256)) * 8192  # 2 MiB


class Port:
    """A running http_echo."""

    def __init__(self, *words):
        self.child = subprocess.Popen([BINARY, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = int(self.child.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.stdout.close()
        assert self.child.wait(LIMIT_S) == 0, self.child.returncode


def client(port):
    return http.client.HTTPConnection("127.0.0.1", port.number, timeout=LIMIT_S)


def test_http_client_keeps_its_connection():
    with Port() as port:
        connection = client(port)
        connection.request("GET", "/hello", headers={"x-request-id": "mine"})
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["x-request-id"]) == (200, b"hello", "mine")
        first = connection.sock
        connection.request("HEAD", "/hello")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Length"], answer.read()) == (200, "5", b"")
        connection.request("POST", "/echo", body=LARGE)
        assert connection.getresponse().read() == LARGE
        connection.request("POST", "/echo", body=iter([b"in ", b"chunks"]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        assert connection.getresponse().read() == b"in chunks"
        connection.request("GET", "/nowhere")
        answer = connection.getresponse()
        assert answer.status == 404 and b"/nowhere" in answer.read()
        assert connection.sock is first, "one connection for all of them"
        connection.close()


def test_http_client_reads_a_stream_event_by_event():
    with Port() as port:
        connection = client(port)
        connection.request("GET", "/stream?n=1000")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream" and answer.chunked
        events = [line for line in answer.read().decode().split("\n\n") if line]
        assert [json.loads(event[6:])["index"] for event in events[:-1]] == list(range(1000))
        assert events[-1] == "data: [DONE]"
        connection.close()


def test_http_client_sees_that_a_stream_was_cut():
    with Port("--times-ms", "300") as port:
        connection = client(port)
        connection.request("GET", "/flood")
        try:
            connection.getresponse().read()
            raise AssertionError("a stream that was cut looked whole")
        except (http.client.IncompleteRead, ConnectionResetError):
            pass
        connection.close()


def test_urllib_sees_errors_as_errors():
    with Port() as port:
        for path, body, code in [("/nowhere", None, 404), ("/hello", b"x", 405), ("/echo", bytes(9 << 20), 413)]:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port.number}{path}", body, timeout=LIMIT_S)
                raise AssertionError(path)
            except urllib.error.HTTPError as error:
                assert error.code == code, (path, error.code)
            except (urllib.error.URLError, ConnectionError):
                assert code == 413, "a client that only writes may see the end of the connection"


def test_many_clients_at_once():
    with Port() as port:
        wrong = []

        def ask(number):
            connection = client(port)
            for i in range(50):
                body = f"{number} {i} ".encode() * 100
                connection.request("POST", "/echo", body=body)
                if connection.getresponse().read() != body:
                    wrong.append((number, i))
            connection.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong


def curl(*words):
    done = subprocess.run(["curl", "-sS", "--max-time", str(LIMIT_S), *words], capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def test_curl():
    if not shutil.which("curl"):
        print("    no curl here: not run")
        return
    with Port() as port, tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{port.number}"
        large = pathlib.Path(folder) / "large"
        large.write_bytes(LARGE)
        assert curl(f"{url}/hello", f"{url}/hello") == (0, b"hellohello", "")
        assert curl("--data-binary", f"@{large}", f"{url}/echo") == (0, LARGE, ""), "it asks with Expect"
        assert curl("-H", "Transfer-Encoding: chunked", "--data-binary", f"@{large}", f"{url}/echo")[1] == LARGE
        assert curl("--http1.0", f"{url}/stream?n=3")[1].endswith(b"data: [DONE]\n\n")
        assert curl("-N", f"{url}/stream?n=3")[1].count(b"data: ") == 4
        assert curl("-I", f"{url}/hello")[1].startswith(b"HTTP/1.1 200 OK\r\n")
        assert curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "DELETE", f"{url}/hello")[1] == b"405"
        assert curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "OPTIONS", f"{url}/hello")[1] == b"204"
        assert curl(f"{url}/flood")[0] in (0, 18, 56), "what curl calls a partial file, or it read fast enough"
        assert curl("--http2-prior-knowledge", f"{url}/hello")[0] != 0
        code, _, words = curl("-k", f"https://127.0.0.1:{port.number}/hello")
        assert code == 35, (code, words)


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2",
                    "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"],
                   check=True, capture_output=True)
    return f"{folder}/certificate.pem", f"{folder}/key.pem"


def test_tls_of_python_and_curl():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(folder)
        with Port("--tls", certificate, key) as port:
            context = ssl.create_default_context(cafile=certificate)
            connection = http.client.HTTPSConnection("localhost", port.number, context=context, timeout=LIMIT_S)
            for _ in range(3):
                connection.request("POST", "/echo", body=LARGE)
                assert connection.getresponse().read() == LARGE
            connection.request("GET", "/stream?n=1000")
            assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
            connection.close()
            plain = client(port)
            plain.request("GET", "/hello")
            answer = plain.getresponse()
            assert answer.status == 400 and b"this port speaks TLS" in answer.read()
            plain.close()
            if shutil.which("curl"):
                url = f"https://localhost:{port.number}/hello"
                assert curl("--cacert", certificate, url)[:2] == (0, b"hello")
                assert curl(url)[0] == 60, "not to be trusted without it"


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"ok {name}", flush=True)
    print(f"{len(tests)} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
