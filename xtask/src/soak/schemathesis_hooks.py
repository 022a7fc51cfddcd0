"""Hooks of `cargo xtask soak schemathesis`: counts the answers, and lets half of the requests name a
session that exists, because a random name finds none."""

import atexit
import collections
import json
import os

import requests
import schemathesis

SESSIONS = json.loads(os.environ["SOAK_SESSIONS"])
REPORT = os.environ["SOAK_REPORT"]
answers = collections.defaultdict(collections.Counter)
send_request = requests.adapters.HTTPAdapter.send


def send(self, request, stream=False, **options):
    """A stream of events has no end: its beginning is its answer."""
    response = send_request(self, request, stream=True, **options)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        response._content = next(response.iter_content(1 << 16), b"")
        response._content_consumed = True
        response.close()
    return response


requests.adapters.HTTPAdapter.send = send


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    name = (path_parameters or {}).get("id")
    if not isinstance(name, str) or len(name) % 2:
        return path_parameters
    # Only one of them may be removed, so that there is something left to read.
    first, *others = SESSIONS
    is_removal = context.operation.method.lower() == "delete"
    known = first if is_removal else others[sum(map(ord, name)) % len(others)]
    if is_push(context):
        known = f"pushed-{len(name) % 5}"
    return {**path_parameters, "id": known}


def is_push(context):
    return context.operation.path.endswith("/records")


@schemathesis.hook
def map_query(context, query):
    """A random name of a stream is hardly ever allowed."""
    if is_push(context) and query and len(str(query)) % 2 == 0:
        return {**query, "stream": "soak", "format": "events"}
    return query


@schemathesis.hook
def map_body(context, body):
    if is_push(context) and isinstance(body, str) and len(body) % 2 == 0:
        return '{"type":"session:idle"}\n' * (1 + len(body) % 3)
    return body


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode() + b"\n"


@schemathesis.hook
def after_call(context, case, response):
    answers[f"{case.operation.method.upper()} {case.operation.path}"][response.status_code] += 1


@atexit.register
def write_report():
    with open(REPORT, "w") as file:
        total = sum(sum(counts.values()) for counts in answers.values())
        file.write(f"{total} requests to {len(answers)} operations\n\n")
        for operation, counts in sorted(answers.items()):
            shown = ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))
            file.write(f"{operation:<44} {shown}\n")
