//! Starts the local cloud, deploys Tidemark to it, tells where everything is, and waits for Ctrl-C.

use std::fs;

use anyhow::{Context as _, Result};
use clap::Parser;
use tidemark_local::{LocalCloud, Options, StackOptions, workspace_root};

/// The local cloud: AWS and Redshift on loopback, with Tidemark deployed, until Ctrl-C.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Name of the stack
    #[arg(long, default_value = "tidemark")]
    stack_name: String,
    /// Account to deploy to: twelve digits
    #[arg(long, default_value = "000000000000")]
    account: String,
    /// A parameter of infra/template.yaml; may be given many times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,
    /// Start the servers only
    #[arg(long)]
    no_deploy: bool,
    /// Leave out the check of the emulator
    #[arg(long)]
    no_self_check: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cloud = LocalCloud::start(Options { self_check: !arguments.no_self_check, ..Options::default() }).await?;
    println!("export AWS_ENDPOINT_URL={}", cloud.aws_endpoint());
    println!("export AWS_ENDPOINT_URL_REDSHIFT_DATA={}", cloud.redshift_endpoint());
    println!("export AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY=local", arguments.account);
    println!("# logs: {}", cloud.logs().display());
    if !arguments.no_deploy {
        let mut options = StackOptions::new(arguments.stack_name, arguments.account);
        options.parameters.extend(arguments.parameters);
        let stack = cloud.deploy(options).await?;
        println!("# psql: {}", cloud.psql_line(stack.database()));
        println!("# data bucket: s3://{}", stack.data_bucket());
        for (name, value) in stack.outputs.iter().filter(|(name, _)| *name != "Environment") {
            println!("# {name}: {value}");
        }
        let environment = workspace_root().join(".local/tidemark.env");
        let told = format!(
            "{}AWS_ENDPOINT_URL={}\nAWS_ENDPOINT_URL_REDSHIFT_DATA={}\nAWS_ACCESS_KEY_ID={}\nAWS_SECRET_ACCESS_KEY=local\n",
            stack.output("Environment")?,
            cloud.aws_endpoint(),
            cloud.redshift_endpoint(),
            stack.account()
        );
        fs::write(&environment, told).with_context(|| format!("cannot write {}", environment.display()))?;
        println!("# operate: tidemark --env-file {} show …", environment.display());
    }
    println!("# Ctrl-C ends it all.");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
