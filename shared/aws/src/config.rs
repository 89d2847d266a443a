//! Configuration: the one place where the environment is read.
//!
//! It is read once, checked whole, and all problems are told together. An empty value means *not set*, since a template can't
//! leave a variable out. The functions read the process's environment ([`environment`]); the CLI lays a deployed stack's
//! values and its flags over it, with the same names.

use std::fmt;

use jiff::SignedDuration;
use tidemark_domain::id::StackName;
use tidemark_domain::sql::rebuild::CopyRole;

const DEAD_LETTERS: &str = "TIDEMARK_PARTITIONS_DLQ_URL";
const CONTROL_BUCKET: &str = "TIDEMARK_CONTROL_BUCKET";
const ALERTS: &str = "TIDEMARK_ALERT_TOPIC_ARN";
const WORKGROUP: &str = "TIDEMARK_REDSHIFT_WORKGROUP";
const COPY_ROLE: &str = "TIDEMARK_COPY_ROLE_ARN";

/// Who runs; it decides what must be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Marks: state and queue.
    Mark,
    /// Rebuilds: everything.
    Rebuild,
    /// Wakes and watches: everything but dead letters.
    Sweep,
    /// An operator's command: everything but what only a rebuild sends (alerts, dead letters).
    Operate,
}

/// What is configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The stack that owns what is written (`TIDEMARK_STACK`).
    pub stack: StackName,
    /// The state table's name (`TIDEMARK_TABLE`).
    pub table: String,
    /// The partitions queue (`TIDEMARK_PARTITIONS_QUEUE_URL`).
    pub partitions_queue_url: String,
    /// Its dead-letter queue (`TIDEMARK_PARTITIONS_DLQ_URL`).
    pub partitions_dlq_url: Option<String>,
    /// The events queue (`TIDEMARK_EVENTS_QUEUE_URL`); only for operators, as its dead-letter queue.
    pub events_queue_url: Option<String>,
    /// Its dead-letter queue (`TIDEMARK_EVENTS_DLQ_URL`).
    pub events_dlq_url: Option<String>,
    /// The functions' names, for people: mark, rebuild, sweep, with commas (`TIDEMARK_FUNCTIONS`).
    pub functions: Option<String>,
    /// The control bucket (`TIDEMARK_CONTROL_BUCKET`).
    pub control_bucket: Option<String>,
    /// The topic of alerts (`TIDEMARK_ALERT_TOPIC_ARN`).
    pub alert_topic_arn: Option<String>,
    /// The bus of events (`TIDEMARK_EVENT_BUS`, `default` where not set).
    pub event_bus: String,
    /// How long marks settle (`TIDEMARK_SETTLE_SECONDS`, 30 where not set; 0 to 900, the queue's own delay).
    pub settle: SignedDuration,
    /// What a lease and a message's hiding get beyond the time left (`TIDEMARK_LEASE_MARGIN_SECONDS`, 60 where not set).
    pub lease_margin: SignedDuration,
    /// Redshift (`TIDEMARK_REDSHIFT_*`).
    pub redshift: Option<RedshiftConfig>,
    /// The role of COPY (`TIDEMARK_COPY_ROLE_ARN`: an ARN, several with commas, or `default`).
    pub copy_role: Option<CopyRole>,
    /// What is logged (`TIDEMARK_LOG`, as `RUST_LOG`: `info`, `warn,tidemark_engine=debug`).
    pub log: String,
    /// Whether buckets are addressed by path, as emulators want it (an endpoint is set by `AWS_ENDPOINT_URL` or
    /// `AWS_ENDPOINT_URL_S3`).
    pub s3_path_style: bool,
}

/// Where Redshift is, and as whom statements run there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedshiftConfig {
    /// `TIDEMARK_REDSHIFT_WORKGROUP` or `TIDEMARK_REDSHIFT_CLUSTER`.
    pub endpoint: RedshiftEndpoint,
    /// `TIDEMARK_REDSHIFT_DATABASE`
    pub database: String,
    /// `TIDEMARK_REDSHIFT_DB_USER`: a database user; without it the caller's own identity.
    pub db_user: Option<String>,
    /// `TIDEMARK_REDSHIFT_SECRET_ARN`: a secret that holds user and password.
    pub secret_arn: Option<String>,
}

