//! `cargo infra-check`: everything that can be said of the template without an account.
//!
//! Linters of the source miss most of SAM's mistakes, so the template is translated first, and both forms are looked at. The
//! tools are installed, pinned, into environments of their own below `.local/`. The last line is `findings 0`, or their
//! number and a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tidemark_local::{Template, Venv, workspace_root};

const TEMPLATE: &str = "infra/template.yaml";
/// The example of docs/downstream.md.
const EXAMPLE: &str = "docs/downstream/refresh.yaml";

fn main() -> Result<ExitCode> {
    let sam = Venv::ensure("infra/check/requirements-sam.txt")?;
    let checkov = Venv::ensure("infra/check/requirements-checkov.txt")?;
    let translated = translate()?;
    let source = workspace_root().join(TEMPLATE);

    let mut findings = 0;
    let mut told = |step: &str, found: Vec<String>| {
        println!("{step}: {}", if found.is_empty() { "clean".to_owned() } else { format!("{} found", found.len()) });
        for finding in &found {
            println!("  {finding}");
        }
        findings += found.len();
    };
    told("sam validate --lint", validate(&sam.program("sam"), &source)?);
    told("cfn-lint, source", cfn_lint(&sam.program("cfn-lint"), &source)?);
    told("cfn-lint, translated", cfn_lint(&sam.program("cfn-lint"), &translated)?);
    told("cfn-lint, docs", cfn_lint(&sam.program("cfn-lint"), &workspace_root().join(EXAMPLE))?);
    told("checkov, source", checkov_finds(&checkov.program("checkov"), &source)?);
    told("checkov, translated", checkov_finds(&checkov.program("checkov"), &translated)?);
    told("invariants", invariants()?);
    println!("findings {findings}");
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes the translation; what SAM refuses is an error with SAM's own words.
fn translate() -> Result<PathBuf> {
    let folder = workspace_root().join(".local/infra");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("translated.json");
    let text = serde_json::to_string_pretty(&Template::read()?.translated)?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

struct Told {
    well: bool,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Result<Told> {
    command.current_dir(workspace_root()).env("SAM_CLI_TELEMETRY", "0");
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(Told { well: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) })
}

fn validate(sam: &Path, template: &Path) -> Result<Vec<String>> {
    // The region only decides which resource types are known; no account is asked.
    let arguments = ["validate", "--lint", "--region", "eu-west-1", "--template"];
    let told = run(Command::new(sam).args(arguments).arg(template))?;
    Ok(if told.well { Vec::new() } else { vec![format!("{}\n{}", told.out, told.err)] })
}

/// One line for each finding; warnings count.
fn cfn_lint(cfn_lint: &Path, template: &Path) -> Result<Vec<String>> {
    let told = run(Command::new(cfn_lint).args(["--format", "parseable", "--template"]).arg(template))?;
    if !told.well && told.out.is_empty() {
        bail!("cfn-lint failed:\n{}", told.err);
    }
    Ok(told.out.lines().map(str::to_owned).collect())
}

/// What `.checkov.yaml` doesn't allow, with its reason.
fn checkov_finds(checkov: &Path, template: &Path) -> Result<Vec<String>> {
    let told = run(Command::new(checkov)
        .args(["--config-file", ".checkov.yaml", "--output", "json", "--file"])
        .arg(template))?;
    let report: Value =
        serde_json::from_str(&told.out).with_context(|| format!("checkov failed:\n{}\n{}", told.out, told.err))?;
    let passed = report["summary"]["passed"].as_u64().context("checkov tells no summary")?;
    if passed == 0 {
        bail!("checkov checked nothing in {}", template.display());
    }
    let failed = report["results"]["failed_checks"].as_array();
    let words = |check: &Value| format!("{} {}: {}", check["check_id"], check["resource"], check["check_name"]);
    Ok(failed.into_iter().flatten().map(|check| words(check).replace('"', "")).collect())
}

/// What no linter knows: the tests of what the template must say.
fn invariants() -> Result<Vec<String>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["test", "--quiet", "--locked", "--package", "tidemark-local", "--test", "template"];
    let told = run(Command::new(cargo).args(arguments))?;
    Ok(if told.well { Vec::new() } else { vec![format!("{}\n{}", told.out, told.err)] })
}
