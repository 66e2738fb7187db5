"""Deploys the CloudFormation template to the emulator and prints the stack's outputs as JSON.

Runs under the environment's Python (it needs boto3), as a process of its own so that the long-lived
supervisor needs nothing but the standard library.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError

STACK = "tollgate"
PARAMETERS = [{"ParameterKey": "Stage", "ParameterValue": "local"}]


def status_of(cloudformation: Any) -> str:
    try:
        return str(cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if "does not exist" in str(error):
            return "ABSENT"
        raise


def wait(cloudformation: Any, waiter: str) -> None:
    cloudformation.get_waiter(waiter).wait(StackName=STACK, WaiterConfig={"Delay": 0.2, "MaxAttempts": 300})


def deploy(cloudformation: Any, template: str) -> dict[str, str]:
    """Creates the stack or updates it; nothing to update is a success."""
    arguments = {
        "StackName": STACK,
        "TemplateBody": template,
        "Parameters": PARAMETERS,
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
    }
    status = status_of(cloudformation)
    # A first creation that failed can only be deleted; the tables it made stay (they are retained).
    if status in ("ROLLBACK_COMPLETE", "CREATE_FAILED", "ROLLBACK_FAILED"):
        cloudformation.delete_stack(StackName=STACK)
        wait(cloudformation, "stack_delete_complete")
        status = "ABSENT"
    if status == "ABSENT":
        cloudformation.create_stack(**arguments)
        wait(cloudformation, "stack_create_complete")
    else:
        try:
            cloudformation.update_stack(**arguments)
            wait(cloudformation, "stack_update_complete")
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise
    outputs = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


def failures(cloudformation: Any) -> str:
    """Why resources failed, newest first; empty when the emulator can't say."""
    try:
        events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
    except ClientError:
        return ""
    return "\n".join(
        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}"
        for event in events
        if event["ResourceStatus"].endswith("FAILED")
    )


def main() -> None:
    endpoint, template = sys.argv[1], pathlib.Path(sys.argv[2])
    cloudformation = boto3.client(
        "cloudformation",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 1}, read_timeout=60),
    )
    try:
        print(json.dumps(deploy(cloudformation, template.read_text())))
    except (ClientError, WaiterError) as error:
        raise SystemExit(f"{template.name} was not deployed: {error}\n{failures(cloudformation)}".rstrip()) from error


if __name__ == "__main__":
    main()
