"""What the OpenAPI document can say in words only, told to schemathesis: so that what it sends as good is good.

A schema says nothing of days that do not exist, of the future, of two members together, and of how a number is written.
"""

import datetime
import itertools
import json
import os
import re

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

CALLS = itertools.count()
GOOD_KEY = re.compile(r'"[a-z0-9 !#-\[\]-~]{1,200}"|[A-Za-z0-9!#$%&\'*+.^_`|~:/=-]{1,200}')
# Characters of ["source","id"] as JSON.
MAX_JOINED = 256
PAST = st.datetimes(datetime.datetime(1000, 1, 2), datetime.datetime(2026, 1, 1))


def _moment(instant, decimals):
    fraction = f".{instant.microsecond // 1000:03d}"[: decimals + 1] if decimals else ""
    return f"{instant:%Y-%m-%dT%H:%M:%S}{fraction}Z"


schemathesis.openapi.format("date-time", st.builds(_moment, PAST, st.integers(0, 3)))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives each command a key of its own, and makes good cases better."""
    # One key for all would be told so before anybody looks at the body.
    for name, value in (case.headers or {}).items():
        if name.lower() == "idempotency-key" and isinstance(value, str) and GOOD_KEY.fullmatch(value):
            number = f"-{os.getpid()}-{next(CALLS)}"
            case.headers[name] = f'{value[:-1]}{number}"' if value.endswith('"') else value + number
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    case.body = _integers_written_as_such(case.body)
    headers = case.headers or {}
    if "ce-specversion" in headers and isinstance(case.body, dict) and case.body.get("quantity") is not None:
        headers.pop("ce-quantity", None)
    for event in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(event, dict) and "specversion" in event:
            _agree(event)


def _agree(event):
    if len(json.dumps([event["source"], event["id"]], ensure_ascii=False, separators=(",", ":"))) > MAX_JOINED:
        event["id"] = "0"
        event["source"] = "0" * (len(event["source"]) % 200 + 1)
    if (event.get("data") or {}).get("quantity") is not None:
        event.pop("quantity", None)


def _integers_written_as_such(value):
    """1.0 as 1: to JSON Schema both are the integer, to Tollgate a quantity has no decimal point."""
    if isinstance(value, dict):
        return {name: _integers_written_as_such(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_integers_written_as_such(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
