//! `infra/template.yaml`, read for tests of what it says.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::venv::{Venv, run};
use crate::workspace::workspace_root;

/// The template in its two forms.
#[derive(Debug, Clone, Deserialize)]
pub struct Template {
    /// As written; `!Ref X` is `{"Ref": "X"}`.
    pub source: Value,
    /// As SAM translates it for CloudFormation, with the parameters' defaults.
    pub translated: Value,
}

impl Template {
    /// Reads and translates it; SAM's own mistakes are errors.
    pub fn read() -> Result<Self> {
        let mut script = Command::new(Venv::ensure("local/cloud/requirements.txt")?.python());
        script.arg(workspace_root().join("local/cloud/translate.py")).arg(workspace_root().join("infra/template.yaml"));
        serde_json::from_str(&run(&mut script)?).context("translate.py did not answer in JSON")
    }
}
