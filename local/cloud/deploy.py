"""What the local cloud asks of CloudFormation and CloudWatch Logs: one question as JSON on standard input, its answer as JSON.

Stacks are made as `sam package` and `sam deploy` make them: the functions' zips and the template go to a bucket, CodeUri is
pointed there, and CloudFormation is given the template with its transform.
"""

import hashlib
import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError
from samtranslator.yaml_helper import yaml_parse

WAITER = {"Delay": 0.2, "MaxAttempts": 600}


class Refused(Exception):
    """An answer that is told without a traceback."""


def main():
    question = json.load(sys.stdin)
    try:
        answer = COMMANDS[question["command"]](Cloud(question), question)
    except (Refused, ClientError) as error:
        sys.exit(str(error))
    json.dump(answer, sys.stdout)


class Cloud:
    def __init__(self, question):
        self.stack = question["stack"]
        self.session = boto3.Session(
            aws_access_key_id=question["account"], aws_secret_access_key="local", region_name="us-east-1"
        )
        self.endpoint = question["endpoint"]
        self.cloudformation = self.client("cloudformation")

    def client(self, service):
        addressing = Config(s3={"addressing_style": "path"})
        return self.session.client(service, endpoint_url=self.endpoint, config=addressing)

    def wait(self, state):
        try:
            self.cloudformation.get_waiter(state).wait(StackName=self.stack, WaiterConfig=WAITER)
        except WaiterError as error:
            failed = [event for event in self.events() if event["status"].endswith("_FAILED")]
            reasons = "\n".join(f"{e['resource']} ({e['kind']}) {e['status']}: {e['reason']}" for e in failed)
            raise Refused(f"{error}\n{reasons}") from error

    def events(self):
        pages = self.cloudformation.get_paginator("describe_stack_events").paginate(StackName=self.stack)
        events = [event for page in pages for event in page["StackEvents"]]
        return [
            {
                "resource": event["LogicalResourceId"],
                "kind": event.get("ResourceType", ""),
                "status": event.get("ResourceStatus", ""),
                "reason": event.get("ResourceStatusReason", ""),
            }
            for event in reversed(events)
        ]

    def outputs(self):
        stack = self.cloudformation.describe_stacks(StackName=self.stack)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def request(cloud, question):
    """The template packaged into a bucket, and the parameters; the same for create and update."""
    s3 = cloud.client("s3")
    bucket = f"{cloud.stack}-artifacts-{question['account']}"  # buckets are shared by all accounts
    s3.create_bucket(Bucket=bucket)
    with open(question["template"], encoding="utf-8") as file:
        template = yaml_parse(file.read())
    unknown = sorted(question["parameters"].keys() - template["Parameters"].keys())
    if unknown:
        raise Refused(f"the template has no parameter {', '.join(unknown)}")  # CloudFormation refuses it, the emulator doesn't
    for function, package in question["packages"].items():
        with open(package, "rb") as file:
            body = file.read()
        key = hashlib.sha256(body).hexdigest() + ".zip"
        s3.put_object(Bucket=bucket, Key=key, Body=body)
        template["Resources"][function]["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    body = json.dumps(template).encode()
    key = hashlib.sha256(body).hexdigest() + ".json"
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    return {
        "StackName": cloud.stack,
        "TemplateURL": f"{cloud.endpoint}/{bucket}/{key}",
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": value} for name, value in question["parameters"].items()
        ],
    }


def invoke(cloud, question):
    answer = cloud.client("lambda").invoke(FunctionName=question["function"], Payload=json.dumps(question["payload"]))
    payload = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise Refused(f"{question['function']} failed: {payload}")
    return json.loads(payload)


def create(cloud, question):
    cloud.cloudformation.create_stack(**request(cloud, question))
    cloud.wait("stack_create_complete")
    return cloud.outputs()


def update(cloud, question):
    try:
        cloud.cloudformation.update_stack(**request(cloud, question))
    except ClientError as error:
        if "No updates are to be performed" not in str(error):
            raise
    else:
        cloud.wait("stack_update_complete")
    return cloud.outputs()


def delete(cloud, _question):
    cloud.cloudformation.delete_stack(StackName=cloud.stack)
    cloud.wait("stack_delete_complete")


def events(cloud, _question):
    return cloud.events()


def unschedule(cloud, _question):
    scheduler = cloud.client("scheduler")
    for found in scheduler.list_schedules()["Schedules"]:
        schedule = scheduler.get_schedule(Name=found["Name"], GroupName=found["GroupName"])
        kept = {name: schedule[name] for name in ("ScheduleExpression", "FlexibleTimeWindow", "Target")}
        scheduler.update_schedule(Name=found["Name"], GroupName=found["GroupName"], State="DISABLED", **kept)


def deliver(cloud, question):
    client = cloud.client("lambda")
    mappings = client.list_event_source_mappings(FunctionName=question["function"])["EventSourceMappings"]
    if not mappings:
        raise Refused(f"{question['function']} has no event source mapping")
    for mapping in mappings:
        client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=question["enabled"])


def logs(cloud, question):
    function = cloud.client("lambda").get_function_configuration(FunctionName=question["function"])
    group = function.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{question['function']}"
    pages = cloud.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
    try:
        return [event["message"].rstrip("\n") for page in pages for event in page["events"]]
    except cloud.client("logs").exceptions.ResourceNotFoundException:
        return []  # never invoked


COMMANDS = {
    "create": create,
    "update": update,
    "delete": delete,
    "events": events,
    "invoke": invoke,
    "unschedule": unschedule,
    "deliver": deliver,
    "logs": logs,
}

main()
