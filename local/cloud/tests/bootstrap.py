#!/usr/bin/env python3
"""A function for tests of the local cloud: logs each message; the message "hold" keeps it busy until it is killed."""

import json
import os
import threading
import urllib.request

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"

while True:
    with urllib.request.urlopen(f"{API}/next") as response:
        request = response.headers["Lambda-Runtime-Aws-Request-Id"]
        event = json.load(response)
    for record in event.get("Records", []):
        print(json.dumps({"seen": record["body"]}), flush=True)
        if record["body"] == "hold":
            threading.Event().wait()
    answer = json.dumps({"batchItemFailures": [], "event": event}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{API}/{request}/response", answer, method="POST")).close()
