//! What `tidemark doctor` makes of what it sees: each check is well, failed with a remedy, or can't be told.
//!
//! Nothing here asks anybody: who looks gives what was seen, or why it couldn't be seen.

use serde::Serialize;
use serde_json::Value;

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Finding {
    /// It is as it should be.
    Ok {
        /// What was seen.
        seen: String,
    },
    /// It isn't.
    Failed {
        /// What is wrong.
        seen: String,
        /// What to do.
        remedy: String,
    },
    /// It can't be told: a permission is missing, or nothing shows it yet.
    Unknown {
        /// Why not.
        seen: String,
        /// How it can be told.
        remedy: String,
    },
}

impl Finding {
    /// It is as it should be.
    pub fn ok(seen: impl Into<String>) -> Self {
        Self::Ok { seen: seen.into() }
    }

    /// It isn't.
    pub fn failed(seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed { seen: seen.into(), remedy: remedy.into() }
    }

    /// It can't be told.
    pub fn unknown(seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unknown { seen: seen.into(), remedy: remedy.into() }
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// How a bucket's events come to the events queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By the bucket's own notification.
    Direct,
    /// By a rule of EventBridge, its ARN.
    Rule(String),
    /// By a topic, its ARN.
    Topic(String),
}

/// What a bucket's notifications are set to, and what else leads to the events queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notifications {
    /// Queues that get the bucket's events, with the names of the events and whether keys are filtered.
    pub queues: Vec<(String, Vec<String>, bool)>,
    /// Topics that do.
    pub topics: Vec<(String, Vec<String>, bool)>,
    /// Whether its events go to EventBridge.
    pub event_bridge: bool,
    /// Rules of the default bus whose target is the events queue.
    pub rules: Vec<Rule>,
    /// Topics of the bucket that the events queue is subscribed to.
    pub subscribed: Vec<String>,
}

/// A rule of EventBridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its ARN.
    pub arn: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its event pattern, JSON.
    pub pattern: String,
}

impl Rule {
    /// Whether it lets the bucket's objects through.
    fn is_of(&self, bucket: &str) -> bool {
        let pattern: Value = serde_json::from_str(&self.pattern).unwrap_or_default();
        let names = &pattern["detail"]["bucket"]["name"];
        names.is_null() || names.as_array().is_some_and(|names| names.iter().any(|name| name == bucket))
    }
}

const CREATED: &str = "s3:ObjectCreated:*";
const REMOVED: &str = "s3:ObjectRemoved:*";

/// Whether a bucket's events come to the events queue, and by which way.
pub fn notification(bucket: &str, queue_arn: &str, seen: &Notifications) -> (Finding, Option<Way>) {
    let to_us = |(arn, ..): &&(String, Vec<String>, bool)| arn == queue_arn;
    let subscribed = |(arn, ..): &&(String, Vec<String>, bool)| seen.subscribed.contains(arn);
    let direct =
        seen.queues.iter().find(to_us).map(|set| (Way::Direct, set, "the bucket sends its events to the queue"));
    let topic = seen.topics.iter().find(subscribed);
    let topic =
        topic.map(|set| (Way::Topic(set.0.clone()), set, "the bucket sends its events to a topic of the queue"));
    if let Some((way, (_, events, filtered), told)) = direct.or(topic) {
        if *filtered {
            let remedy =
                format!("make sure that the filter lets all datasets' keys through, or take it off bucket {bucket}");
            return (Finding::unknown(format!("{told}, but by a filter of keys"), remedy), Some(way));
        }
        let lacks: Vec<&str> =
            [CREATED, REMOVED].into_iter().filter(|event| !events.iter().any(|e| e == event)).collect();
        if lacks.is_empty() {
            return (Finding::ok(told), Some(way));
        }
        let lacks = lacks.join(" and ");
        let remedy = format!("add {lacks} to the notification of bucket {bucket}");
        return (Finding::failed(format!("{told}, but not {lacks}"), remedy), Some(way));
    }
    let rule = seen.rules.iter().find(|rule| rule.is_of(bucket));
    match (seen.event_bridge, rule) {
        (true, Some(rule)) if rule.enabled => (
            Finding::ok("the bucket sends its events to EventBridge, whose rule sends them to the queue"),
            Some(Way::Rule(rule.arn.clone())),
        ),
        (_, Some(rule)) if !rule.enabled => (
            Finding::failed(format!("{} is disabled", rule.arn), "enable the rule: `aws events enable-rule`"),
            Some(Way::Rule(rule.arn.clone())),
        ),
        (false, Some(rule)) => (
            Finding::failed(
                format!("bucket {bucket} doesn't send its events to EventBridge, where {} waits for them", rule.arn),
                "turn it on, keeping what is set by now: docs/deploy.md, Events",
            ),
            Some(Way::Rule(rule.arn.clone())),
        ),
        _ => (
            Finding::failed(
                format!("no event of bucket {bucket} comes to the queue: no notification, rule or topic leads there"),
                "let one lead there: docs/deploy.md, Events; until then the hourly look finds new files of the lookback",
            ),
            None,
        ),
    }
}

