//! What `infra/template.yaml` and `samconfig.toml` must say, whatever else they say.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};
use tidemark_domain::measure::{self, Metric};
use tidemark_domain::take::BATCH_LIVES;
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

/// The template, read and translated once for all tests.
fn template() -> &'static Template {
    static TEMPLATE: LazyLock<Template> = LazyLock::new(|| Template::read().unwrap());
    &TEMPLATE
}

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

/// Every `Allow` statement of every role, those that SAM makes too, with the role's name; sweep's stand in a policy apart from
/// its role.
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
        for policy in properties["Policies"].as_array().into_iter().flatten() {
            for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
                gather(role, statement, &mut found);
            }
        }
    }
    for (name, policy) in resources(translated, "AWS::IAM::Policy") {
        assert_eq!(name, "SweepPolicy");
        for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
            gather("SweepRole", statement, &mut found);
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
    let template = template();
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
    let template = template();
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
    let template = template();
    for (name, function, event) in sqs_events(&template.source) {
        let parameter = &function["Timeout"];
        assert!(parameter["Ref"].is_string(), "{name}: the time-out is {parameter}");
        let expected = json!({"Fn::FindInMap": ["VisibilityTimeout", parameter, "Seconds"]});
        assert_eq!(queue(&template.source, event)["VisibilityTimeout"], expected, "{name}");
    }
}

#[test]
fn c082_visibility_is_six_timeouts_and_the_window() {
    let template = template();
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
    let template = template();
    for (name, _, event) in sqs_events(&template.source) {
        let window = event.get("MaximumBatchingWindowInSeconds");
        assert!(event["BatchSize"].as_u64().unwrap() <= 10 || window.is_some(), "{name}");
    }
}

#[test]
fn queues_keep_messages_as_long_as_sqs_can() {
    let template = template();
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
    let template = template();
    let statements = allowed(&template.translated);
    assert!(statements.len() > 15, "the statements were not found");
    for (role, statement) in statements {
        let actions = words(&statement["Action"]);
        assert!(!actions.is_empty(), "{role}: {statement}");
        assert!(actions.iter().all(|action| !action.contains('*')), "{role}: {actions:?}");
        if words(&statement["Resource"]).contains(&"*") {
            // These know no resources.
            let expected = match statement["Sid"].as_str() {
                Some("Networks") => vec!["ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"],
                _ => vec![
                    "redshift-data:DescribeStatement",
                    "redshift-data:GetStatementResult",
                    "redshift-data:CancelStatement",
                ],
            };
            assert_eq!(actions, expected, "{role} may do this with everything");
        }
    }
}

#[test]
fn functions_are_given_what_they_read() {
    let template = template();
    let functions = resources(&template.translated, "AWS::Lambda::Function");
    assert_eq!(functions.len(), 3);
    for (name, function) in functions {
        let variables = function["Environment"]["Variables"].as_object().unwrap();
        let given: BTreeSet<&str> = variables.keys().map(String::as_str).collect();
        assert_eq!(given, BTreeSet::from(ENVIRONMENT), "{name}");
    }
}

/// What only operators are told, and which resources tell it.
const OPERATORS: [(&str, &str); 3] = [
    ("TIDEMARK_EVENTS_DLQ_URL", "${EventsDeadLetterQueue}"),
    ("TIDEMARK_EVENTS_QUEUE_URL", "${EventsQueue}"),
    ("TIDEMARK_FUNCTIONS", "${MarkFunction},${RebuildFunction},${SweepFunction}"),
];

