//! Every contract suite, on the AWS adapters and the servers of the local cloud.
//!
//! The same suites run on the in-memory twins beside the engine; so what is proved with the twins holds for AWS as far as
//! the local cloud is like it.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up fails")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use aws_sdk_eventbridge::types::Target;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;
use tidemark_aws::RedshiftWarehouse;
use tidemark_aws::clients::Adapters;
use tidemark_aws::config::{Config, Purpose, RedshiftConfig, RedshiftEndpoint};
use tidemark_engine::contract::announcer::Witness;
use tidemark_engine::contract::queue::{Inbox, Received};
use tidemark_engine::contract::{announcer, objects, queue, state, warehouse};
use tidemark_engine::ports::Alert;
use tidemark_local::LocalCloud;

/// What the suites need in an account of their own.
struct Resources {
    sdk: SdkConfig,
    adapters: Adapters,
    bucket: String,
    partitions: String,
    dead_letters: String,
    heard: String,
}

const TABLE: &str = "state";

impl Resources {
    async fn make() -> Self {
        let cloud = LocalCloud::shared().await.unwrap();
        let account = cloud.fresh_account();
        let sdk = cloud.sdk_config(&account).await;
        // All accounts share one namespace of buckets.
        let bucket = format!("control-{account}");
        make_table(&sdk).await;
        make_bucket(&sdk, &bucket).await;
        let fifo = [(QueueAttributeName::FifoQueue, "true")];
        let partitions = make_queue(&sdk, "partitions.fifo", &fifo).await;
        let dead_letters = make_queue(&sdk, "dead.fifo", &fifo).await;
        let heard = make_queue(&sdk, "heard", &[]).await;
        let topic = listen(&sdk, &heard).await;
        let values = [
            ("TIDEMARK_STACK", "contract"),
            ("TIDEMARK_TABLE", TABLE),
            ("TIDEMARK_PARTITIONS_QUEUE_URL", &partitions),
            ("TIDEMARK_PARTITIONS_DLQ_URL", &dead_letters),
            ("TIDEMARK_CONTROL_BUCKET", &bucket),
            ("TIDEMARK_ALERT_TOPIC_ARN", &topic),
            ("TIDEMARK_REDSHIFT_WORKGROUP", "workgroup"),
            ("TIDEMARK_REDSHIFT_DATABASE", "dev"),
            ("TIDEMARK_COPY_ROLE_ARN", "default"),
            ("AWS_ENDPOINT_URL", "set"),
        ];
        let look_up = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let config = Config::read(Purpose::Rebuild, look_up).unwrap();
        let adapters = Adapters::new(&config, &sdk);
        Self { sdk, adapters, bucket, partitions, dead_letters, heard }
    }

    fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.sdk)
    }
}

/// The state table, with the keys and indexes of the template's.
async fn make_table(sdk: &SdkConfig) {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let index = |name: &str, hash: &str, range: &str| {
        GlobalSecondaryIndex::builder()
            .index_name(name)
            .key_schema(key(hash, KeyType::Hash))
            .key_schema(key(range, KeyType::Range))
            .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
            .build()
            .unwrap()
    };
    let attributes =
        [("pk", "S"), ("sk", "S"), ("work", "S"), ("due_at", "N"), ("parked_work", "S"), ("parked_since", "N")];
    let attributes = attributes.map(|(name, kind)| {
        let kind = ScalarAttributeType::from(kind);
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap()
    });
    aws_sdk_dynamodb::Client::new(sdk)
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(attributes.into()))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(index("due", "work", "due_at"))
        .global_secondary_indexes(index("parked", "parked_work", "parked_since"))
        .send()
        .await
        .unwrap();
}

async fn make_bucket(sdk: &SdkConfig, name: &str) {
    let config = aws_sdk_s3::config::Builder::from(sdk).force_path_style(true).build();
    aws_sdk_s3::Client::from_conf(config).create_bucket().bucket(name).send().await.unwrap();
}

async fn make_queue(sdk: &SdkConfig, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let request = aws_sdk_sqs::Client::new(sdk).create_queue().queue_name(name);
    let hidden = [(QueueAttributeName::VisibilityTimeout, "120")];
    let attributes = hidden.iter().chain(attributes).map(|(name, value)| (name.clone(), (*value).to_owned()));
    let request = request.set_attributes(Some(attributes.collect()));
    request.send().await.unwrap().queue_url().unwrap().to_owned()
}

