//! The local cloud as its users see it: it starts, is trusted, deploys the product's template, and leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aws_sdk_redshiftdata::types::{Field, StatusString};
use aws_sdk_sqs::types::QueueAttributeName;
use tidemark_local::{LocalCloud, Options, StackOptions, wait_until};
use tokio::net::TcpStream;

const OUTPUTS: [&str; 14] = [
    "AlertTopicArn",
    "ControlBucketName",
    "DashboardName",
    "Environment",
    "EventsDlqUrl",
    "EventsQueueArn",
    "EventsQueueUrl",
    "MarkFunctionName",
    "PartitionsDlqUrl",
    "PartitionsQueueUrl",
    "RebuildFunctionName",
    "RebuildRoleArn",
    "SweepFunctionName",
    "TableName",
];

#[tokio::test(flavor = "multi_thread")]
async fn deploys_changes_and_deletes_the_template() {
    let cloud = LocalCloud::shared().await.unwrap();
    let mut stack = cloud.deploy(StackOptions::new("whole", cloud.fresh_account())).await.unwrap();
    assert_eq!(stack.outputs.keys().map(String::as_str).collect::<Vec<_>>(), OUTPUTS);

    let events = stack.cloudformation_events().await.unwrap();
    let failed: Vec<_> = events.iter().filter(|event| event.status.ends_with("_FAILED")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let created: BTreeSet<_> =
        events.iter().filter(|event| event.status == "CREATE_COMPLETE").map(|event| event.kind.as_str()).collect();
    for kind in
        ["AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule", "AWS::CloudWatch::Alarm", "AWS::S3::Bucket"]
    {
        assert!(created.contains(kind), "no {kind} among {created:?}");
    }

    let sqs = aws_sdk_sqs::Client::new(&cloud.sdk_config(stack.account()).await);
    assert_eq!(delay(&sqs, stack.output("PartitionsQueueUrl").unwrap()).await, "1");
    stack.update([("SettleSeconds", "2")]).await.unwrap();
    assert_eq!(delay(&sqs, stack.output("PartitionsQueueUrl").unwrap()).await, "2");
    stack.delete().await.unwrap();
}

async fn delay(sqs: &aws_sdk_sqs::Client, queue: &str) -> String {
    let asked = sqs.get_queue_attributes().queue_url(queue).attribute_names(QueueAttributeName::DelaySeconds);
    asked.send().await.unwrap().attributes.unwrap().remove(&QueueAttributeName::DelaySeconds).unwrap()
}

/// The form for an existing bucket: no bucket of its own, a rule instead.
#[tokio::test(flavor = "multi_thread")]
async fn deploys_beside_an_existing_bucket() {
    let cloud = LocalCloud::shared().await.unwrap();
    let options = StackOptions::new("beside", cloud.fresh_account()).with("CreateDataBucket", "false");
    let stack = cloud.deploy(options.with("AlertEmail", "night@example.com")).await.unwrap();
    let events = stack.cloudformation_events().await.unwrap();
    let named = |name: &str| events.iter().any(|event| event.resource == name);
    assert!(named("ObjectEventsRule") && named("AlertSubscription") && !named("DataBucket"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_cannot_be_made_says_why() {
    let cloud = LocalCloud::shared().await.unwrap();
    let options = StackOptions::new("wrong", cloud.fresh_account()).with("NoSuchParameter", "1");
    let told = format!("{:#}", cloud.deploy(options).await.unwrap_err());
    assert!(told.contains("wrong") && told.contains("NoSuchParameter"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_do_not_see_each_other() {
    let cloud = LocalCloud::shared().await.unwrap();
    let (one, other) = (cloud.fresh_account(), cloud.fresh_account());
    let sqs = aws_sdk_sqs::Client::new(&cloud.sdk_config(&one).await);
    sqs.create_queue().queue_name("mine").send().await.unwrap();
    let sqs = aws_sdk_sqs::Client::new(&cloud.sdk_config(&other).await);
    let seen = sqs.list_queues().send().await.unwrap();
    assert!(seen.queue_urls().is_empty(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_api_speaks_to_the_database_it_is_asked_for() {
    let cloud = LocalCloud::shared().await.unwrap();
    let account = cloud.fresh_account();
    let redshift = aws_sdk_redshiftdata::Client::new(&cloud.redshift_sdk_config(&account).await);
    for database in ["first_db", "second_db"] {
        cloud.create_database(database).await.unwrap();
        let statement = redshift.execute_statement().workgroup_name("local").database(database);
        let id = statement.sql("select current_database()").send().await.unwrap().id.unwrap();
        let rows = wait_until("the statement to end", Duration::from_secs(20), async || {
            let seen = redshift.describe_statement().id(&id).send().await?;
            anyhow::ensure!(seen.status() != Some(&StatusString::Failed), "it failed: {:?}", seen.error());
            let ended = seen.status() == Some(&StatusString::Finished);
            Ok(if ended { Some(redshift.get_statement_result().id(&id).send().await?.records) } else { None })
        })
        .await
        .unwrap();
        assert_eq!(rows, [[Field::StringValue(database.to_owned())]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listens_on_loopback_only_and_is_gone_after_drop() {
    let cloud = LocalCloud::start(Options { self_check: false, ..Options::default() }).await.unwrap();
    let listeners = cloud.listeners();
    let servers: BTreeSet<_> = listeners.iter().map(|listener| listener.server.as_str()).collect();
    assert_eq!(servers, BTreeSet::from(["emulator", "postgres", "redshift-data"]));
    for listener in &listeners {
        assert!(listener.address.ip().is_loopback(), "{listener:?}");
    }
    let pids = cloud.pids();
    assert!(pids.len() >= 6, "each server and its guard: {pids:?}");
    drop(cloud);
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is still there");
    }
}

/// Neither Ctrl-C nor a kill that gives no chance to clean up leaves a server.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_end_with_the_program_however_it_ends() {
    for signal in ["INT", "KILL"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_local-cloud"))
            .args(["--no-deploy", "--no-self-check"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let endpoints = endpoints(&mut program);
        assert_eq!(endpoints.len(), 2, "{endpoints:?}");
        let sent = Command::new("kill").args([format!("-{signal}"), program.id().to_string()]).status().unwrap();
        assert!(sent.success());
        program.wait().unwrap();
        for endpoint in endpoints {
            wait_until(&format!("{endpoint} to be gone after SIG{signal}"), Duration::from_secs(20), async || {
                Ok(TcpStream::connect(&endpoint).await.is_err().then_some(()))
            })
            .await
            .unwrap();
        }
    }
}

/// Reads what the program tells until it waits for Ctrl-C; gives the addresses of its servers.
fn endpoints(program: &mut Child) -> Vec<String> {
    let lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.take_while(|line| !line.contains("Ctrl-C"));
    told.filter_map(|line| Some(line.split_once("=http://")?.1.to_owned())).collect()
}
