"""The template as its author wrote it and as SAM translates it, both as JSON on standard output. Offline.

usage: translate.py TEMPLATE
"""

import json
import os
import sys

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    def load(self):
        return {}  # a list that SAM would ask IAM for


def main():
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    template = yaml_parse(text)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"  # as after packaging
    json.dump({"source": yaml_parse(text), "translated": transform(template, {}, NoManagedPolicies())}, sys.stdout)


main()
