"""Makes events.jsonl and expected.json.

An implementation of its own of the scheme usg1 and of the canonical JSON that the properties below need, so that the
two files witness against the Rust code and are not made by it. Run it in this directory; it writes the same bytes
every time.
"""

import hashlib
import json
import random
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT_FREE_LIMIT = 1000
START = datetime(2026, 3, 1, 6, 0, tzinfo=timezone.utc)
SPACES = {
    "northwind": {"plan": "plus active", "events": 82},
    "bluebird": {"plan": "free", "events": 48},
    "tinkerer": {"plan": "free", "limit": 25, "events": 64},
    "lapsed-co": {"plan": "plus inactive", "events": 22},
    "walk-in": {"plan": "unknown (free)", "events": 37},
    "probe": {"plan": "internal", "events": 19},
}


def canonical(value):
    """RFC 8785 for what this file uses: no number needs an exponent."""
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda field: field[0].encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(item)}" for key, item in ordered) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, ensure_ascii=False)


def instant(text):
    at = datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def derived(event):
    properties = event.get("properties") or None
    return [
        "usg1",
        "derived",
        event["meter"],
        event["subject"],
        instant(event["occurredAt"]),
        str(event["quantity"]),
        event.get("source") or "",
        canonical(properties),
    ]


def event_id(event):
    key = event.get("idempotencyKey")
    material = ["usg1", "explicit", event["meter"], event["subject"], key] if key else derived(event)
    return hashlib.sha256("\x1f".join(material).encode()).hexdigest()


def facts(event):
    return "\x1f".join([*derived(event), event.get("idempotencyKey") or ""])


def respelled(event, chance):
    """The same fact in another spelling: order of fields, zone of the instant, form of numbers, empty bag."""
    event = json.loads(json.dumps(event))
    at = datetime.fromisoformat(event["occurredAt"].replace("Z", "+00:00"))
    event["occurredAt"] = (at.astimezone(timezone(timedelta(hours=2)))).isoformat(timespec="milliseconds")
    bag = event.get("properties")
    if bag:
        event["properties"] = {
            key: float(item) if isinstance(item, int) and not isinstance(item, bool) else item
            for key, item in reversed(bag.items())
        }
    else:
        event["properties"] = {}
    event.setdefault("source", "")
    fields = list(event.items())
    chance.shuffle(fields)
    return dict(fields)


def make_event(number, chance):
    at = START + timedelta(seconds=97 * number, milliseconds=number * 13 % 1000)
    event = {
        "meter": chance.choice(["page_render", "tokens_out", "storage_hour"]),
        "subject": f"tenant-{chance.randrange(12):02d}",
        "occurredAt": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
        "quantity": chance.choice([1, 1, 1, 2, 48, 9007199254740991]),
    }
    if chance.random() < 0.6:
        event["source"] = chance.choice(["edge", "batch/nightly", "Käsehändler"])
    if chance.random() < 0.7:
        event["properties"] = {
            "region": chance.choice(["eu-west", "us-east", "日本"]),
            "ratio": chance.choice([0.25, 1.5, 0.1, 12]),
            "tags": chance.sample(["a", "b\"quoted\"", "c/d", "\u00e9", "🦀"], 2),
            "\ufb33": chance.choice([None, True]),
            "\U0001f600": {"deep": [number, -number]},
        }
    if chance.random() < 0.3:
        event["idempotencyKey"] = f"job-{number}"
    return event


def make_lines(chance):
    lines = []
    number = 0
    for space, plan in SPACES.items():
        for _ in range(plan["events"]):
            number += 1
            event = make_event(number, chance)
            lines.append({"space": space, **event})
            if number % 9 == 0:
                lines.append({"space": space, **event})
            if number % 31 == 0:
                lines.append({"space": space, **respelled(event, chance)})
    # One fact in two spaces is two events; so is one explicit id.
    shared = {"meter": "page_render", "subject": "tenant-00", "occurredAt": "2026-03-02T00:00:00Z", "quantity": 1}
    for space in ("bluebird", "walk-in"):
        lines.append({"space": space, **shared})
        lines.append({"space": space, **shared, "idempotencyKey": "shared"})
    # Two ids that come with two payloads each: one keeps the first, in the other the second comes twice.
    for space, key, repeats in (("northwind", "invoice-7", 1), ("bluebird", "invoice-8", 2)):
        lines.append({"space": space, **shared, "idempotencyKey": key})
        lines += [{"space": space, **shared, "quantity": 2, "idempotencyKey": key}] * repeats
    chance.shuffle(lines)
    return lines


def expect(lines):
    ids, payloads = defaultdict(set), defaultdict(lambda: defaultdict(set))
    for line in lines:
        ids[line["space"]].add(event_id(line))
        payloads[line["space"]][event_id(line)].add(facts(line))
    spaces = {}
    for space, plan in SPACES.items():
        distinct = len(ids[space])
        is_free = plan["plan"].startswith(("free", "unknown"))
        limit = plan.get("limit", DEFAULT_FREE_LIMIT)
        inserted = min(distinct, limit) if is_free else 0 if plan["plan"] == "plus inactive" else distinct
        spaces[space] = {
            **{name: plan[name] for name in ("plan", "limit") if name in plan},
            "lines": sum(line["space"] == space for line in lines),
            "distinct": distinct,
            "inserted": inserted,
            "rejected": distinct - inserted,
            "meter": inserted if is_free else 0,
        }
        conflicting = sum(len(seen) > 1 for seen in payloads[space].values())
        if conflicting:
            spaces[space]["conflicting_ids"] = conflicting
    return {
        "input": "events.jsonl",
        "lines": len(lines),
        "identity": "usg1 derived and explicit",
        "month": "all events are accepted in one month",
        "spaces": spaces,
        "totals": {name: sum(space[name] for space in spaces.values()) for name in ("distinct", "inserted", "rejected")},
    }


def main():
    lines = make_lines(random.Random(20260301))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (HERE / "events.jsonl").write_text(text, encoding="utf-8")
    (HERE / "expected.json").write_text(json.dumps(expect(lines), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
