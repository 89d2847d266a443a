//! The ports of a configuration: one SDK configuration, one client a service, each made once a process.

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::RequestChecksumCalculation;
use tidemark_domain::sql::rebuild::CopyRole;
use tidemark_engine::ports::{Announcer, Warehouse};
use tidemark_engine::{Engine, Ports, Settings};

use crate::config::{Config, ConfigProblems, Purpose, environment};
use crate::not_configured::NotConfigured;
use crate::telemetry::{self, MetricLines};
use crate::{AwsAnnouncer, DeadLetters, RedshiftWarehouse, S3Objects, SqsPartitionQueue, StateTable, SystemClock};

/// Attempts the SDK makes at a call in all.
const ATTEMPTS: u32 = 3;

/// An attempt that takes longer is given up: it shows a connection that froze with the function. Waits on Redshift have
/// their own limit.
const ATTEMPT: Duration = Duration::from_secs(20);

/// Starts a function: its configuration from the environment, its log, its engine. Problems are logged too.
pub async fn start(purpose: Purpose) -> Result<Engine, ConfigProblems> {
    let config = Config::read(purpose, environment).inspect_err(|problems| {
        telemetry::init("info");
        tracing::error!(?purpose, %problems, "the function can't start");
    })?;
    telemetry::init(&config.log);
    telemetry::of_stack(config.stack.as_str());
    Ok(engine(&config, &sdk_config().await).telling(Arc::new(MetricLines)))
}

/// The SDK's configuration: region, credentials and endpoints as every AWS tool reads them.
pub async fn sdk_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).build())
        .load()
        .await
}

/// The dead-letter queue at `url` of the queue at `source_url`.
pub async fn dead_letters(url: &str, source_url: &str) -> DeadLetters {
    DeadLetters::new(aws_sdk_sqs::Client::new(&sdk_config().await), url, source_url)
}

/// The ports of a configuration. What the configuration's purpose doesn't need is absent.
#[derive(Debug, Clone)]
pub struct Adapters {
    /// The state table.
    pub state: StateTable,
    /// The partitions queue.
    pub queue: SqsPartitionQueue,
    /// The buckets.
    pub objects: S3Objects,
    /// Events and alerts.
    pub announcer: Option<AwsAnnouncer>,
    /// Redshift.
    pub warehouse: Option<RedshiftWarehouse>,
}

impl Adapters {
    /// The ports of `config`, through `sdk`.
    pub fn new(config: &Config, sdk: &SdkConfig) -> Self {
        let dead_letter_url = config.partitions_dlq_url.clone();
        Self {
            state: StateTable::new(aws_sdk_dynamodb::Client::new(sdk), &config.table),
            queue: SqsPartitionQueue::new(aws_sdk_sqs::Client::new(sdk), &config.partitions_queue_url, dead_letter_url),
            objects: S3Objects::new(s3_client(config, sdk)),
            announcer: config.alert_topic_arn.as_ref().map(|topic| {
                let events = aws_sdk_eventbridge::Client::new(sdk);
                AwsAnnouncer::new(events, &config.event_bus, aws_sdk_sns::Client::new(sdk), topic)
            }),
            warehouse: config
                .redshift
                .as_ref()
                .map(|redshift| RedshiftWarehouse::new(aws_sdk_redshiftdata::Client::new(sdk), redshift.clone())),
        }
    }
}

pub(crate) fn s3_client(config: &Config, sdk: &SdkConfig) -> aws_sdk_s3::Client {
    let s3 = aws_sdk_s3::config::Builder::from(sdk)
        .force_path_style(config.s3_path_style)
        // S3 computes its own checksum of what arrives over TLS; a second one costs time and parts have to repeat it.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired);
    aws_sdk_s3::Client::from_conf(s3.build())
}

/// An engine on these ports. A port that the configuration's purpose doesn't need answers that it isn't configured.
pub fn engine(config: &Config, sdk: &SdkConfig) -> Engine {
    let adapters = Adapters::new(config, sdk);
    let ports = Ports {
        state: Arc::new(adapters.state),
        objects: Arc::new(adapters.objects),
        warehouse: adapters.warehouse.map_or_else(|| Arc::new(NotConfigured) as Arc<dyn Warehouse>, |w| Arc::new(w)),
        queue: Arc::new(adapters.queue),
        announcer: adapters.announcer.map_or_else(|| Arc::new(NotConfigured) as Arc<dyn Announcer>, |a| Arc::new(a)),
        clock: Arc::new(SystemClock),
    };
    #[cfg(feature = "failpoints")]
    let ports = match crate::failpoints::folder() {
        Some(folder) => crate::failpoints::armed(ports, &folder, config.stack.as_str()),
        None => ports,
    };
    let settings = Settings {
        stack: config.stack.clone(),
        control_bucket: config.control_bucket.clone().unwrap_or_default(),
        settle: config.settle,
        lease_margin: config.lease_margin,
        copy_role: config.copy_role.clone().unwrap_or(CopyRole::Default),
    };
    Engine::new(ports, settings)
}
