//! What this workspace brings to the local cloud: its binaries, built by cargo, and the zip of each function.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

use crate::workspace::workspace_root;

/// Packages built together, so that cargo compiles their dependencies once, with one set of features.
const PACKAGES: [&str; 2] = ["tidemark-redshift-data", "tidemark-cli"];
const FUNCTIONS: [&str; 3] = ["tidemark-mark", "tidemark-rebuild", "tidemark-sweep"];

/// How long a package nobody deploys is kept.
const KEPT: Duration = Duration::from_hours(1);

/// Which functions are built beside the Redshift Data API and the operator's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Functions {
    /// As they are.
    Plain,
    /// A test build; the next plain build puts the others in their place.
    WithFailpoints,
    /// None: `sam build` has built them.
    None,
}

/// Builds what is asked for (profile `dev`) and gives the path of each binary by its name.
pub(crate) fn build(functions: Functions) -> Result<BTreeMap<String, PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace_root()).args(["build", "--bins", "--message-format=json-render-diagnostics"]);
    let with: &[&str] = if functions == Functions::None { &[] } else { &FUNCTIONS };
    for package in PACKAGES.iter().chain(with) {
        command.args(["--package", package]);
    }
    if functions == Functions::WithFailpoints {
        command.args(["--package", "tidemark-aws", "--features", "tidemark-aws/failpoints"]);
    }
    // Cargo tells its progress on standard error, which is the user's.
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo build")?;
    if !output.status.success() {
        bail!("cargo build failed ({}); what it said stands above", output.status);
    }
    let text = String::from_utf8(output.stdout).context("cargo build did not speak UTF-8")?;
    Ok(text.lines().filter_map(executable).collect())
}

/// Name and path of the binary, if a line of cargo's messages tells of one.
fn executable(line: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let name = message.get("target")?.get("name")?.as_str()?;
    let path = message.get("executable")?.as_str()?;
    Some((name.to_owned(), PathBuf::from(path)))
}

/// The zip of a function: one entry `bootstrap`, mode 0755; `strip` leaves a debug build's symbols out. Kept under
/// `.local/packages/` by the binary's path, size and time of change, so that an unchanged function is packed once.
pub(crate) fn pack(name: &str, binary: &Path, strip: bool) -> Result<PathBuf> {
    let folder = workspace_root().join(".local/packages");
    fs::create_dir_all(&folder)?;
    let known = fs::metadata(binary).with_context(|| format!("cannot find {}", binary.display()))?;
    let stamp = format!("{} {} {:?}", binary.display(), known.len(), known.modified()?);
    let target = folder.join(format!("{name}-{}.zip", &hex::encode(Sha256::digest(stamp))[..16]));

    let lock = File::create(folder.join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the package")?;
    if let Ok(package) = File::open(&target) {
        package.set_modified(SystemTime::now())?;
        return Ok(target);
    }
    let unfinished = folder.join(format!("{name}.zip.unfinished"));
    let stripped = folder.join(format!("{name}.stripped"));
    let mut command = Command::new("strip");
    if strip && command.arg("-o").args([&stripped, binary]).output().is_ok_and(|output| output.status.success()) {
        write_zip(&stripped, &unfinished)?;
        fs::remove_file(&stripped)?;
    } else {
        // Built without symbols, or no binutils: then the package is larger, nothing else.
        write_zip(binary, &unfinished)?;
    }
    forget(&folder)?;
    fs::rename(&unfinished, &target)?;
    Ok(target)
}

fn write_zip(bootstrap: &Path, target: &Path) -> Result<()> {
    let options = SimpleFileOptions::default().unix_permissions(0o755).compression_level(Some(1));
    let mut zip = zip::ZipWriter::new(File::create(target)?);
    zip.start_file("bootstrap", options)?;
    io::copy(&mut File::open(bootstrap)?, &mut zip)?;
    zip.finish()?.flush()?;
    Ok(())
}

/// Removes the packages of earlier builds; younger ones another process may be about to deploy.
fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let package = entry.path().extension().is_some_and(|extension| extension == "zip");
        if package && entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age > KEPT) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_binary_in_cargos_messages() {
        let line =
            r#"{"reason":"compiler-artifact","target":{"name":"mark","kind":["bin"]},"executable":"/t/debug/mark"}"#;
        assert_eq!(executable(line), Some(("mark".to_owned(), PathBuf::from("/t/debug/mark"))));
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        let library = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}"#;
        assert_eq!(executable(library), None);
    }

    /// The package holds one executable file named `bootstrap`, at its root.
    #[test]
    fn c196_bootstrap_at_the_root_of_the_package() {
        let folder = Run::new().unwrap();
        let target = folder.logs().join("function.zip");
        write_zip(&std::env::current_exe().unwrap(), &target).unwrap();
        let mut zip = zip::ZipArchive::new(File::open(&target).unwrap()).unwrap();
        assert_eq!(zip.len(), 1);
        let entry = zip.by_index(0).unwrap();
        assert_eq!((entry.name(), entry.unix_mode().map(|mode| mode & 0o777)), ("bootstrap", Some(0o755)));
    }

    use crate::workspace::Run;
}
