"""aioquic as the other end: `peer.py client|server` runs one connection and prints one line of JSON."""

import argparse
import asyncio
import hashlib
import json
from pathlib import Path

import aioquic
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicLogger

ALPN = "wireseal-interop"
PIECE = 16_384
# Old keys are kept for about three probe timeouts, and the next update waits that long (RFC 9001 §6.5).
SECONDS_BETWEEN_UPDATES = 0.5


class Updates:
    """Starts key updates after a quarter and after three quarters of the payload, if `wanted`."""

    def __init__(self, protocol, wanted, total):
        self.protocol = protocol
        self.due_at = [total // 4, total // 4 * 3] if wanted else []
        self.started = 0

    async def sent(self, octets):
        if self.started == len(self.due_at) or octets < self.due_at[self.started]:
            return
        if self.started > 0:
            await asyncio.sleep(SECONDS_BETWEEN_UPDATES)
        self.protocol.request_key_update()
        self.started += 1


class Server(QuicConnectionProtocol):
    """Echoes its stream. `finished` has a result once the client has closed the connection."""

    def __init__(self, *arguments, finished, task, **keywords):
        super().__init__(*arguments, stream_handler=self.on_stream, **keywords)
        self.finished = finished
        self.received = bytearray()
        self.updates = Updates(self, task.update_keys, task.payload.stat().st_size)

    def on_stream(self, reader, writer):
        self.echoing = asyncio.ensure_future(self.echo(reader, writer))

    async def echo(self, reader, writer):
        while piece := await reader.read(PIECE):
            self.received += piece
            writer.write(piece)
            await self.updates.sent(len(self.received))
        writer.write_eof()
        await self.wait_closed()
        self.finished.set_result(self)


def report(logger, protocol, received, updates):
    events = [event for trace in logger.to_dict()["traces"] for event in trace["events"]]
    # Each update has two events, one for each direction.
    update_triggers = [
        event["data"]["trigger"]
        for event in events
        if event["name"] == "security:key_updated" and event["data"]["key_type"] == "server_1rtt_secret"
    ]
    retries = [
        event
        for event in events
        if (event["name"] == "transport:packet_received" and event["data"]["header"]["packet_type"] == "retry")
        or (
            event["name"] == "transport:parameters_set"
            and event["data"]["owner"] == "local"
            and "retry_source_connection_id" in event["data"]
        )
    ]
    print(
        json.dumps(
            {
                "version": aioquic.__version__,
                "suite": "TLS_" + protocol._quic.tls.key_schedule.cipher_suite.name,
                "received": len(received),
                "sha256": hashlib.sha256(received).hexdigest(),
                "updates_requested": updates.started,
                "updates_local": update_triggers.count("local_update"),
                "updates_remote": update_triggers.count("remote_update"),
                "retry": bool(retries),
            }
        ),
        flush=True,
    )


async def client(task, configuration):
    configuration.load_verify_locations(str(task.certificates / "ca.pem"))
    configuration.server_name = "localhost"
    payload = task.payload.read_bytes()
    async with connect(*task.address, configuration=configuration) as protocol:
        reader, writer = await protocol.create_stream()
        updates = Updates(protocol, task.update_keys, len(payload))

        async def send():
            for start in range(0, len(payload), PIECE):
                piece = payload[start : start + PIECE]
                writer.write(piece)
                await updates.sent(start + len(piece))
            writer.write_eof()

        _, received = await asyncio.gather(send(), reader.read())
    report(configuration.quic_logger, protocol, received, updates)


async def server(task, configuration):
    configuration.load_cert_chain(task.certificates / "server.pem", task.certificates / "server.key")
    finished = asyncio.get_running_loop().create_future()

    def protocol(*arguments, stream_handler, **keywords):
        return Server(*arguments, finished=finished, task=task, **keywords)

    listener = await serve(
        *task.address, configuration=configuration, create_protocol=protocol, retry=task.retry
    )
    print("listening", listener._transport.get_extra_info("sockname")[1], flush=True)
    connection = await finished
    report(configuration.quic_logger, connection, connection.received, connection.updates)


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("role", choices=["client", "server"])
    arguments.add_argument("--address", type=address, required=True)
    arguments.add_argument("--certificates", type=Path, required=True)
    arguments.add_argument("--payload", type=Path, required=True)
    arguments.add_argument("--version", type=lambda text: int(text, 16), default=1)
    arguments.add_argument("--retry", action="store_true")
    arguments.add_argument("--update-keys", action="store_true")
    task = arguments.parse_args()
    configuration = QuicConfiguration(
        alpn_protocols=[ALPN],
        is_client=task.role == "client",
        quic_logger=QuicLogger(),
        original_version=task.version if task.role == "client" else None,
        supported_versions=[task.version],
    )
    asyncio.run((client if task.role == "client" else server)(task, configuration))


main()
