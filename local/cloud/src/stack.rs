//! The product's stack in the local cloud: created, changed, looked at and deleted through CloudFormation, as on AWS.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::code::Code;
use crate::processes;
use crate::workspace::workspace_root;

/// What to deploy.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// Name of the stack: letters, digits and dashes.
    pub stack_name: String,
    /// Twelve digits; see [`LocalCloud::fresh_account`](crate::LocalCloud::fresh_account).
    pub account: String,
    /// The template's parameters. Those not given have values fit for the local cloud: a data bucket in the stack named
    /// `<stack>-data`, workgroup `local`, a database of its own, settling and time-outs short.
    pub parameters: BTreeMap<String, String>,
}

impl StackOptions {
    /// A stack with the local defaults.
    pub fn new(stack_name: impl Into<String>, account: impl Into<String>) -> Self {
        Self { stack_name: stack_name.into(), account: account.into(), parameters: BTreeMap::new() }
    }

    /// With one of the template's parameters set.
    #[must_use]
    pub fn with(mut self, parameter: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.insert(parameter.into(), value.into());
        self
    }

    /// The database the stack's functions speak to.
    pub fn database(&self) -> String {
        let own = || format!("{}_{}", self.stack_name.replace('-', "_"), self.account);
        self.parameters.get("RedshiftDatabase").cloned().unwrap_or_else(own)
    }

    fn complete(mut self) -> Self {
        let defaults = [
            ("Architecture", if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" }.to_owned()),
            ("CreateDataBucket", "true".to_owned()),
            ("DataBucketName", format!("{}-data", self.stack_name)),
            ("RedshiftWorkgroup", "local".to_owned()),
            ("RedshiftDatabase", self.database()),
            ("SettleSeconds", "1".to_owned()),
            ("MarkWindowSeconds", "1".to_owned()),
        ];
        for (name, value) in defaults {
            self.parameters.entry(name.to_owned()).or_insert(value);
        }
        self
    }
}

/// A deployed stack.
#[derive(Debug, Clone)]
pub struct Stack {
    options: StackOptions,
    /// The template's outputs by name, e.g. `EventsQueueUrl`.
    pub outputs: BTreeMap<String, String>,
    code: Code,
    deployer: Deployer,
}

/// One line of the stack's history.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StackEvent {
    /// Name in the template.
    pub resource: String,
    /// Its type, e.g. `AWS::SQS::Queue`.
    pub kind: String,
    /// E.g. `CREATE_COMPLETE`.
    pub status: String,
    /// Why, for failures; else empty.
    pub reason: String,
}

impl Stack {
    pub(crate) async fn create(deployer: Deployer, code: Code, options: StackOptions) -> Result<Self> {
        let mut stack = Self { options: options.complete(), outputs: BTreeMap::new(), code, deployer };
        stack.outputs = stack.put("create").await?;
        Ok(stack)
    }

    /// Changes parameters of the stack (those not named stay) and waits for it.
    pub async fn update<N: Into<String>, V: Into<String>>(
        &mut self,
        parameters: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        for (name, value) in parameters {
            self.options.parameters.insert(name.into(), value.into());
        }
        self.outputs = self.put("update").await?;
        Ok(())
    }

    /// Deletes the stack and waits until it is gone. What the template retains, stays.
    pub async fn delete(self) -> Result<()> {
        self.ask("delete", json!({})).await
    }

    /// Name of the stack.
    pub fn name(&self) -> &str {
        &self.options.stack_name
    }

    /// The account it lives in.
    pub fn account(&self) -> &str {
        &self.options.account
    }

    /// The database its functions speak to.
    pub fn database(&self) -> &str {
        self.options.parameters.get("RedshiftDatabase").map_or("", String::as_str)
    }

    /// The bucket its events come from.
    pub fn data_bucket(&self) -> &str {
        self.options.parameters.get("DataBucketName").map_or("", String::as_str)
    }

    /// An output that must be there; the error names those that are.
    pub fn output(&self, name: &str) -> Result<&str> {
        let known = || format!("the stack has no output {name}; it has {:?}", self.outputs.keys());
        self.outputs.get(name).map(String::as_str).with_context(known)
    }

    /// Lines of a function's log so far, oldest first; `function` is its full name, from an output.
    pub async fn function_logs(&self, function: &str) -> Result<Vec<String>> {
        self.ask("logs", json!({ "function": function })).await
    }

    /// Invokes a function and waits for its answer; a function error is an error.
    pub async fn invoke(&self, function: &str, payload: &serde_json::Value) -> Result<serde_json::Value> {
        self.ask("invoke", json!({ "function": function, "payload": payload })).await
    }

    /// Ends the schedule that invokes sweep: from now on only [`invoke`](Self::invoke) does.
    pub async fn unschedule(&self) -> Result<()> {
        self.ask("unschedule", json!({})).await
    }

    /// The process group of all functions: whatever joins it ends with them.
    pub fn process_group(&self) -> u32 {
        self.deployer.emulator_group
    }

    /// Enables or disables a function's event source mappings: disabled, nobody takes its queue's messages.
    pub async fn deliver(&self, function: &str, enabled: bool) -> Result<()> {
        self.ask("deliver", json!({ "function": function, "enabled": enabled })).await
    }

    /// Processes that run a function right now: some idle, some at work. They can be killed to see what follows.
    pub fn function_pids(&self, function: &str) -> Vec<u32> {
        let group = processes::of_group(self.deployer.emulator_group);
        let runs = |pid: &u32| {
            let environment = processes::environment(*pid);
            let is = |name: &str, value: &str| environment.get(name).is_some_and(|found| found == value);
            is("AWS_LAMBDA_FUNCTION_NAME", function) && is("AWS_ACCESS_KEY_ID", &self.options.account)
        };
        group.into_iter().filter(runs).collect()
    }