/// The output is the functions' own environment, but for the log, as lines of a file that the operator's command reads; and
/// what only operators need.
#[test]
fn the_environment_of_operators_is_that_of_the_functions() {
    let template = template();
    let lines = template.source["Outputs"]["Environment"]["Value"]["Fn::Sub"].as_str().unwrap();
    let variables = &template.source["Globals"]["Function"]["Environment"]["Variables"];
    let mut named = BTreeSet::from(["TIDEMARK_LOG"]);
    let mut told = 0;
    for (name, value) in lines.lines().filter_map(|line| line.split_once('=')) {
        if let Some((_, expected)) = OPERATORS.iter().find(|(operators, _)| *operators == name) {
            assert_eq!(value, *expected, "{name}");
            told += 1;
        } else if name != "AWS_REGION" {
            let of = variables[name]["Ref"].as_str().unwrap_or_else(|| panic!("the functions have no {name}"));
            assert_eq!(value, format!("${{{of}}}"), "{name}");
            named.insert(name);
        }
    }
    assert_eq!((named, told), (BTreeSet::from(ENVIRONMENT), OPERATORS.len()));
}

#[test]
fn c194_functions_run_on_amazon_linux_2023() {
    let template = template();
    for (name, function) in resources(&template.translated, "AWS::Lambda::Function") {
        assert_eq!(function["Runtime"], "provided.al2023", "{name}");
    }
}

#[test]
fn c199_the_bucket_waits_for_the_queue_policy() {
    let template = template();
    assert_eq!(template.source["Resources"]["DataBucket"]["DependsOn"], "EventsQueuePolicy");
    let policy = &template.source["Resources"]["EventsQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"];
    assert_eq!(policy[0]["Principal"]["Service"], "s3.amazonaws.com");
}

/// The pattern of a parameter, as CloudFormation applies it: to the whole value.
fn pattern(template: &Template, parameter: &str) -> Regex {
    let pattern = template.source["Parameters"][parameter]["AllowedPattern"].as_str();
    let pattern = pattern.unwrap_or_else(|| panic!("{parameter} has no pattern"));
    Regex::new(&format!("^(?:{pattern})$")).unwrap()
}

/// `{"Fn::If": ["HasKey", <the customer's key>, <other>]}`
fn with_key(other: &Value) -> Value {
    json!({"Fn::If": ["HasKey", {"Ref": "KmsKeyArn"}, other]})
}

