"""Chromium without a window, by the WebDriver protocol: what a test or a picture of the page needs of it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shutil
import subprocess
import time

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --disable-dev-shm-usage --force-color-profile=srgb --hide-scrollbars""".split()
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window, in a folder of its own."""

    def __init__(self, folder):
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = next(line for line in self._driver.stdout if "successfully on port" in line)
        self._port = int(line.rpartition("port ")[2].strip(" .\n"))
        options = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {
                "binary": shutil.which("chromium"),
                "args": [*FLAGS, f"--user-data-dir={folder}"],
            },
        }
        self._base = ""
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._base = f"/session/{made['sessionId']}"

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self._ask("DELETE", "")
        self._driver.terminate()
        self._driver.wait(10)
        self._driver.stdout.close()

    def _ask(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as asked:
            asked.request(method, self._base + path, json.dumps(body) if body is not None else None)
            value = json.loads(asked.getresponse().read())["value"]
        assert not (isinstance(value, dict) and "error" in value), value
        return value

    def command(self, name, **parameters):
        """One of Chromium's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height, *, dark=False):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *given):
        """What a function's body returns; a promise is waited for."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(given)})

    def find(self, css):
        return self._ask("POST", "/element", {"using": "css selector", "value": css})[_ELEMENT]

    def click(self, css):
        for _ in range(3):  # a list that is replaced between the two requests is found again
            try:
                return self._ask("POST", f"/element/{self.find(css)}/click", {})
            except AssertionError as error:
                if "stale element" not in str(error):
                    raise
        return self._ask("POST", f"/element/{self.find(css)}/click", {})

    def point(self, css, clicks=0):
        """Move the pointer to the middle of an element, and press its button as often as that, at once."""
        pressed = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")] * clicks
        where = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {_ELEMENT: self.find(css)}}
        mouse = {
            "type": "pointer",
            "id": "mouse",
            "parameters": {"pointerType": "mouse"},
            "actions": [where, *pressed],
        }
        self._ask("POST", "/actions", {"actions": [mouse]})

    def press(self, *keys):
        """Press keys on whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def type(self, css, text):
        self._ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def text(self, css):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def until(self, script, seconds=20):
        deadline = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, script
            time.sleep(0.1)
        return found

    def complaints(self):
        """What the console said since it was last asked; not of the window's first page, which is the browser's own."""
        said = [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]
        return [line for line in said if not line.startswith("chrome://")]

    def requested(self):
        """The addresses that were asked for since this was last asked."""
        logged = self._ask("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in logged]
        sent = [
            one["params"]["request"]["url"]
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith(("data:", "about:", "chrome:"))]

    def picture(self, path, *, whole=True):
        """A PNG of the page, as wide as the window."""
        made = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))
