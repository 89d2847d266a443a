//! Makes what has to stand in Redshift before anything else: schemas, ledger, procedures.

use tidemark_domain::sql::rows::{RowError, installed_version};
use tidemark_domain::sql::{SqlError, install};

use crate::Ports;
use crate::run::{RunError, ask, run};

/// What `init` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// Nothing was there.
    Made,
    /// An older version was there.
    Upgraded {
        /// That version.
        from: u64,
    },
    /// This version was there; it was made again, which changes nothing.
    Again,
}

/// Why nothing was installed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InitError {
    /// Redshift didn't do it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No SQL could be made.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// An answer that wasn't asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A newer release was here.
    #[error("redshift has version {installed} of tidemark's schema, this release knows {known}; use the newer release")]
    Newer {
        /// What is installed.
        installed: u64,
        /// What this release knows.
        known: u32,
    },
}

/// Installs, or installs again.
pub async fn init(ports: &Ports) -> Result<Installed, InitError> {
    let before = version(ports).await?;
    if let Some(installed) = before.filter(|installed| *installed > u64::from(install::VERSION)) {
        return Err(InitError::Newer { installed, known: install::VERSION });
    }
    run(ports, &install::install()?).await?;
    Ok(match before {
        None => Installed::Made,
        Some(from) if from < u64::from(install::VERSION) => Installed::Upgraded { from },
        Some(_) => Installed::Again,
    })
}

/// The version that is installed; `None` where there is none.
pub async fn version(ports: &Ports) -> Result<Option<u64>, InitError> {
    match ask(ports, &install::installed_version()?).await {
        Ok(rows) => Ok(installed_version(&rows)?),
        Err(RunError::Failed { message, .. }) if message.contains("does not exist") => Ok(None),
        Err(error) => Err(error.into()),
    }
}