/// Redshift Serverless or a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedshiftEndpoint {
    /// A workgroup's name or ARN.
    Workgroup(String),
    /// A cluster's identifier.
    Cluster(String),
}

/// Everything that is wrong with a configuration, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<String>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} problem(s): {}", self.0.len(), self.0.join("; "))
    }
}

/// A variable of the process's environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Config {
    /// Reads and checks the whole configuration of `purpose`. `look_up` gives a variable's value.
    pub fn read(purpose: Purpose, look_up: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigProblems> {
        let mut reader = Reader { look_up, needs: needs(purpose), problems: Vec::new() };
        let stack = reader.required("TIDEMARK_STACK").and_then(|name| match StackName::new(name) {
            Ok(stack) => Some(stack),
            Err(problem) => reader.problem("TIDEMARK_STACK", &problem.to_string()),
        });
        let table = reader.required("TIDEMARK_TABLE");
        let partitions_queue_url = reader.required("TIDEMARK_PARTITIONS_QUEUE_URL");
        let partitions_dlq_url = reader.text(DEAD_LETTERS);
        let events_queue_url = reader.text("TIDEMARK_EVENTS_QUEUE_URL");
        let events_dlq_url = reader.text("TIDEMARK_EVENTS_DLQ_URL");
        let functions = reader.text("TIDEMARK_FUNCTIONS");
        let control_bucket = reader.text(CONTROL_BUCKET);
        let alert_topic_arn = reader.text(ALERTS);
        let event_bus = reader.text("TIDEMARK_EVENT_BUS").unwrap_or_else(|| "default".to_owned());
        let settle = reader.seconds("TIDEMARK_SETTLE_SECONDS", 30, 0..=900);
        let lease_margin = reader.seconds("TIDEMARK_LEASE_MARGIN_SECONDS", 60, 1..=900);
        let redshift = reader.redshift();
        let copy_role = reader.text(COPY_ROLE).and_then(|text| reader.copy_role(text));
        let log = reader.text("TIDEMARK_LOG").unwrap_or_else(|| "info".to_owned());
        if let Err(problem) = crate::telemetry::filter(&log) {
            reader.problem::<()>("TIDEMARK_LOG", &problem);
        }
        let s3_path_style = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"].iter().any(|name| reader.value(name).is_some());
        let problems = reader.problems;
        let (Some(stack), Some(table), Some(partitions_queue_url), true) =
            (stack, table, partitions_queue_url, problems.is_empty())
        else {
            return Err(ConfigProblems(problems));
        };
        Ok(Self {
            stack,
            table,
            partitions_queue_url,
            partitions_dlq_url,
            events_queue_url,
            events_dlq_url,
            functions,
            control_bucket,
            alert_topic_arn,
            event_bus,
            settle,
            lease_margin,
            redshift,
            copy_role,
            log,
            s3_path_style,
        })
    }
}

/// What a purpose can't do without, beside stack, table and queue.
fn needs(purpose: Purpose) -> &'static [&'static str] {
    match purpose {
        Purpose::Mark => &[],
        Purpose::Rebuild => &[DEAD_LETTERS, CONTROL_BUCKET, ALERTS, WORKGROUP, COPY_ROLE],
        Purpose::Sweep => &[CONTROL_BUCKET, ALERTS, WORKGROUP, COPY_ROLE],
        Purpose::Operate => &[CONTROL_BUCKET, WORKGROUP, COPY_ROLE],
    }
}

