"""Runs one server and ends it, with all its children, when whoever started it is gone.

usage: guard.py STOP_SIGNAL DIRECTORY -- COMMAND...

The starter keeps our standard input open and never writes to it. End of file therefore means that it stopped us, or that
it died in whatever way, SIGKILL included; a server never outlives the program it was started for. DIRECTORY is the
server's scratch space and is removed at the end. The guard leads a process group of its own, which its server joins.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 3


def main():
    stop_signal = getattr(signal, sys.argv[1])
    directory = sys.argv[2]
    command = sys.argv[4:]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the pipe alone says when to stop
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, restore_signals=True, preexec_fn=default_signals)
    threading.Thread(target=wait_for_end_of_file, args=(server, stop_signal), daemon=True).start()
    code = server.wait()
    shutil.rmtree(directory, ignore_errors=True)
    os.write(1, f"guard: {command[0]} ended with {code}\n".encode())
    os.killpg(0, signal.SIGKILL)  # whatever the server left behind, and ourselves


def default_signals():
    for handled in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(handled, signal.SIG_DFL)


def wait_for_end_of_file(server, stop_signal):
    while os.read(0, 1024):
        pass
    server.send_signal(stop_signal)
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


main()
