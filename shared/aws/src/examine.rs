//! What `tidemark doctor` looks at: read-only questions to S3, SQS, SNS and EventBridge.

use aws_config::SdkConfig;
use aws_sdk_eventbridge::types::RuleState;
use aws_sdk_sqs::types::QueueAttributeName;
use tidemark_domain::doctor::{Depth, Notifications, Rule};

use crate::clients;
use crate::config::Config;
use crate::error::{Cause, Fault};

/// Asks AWS how a stack is set up. Changes nothing.
#[derive(Debug, Clone)]
pub struct Examiner {
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
    sns: aws_sdk_sns::Client,
    events: aws_sdk_eventbridge::Client,
}

/// Why something couldn't be seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// It isn't there.
    #[error("{0}")]
    Missing(String),
    /// The caller may not look, or AWS can't be reached.
    #[error("{0}")]
    Refused(String),
}

/// A queue as it is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSeen {
    /// Its ARN.
    pub arn: String,
    /// Its policy, JSON.
    pub policy: Option<String>,
    /// The key it is encrypted with, where that isn't SQS's own.
    pub key: Option<String>,
    /// Its redrive policy, JSON.
    pub redrive: Option<String>,
    /// Its messages.
    pub depth: Depth,
}

impl Examiner {
    /// Through the SDK's configuration, as every other client.
    pub fn new(config: &Config, sdk: &SdkConfig) -> Self {
        Self {
            s3: clients::s3_client(config, sdk),
            sqs: aws_sdk_sqs::Client::new(sdk),
            sns: aws_sdk_sns::Client::new(sdk),
            events: aws_sdk_eventbridge::Client::new(sdk),
        }
    }

    /// A queue's attributes.
    pub async fn queue(&self, url: &str) -> Result<QueueSeen, Unseen> {
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let told = request.send().await.map_err(|error| Fault::of("GetQueueAttributes", &error))?;
        let attributes = told.attributes.unwrap_or_default();
        let text = |name| attributes.get(&name).filter(|text| !text.is_empty()).cloned();
        let number = |name| text(name).and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(QueueSeen {
            arn: text(QueueAttributeName::QueueArn).unwrap_or_default(),
            policy: text(QueueAttributeName::Policy),
            key: text(QueueAttributeName::KmsMasterKeyId),
            redrive: text(QueueAttributeName::RedrivePolicy),
            depth: Depth {
                visible: number(QueueAttributeName::ApproximateNumberOfMessages),
                in_hand: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            },
        })
    }

    /// What a bucket's events lead to, and what leads to the queue.
    pub async fn notifications(&self, bucket: &str, queue_arn: &str) -> Result<Notifications, Unseen> {
        let request = self.s3.get_bucket_notification_configuration().bucket(bucket);
        let told = request.send().await.map_err(|error| Fault::of("GetBucketNotificationConfiguration", &error))?;
        let mut seen =
            Notifications { event_bridge: told.event_bridge_configuration.is_some(), ..Notifications::default() };
        for queue in told.queue_configurations.unwrap_or_default() {
            let events = queue.events.iter().map(|event| event.as_str().to_owned()).collect();
            merge(&mut seen.queues, queue.queue_arn, events, queue.filter.is_some());
        }
        for topic in told.topic_configurations.unwrap_or_default() {
            let events = topic.events.iter().map(|event| event.as_str().to_owned()).collect();
            merge(&mut seen.topics, topic.topic_arn, events, topic.filter.is_some());
        }
        if !seen.queues.iter().any(|(arn, ..)| arn == queue_arn) {
            seen.rules = self.rules(queue_arn).await?;
            for (topic, ..) in seen.topics.clone() {
                if self.is_subscribed(&topic, queue_arn).await? {
                    seen.subscribed.push(topic);
                }
            }
        }
        Ok(seen)
    }

    /// The rules of the default bus whose target is the queue.
    async fn rules(&self, queue_arn: &str) -> Result<Vec<Rule>, Unseen> {
        let request = self.events.list_rule_names_by_target().target_arn(queue_arn);
        let names = request.send().await.map_err(|error| Fault::of("ListRuleNamesByTarget", &error))?;
        let mut rules = Vec::new();
        for name in names.rule_names.unwrap_or_default() {
            let rule = self.events.describe_rule().name(name).send().await;
            let rule = rule.map_err(|error| Fault::of("DescribeRule", &error))?;
            rules.push(Rule {
                arn: rule.arn.unwrap_or_default(),
                enabled: rule.state != Some(RuleState::Disabled),
                pattern: rule.event_pattern.unwrap_or_default(),
            });
        }
        Ok(rules)
    }

    async fn is_subscribed(&self, topic: &str, queue_arn: &str) -> Result<bool, Unseen> {
        let mut next = None;
        loop {
            let request = self.sns.list_subscriptions_by_topic().topic_arn(topic).set_next_token(next);
            let page = request.send().await.map_err(|error| Fault::of("ListSubscriptionsByTopic", &error))?;
            if page.subscriptions().iter().any(|subscription| subscription.endpoint() == Some(queue_arn)) {
                return Ok(true);
            }
            next = page.next_token;
            if next.is_none() {
                return Ok(false);
            }
        }
    }
}

/// Notifications of one destination, set one event at a time, are one.
fn merge(all: &mut Vec<(String, Vec<String>, bool)>, arn: String, events: Vec<String>, filtered: bool) {
    match all.iter_mut().find(|(known, ..)| *known == arn) {
        Some((_, known, by_filter)) => {
            known.extend(events);
            *by_filter |= filtered;
        }
        None => all.push((arn, events, filtered)),
    }
}

impl From<Fault> for Unseen {
    fn from(fault: Fault) -> Self {
        let gone = ["NonExistent", "NoSuch", "NotFound", "DoesNotExist"];
        if fault.cause == Cause::Refused && gone.iter().any(|word| fault.code.contains(word)) {
            Self::Missing(fault.to_string())
        } else {
            Self::Refused(fault.to_string())
        }
    }
}