/// Reads variables and gathers what is wrong with them.
struct Reader<F> {
    look_up: F,
    needs: &'static [&'static str],
    problems: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn value(&self, name: &str) -> Option<String> {
        let text = (self.look_up)(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn problem<T>(&mut self, name: &str, problem: &str) -> Option<T> {
        self.problems.push(format!("{name}: {problem}"));
        None
    }

    fn text(&mut self, name: &str) -> Option<String> {
        if self.needs.contains(&name) { self.required(name) } else { self.value(name) }
    }

    fn required(&mut self, name: &str) -> Option<String> {
        self.value(name).or_else(|| self.problem(name, "is not set"))
    }

    fn seconds(&mut self, name: &str, otherwise: i64, allowed: std::ops::RangeInclusive<i64>) -> SignedDuration {
        let Some(text) = self.value(name) else { return SignedDuration::from_secs(otherwise) };
        let seconds = text.parse().ok().filter(|n| allowed.contains(n)).or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            self.problem(name, &format!("{text:?} is not a number of seconds from {least} to {most}"))
        });
        SignedDuration::from_secs(seconds.unwrap_or(otherwise))
    }

    fn redshift(&mut self) -> Option<RedshiftConfig> {
        let needed = self.needs.contains(&WORKGROUP);
        let endpoint = match (self.value(WORKGROUP), self.value("TIDEMARK_REDSHIFT_CLUSTER")) {
            (Some(name), None) => Some(RedshiftEndpoint::Workgroup(name)),
            (None, Some(name)) => Some(RedshiftEndpoint::Cluster(name)),
            (Some(_), Some(_)) => {
                self.problem(WORKGROUP, "is set, and TIDEMARK_REDSHIFT_CLUSTER too; one of them names the warehouse")
            }
            (None, None) if needed => self.problem(WORKGROUP, "is not set, nor is TIDEMARK_REDSHIFT_CLUSTER"),
            (None, None) => None,
        };
        let database = "TIDEMARK_REDSHIFT_DATABASE";
        let database = if needed || endpoint.is_some() { self.required(database) } else { self.value(database) };
        let db_user = self.value("TIDEMARK_REDSHIFT_DB_USER");
        let secret_arn = self.value("TIDEMARK_REDSHIFT_SECRET_ARN");
        if db_user.is_some() && secret_arn.is_some() {
            self.problem::<()>(
                "TIDEMARK_REDSHIFT_DB_USER",
                "is set, and TIDEMARK_REDSHIFT_SECRET_ARN too; the secret names the user",
            );
        }
        if db_user.is_some() && matches!(endpoint, Some(RedshiftEndpoint::Workgroup(_))) {
            self.problem::<()>(
                "TIDEMARK_REDSHIFT_DB_USER",
                "is for a cluster; a workgroup takes the user from the role or the secret",
            );
        }
        Some(RedshiftConfig { endpoint: endpoint?, database: database?, db_user, secret_arn })
    }

    fn copy_role(&mut self, text: String) -> Option<CopyRole> {
        let is_arn = |part: &str| part.starts_with("arn:") && !part.contains(['\'', ' ']);
        match text.as_str() {
            "default" => Some(CopyRole::Default),
            arns if arns.split(',').all(is_arn) => Some(CopyRole::Arn(text)),
            _ => {
                self.problem(COPY_ROLE, &format!("{text:?} is neither an ARN, nor several with commas, nor `default`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 9] = [
        ("TIDEMARK_STACK", "tidemark-dev"),
        ("TIDEMARK_TABLE", "state"),
        ("TIDEMARK_PARTITIONS_QUEUE_URL", "https://sqs/partitions.fifo"),
        ("TIDEMARK_PARTITIONS_DLQ_URL", "https://sqs/dlq.fifo"),
        ("TIDEMARK_CONTROL_BUCKET", "control"),
        ("TIDEMARK_ALERT_TOPIC_ARN", "arn:aws:sns:eu-west-1:1:alerts"),
        ("TIDEMARK_REDSHIFT_WORKGROUP", "wg"),
        ("TIDEMARK_REDSHIFT_DATABASE", "dev"),
        ("TIDEMARK_COPY_ROLE_ARN", "default"),
    ];

    fn read(purpose: Purpose, over: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
        Config::read(purpose, |name| {
            let all = over.iter().chain(&WHOLE);
            all.clone().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn problems(purpose: Purpose, over: &[(&str, &str)]) -> Vec<String> {
        read(purpose, over).unwrap_err().0
    }

    #[test]
    fn what_is_not_set_has_its_default() {
        let config =
            read(Purpose::Rebuild, &[("TIDEMARK_SETTLE_SECONDS", ""), ("TIDEMARK_REDSHIFT_CLUSTER", " ")]).unwrap();
        assert_eq!(config.event_bus, "default");
        assert_eq!((config.settle.as_secs(), config.lease_margin.as_secs()), (30, 60));
        assert_eq!(config.redshift.unwrap().endpoint, RedshiftEndpoint::Workgroup("wg".into()));
        assert_eq!((config.copy_role, config.log.as_str()), (Some(CopyRole::Default), "info"));
        assert!(!config.s3_path_style);
    }

    #[test]
    fn all_problems_are_told_together() {
        let told = problems(
            Purpose::Rebuild,
            &[
                ("TIDEMARK_STACK", "1st"),
                ("TIDEMARK_TABLE", ""),
                ("TIDEMARK_CONTROL_BUCKET", ""),
                ("TIDEMARK_SETTLE_SECONDS", "soon"),
                ("TIDEMARK_LEASE_MARGIN_SECONDS", "0"),
                ("TIDEMARK_REDSHIFT_CLUSTER", "c1"),
                ("TIDEMARK_REDSHIFT_DATABASE", ""),
                ("TIDEMARK_COPY_ROLE_ARN", "arn:a, b"),
                ("TIDEMARK_LOG", "tidemark=loud"),
            ],
        );
        let named: Vec<_> = told.iter().map(|p| p.split(':').next().unwrap()).collect();
        let expected = [
            "TIDEMARK_STACK",
            "TIDEMARK_TABLE",
            "TIDEMARK_CONTROL_BUCKET",
            "TIDEMARK_SETTLE_SECONDS",
            "TIDEMARK_LEASE_MARGIN_SECONDS",
            "TIDEMARK_REDSHIFT_WORKGROUP",
            "TIDEMARK_REDSHIFT_DATABASE",
            "TIDEMARK_COPY_ROLE_ARN",
            "TIDEMARK_LOG",
        ];
        assert_eq!(named, expected, "{told:#?}");
    }

    #[test]
    fn mark_needs_state_and_queue_alone() {
        let bare: Vec<_> = WHOLE[3..].iter().map(|(name, _)| (*name, "")).collect();
        let config = read(Purpose::Mark, &bare).unwrap();
        assert_eq!((config.redshift, config.control_bucket), (None, None));
        assert_eq!(problems(Purpose::Sweep, &bare).len(), 5);
        assert_eq!(problems(Purpose::Rebuild, &bare).len(), 6);
    }

    #[test]
    fn a_user_is_named_once_and_only_for_a_cluster() {
        let user = ("TIDEMARK_REDSHIFT_DB_USER", "tidemark");
        assert_eq!(problems(Purpose::Rebuild, &[user]).len(), 1);
        let cluster = [("TIDEMARK_REDSHIFT_WORKGROUP", ""), ("TIDEMARK_REDSHIFT_CLUSTER", "c1"), user];
        assert_eq!(read(Purpose::Rebuild, &cluster).unwrap().redshift.unwrap().db_user.unwrap(), "tidemark");
        let both = [cluster.as_slice(), &[("TIDEMARK_REDSHIFT_SECRET_ARN", "arn:s")]].concat();
        assert_eq!(problems(Purpose::Rebuild, &both).len(), 1);
    }

    #[test]
    fn an_endpoint_means_an_emulator_and_paths() {
        assert!(read(Purpose::Mark, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")]).unwrap().s3_path_style);
        assert!(read(Purpose::Mark, &[("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:4566")]).unwrap().s3_path_style);
    }
}
