//! `redshift-data`: the Redshift Data API on PostgreSQL, as a program.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use tidemark_redshift_data::{Config, Isolation, serve};

/// Answers the Redshift Data API on a loopback port, with a PostgreSQL behind it.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Connection string of the database, such as "host=127.0.0.1 port=5433 user=postgres dbname=dev".
    #[arg(long)]
    postgres: String,
    /// The S3 that COPY reads from.
    #[arg(long, default_value = "http://127.0.0.1:4566")]
    s3_endpoint: String,
    /// The database's isolation level.
    #[arg(long, value_enum, default_value_t)]
    isolation: Isolation,
    /// Gets the port's number when the server is ready.
    #[arg(long)]
    port_file: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let arguments = Arguments::parse();
    let server = serve(Config {
        listen: arguments.listen,
        postgres: arguments.postgres,
        s3_endpoint: arguments.s3_endpoint,
        isolation: arguments.isolation,
    })
    .await?;
    if let Some(path) = &arguments.port_file {
        // Written beside and moved, so that a reader never finds it half written.
        let temporary = path.with_extension("partial");
        std::fs::write(&temporary, server.address().port().to_string())
            .and_then(|()| std::fs::rename(&temporary, path))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    println!("{}", server.url());
    tokio::select! {
        ended = server.forever() => ended,
        signal = tokio::signal::ctrl_c() => signal.context("waiting for a signal"),
    }
}
