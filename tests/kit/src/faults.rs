//! What goes wrong on purpose: killed functions, a slow or silent Redshift.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::types::NotificationConfiguration;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::dataset::Partition;
use crate::state::Queue;
use crate::world::World;

impl World {
    /// Kills every process that runs rebuild, as a failing machine would; gives how many there were.
    pub fn kill_rebuild(&self) -> Result<usize> {
        let pids = self.stack.function_pids(self.stack.output("RebuildFunctionName")?);
        for pid in &pids {
            let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
            ensure!(killed.success(), "cannot kill process {pid}");
        }
        Ok(pids.len())
    }

    /// Lets sweep run now instead of within the minute.
    pub async fn sweep(&self) -> Result<()> {
        let name = self.stack.output("SweepFunctionName")?;
        self.stack.invoke(name, &json!({})).await.context("sweep failed")?;
        Ok(())
    }

    /// Makes each COPY of this world from now on take at least so long; 0 ends it.
    pub async fn slow_copy(&self, seconds: u32) -> Result<()> {
        self.redshift_fault("copy_delay", json!({ "seconds": seconds })).await
    }

    /// Takes the role of COPY from this world's warehouse, or gives it back.
    pub async fn attach_copy_role(&self, attached: bool) -> Result<()> {
        self.redshift_fault("copy_role", json!({ "attached": attached })).await
    }

    /// Redshift's Data API answers every call of this world with 503 for so long.
    pub async fn redshift_down(&self, seconds: u32) -> Result<()> {
        self.redshift_fault("down", json!({ "seconds": seconds })).await
    }

    /// The next calls this world makes of an operation of the Data API are answered with an error.
    pub async fn redshift_refuses(&self, operation: &str, code: &str, times: u32) -> Result<()> {
        self.redshift_fault("faults", json!({ "operation": operation, "code": code, "times": times })).await
    }

    /// An operation of the Data API that this world calls next is carried out, but its answer is lost.
    pub async fn redshift_loses_answer(&self, operation: &str, code: &str) -> Result<()> {
        let fault = json!({ "operation": operation, "code": code, "times": 1, "after_effect": true });
        self.redshift_fault("faults", fault).await
    }

    /// Breaks the connection of the next submission of this name, by its last part, such as `swap`, after so many of its
    /// statements: 0 is before the first, all of them before COMMIT, one more in the answer to COMMIT.
    pub async fn break_at(&self, name: &str, after: usize) -> Result<()> {
        self.redshift_fault("break_at", json!({ "name": name, "after": after })).await
    }

    /// How many connections were broken by [`break_at`](Self::break_at).
    pub async fn broken(&self) -> Result<u64> {
        let answer = self.control("broken", &json!({ "account": self.stack.account() })).await?;
        answer["broken"].as_u64().context("it isn't told how many connections were broken")
    }

    /// The submissions so far by the last part of their names, with the most statements one of them had.
    pub async fn submissions(&self) -> Result<BTreeMap<String, usize>> {
        let answer = self.control("submissions", &json!({ "account": self.stack.account() })).await?;
        serde_json::from_value(answer).context("it isn't told what was submitted")
    }

    /// The next results that this world asks for aren't kept any more.
    pub async fn redshift_forgets_results(&self, times: u32) -> Result<()> {
        let (code, message) = ("ResourceNotFoundException", "Query does not have result. Please check query status");
        let fault = json!({ "operation": "GetStatementResult", "code": code, "message": message, "times": times });
        self.redshift_fault("faults", fault).await
    }

    /// Breaks the connection of every running statement whose text contains this; gives how many there were.
    pub async fn break_connection(&self, part_of_text: &str) -> Result<u64> {
        let answer = self.control("break_connection", &json!({ "statement_like": part_of_text })).await?;
        answer["broken"].as_u64().context("it isn't told how many connections were broken")
    }

