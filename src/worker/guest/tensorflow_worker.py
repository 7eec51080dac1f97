"""The TensorFlow worker of a TPU VM: what clients reach at grpc://<address>:8470.

It listens there from the VM's start, and runs TensorFlow's own server behind it: started for the
first client, ended when the last has gone, with all that it may still compute for one that was
killed, so that the TPU and its memory are free for others. A server that crashes takes its
clients' connections with it; the next connection starts another. A client that comes to a server
that cannot start is told why, as its first call's error: TensorFlow's clients would wait for ever at
a closed port.

Standard library only, but for the servers, which are processes of their own. Runs in the virtual
environment that has tensorflow-tpu, as root; boot starts it again should it end.
"""
import asyncio
import contextlib
import logging
import logging.handlers
import os
import signal
import socket
import sys

PORT = 8470
LOG = "/var/log/tensorflow-worker.log"
START_SECONDS = 180  # importing TensorFlow on a busy machine
CHUNK = 1 << 18

# Each says its own address on a line, then serves.
SERVERS = {
    "tensorflow": """
import grpc
import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2 as protos
server = tf.distribute.Server({"worker": ["127.0.0.1:0"]}, job_name="worker", task_index=0)
address = server.target.removeprefix("grpc://")
# The first context in a server lends its collective executor to all that come later, and frees it
# when it goes, or when another came in the same moment: they crash. So the first is one that stays.
# CreateContextRequest by hand, for the wheels lack its class: server_def (1), context_id (7).
definition = protos.ServerDef(job_name="worker", protocol="grpc").SerializeToString()
create = grpc.insecure_channel(address).unary_unary("/tensorflow.eager.EagerService/CreateContext")
create(bytes([1 << 3 | 2, len(definition)]) + definition + bytes([7 << 3 | 1]) + b"\1" * 8, timeout=60)
print("address", address, flush=True)
server.join()
""",
    # Answers every call with what it is given.
    "refusal": """
import concurrent.futures, sys
import grpc
class Refuse(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.stream_stream_rpc_method_handler(
            lambda request, context: context.abort(grpc.StatusCode.FAILED_PRECONDITION, sys.argv[1]))
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), [Refuse()])
print("address", "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
""",
}


class CannotStart(Exception):
    """Its text says what the server said last."""


class Server:
    """One server's process. `address` is (host, port) once `start` has returned."""

    def __init__(self, name, *args):
        self.name, self.args = name, args
        self.process = None
        self.address = None
        self.last_lines = []

    @property
    def alive(self):
        return self.process is not None and self.process.returncode is None

    async def start(self):
        # It dies with us, however we die; TensorFlow's ignores SIGTERM.
        self.process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL", sys.executable, "-c", SERVERS[self.name], *self.args,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, limit=CHUNK)
        found = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self._read(found))
        try:
            host, _, port = (await asyncio.wait_for(found, START_SECONDS)).rpartition(":")
            self.address = host, int(port)
        except (CannotStart, asyncio.TimeoutError) as error:
            await self.end()
            raise CannotStart(str(error) or f"it was not ready after {START_SECONDS} s") from None
        logging.info("%s server %d is ready", self.name, self.process.pid)

    async def _read(self, found):
        """Logs what the server says, for ever; `found` gets its address."""
        while line := await self._line():
            text = line.decode(errors="replace").rstrip()
            if text.startswith("address ") and not found.done():
                found.set_result(text.split()[1])
                continue
            self.last_lines = self.last_lines[-4:] + [text]
            logging.info("%s", text)
        code = await self.process.wait()
        logging.warning("%s server %d ended with %d", self.name, self.process.pid, code)
        if not found.done():
            found.set_exception(CannotStart("\n".join([*self.last_lines, f"It ended with {code}."])))

    async def _line(self):
        try:
            return await self.process.stdout.readline()
        except ValueError:  # longer than the limit; it is dropped
            return b"(a line too long to keep)\n"

    async def end(self):
        if self.alive:
            self.process.kill()
        await asyncio.wait([self.reading])


class Worker:
    """The port, and the server behind it."""

    def __init__(self):
        self.server = None
        self.starting = asyncio.Lock()
        self.clients = 0

    async def connect(self):
        """A connection to the server, which is started if need be."""
        async with self.starting:
            if self.server is None or not self.server.alive or self.server.name == "refusal":
                await self._replace()
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*self.server.address)
            # It has just died, and we have not heard of it yet.
            await self._replace()
            return await asyncio.open_connection(*self.server.address)

    async def _replace(self):
        if self.server is not None:
            await self.server.end()
        self.server = Server("tensorflow")
        try:
            await self.server.start()
        except CannotStart as error:
            logging.error("the server cannot start: %s", error)
            self.server = Server("refusal", "The TensorFlow worker of this TPU VM cannot start: "
                                 f"{error}\nIts log is {LOG} of the VM; mend that and try again.")
            await self.server.start()

    async def serve(self, reader, writer):
        """One client's connection, from beginning to end."""
        self.clients += 1
        try:
            keep_alive(writer)
            await relay((reader, writer), await self.connect())
        except (OSError, CannotStart) as error:
            logging.warning("a connection ended: %s", error)
        finally:
            writer.close()
            self.clients -= 1
            await self._rest()

    async def _rest(self):
        async with self.starting:
            if self.clients == 0 and self.server is not None and self.server.alive:
                logging.info("no client is left; the %s server ends", self.server.name)
                await self.server.end()


def keep_alive(writer):
    """A client whose machine has gone is noticed within two minutes."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


async def copy(reader, writer):
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()


async def relay(one, other):
    """Copies both ways; when either end closes, so does the other."""
    copies = [asyncio.create_task(copy(one[0], other[1])), asyncio.create_task(copy(other[0], one[1]))]
    await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    for end in (one[1], other[1]):
        end.close()
    for task in copies:
        task.cancel()
    await asyncio.gather(*copies, return_exceptions=True)


async def main(port=PORT):
    worker = Worker()
    try:
        listener = await asyncio.start_server(worker.serve, "0.0.0.0", port, limit=CHUNK)
    except OSError as error:
        sys.exit(logging.error("cannot listen: %s; boot tries again every ten seconds", error) or 1)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    logging.info("listening on %d", listener.sockets[0].getsockname()[1])
    await stop.wait()
    listener.close()
    if worker.server is not None:
        with contextlib.suppress(ProcessLookupError):
            await worker.server.end()


if __name__ == "__main__":
    log = logging.handlers.RotatingFileHandler(os.environ.get("TORUS_WORKER_LOG", LOG),
                                               maxBytes=4 << 20, backupCount=1)
    logging.basicConfig(level=logging.INFO, handlers=[log], format="%(asctime)s %(message)s")
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PORT))
