"""Headless Chromium, driven over a pipe by its DevTools protocol: nothing but Python's own library."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """One browser process and its pages; a context manager, that leaves nothing behind."""

    def __init__(self, chromium):
        self.folder = tempfile.mkdtemp(prefix="psgd-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def give_pipes():
            # Chromium reads commands from 3 and writes answers to 4. The ends are copied to high
            # numbers first, because each may occupy the other's number.
            commands, answers = os.dup2(to_browser, 103), os.dup2(from_browser, 104)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update",
             "--no-first-run", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={self.folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.answers = {}
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, seconds):
        """Takes what comes within that time; False: nothing did."""
        if not select.select([self.read_end], [], [], seconds)[0]:
            return False
        block = os.read(self.read_end, 1 << 20)
        if not block:
            raise RuntimeError("Chromium has ended")
        self.buffer += block
        *messages, self.buffer = self.buffer.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)
        return True

    def call(self, method, session=None, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        end = time.monotonic() + seconds
        while self.number not in self.answers:
            if time.monotonic() > end:
                raise RuntimeError(f"Chromium did not answer {method} within {seconds} s")
            self._read(0.2)
        answer = self.answers.pop(self.number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def page(self, url, width=1280, height=900, dark=False):
        return Page(self, url, width, height, dark)


class Page:
    """A tab."""

    def __init__(self, browser, url, width, height, dark):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.resize(width, height)
        self.dark(dark)
        self.call("Page.navigate", url=url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        """The value of an expression of JavaScript; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while True:
            # A missing element is no error, for example while a page loads.
            if value := self.run(f"(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()"):
                return value
            if time.monotonic() > end:
                raise AssertionError(f"it never came to be: {condition}")
            time.sleep(0.1)

    def key(self, key, code=None, modifiers=0):
        text = {"Enter": "\r", "Space": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=" " if key == "Space" else key,
                      code=code or key, text=text if kind == "keyDown" else "", modifiers=modifiers,
                      windowsVirtualKeyCode={"Enter": 13, "Tab": 9, "Space": 32, "ArrowLeft": 37,
                                             "ArrowRight": 39}.get(key, 0))

    def errors(self):
        """What the console complained of so far."""
        self.run("0")  # what was said before this is here now
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["exception"].get("description", "exception"))
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str([value.get("value") for value in parameters["args"]]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        return found

    def screenshot(self, path, full=False):
        options = {}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
                       "captureBeyondViewport": True}
        data = self.call("Page.captureScreenshot", format="png", **options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
