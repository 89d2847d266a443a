"""What folders of `sam build` weigh, and how their functions start. Needs Python only.

usage: measure.py [-n STARTS] FOLDER...        e.g. .aws-sam/build

Weight: the program, and its zip at level 9. A cold start: from the start of the process to its answer to a first invocation, an
empty batch, which calls nothing; the runtime API is this program, on loopback. `sweep` calls AWS at once, so only its time to
the first question for work is told. Without a network, TLS and the fetching of the zip; the page cache is warm. Processor time is
the process's own, user and system: beside other work it says more than the clock. Folders take turns, start by start, so that
what else the machine does meets them alike.
"""

import argparse
import http.server
import io
import os
import platform
import statistics
import struct
import subprocess
import sys
import threading
import time
import zipfile

FUNCTIONS = {"MarkFunction": True, "RebuildFunction": True, "SweepFunction": False}  # does it answer an empty batch?
MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
ENVIRONMENT = {
    "TIDEMARK_STACK": "measured",
    "TIDEMARK_TABLE": "table",
    "TIDEMARK_PARTITIONS_QUEUE_URL": "http://127.0.0.1:1/queue",
    "TIDEMARK_PARTITIONS_DLQ_URL": "http://127.0.0.1:1/dead",
    "TIDEMARK_CONTROL_BUCKET": "control",
    "TIDEMARK_ALERT_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:alerts",
    "TIDEMARK_EVENT_BUS": "default",
    "TIDEMARK_SETTLE_SECONDS": "30",
    "TIDEMARK_LEASE_MARGIN_SECONDS": "60",
    "TIDEMARK_REDSHIFT_WORKGROUP": "workgroup",
    "TIDEMARK_REDSHIFT_DATABASE": "dev",
    "TIDEMARK_COPY_ROLE_ARN": "default",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_LAMBDA_FUNCTION_NAME": "measured",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    "AWS_LAMBDA_LOG_GROUP_NAME": "group",
    "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
}


class Server(http.server.ThreadingHTTPServer):
    """One for each start, so that a process that was killed is not mistaken for the next."""

    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), RuntimeApi)
        self.state = {name: threading.Event() for name in ("on_asked", "on_answer", "end")} | {"answers": answers}

    def handle_error(self, *_):
        pass  # the process was killed


class RuntimeApi(http.server.BaseHTTPRequestHandler):
    """One invocation, then silence."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        state = self.server.state
        state.setdefault("asked", time.perf_counter())
        state["on_asked"].set()
        if not state["answers"] or state.get("given"):
            state["end"].wait()
            return
        state["given"] = True
        body = b'{"Records": []}'
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + 60) * 1000)))
        self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:measured")
        self.send_header("Lambda-Runtime-Trace-Id", "Root=1-0-0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state["answered"] = time.perf_counter()
        state["failed"] = body if "/error" in self.path else None
        state["on_answer"].set()
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def start(program, answers):
    """Milliseconds to the answer, or to the first question; those of the processor; the peak of memory in MiB."""
    server = Server(answers)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    state = server.state
    environment = ENVIRONMENT | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_address[1]}"}
    began = time.perf_counter()
    process = subprocess.Popen([program], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not state["on_answer" if answers else "on_asked"].wait(30):
            sys.exit(f"{program} did not answer within 30 s")
        if state.get("failed"):
            sys.exit(f"{program} failed: {state['failed'].decode()}")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        took = (state["answered" if answers else "asked"] - began) * 1000
    finally:
        process.kill()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0  # or it would be waited for again
        state["end"].set()
        server.shutdown()
    return took, (used.ru_utime + used.ru_stime) * 1000, peak / 1024


def zipped(program):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.write(program, "bootstrap")
    return len(packed.getvalue())


def machine_of(program):
    with open(program, "rb") as file:
        return MACHINES.get(struct.unpack_from("<H", file.read(20), 18)[0], "other")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("-n", dest="starts", type=int, default=25, help="starts of each function (25)")
    arguments.add_argument("folders", nargs="+")
    given = arguments.parse_args()
    width = max(len(folder) for folder in given.folders) + 2
    print(f"{'':<{width}}{'function':<16}{'machine':<9}{'program':>12}{'zip -9':>12}   cold start, {given.starts} times")
    for function, answers in FUNCTIONS.items():
        programs = {folder: os.path.join(folder, function, "bootstrap") for folder in given.folders}
        here = {folder: [] for folder in given.folders if machine_of(programs[folder]) == platform.machine()}
        for _ in range(given.starts):
            for folder, measured in here.items():
                measured.append(start(programs[folder], answers))
        for folder, program in programs.items():
            line = f"{folder:<{width}}{function:<16}{machine_of(program):<9}{os.path.getsize(program):>12,}{zipped(program):>12,}   "
            if folder not in here:
                print(line + "can't run here")
                continue
            times, processor, memory = zip(*here[folder])
            line += f"{min(times):.1f} / {statistics.median(times):.1f} / {max(times):.1f} ms (min / median / max), "
            line += f"{statistics.median(processor):.1f} ms of a processor, {max(memory):.0f} MiB"
            print(line + ("" if answers else "; to its first question for work"))


main()