    /// The history of the stack's resources, oldest first.
    pub async fn cloudformation_events(&self) -> Result<Vec<StackEvent>> {
        self.ask("events", json!({})).await
    }

    async fn put(&self, command: &str) -> Result<BTreeMap<String, String>> {
        let more = json!({
            "template": self.code.template,
            "packages": self.code.packages,
            "parameters": self.options.parameters,
        });
        self.ask(command, more).await
    }

    async fn ask<T: DeserializeOwned>(&self, command: &str, more: serde_json::Value) -> Result<T> {
        let question = Question {
            command,
            endpoint: &self.deployer.endpoint,
            account: &self.options.account,
            stack: &self.options.stack_name,
            more,
        };
        self.deployer.ask(&question).await
    }
}

/// Asks `deploy.py`, which speaks to CloudFormation, Lambda's logs and S3 with boto3.
#[derive(Debug, Clone)]
pub(crate) struct Deployer {
    python: PathBuf,
    endpoint: String,
    emulator_group: u32,
}

#[derive(Debug, Serialize)]
struct Question<'a> {
    command: &'a str,
    endpoint: &'a str,
    account: &'a str,
    stack: &'a str,
    #[serde(flatten)]
    more: serde_json::Value,
}

impl Deployer {
    pub(crate) fn new(python: PathBuf, endpoint: String, emulator_group: u32) -> Self {
        Self { python, endpoint, emulator_group }
    }

    async fn ask<T: DeserializeOwned>(&self, question: &Question<'_>) -> Result<T> {
        let mut script = Command::new(&self.python)
            .arg(workspace_root().join("local/cloud/deploy.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.python.display()))?;
        let mut input = script.stdin.take().context("deploy.py has no standard input")?;
        input.write_all(&serde_json::to_vec(question)?).await?;
        drop(input);
        let output = script.wait_with_output().await?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("{} of stack {} failed:\n{}", question.command, question.stack, told.trim_end());
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("deploy.py answered {:?}", output.stdout))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;
    use std::time::Duration;

    use super::*;
    use crate::code::FUNCTIONS;
    use crate::{LocalCloud, wait_until};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A stack whose functions are `tests/bootstrap.py`.
    async fn deploy(name: &str) -> (aws_sdk_sqs::Client, Stack) {
        let cloud = LocalCloud::shared().await.unwrap();
        let script = workspace_root().join("local/cloud/tests/bootstrap.py");
        let binaries = FUNCTIONS.iter().map(|(_, name)| ((*name).to_owned(), script.clone())).collect();
        let options = StackOptions::new(name, cloud.fresh_account()).with("SettleSeconds", "0");
        let code = Code::of_binaries(&binaries).unwrap();
        let stack = Stack::create(cloud.deployer(), code, options).await.unwrap();
        let sqs = aws_sdk_sqs::Client::new(&cloud.sdk_config(stack.account()).await);
        (sqs, stack)
    }

    async fn send(sqs: &aws_sdk_sqs::Client, stack: &Stack, group: &str, body: &str) {
        let message = sqs.send_message().queue_url(stack.output("PartitionsQueueUrl").unwrap()).message_body(body);
        message.message_group_id(group).message_deduplication_id(format!("{group}-{body}")).send().await.unwrap();
    }

    async fn wait_for_pids(stack: &Stack, function: &str, count: usize) -> Vec<u32> {
        wait_until(&format!("{count} processes of {function}"), PATIENCE, async || {
            Ok(Some(stack.function_pids(function)).filter(|pids| pids.len() == count))
        })
        .await
        .unwrap()
    }

    /// Messages of different groups are handled at the same time; a killed function is gone; others go on.
    #[tokio::test(flavor = "multi_thread")]
    async fn groups_run_side_by_side_and_can_be_killed() {
        let (sqs, stack) = deploy("groups").await;
        let rebuild = stack.output("RebuildFunctionName").unwrap();
        send(&sqs, &stack, "a", "hold").await;
        send(&sqs, &stack, "b", "hold").await;
        let busy = wait_for_pids(&stack, rebuild, 2).await;
        send(&sqs, &stack, "a", "behind").await;
        send(&sqs, &stack, "c", "beside").await;
        let logs = wait_until("the third group's message to be seen", PATIENCE, async || {
            let logs = stack.function_logs(rebuild).await?;
            Ok(logs.iter().any(|line| line.contains("beside")).then_some(logs))
        });
        assert!(!logs.await.unwrap().iter().any(|line| line.contains("behind")), "group a has a message in flight");

        for pid in &busy {
            assert!(Program::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
        }
        wait_for_pids(&stack, rebuild, 1).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_function_is_invoked_and_an_object_reaches_it() {
        let (_, stack) = deploy("objects").await;
        let sweep = stack.output("SweepFunctionName").unwrap();
        let answer = stack.invoke(sweep, &json!({ "hello": 1 })).await.unwrap();
        assert_eq!(answer["event"], json!({ "hello": 1 }));

        let cloud = LocalCloud::shared().await.unwrap();
        let s3 = aws_sdk_s3::Client::new(&cloud.sdk_config(stack.account()).await);
        s3.put_object().bucket(stack.data_bucket()).key("orders/dt=2026-11-01/a.csv").send().await.unwrap();
        let mark = stack.output("MarkFunctionName").unwrap();
        wait_until("the object's event to be seen", PATIENCE, async || {
            let logs = stack.function_logs(mark).await?;
            Ok(logs.iter().any(|line| line.contains("orders/dt%3D2026-11-01/a.csv")).then_some(()))
        })
        .await
        .unwrap();
    }
}
