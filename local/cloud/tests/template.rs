//! What `infra/template.yaml` and `samconfig.toml` must say, whatever else they say.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tidemark_local::{Template, workspace_root};

/// What the functions read; a contract between the template and `shared/aws`.
const ENVIRONMENT: [&str; 16] = [
    "TIDEMARK_ALERT_TOPIC_ARN",
    "TIDEMARK_CONTROL_BUCKET",
    "TIDEMARK_COPY_ROLE_ARN",
    "TIDEMARK_EVENT_BUS",
    "TIDEMARK_LEASE_MARGIN_SECONDS",
    "TIDEMARK_LOG",
    "TIDEMARK_PARTITIONS_DLQ_URL",
    "TIDEMARK_PARTITIONS_QUEUE_URL",
    "TIDEMARK_REDSHIFT_CLUSTER",
    "TIDEMARK_REDSHIFT_DATABASE",
    "TIDEMARK_REDSHIFT_DB_USER",
    "TIDEMARK_REDSHIFT_SECRET_ARN",
    "TIDEMARK_REDSHIFT_WORKGROUP",
    "TIDEMARK_SETTLE_SECONDS",
    "TIDEMARK_STACK",
    "TIDEMARK_TABLE",
];

/// Name and properties of each resource of a type.
fn resources<'a>(template: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let all = template["Resources"].as_object().unwrap();
    let found = all.iter().filter(|(_, resource)| resource["Type"] == kind);
    found.map(|(name, resource)| (name.as_str(), &resource["Properties"])).collect()
}

/// Each SQS event of each function: function, its properties, the event's properties.
fn sqs_events(source: &Value) -> Vec<(&str, &Value, &Value)> {
    let mut found = Vec::new();
    for (name, function) in resources(source, "AWS::Serverless::Function") {
        for event in function["Events"].as_object().unwrap().values() {
            if event["Type"] == "SQS" {
                found.push((name, function, &event["Properties"]));
            }
        }
    }
    found
}

fn queue<'a>(source: &'a Value, event: &Value) -> &'a Value {
    let name = event["Queue"]["Fn::GetAtt"][0].as_str().unwrap();
    &source["Resources"][name]["Properties"]
}

fn seconds(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is no number of seconds"))
}

/// Every `Allow` statement of every role that SAM makes, with the role's name.
fn allowed(translated: &Value) -> Vec<(&str, &Value)> {
    fn gather<'a>(role: &'a str, statement: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
        if let Some(branches) = statement.get("Fn::If") {
            gather(role, &branches[1], found);
            gather(role, &branches[2], found);
        } else if statement["Effect"] == "Allow" {
            found.push((role, statement));
        }
    }
    let mut found = Vec::new();
    for (role, properties) in resources(translated, "AWS::IAM::Role") {
        for policy in properties["Policies"].as_array().unwrap() {
            for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
                gather(role, statement, &mut found);
            }
        }
    }
    found
}

fn words(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map_or_else(|| value.as_str().into_iter().collect(), |all| all.iter().filter_map(Value::as_str).collect())
}

#[test]
fn c074_every_sqs_event_reports_item_failures() {
    let template = Template::read().unwrap();
    let events = sqs_events(&template.source);
    assert_eq!(events.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), ["MarkFunction", "RebuildFunction"]);
    for (name, _, event) in events {
        assert_eq!(event["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
    }
    let mappings = resources(&template.translated, "AWS::Lambda::EventSourceMapping");
    assert_eq!(mappings.len(), 2);
    for (name, mapping) in mappings {
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
    }
}

#[test]
fn c078_throttled_deliveries_are_not_dead_letters() {
    let template = Template::read().unwrap();
    for (name, function, event) in sqs_events(&template.source) {
        let receives = queue(&template.source, event)["RedrivePolicy"]["maxReceiveCount"].as_u64().unwrap();
        assert!(receives >= 5, "{name}: {receives}");
        assert!(function.get("ReservedConcurrentExecutions").is_none(), "{name} is bounded by its event source only");
        let bound = event["ScalingConfig"]["MaximumConcurrency"]["Ref"].as_str().unwrap();
        let least = template.source["Parameters"][bound]["MinValue"].as_u64().unwrap();
        assert!(least >= 2, "{name}: {least}");
    }
    let watched: BTreeSet<&str> = resources(&template.source, "AWS::CloudWatch::Alarm")
        .into_iter()
        .filter(|(_, alarm)| alarm["MetricName"] == "ApproximateNumberOfMessagesVisible")
        .filter_map(|(_, alarm)| alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0].as_str())
        .collect();
    assert_eq!(watched, BTreeSet::from(["EventsDeadLetterQueue", "PartitionsDeadLetterQueue"]));
}

#[test]
fn c081_timeout_and_visibility_come_from_one_parameter() {
    let template = Template::read().unwrap();
    for (name, function, event) in sqs_events(&template.source) {
        let parameter = &function["Timeout"];
        assert!(parameter["Ref"].is_string(), "{name}: the time-out is {parameter}");
        let expected = json!({"Fn::FindInMap": ["VisibilityTimeout", parameter, "Seconds"]});
        assert_eq!(queue(&template.source, event)["VisibilityTimeout"], expected, "{name}");
    }
}

