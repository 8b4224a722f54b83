"""Drives a headless Chromium by its debugging protocol over two pipes: opens a page, asks it, makes pictures."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The browser's path; None: there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def place(to_read, to_write):
    """The browser has its pipes at 3 and 4."""
    pipes = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (to_read, to_write)]
    os.dup2(pipes[0], 3)
    os.dup2(pipes[1], 4)
    for pipe in pipes:
        os.close(pipe)


class Page:
    """One page. Errors of its scripts, of its console and of its content security policy are in `complaints`."""

    def __init__(self, url, width=1280, height=900, dark=False):
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        self.browser = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--remote-debugging-pipe",
             "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=lambda: place(to_read, to_write))
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.session, self.complaints = b"", 0, None, []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.resize(width, height)
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def hear(self, limit_s):
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], limit_s)[0]:
                raise RuntimeError("the browser does not answer")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, body = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(body["exceptionDetails"])[:500])
        if method == "Log.entryAdded" and body["entry"]["level"] in ("error", "warning"):
            self.complaints.append(body["entry"]["text"])
        if method == "Runtime.consoleAPICalled" and body["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(body["args"])[:500])
        return message

    def call(self, method, limit_s=60, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        while True:
            message = self.hear(limit_s)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def ask(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, limit_s=60):
        """Polls until the expression is true in the page, and returns its value."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            value = self.ask(expression)
            if value:
                return value
            time.sleep(0.05)
        raise RuntimeError(f"never true: {expression}\n" + str(self.ask("document.body.innerText")))

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        os.close(self.to_browser)
        os.close(self.from_browser)
        try:
            self.browser.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.browser.kill()
            self.browser.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