    /// Drops what a batch has staged, as somebody who tidies by hand would; gives how many tables there were.
    pub async fn drop_staging(&self, batch: &str) -> Result<usize> {
        let find = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables \
                    WHERE schemaname = 'tidemark_staging' AND tablename LIKE 'batch_' || $1 || '%'";
        let tables = self.sql.query(find, &[&batch]).await.context("cannot look for staging tables")?;
        for table in &tables {
            self.execute(&format!("DROP TABLE {}", table.try_get::<_, String>(0)?)).await?;
        }
        Ok(tables.len())
    }

    /// A transaction of somebody else's that keeps swaps into `sales.orders` waiting, until it ends.
    pub async fn hold_swaps(&self) -> Result<tokio_postgres::Client> {
        let blocker = self.connect().await?;
        let find = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables \
                    WHERE schemaname = 'tidemark' AND tablename LIKE '%orders%'";
        let table: String = blocker.query_one(find, &[]).await?.try_get(0)?;
        blocker.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
        Ok(blocker)
    }

    /// A transaction of somebody else's that keeps everybody from writing into `sales.orders`, until it ends.
    pub async fn hold_target(&self) -> Result<tokio_postgres::Client> {
        let blocker = self.connect().await?;
        blocker.batch_execute("BEGIN; LOCK TABLE sales.orders IN EXCLUSIVE MODE").await?;
        Ok(blocker)
    }

    /// Sends a message that asks for a look, in a group of its own: it waits for no other.
    pub async fn look(&self, partition: &Partition) -> Result<()> {
        let look = json!({
            "version": 1, "dataset": partition.dataset.name(), "partition": partition.name(), "generation": 1,
        });
        self.send_alone(Queue::Partitions, &look.to_string()).await
    }

    /// How many statements of this world wait for a lock.
    pub async fn waiting_statements(&self) -> Result<i64> {
        self.count(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .await
    }

    /// Breaks the connections of all statements of this world that wait for a lock; gives how many there were.
    pub async fn break_waiting_statements(&self) -> Result<i64> {
        let statement = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        Ok(self.sql.query_one(statement, &[]).await.context("cannot break connections")?.try_get(0)?)
    }

    /// Takes the data bucket's notifications away, as another stack that sets its own would; gives them, to be set again.
    pub async fn silence_bucket(&self) -> Result<NotificationConfiguration> {
        let bucket = self.stack.data_bucket();
        let was = self.s3.get_bucket_notification_configuration().bucket(bucket).send().await?;
        self.notify(NotificationConfiguration::builder().build()).await?;
        let queues = was.queue_configurations.unwrap_or_default();
        Ok(NotificationConfiguration::builder().set_queue_configurations(Some(queues)).build())
    }

    /// Sets the data bucket's notifications.
    pub async fn notify(&self, notifications: NotificationConfiguration) -> Result<()> {
        let put = self.s3.put_bucket_notification_configuration().bucket(self.stack.data_bucket());
        put.notification_configuration(notifications).send().await.context("cannot set the bucket's notifications")?;
        Ok(())
    }

    /// Forgets every message of a queue, as if it had been lost.
    pub async fn purge(&self, queue: Queue) -> Result<()> {
        self.sqs.purge_queue().queue_url(self.url(queue)?).send().await.context("cannot purge a queue")?;
        Ok(())
    }

    /// `POST /_local/<path>` of the local Redshift Data API: it meets this world's account only.
    async fn redshift_fault(&self, path: &str, mut body: Value) -> Result<()> {
        body["account"] = self.stack.account().into();
        self.control(path, &body).await?;
        Ok(())
    }

    /// `POST /_local/<path>` as it is.
    async fn control(&self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let endpoint = self.cloud.redshift_endpoint();
        let address = endpoint.strip_prefix("http://").context("the endpoint is no http address")?;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "POST /_local/{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split_whitespace().nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "POST /_local/{path} was answered with {answer}");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).with_context(|| format!("POST /_local/{path} was answered with {answer}"))
    }
}
