"""A real `torus serve` for tests: started on a free port with a data folder of its own, ended by pid."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = pathlib.Path(os.environ.get("TORUS", ROOT / "build/release/torus"))
ZONE = "us-central1-a"
PROJECT = "test-project"
PARENT = f"projects/{PROJECT}/locations/{ZONE}"
NODE = {"acceleratorType": "v2-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def eventually(condition, seconds=30, what="the condition"):
    """Polls until `condition()` is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come about in {seconds} s"
        time.sleep(0.02)


class Service:
    """One data folder and the service on it, which may be stopped, killed and started again."""

    def __init__(self, folder, backend="fake", flags=(), environment=None):
        self.folder = pathlib.Path(folder)
        self.flags = [f"--data-dir={self.folder / 'data'}", f"--backend={backend}", *flags]
        self.environment = os.environ | (environment or {})
        self.log = self.folder / "serve.log"
        self.prefix = []  # a command that runs the program
        self.process = None
        self.port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def spawn(self):
        """Starts the program without waiting for it to serve."""
        self.folder.mkdir(parents=True, exist_ok=True)
        listen = f"--listen=127.0.0.1:{self.port}"
        with open(self.log, "ab") as log:
            offset = log.tell()
            self.process = subprocess.Popen([*self.prefix, BINARY, "serve", listen, *self.flags],
                                            stderr=log, env=self.environment)
        return offset

    def start(self):
        offset = self.spawn()

        def listening():
            assert self.process.poll() is None, self.log.read_text()[offset:]
            return re.search(r"listening on \S+:(\d+)", self.log.read_text()[offset:])
        self.port = int(eventually(listening, what="torus serve").group(1))
        return self

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return None
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self.process = None
        return code

    def kill(self):
        return self.stop(signal.SIGKILL)

    def call(self, method, path, body=None, headers=None):
        """One REST call; returns (status, parsed body). A body that is not bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=body, method=method,
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def ok(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        assert status == 200, (method, path, answer)
        return answer

    def create(self, node_id, **fields):
        return self.ok("POST", f"/v2/{PARENT}/nodes?nodeId={node_id}", NODE | fields)

    def node(self, node_id):
        status, answer = self.call("GET", f"/v2/{PARENT}/nodes/{node_id}")
        return answer if status == 200 else None

    def wait(self, operation, seconds=60):
        """The operation, done."""
        def done():
            answer = self.ok("GET", "/v2/" + operation["name"])
            return answer["done"] and answer
        return eventually(done, seconds, operation["name"])

    def torus(self, *arguments, check=True, **options):
        """Runs the torus command against this service."""
        environment = self.environment | {
            "TORUS_ENDPOINT": self.url, "CLOUDSDK_CORE_PROJECT": PROJECT, "TORUS_ZONE": ZONE,
            "CLOUDSDK_COMPUTE_ZONE": ZONE}
        environment |= options.pop("environment", {})
        done = subprocess.run([BINARY, *arguments], env=environment, capture_output=True, text=True,
                              timeout=options.pop("timeout", 120), **options)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done