/// Whether the queue's policy lets events in that come this way.
pub fn queue_policy(policy: Option<&str>, way: &Way, bucket: &str) -> Finding {
    let (service, source) = match way {
        Way::Direct => ("s3.amazonaws.com", format!("s3:::{bucket}")),
        Way::Rule(arn) => ("events.amazonaws.com", arn.clone()),
        Way::Topic(arn) => ("sns.amazonaws.com", arn.clone()),
    };
    let remedy = format!(
        "allow sqs:SendMessage to {service} with the source …{source} in the queue's policy; deploying the stack again sets it"
    );
    let Some(policy) = policy.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Finding::failed("the events queue has no policy, so nobody may send to it", remedy);
    };
    let statements = match &policy["Statement"] {
        Value::Array(statements) => statements.clone(),
        one => vec![one.clone()],
    };
    let allows = |statement: &&Value| {
        let principal = &statement["Principal"];
        statement["Effect"] == "Allow"
            && (principal == "*"
                || holds(&principal["Service"], |name| name == service)
                || holds(&principal["AWS"], |name| name == "*"))
            && holds(&statement["Action"], |action| {
                ["sqs:*", "SQS:*", "*"].contains(&action) || action.eq_ignore_ascii_case("sqs:SendMessage")
            })
    };
    let of_service: Vec<&Value> = statements.iter().filter(allows).collect();
    if of_service.is_empty() {
        return Finding::failed(format!("the events queue's policy doesn't let {service} send"), remedy);
    }
    let lets_in = |statement: &&Value| {
        let conditions = statement["Condition"].as_object();
        let sources = conditions.into_iter().flatten().filter_map(|(_, keys)| keys.get("aws:SourceArn"));
        let sources: Vec<&Value> = sources.collect();
        sources.is_empty() || sources.iter().any(|arns| holds(arns, |arn| arn.ends_with(&source) || arn.contains('*')))
    };
    if of_service.iter().any(lets_in) {
        Finding::ok(format!("{service} may send"))
    } else {
        Finding::failed(format!("the events queue's policy lets {service} send, but not from …{source}"), remedy)
    }
}

/// Whether a text, or one of several, is so.
fn holds(value: &Value, is: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}

/// Whether those who send to a queue may use its key.
pub fn encryption(queue: &str, key: Option<&str>) -> Finding {
    match key.filter(|key| !key.is_empty()) {
        None => Finding::ok("SQS's own key, or none"),
        Some(key) if key.contains("alias/aws/") => Finding::failed(
            format!(
                "queue {queue} is encrypted with {key}, which neither S3 nor EventBridge may use: events are lost silently"
            ),
            "deploy the stack without KmsKeyArn (SQS's own key), or with a customer key whose policy lets them",
        ),
        Some(key) => Finding::unknown(
            format!("queue {queue} is encrypted with {key}; what its policy allows isn't looked at"),
            "hold the key's policy against docs/deploy.md, A key of your own: `aws kms get-key-policy --policy-name default`",
        ),
    }
}

/// Two looks at a queue, some seconds apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that could be received.
    pub visible: u64,
    /// Messages in somebody's hand.
    pub in_hand: u64,
}