#[test]
fn c082_visibility_is_six_timeouts_and_the_window() {
    let template = Template::read().unwrap();
    for (name, function, event) in sqs_events(&template.source) {
        let parameter = &template.source["Parameters"][function["Timeout"]["Ref"].as_str().unwrap()];
        let window = match event.get("MaximumBatchingWindowInSeconds") {
            Some(window) => seconds(&template.source["Parameters"][window["Ref"].as_str().unwrap()]["MaxValue"]),
            None => 0,
        };
        for timeout in parameter["AllowedValues"].as_array().unwrap() {
            let visible =
                seconds(&template.source["Mappings"]["VisibilityTimeout"][timeout.as_str().unwrap()]["Seconds"]);
            assert!(visible >= 6 * seconds(timeout) + window, "{name}: {visible} s for a time-out of {timeout} s");
            assert!(visible <= 43_200, "{name}: {visible} s is more than a queue takes");
        }
    }
}

/// Neither SAM nor cfn-lint says so: Lambda refuses more than ten messages without a window.
#[test]
fn a_batch_of_more_than_ten_has_a_window() {
    let template = Template::read().unwrap();
    for (name, _, event) in sqs_events(&template.source) {
        let window = event.get("MaximumBatchingWindowInSeconds");
        assert!(event["BatchSize"].as_u64().unwrap() <= 10 || window.is_some(), "{name}");
    }
}

#[test]
fn queues_keep_messages_as_long_as_sqs_can() {
    let template = Template::read().unwrap();
    let queues = resources(&template.source, "AWS::SQS::Queue");
    assert_eq!(queues.len(), 4);
    for (name, queue) in &queues {
        assert_eq!(queue["MessageRetentionPeriod"], 14 * 24 * 3600, "{name}");
        let Some(dead) = queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0].as_str() else { continue };
        let dead = &template.source["Resources"][dead]["Properties"];
        assert_eq!(dead["FifoQueue"], queue["FifoQueue"], "the dead letters of {name} must be of its kind");
    }
}

#[test]
fn roles_name_their_actions_and_resources() {
    let template = Template::read().unwrap();
    let statements = allowed(&template.translated);
    assert!(statements.len() > 15, "the statements were not found");
    for (role, statement) in statements {
        let actions = words(&statement["Action"]);
        assert!(!actions.is_empty(), "{role}: {statement}");
        assert!(actions.iter().all(|action| !action.contains('*')), "{role}: {actions:?}");
        if words(&statement["Resource"]).contains(&"*") {
            // These three know no resources.
            let expected = [
                "redshift-data:DescribeStatement",
                "redshift-data:GetStatementResult",
                "redshift-data:CancelStatement",
            ];
            assert_eq!(actions, expected, "{role} may do this with everything");
        }
    }
}

#[test]
fn functions_are_given_what_they_read() {
    let template = Template::read().unwrap();
    let functions = resources(&template.translated, "AWS::Lambda::Function");
    assert_eq!(functions.len(), 3);
    for (name, function) in functions {
        let variables = function["Environment"]["Variables"].as_object().unwrap();
        let given: BTreeSet<&str> = variables.keys().map(String::as_str).collect();
        assert_eq!(given, BTreeSet::from(ENVIRONMENT), "{name}");
    }
}

#[test]
fn c194_functions_run_on_amazon_linux_2023() {
    let template = Template::read().unwrap();
    for (name, function) in resources(&template.translated, "AWS::Lambda::Function") {
        assert_eq!(function["Runtime"], "provided.al2023", "{name}");
    }
}

#[test]
fn c199_the_bucket_waits_for_the_queue_policy() {
    let template = Template::read().unwrap();
    assert_eq!(template.source["Resources"]["DataBucket"]["DependsOn"], "EventsQueuePolicy");
    let policy = &template.source["Resources"]["EventsQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"];
    assert_eq!(policy[0]["Principal"]["Service"], "s3.amazonaws.com");
}

#[test]
fn c201_no_queue_uses_the_managed_key() {
    let template = Template::read().unwrap();
    for (name, queue) in resources(&template.source, "AWS::SQS::Queue") {
        assert_eq!(queue["SqsManagedSseEnabled"], true, "{name}");
        assert!(queue.get("KmsMasterKeyId").is_none(), "{name}: S3 cannot use the key aws/sqs");
    }
}

/// A `template_file` there makes `sam deploy` package the source folders, and say that all went well.
#[test]
fn deploy_takes_the_built_template() {
    let text = fs::read_to_string(workspace_root().join("samconfig.toml")).unwrap();
    let config: toml_edit::DocumentMut = text.parse().unwrap();
    for (environment, commands) in config.iter().filter(|(_, commands)| commands.is_table()) {
        for command in ["global", "deploy"] {
            let parameters = commands.get(command).and_then(|command| command.get("parameters"));
            let named = parameters.and_then(|parameters| parameters.get("template_file"));
            assert!(named.is_none(), "template_file under [{environment}.{command}.parameters]");
        }
    }
    assert_eq!(config["default"]["build"]["parameters"]["template_file"].as_str(), Some("infra/template.yaml"));
}