#[test]
fn c200_everything_is_encrypted_with_the_customers_key_where_one_is_given() {
    let template = template();
    let none = json!({"Ref": "AWS::NoValue"});
    for (kind, property) in [
        ("AWS::SQS::Queue", "KmsMasterKeyId"),
        ("AWS::SNS::Topic", "KmsMasterKeyId"),
        ("AWS::Logs::LogGroup", "KmsKeyId"),
        ("AWS::Lambda::Function", "KmsKeyArn"),
    ] {
        for (name, properties) in resources(&template.translated, kind) {
            assert_eq!(properties[property], with_key(&none), "{name}");
        }
    }
    let resources = &template.source["Resources"];
    let table = &resources["StateTable"]["Properties"]["SSESpecification"]["Fn::If"];
    assert_eq!((&table[0], &table[1]["KMSMasterKeyId"]), (&json!("HasKey"), &json!({"Ref": "KmsKeyArn"})));
    let bucket = &resources["ControlBucket"]["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    let key = &bucket["Fn::If"][1]["ServerSideEncryptionByDefault"];
    assert_eq!((&key["SSEAlgorithm"], &key["KMSMasterKeyID"]), (&json!("aws:kms"), &json!({"Ref": "KmsKeyArn"})));

    // The key's policy is its owner's; the page they copy it from names each service that must use the key.
    let page = fs::read_to_string(workspace_root().join("docs/deploy.md")).unwrap();
    for service in ["s3", "sns", "events", "cloudwatch"] {
        assert!(page.contains(&format!("\"{service}.amazonaws.com\"")), "{service} is not in the key policy");
    }
}

#[test]
fn c201_no_queue_uses_the_managed_key() {
    let template = template();
    for (name, queue) in resources(&template.source, "AWS::SQS::Queue") {
        let managed = json!({"Fn::If": ["HasKey", {"Ref": "AWS::NoValue"}, true]});
        assert_eq!(queue["SqsManagedSseEnabled"], managed, "{name}");
    }
    let key = pattern(template, "KmsKeyArn");
    for refused in
        ["alias/aws/sqs", "arn:aws:kms:eu-west-1:123456789012:alias/aws/sqs", "1234abcd-12ab-34cd-56ef-1234567890ab"]
    {
        assert!(
            !key.is_match(refused),
            "{refused}: S3 cannot use an alias of AWS, and an id says nothing of its account"
        );
    }
    assert!(key.is_match("arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"));
    assert!(key.is_match(""), "no key is the default");
}

#[test]
fn c202_functions_may_use_the_key() {
    let template = template();
    for role in ["MarkRole", "RebuildRole", "SweepRole"] {
        let statements = allowed(&template.translated);
        let mut of_role = statements.iter().filter(|(name, statement)| *name == role && statement["Sid"] == "Key");
        let (_, key) = of_role.next().unwrap_or_else(|| panic!("{role} may not use the key"));
        assert_eq!(words(&key["Action"]), ["kms:Decrypt", "kms:GenerateDataKey"], "{role}");
        assert_eq!(key["Resource"], json!({"Ref": "KmsKeyArn"}), "{role}");
    }
    let statements = allowed(&template.translated);
    let data = statements.iter().find(|(role, statement)| *role == "RebuildRole" && statement["Sid"] == "DataKey");
    assert_eq!(data.unwrap().1["Action"], "kms:Decrypt", "files may be encrypted with another key");
}

/// Whoever writes a bucket's notifications replaces all of them: only those of this stack's own bucket are written.
#[test]
fn c203_no_foreign_notification_is_written() {
    let template = template();
    for (name, resource) in template.source["Resources"].as_object().unwrap() {
        let kind = resource["Type"].as_str().unwrap();
        assert!(!kind.starts_with("Custom::") && kind != "AWS::CloudFormation::CustomResource", "{name}");
        if resource["Properties"].get("NotificationConfiguration").is_some() {
            assert_eq!((name.as_str(), &resource["Condition"]), ("DataBucket", &json!("CreatesDataBucket")));
        }
    }
    let freshness = &template.source["Resources"]["FreshnessAlarm"]["Properties"];
    assert_eq!(freshness["TreatMissingData"], "breaching", "silence is what the alarm is for");
    let told = &template.source["Resources"]["NotificationsChangedRule"]["Properties"];
    assert_eq!(told["Targets"][0]["Arn"], json!({"Ref": "AlertTopic"}), "a foreign write is told at once");
    assert_eq!(told["EventPattern"]["detail"]["requestParameters"]["bucketName"][0], json!({"Ref": "DataBucketName"}));
    assert!(words(&told["EventPattern"]["detail"]["eventName"]).contains(&"PutBucketNotification"));
    let missed = &template.source["Resources"]["EventsMissedAlarm"]["Properties"];
    assert_eq!((&missed["MetricName"], &missed["Period"]), (&json!("Missed"), &json!(3600)), "what look finds, hourly");
    let undelivered = &template.source["Resources"]["UndeliveredAlarm"]["Properties"];
    assert_eq!(undelivered["Dimensions"][0]["Value"], json!({"Ref": "ObjectEventsRule"}));
}

#[test]
fn c204_the_bucket_has_one_rule_for_each_kind_of_event() {
    let template = template();
    let rules = &template.source["Resources"]["DataBucket"]["Properties"]["NotificationConfiguration"];
    let rules = rules["QueueConfigurations"].as_array().unwrap();
    let kinds: BTreeSet<&str> = rules.iter().map(|rule| rule["Event"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectRestore:Completed"]));
    assert_eq!(rules.len(), kinds.len());
    assert!(rules.iter().all(|rule| rule.get("Filter").is_none()), "rules without filters cannot overlap in part");
}

/// Other services send to the stack's queue and topic only as the bucket, rule, topic or account they are meant to come from.
#[test]
fn services_send_only_for_their_source() {
    let mut senders = BTreeSet::new();
    for kind in ["AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"] {
        for (name, policy) in resources(&template().source, kind) {
            for statement in policy["PolicyDocument"]["Statement"].as_array().unwrap() {
                let statement = statement.get("Fn::If").map_or(statement, |branches| &branches[1]);
                if statement["Effect"] == "Deny" {
                    continue;
                }
                let sender =
                    statement["Principal"]["Service"].as_str().unwrap_or_else(|| panic!("{name} lets anybody in"));
                let condition = statement["Condition"].to_string();
                assert!(
                    condition.contains("aws:SourceArn") || condition.contains("aws:SourceAccount"),
                    "{name}: {sender}"
                );
                senders.insert((kind.rsplit(':').next().unwrap(), sender));
            }
        }
    }
    let queue = ["events", "s3", "sns"].map(|service| ("QueuePolicy", format!("{service}.amazonaws.com")));
    let topic = ["cloudwatch", "events"].map(|service| ("TopicPolicy", format!("{service}.amazonaws.com")));
    let expected: BTreeSet<_> = queue.iter().chain(&topic).map(|(kind, sender)| (*kind, sender.as_str())).collect();
    assert_eq!(senders, expected);
}

/// SAM attaches policies of AWS's, with wildcards, to a role it makes for a function.
#[test]
fn functions_have_roles_of_their_own() {
    let template = template();
    let arn = |role: &str| json!({"Fn::GetAtt": [role, "Arn"]});
    for (name, function) in resources(&template.source, "AWS::Serverless::Function") {
        let expected = match name {
            "SweepFunction" => json!({"Fn::If": ["OwnIdentity", arn("RebuildRole"), arn("SweepRole")]}),
            _ => arn(&name.replace("Function", "Role")),
        };
        assert_eq!(function["Role"], expected, "{name}");
    }
    let policy = &template.source["Resources"]["SweepPolicy"]["Properties"]["Roles"][0];
    let expected = json!({"Fn::If": ["OwnIdentity", {"Ref": "RebuildRole"}, {"Ref": "SweepRole"}]});
    assert_eq!(policy, &expected, "the policy goes with the role that sweep runs in");
    for (name, role) in resources(&template.translated, "AWS::IAM::Role") {
        assert!(role.get("ManagedPolicyArns").is_none(), "{name}");
    }
}

/// rebuild and sweep own staging and fence tables together: whatever one of them may say to Redshift, and as whom, the other may.
#[test]
fn rebuild_and_sweep_speak_to_redshift_alike() {
    let statements = allowed(&template().translated);
    let of = |role: &str| -> Vec<&Value> {
        let of_role = statements.iter().filter(|(name, _)| *name == role).map(|(_, statement)| *statement);
        let redshift = |action: &str| action.starts_with("redshift") || action.starts_with("secretsmanager:");
        of_role.filter(|statement| words(&statement["Action"]).iter().any(|action| redshift(action))).collect()
    };
    let rebuild = of("RebuildRole");
    assert_eq!(rebuild.len(), 6, "submit, follow, and four ways to be somebody");
    assert_eq!(rebuild, of("SweepRole"));
    // Both write there what COPY reads, in parts where it is large.
    let control = |role: &str| {
        let control = statements.iter().find(|(name, statement)| *name == role && statement["Sid"] == "Control");
        control.unwrap_or_else(|| panic!("{role} may not use the control bucket")).1
    };
    assert_eq!(control("RebuildRole"), control("SweepRole"));
}

/// IAM takes 10,240 characters of policies within one role; rebuild's may hold sweep's too. Names count for 150 each.
#[test]
fn the_policies_of_a_role_are_no_longer_than_iam_takes() {
    fn length(value: &Value) -> usize {
        match value {
            Value::Object(object) => match object.iter().next() {
                Some((name, branches)) if name == "Fn::If" => length(&branches[1]).max(length(&branches[2])),
                Some((name, _)) if name.starts_with("Fn::") || name == "Ref" => 150,
                _ => object.iter().map(|(name, value)| name.len() + 4 + length(value)).sum::<usize>() + 2,
            },
            Value::Array(values) => values.iter().map(|value| length(value) + 1).sum::<usize>() + 2,
            other => other.to_string().len(),
        }
    }
    let mut lengths = BTreeMap::new();
    for (role, statement) in allowed(&template().translated) {
        *lengths.entry(if role == "SweepRole" { "RebuildRole" } else { role }).or_insert(100) += length(statement);
    }
    assert!(lengths["RebuildRole"] > 3_000, "{lengths:?}");
    assert!(lengths.values().all(|length| *length < 10_240), "{lengths:?}");
}

/// What holds data outlives the stack.
#[test]
fn tables_and_buckets_are_retained() {
    let template = template();
    for (name, resource) in template.source["Resources"].as_object().unwrap() {
        if ["AWS::DynamoDB::Table", "AWS::S3::Bucket"].contains(&resource["Type"].as_str().unwrap()) {
            for policy in ["DeletionPolicy", "UpdateReplacePolicy"] {
                assert_eq!(resource[policy], "Retain", "{policy} of {name}");
            }
        }
    }
}

/// An inventory is read at the partition's next rebuild, however late, and never goes by age; a manifest goes some time after
/// every batch that may read it.
#[test]
fn manifests_expire_after_their_batch_and_inventories_never() {
    let template = template();
    let bucket = &template.source["Resources"]["ControlBucket"]["Properties"];
    let mut expire = Vec::new();
    for rule in bucket["LifecycleConfiguration"]["Rules"].as_array().unwrap() {
        if let Some(days) = rule.get("ExpirationInDays") {
            expire.push((rule["Prefix"].as_str().unwrap(), days.as_i64().unwrap()));
        }
    }
    let [("manifest/", days), ("rehearsal/", 7)] = expire[..] else {
        panic!("other rules let objects expire: {expire:?}")
    };
    assert!(days > BATCH_LIVES.as_hours() / 24, "{days} days");
}

/// `CloudFormation` knows few functions in rules, and neither SAM nor cfn-lint says so.
#[test]
fn rules_use_only_the_functions_that_rules_may() {
    fn functions(value: &Value, found: &mut BTreeSet<String>) {
        if let Some(object) = value.as_object() {
            found.extend(object.keys().filter(|key| key.starts_with("Fn::")).cloned());
            object.values().for_each(|value| functions(value, found));
        }
        value.as_array().into_iter().flatten().for_each(|value| functions(value, found));
    }
    let mut used = BTreeSet::new();
    functions(&template().source["Rules"], &mut used);
    let allowed = ["Fn::And", "Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::Equals", "Fn::Not"];
    let more = ["Fn::Or", "Fn::RefAll", "Fn::ValueOf", "Fn::ValueOfAll"];
    let allowed: BTreeSet<String> = allowed.iter().chain(&more).map(|name| (*name).to_owned()).collect();
    assert!(!used.is_empty() && used.is_subset(&allowed), "{used:?}");
}

/// No VPC unless asked for; where it is, every function is in it, may make its interfaces, and nothing else is made.
#[test]
fn a_network_is_the_operators_or_none() {
    let template = template();
    for name in ["VpcSubnetIds", "VpcSecurityGroupIds"] {
        assert_eq!(template.source["Parameters"][name]["Default"], "", "{name}");
    }
    let ids = |parameter: &str| json!({"Fn::Split": [",", {"Ref": parameter}]});
    let inside = json!({"SubnetIds": ids("VpcSubnetIds"), "SecurityGroupIds": ids("VpcSecurityGroupIds")});
    let expected = json!({"Fn::If": ["HasVpc", inside, {"Ref": "AWS::NoValue"}]});
    for (name, function) in resources(&template.translated, "AWS::Lambda::Function") {
        assert_eq!(function["VpcConfig"], expected, "{name}");
    }
    let statements = allowed(&template.translated);
    let may =
        |role: &str, sid: &str| statements.iter().any(|(name, statement)| *name == role && statement["Sid"] == sid);
    for role in ["MarkRole", "RebuildRole", "SweepRole"] {
        assert!(may(role, "Network") && may(role, "Networks"), "{role}");
    }
    for (name, resource) in template.source["Resources"].as_object().unwrap() {
        assert!(!resource["Type"].as_str().unwrap().starts_with("AWS::EC2::"), "{name}: no NAT, no endpoint");
    }
}

#[test]
fn bad_values_are_refused_by_their_parameter() {
    let template = template();
    let workgroup = "arn:aws:redshift-serverless:eu-west-1:123456789012:workgroup/1234abcd-12ab-34cd-56ef-1234567890ab";
    let role = "arn:aws:iam::123456789012:role/service-role/copy";
    let roles = format!("{role},{role}");
    for (parameter, good, bad) in [
        ("DataBucketName", "lake-raw", "s3://lake-raw/"),
        ("DataTopicArn", "arn:aws:sns:eu-west-1:123456789012:lake-events", "lake-events"),
        ("DataKeyArn", "arn:aws:kms:eu-west-1:123456789012:key/mrk-1234", "alias/lake"),
        ("RedshiftWorkgroup", "analytics", workgroup),
        ("RedshiftWorkgroupArn", workgroup, "analytics"),
        ("RedshiftCluster", "warehouse-1", "warehouse.abc.eu-west-1.redshift.amazonaws.com"),
        ("RedshiftDatabase", "dev", "dev/public"),
        ("RedshiftDbUser", "tidemark", "tide mark"),
        (
            "RedshiftSecretArn",
            "arn:aws:secretsmanager:eu-west-1:123456789012:secret:redshift/etl-AbCdEf",
            "redshift/etl",
        ),
        ("CopyRoleArn", "default", "copy"),
        ("CopyRoleArn", role, "arn:aws:iam::123456789012:user/copy"),
        ("CopyRoleArn", &roles, "default,default"),
        ("VpcSubnetIds", "subnet-0123abcd,subnet-0123456789abcdef0", "subnet-0123abcd, vpc-1"),
        ("VpcSecurityGroupIds", "sg-0123456789abcdef0", "default"),
        ("AlertEmail", "data@example.com", "data at example.com"),
        ("EventBusName", "default", "arn:aws:events:eu-west-1:123456789012:event-bus/default"),
    ] {
        let pattern = pattern(template, parameter);
        assert!(pattern.is_match(good), "{parameter}: {good}");
        assert!(!pattern.is_match(bad), "{parameter}: {bad}");
    }
    for (name, parameter) in template.source["Parameters"].as_object().unwrap() {
        let checked =
            ["AllowedPattern", "AllowedValues", "MinValue"].iter().any(|check| parameter.get(check).is_some());
        assert!(checked, "{name} takes anything");
        assert!(parameter["Description"].as_str().is_some_and(|words| words.len() > 20), "{name} isn't described");
    }
}

#[test]
fn every_parameter_is_in_a_group() {
    let template = template();
    let groups = &template.source["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"];
    let mut grouped: Vec<&str> =
        groups.as_array().unwrap().iter().flat_map(|group| words(&group["Parameters"])).collect();
    grouped.sort_unstable();
    let mut all: Vec<&str> = template.source["Parameters"].as_object().unwrap().keys().map(String::as_str).collect();
    all.sort_unstable();
    assert_eq!(grouped, all);
}

#[test]
fn every_alarm_names_its_runbook_page() {
    let template = template();
    let alarms = resources(&template.source, "AWS::CloudWatch::Alarm");
    assert!(alarms.len() > 10, "the alarms were not found");
    for (name, alarm) in alarms {
        let description = alarm["AlarmDescription"].as_str().unwrap();
        let page = description.rsplit("Runbook: ").next().unwrap();
        let text = fs::read_to_string(workspace_root().join(page)).unwrap_or_else(|e| panic!("{name}: {page}: {e}"));
        for part in ["## Meaning", "## Check", "## Act", "## Verify"] {
            assert!(text.contains(part), "{page} has no {part}");
        }
    }
}

/// Every alarm has its page, and every page but an index its alarm: whoever renames one is told.
#[test]
fn every_page_names_its_alarm() {
    let template = template();
    for (name, alarm) in resources(&template.source, "AWS::CloudWatch::Alarm") {
        let page = alarm["AlarmDescription"].as_str().unwrap().rsplit("Runbook: ").next().unwrap();
        let text = fs::read_to_string(workspace_root().join(page)).unwrap();
        assert!(text.contains(&format!("`{name}`")), "{page} doesn't name {name}");
    }
}

/// The metric of that name, if the function tells it. A misspelt metric makes an alarm that is silent for ever.
fn told(function: &str, name: &str) -> Metric {
    let found = measure::ALL.iter().find(|metric| metric.name == name && metric.by.name() == function);
    *found.unwrap_or_else(|| panic!("{function} tells no {name}"))
}

#[test]
fn alarms_ask_for_metrics_that_functions_tell() {
    let template = template();
    let mut ours = BTreeSet::new();
    for (_, alarm) in resources(&template.source, "AWS::CloudWatch::Alarm") {
        if alarm["Namespace"] == "Tidemark" {
            assert_eq!(alarm["Dimensions"][0], json!({"Name": "Stack", "Value": {"Ref": "AWS::StackName"}}));
            assert_eq!(alarm["Dimensions"][1]["Name"], "Function");
            let function = alarm["Dimensions"][1]["Value"].as_str().unwrap();
            ours.insert(told(function, alarm["MetricName"].as_str().unwrap()).name);
        }
    }
    assert_eq!(
        ours,
        BTreeSet::from([
            "Halted",
            "LoadWindowUsed",
            "LockContention",
            "Missed",
            "OldestDirtyAge",
            "Parked",
            "TasksFailing"
        ])
    );
}

/// What the page reckons the month's price from.
#[test]
fn the_price_of_standing_still_counts_the_alarms_and_metrics_there_are() {
    let page = fs::read_to_string(workspace_root().join("docs/deploy.md")).unwrap();
    let alarms = resources(&template().source, "AWS::CloudWatch::Alarm").len();
    assert!(page.contains(&format!("{alarms} alarms ")), "{alarms} alarms");
    let of = |teller: &str| measure::ALL.iter().filter(|metric| metric.by.name() == teller).count();
    let sweep = of("sweep");
    for told in [
        format!("`mark` {} and", of("mark")),
        format!("`sweep` {sweep} and {sweep} a dataset"),
        format!("most {0} and {0} a dataset", of("rebuild")),
    ] {
        assert!(page.contains(&told), "the page doesn't say: {told}");
    }
}

#[test]
fn the_dashboard_shows_every_metric_there_is() {
    let template = template();
    let body = &template.source["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"];
    let body: Value = serde_json::from_str(body.as_str().unwrap()).unwrap();
    let mut shown = BTreeSet::new();
    for widget in body["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == "Tidemark" {
                shown.insert(told(metric[5].as_str().unwrap(), metric[1].as_str().unwrap()).name);
            } else if let Some(search) = metric[0]["expression"].as_str() {
                let quoted: Vec<&str> = search.split('"').collect();
                shown.insert(told(quoted[3], quoted[5]).name);
            }
        }
    }
    assert_eq!(shown, measure::ALL.iter().map(|metric| metric.name).collect());
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
    for stage in ["default", "dev", "prod"] {
        assert_eq!(
            config[stage]["build"]["parameters"]["template_file"].as_str(),
            Some("infra/template.yaml"),
            "{stage}"
        );
    }
    let tables = |stage: &str| -> Vec<_> {
        let tables = text.split("\n[").filter_map(|table| table.strip_prefix(stage)?.strip_prefix('.'));
        tables.map(str::trim).collect()
    };
    assert_eq!(tables("default"), tables("dev"), "no flag means dev");
}
