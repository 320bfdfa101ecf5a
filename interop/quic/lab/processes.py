"""Runs a server and a client as processes, and always ends them."""

import json
import subprocess
import time

from lab.setup import ENVIRONMENT

SECONDS_TO_LISTEN = 10
SECONDS_TO_EXCHANGE = 40
SECONDS_TO_CLOSE = 20


class Failed(Exception):
    """The exchange failed."""


class Pair:
    """The two ends of one row; `client.out`, `client.err`, `server.out` and `server.err` go into `folder`.

    `server()` returns a command and a port, or None if the server prints its port. `client(port)` returns a command.
    If `server_ends` is false, the server is killed once the client has ended.
    """

    def __init__(self, folder, server, client, server_ends):
        self.folder = folder
        self.server_ends = server_ends
        self.server = server
        self.client = client
        self.running = []

    def run(self):
        """Runs both ends. Returns why they failed, or None."""
        try:
            command, port = self.server()
            server = self.start("server", command)
            port = self.wait_for_port(server) if port is None else wait_for_socket(server, port)
            client = self.start("client", self.client(port))
            self.wait_for_end(client, "client", SECONDS_TO_EXCHANGE)
            if self.server_ends:
                self.wait_for_end(server, "server", SECONDS_TO_CLOSE)
            return None
        except Failed as failure:
            return str(failure)
        finally:
            for process in self.running:
                process.kill()
                process.wait()

    def start(self, name, command):
        with open(self.folder / f"{name}.out", "wb") as out, open(self.folder / f"{name}.err", "wb") as err:
            process = subprocess.Popen(
                [str(part) for part in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=ENVIRONMENT
            )
        self.running.append(process)
        return process

    def wait_for_port(self, server):
        for _ in patience(SECONDS_TO_LISTEN, server):
            line = (self.folder / "server.out").read_text(errors="replace").partition("\n")
            if line[1] and line[0].startswith("listening "):
                return int(line[0].split()[1])
        raise Failed("the server does not listen")

    def wait_for_end(self, process, name, seconds):
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"the {name} did not end in {seconds} s") from None
        if status != 0:
            errors = (self.folder / f"{name}.err").read_text(errors="replace").strip().splitlines()
            raise Failed(f"the {name} ended with status {status}: {errors[-1] if errors else 'no message'}")


def wait_for_socket(server, port):
    """The port, once a UDP socket is bound to it."""
    for _ in patience(SECONDS_TO_LISTEN, server):
        with open("/proc/net/udp", encoding="ascii") as sockets:
            if any(line.split()[1].endswith(f":{port:04X}") for line in sockets):
                return port
    raise Failed("the server does not listen")


def patience(seconds, process):
    """Yields every 10 ms, until the time is up or the process has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        yield
        time.sleep(0.01)


def last_json(output):
    """The last line of a program's output that is a JSON object."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError("no report was printed")
    return json.loads(lines[-1])