/// Lets a queue hear the default bus's events of ours and a topic's messages; gives the topic.
async fn listen(sdk: &SdkConfig, queue_url: &str) -> String {
    let sqs = aws_sdk_sqs::Client::new(sdk);
    let arn = QueueAttributeName::QueueArn;
    let attributes = sqs.get_queue_attributes().queue_url(queue_url).attribute_names(arn.clone()).send().await.unwrap();
    let queue_arn = attributes.attributes().unwrap()[&arn].clone();
    let events = aws_sdk_eventbridge::Client::new(sdk);
    events.put_rule().name("ours").event_pattern(r#"{"source":["tidemark"]}"#).send().await.unwrap();
    let target = Target::builder().id("heard").arn(&queue_arn).build().unwrap();
    events.put_targets().rule("ours").targets(target).send().await.unwrap();
    let sns = aws_sdk_sns::Client::new(sdk);
    let topic = sns.create_topic().name("alerts").send().await.unwrap().topic_arn().unwrap().to_owned();
    sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(queue_arn).send().await.unwrap();
    topic
}

/// Takes one message off a queue, waiting a second for it: its body, receipt and reason.
async fn receive(sqs: &aws_sdk_sqs::Client, url: &str) -> Option<(Received, Option<String>)> {
    let request = sqs.receive_message().queue_url(url).max_number_of_messages(1).wait_time_seconds(1);
    let answer = request.message_attribute_names("All").send().await.unwrap();
    let message = answer.messages().first()?;
    let reason = message.message_attributes().and_then(|all| all.get("reason")?.string_value().map(ToOwned::to_owned));
    let received = Received {
        body: message.body().unwrap_or_default().to_owned(),
        receipt: message.receipt_handle().unwrap().to_owned(),
    };
    Some((received, reason))
}

async fn delete(sqs: &aws_sdk_sqs::Client, url: &str, receipt: &str) {
    sqs.delete_message().queue_url(url).receipt_handle(receipt).send().await.unwrap();
}

struct Worker {
    sqs: aws_sdk_sqs::Client,
    partitions: String,
    dead_letters: String,
    letters: Mutex<Vec<(String, Option<String>)>>,
}

#[async_trait]
impl Inbox for Worker {
    async fn receive(&self) -> Option<Received> {
        receive(&self.sqs, &self.partitions).await.map(|(received, _)| received)
    }

    async fn delete(&self, receipt: &str) {
        delete(&self.sqs, &self.partitions, receipt).await;
    }

    async fn dead_letters(&self) -> Vec<(String, Option<String>)> {
        if let Some((letter, reason)) = receive(&self.sqs, &self.dead_letters).await {
            delete(&self.sqs, &self.dead_letters, &letter.receipt).await;
            self.letters.lock().unwrap().push((letter.body, reason));
        }
        self.letters.lock().unwrap().clone()
    }
}

/// Hears events and alerts on one queue.
struct Listener {
    sqs: aws_sdk_sqs::Client,
    heard: String,
    bodies: Mutex<Vec<Value>>,
}

impl Listener {
    async fn listen(&self) -> Vec<Value> {
        if let Some((message, _)) = receive(&self.sqs, &self.heard).await {
            delete(&self.sqs, &self.heard, &message.receipt).await;
            self.bodies.lock().unwrap().push(serde_json::from_str(&message.body).unwrap());
        }
        self.bodies.lock().unwrap().clone()
    }
}

#[async_trait]
impl Witness for Listener {
    async fn events(&self) -> Vec<(String, Value)> {
        let heard = self.listen().await.into_iter();
        heard.filter_map(|body| Some((body["detail-type"].as_str()?.to_owned(), body["detail"].clone()))).collect()
    }

    async fn alerts(&self) -> Vec<Alert> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let heard = self.listen().await.into_iter();
        heard
            .filter_map(|body| Some(Alert { subject: text(&body["Subject"])?, body: text(&body["Message"])? }))
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_state_table_keeps_the_contract() {
    state::all(Arc::new(Resources::make().await.adapters.state)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_buckets_keep_the_contract() {
    let made = Resources::make().await;
    objects::all(Arc::new(made.adapters.objects), &made.bucket).await;
}

#[tokio::test]
async fn the_partitions_queue_keeps_the_contract() {
    let made = Resources::make().await;
    let (sqs, letters) = (made.sqs(), Mutex::default());
    let worker = Worker { sqs, partitions: made.partitions, dead_letters: made.dead_letters, letters };
    queue::all(&made.adapters.queue, &worker).await;
}

#[tokio::test]
async fn the_announcer_keeps_the_contract() {
    let made = Resources::make().await;
    let listener = Listener { sqs: made.sqs(), heard: made.heard, bodies: Mutex::default() };
    announcer::all(&made.adapters.announcer.unwrap(), &listener).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_warehouse_keeps_the_contract() {
    let cloud = LocalCloud::shared().await.unwrap();
    let conninfo = cloud.create_database("contract").await.unwrap();
    // A function of the owner's, since Redshift has no statement that only waits.
    let (postgres, connection) = tokio_postgres::connect(&conninfo, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let slow = "CREATE FUNCTION public.contract_slow() RETURNS bigint LANGUAGE sql AS 'SELECT 1 FROM pg_sleep(5)'";
    postgres.batch_execute(slow).await.unwrap();
    let sdk = cloud.redshift_sdk_config(&cloud.fresh_account()).await;
    let config = RedshiftConfig {
        endpoint: RedshiftEndpoint::Workgroup("workgroup".into()),
        database: "contract".into(),
        db_user: None,
        secret_arn: None,
    };
    let adapter = RedshiftWarehouse::new(aws_sdk_redshiftdata::Client::new(&sdk), config);
    let slow = "SELECT public.contract_slow()".to_owned();
    let setup = warehouse::Setup { tables: "public.contract_".to_owned(), slow };
    warehouse::all(Arc::new(adapter), &setup).await;
}
