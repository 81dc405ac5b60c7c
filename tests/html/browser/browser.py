"""A headless Chromium, driven over a pipe by its DevTools protocol: the standard library only.

    with Browser() as browser:
        page = browser.open(path, width=1366, scheme="dark")
        page.evaluate("document.title")

`page.requests` has all requests of a page; `page.problems` has its console messages and exceptions.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe")
PATIENCE_S = 60


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One tab. Commands wait for their answer and note all other events."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.requests, self.problems, self.is_loaded = [], [], False

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def evaluate(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}; {self.problems}")
            self.evaluate("new Promise((done) => setTimeout(done, 50))")

    def resize(self, width, height=900):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def screenshot(self, path):
        """The whole page, however tall."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(answer["data"]))

    def print(self, path):
        """As PDF, on the paper that the page asks for."""
        answer = self.send("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        pathlib.Path(path).write_bytes(base64.b64decode(answer["data"]))

    def note(self, method, event):
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
            self.problems.append([argument.get("value") for argument in event["args"]])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(event["exceptionDetails"])
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(event["entry"]["text"])
        elif method == "Page.loadEventFired":
            self.is_loaded = True


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def pipes():  # The protocol's: commands come on 3, answers leave on 4.
            spare_read, spare_write = os.dup(to_read), os.dup(to_write)
            os.dup2(spare_read, 3)
            os.dup2(spare_write, 4)

        self.process = subprocess.Popen(
            [find_browser(), *ARGUMENTS, f"--user-data-dir={self.folder.name}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=pipes)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.last_id, self.pages = b"", 0, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
            self.process.wait(10)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.rest:
            if not select.select([self.from_browser], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE_S} s")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def pump(self):
        """Takes one message; returns it if it is an answer."""
        message = self.read()
        if "id" in message:
            return message
        page = self.pages.get(message.get("sessionId"))
        if page:
            page.note(message["method"], message.get("params", {}))
        return None

    def send(self, method, session=None, **parameters):
        self.last_id += 1
        command = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        while True:
            answer = self.pump()
            if answer and answer["id"] == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width=1366, scheme="light", script=True):
        """A new tab with the file, loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.resize(width)
        page.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        if not script:
            page.send("Emulation.setScriptExecutionDisabled", value=True)
        page.send("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not page.is_loaded:
            self.pump()
        return page