/// Whether a function takes its queue's messages.
pub fn consumer(function: &str, first: Depth, second: Depth) -> Finding {
    let idle = |depth: Depth| depth.visible > 0 && depth.in_hand == 0;
    if idle(first) && idle(second) && second.visible >= first.visible {
        return Finding::failed(
            match second.visible {
                1 => "1 message waits and nobody takes it".to_owned(),
                n => format!("{n} messages wait and nobody takes them"),
            },
            format!(
                "see that the event source mapping of {function} is enabled (`aws lambda list-event-source-mappings`) and its \
                 reserved concurrency isn't 0; then docs/runbook/function-errors.md"
            ),
        );
    }
    match second {
        Depth { visible: 0, in_hand: 0 } => Finding::ok("no message waits for it"),
        Depth { visible, in_hand } => Finding::ok(format!("waiting messages: {visible}, in its hand: {in_hand}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-west-1:1:events";

    fn all() -> Vec<String> {
        [CREATED, REMOVED].map(str::to_owned).into()
    }

    fn rule(enabled: bool, bucket: &str) -> Rule {
        let pattern = format!(r#"{{"source":["aws.s3"],"detail":{{"bucket":{{"name":["{bucket}"]}}}}}}"#);
        Rule { arn: "arn:aws:events:eu-west-1:1:rule/r".into(), enabled, pattern }
    }

    fn told(seen: &Notifications) -> String {
        format!("{:?}", notification("lake", QUEUE, seen).0)
    }

    #[test]
    fn each_way_of_events_is_known_and_each_break_of_it_is_told() {
        let direct = Notifications { queues: vec![(QUEUE.into(), all(), false)], ..Notifications::default() };
        assert_eq!(notification("lake", QUEUE, &direct).1, Some(Way::Direct));
        assert!(told(&direct).starts_with("Ok"));
        let half =
            Notifications { queues: vec![(QUEUE.into(), vec![CREATED.into()], false)], ..Notifications::default() };
        assert!(told(&half).contains("but not s3:ObjectRemoved:*"));
        let filtered = Notifications { queues: vec![(QUEUE.into(), all(), true)], ..Notifications::default() };
        assert!(told(&filtered).starts_with("Unknown"));

        let bridge = Notifications { event_bridge: true, rules: vec![rule(true, "lake")], ..Notifications::default() };
        assert!(told(&bridge).starts_with("Ok"));
        assert!(
            told(&Notifications { event_bridge: false, ..bridge.clone() })
                .contains("doesn't send its events to EventBridge")
        );
        assert!(told(&Notifications { rules: vec![rule(false, "lake")], ..bridge.clone() }).contains("is disabled"));
        assert!(told(&Notifications { rules: vec![rule(true, "pond")], ..bridge }).contains("no event of bucket lake"));

        let topic = Notifications {
            topics: vec![("t".into(), all(), false)],
            subscribed: vec!["t".into()],
            ..Notifications::default()
        };
        assert_eq!(notification("lake", QUEUE, &topic).1, Some(Way::Topic("t".into())));
        assert!(told(&Notifications { subscribed: vec![], ..topic }).contains("no event of bucket lake"));
    }

    #[test]
    fn a_policy_lets_in_whom_the_way_needs() {
        let policy = |service: &str, source: &str| {
            format!(
                r#"{{"Statement":[{{"Effect":"Allow","Principal":{{"Service":"{service}"}},"Action":"sqs:SendMessage",
                "Condition":{{"ArnLike":{{"aws:SourceArn":"{source}"}}}}}}]}}"#
            )
        };
        let judge = |policy: Option<&str>, way: &Way| format!("{:?}", queue_policy(policy, way, "lake"));
        let ours = policy("s3.amazonaws.com", "arn:aws:s3:::lake");
        assert!(judge(Some(&ours), &Way::Direct).starts_with("Ok"));
        assert!(judge(None, &Way::Direct).contains("has no policy"));
        assert!(judge(Some(&ours), &Way::Topic("t".into())).contains("doesn't let sns.amazonaws.com send"));
        let theirs = policy("s3.amazonaws.com", "arn:aws:s3:::pond");
        assert!(judge(Some(&theirs), &Way::Direct).contains("but not from …s3:::lake"));
    }

    #[test]
    fn a_key_that_senders_cannot_use_is_told() {
        assert!(matches!(encryption("q", None), Finding::Ok { .. }));
        assert!(encryption("q", Some("alias/aws/sqs")).has_failed());
        assert!(matches!(encryption("q", Some("arn:aws:kms:eu-west-1:1:key/k")), Finding::Unknown { .. }));
    }

    #[test]
    fn messages_that_nobody_takes_are_told() {
        let depth = |visible, in_hand| Depth { visible, in_hand };
        assert!(consumer("mark", depth(3, 0), depth(3, 0)).has_failed());
        assert!(!consumer("mark", depth(3, 0), depth(2, 0)).has_failed(), "somebody took one");
        assert!(!consumer("mark", depth(3, 0), depth(3, 1)).has_failed());
        assert!(!consumer("mark", depth(0, 0), depth(0, 0)).has_failed());
    }
}
