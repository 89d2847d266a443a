"""MiniStack with one correction: how many messages of a queue it hands to functions at the same time.

The pinned version hands out one message of a FIFO queue at a time, since a batch of its may span groups. A batch of one
message can't, and the queue itself holds back a group of which a message is in flight; so AWS runs as many as there are
groups, up to MaximumConcurrency, and so does this. It also takes MaximumConcurrency as the text that a template's parameter
is, which CloudFormation would have made a number, and whose comparison would end the poller of every queue.
"""

from ministack.app import main
from ministack.services import lambda_svc

theirs = lambda_svc._sqs_esm_concurrency


def concurrency(mapping, function, config, queue=None):
    scaling = mapping.get("ScalingConfig") or {}
    if "MaximumConcurrency" in scaling:
        scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
    one_group = mapping.get("BatchSize") == 1
    return theirs(mapping, function, config, None if one_group else queue)


lambda_svc._sqs_esm_concurrency = concurrency

main()
