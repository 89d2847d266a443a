//! The code a stack is made of: the template, and a package for each of its functions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::packages;
use crate::workspace::workspace_root;

/// Logical names of the functions in the template, and the binaries that are their code.
pub(crate) const FUNCTIONS: [(&str, &str); 3] =
    [("MarkFunction", "mark"), ("RebuildFunction", "rebuild"), ("SweepFunction", "sweep")];

/// What CloudFormation is given.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) template: PathBuf,
    /// The zip of each function, by its logical name.
    pub(crate) packages: BTreeMap<&'static str, PathBuf>,
}

impl Code {
    /// `infra/template.yaml`, with binaries that cargo built.
    pub(crate) fn of_binaries(binaries: &BTreeMap<String, PathBuf>) -> Result<Self> {
        let mut packages = BTreeMap::new();
        for (function, name) in FUNCTIONS {
            let binary = binaries.get(name).with_context(|| format!("cargo built no binary {name}"))?;
            packages.insert(function, packages::pack(name, binary, true)?);
        }
        Ok(Self { template: workspace_root().join("infra/template.yaml"), packages })
    }

    /// What `sam build` left in `folder` (`.aws-sam/build`): its template, and a folder a function with its `bootstrap`,
    /// which is packed as it is, as `sam package` does.
    pub(crate) fn of_artifacts(folder: &Path) -> Result<Self> {
        let template = folder.join("template.yaml");
        ensure!(template.is_file(), "{} holds no template.yaml; run `sam build` first", folder.display());
        let mut packages = BTreeMap::new();
        for (function, name) in FUNCTIONS {
            let binary = folder.join(function).join("bootstrap");
            check_machine(&binary)?;
            packages.insert(function, packages::pack(&format!("built-{name}"), &binary, false)?);
        }
        Ok(Self { template, packages })
    }
}

/// The emulator runs functions on this machine, whatever they were built for.
fn check_machine(binary: &Path) -> Result<()> {
    let mut header = [0; 20];
    let mut file = File::open(binary).with_context(|| format!("cannot open {}", binary.display()))?;
    file.read_exact(&mut header).with_context(|| format!("cannot read {}", binary.display()))?;
    ensure!(header.starts_with(b"\x7fELF"), "{} is no program for Linux", binary.display());
    let built_for = match (header[18], header[19]) {
        (0x3e, 0) => "x86_64",
        (0xb7, 0) => "arm64",
        _ => "another machine",
    };
    let here = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    if built_for != here {
        bail!(
            "{} is built for {built_for}, this machine is {here}; run `sam build --parameter-overrides Architecture={here}`",
            binary.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Run;

    /// A folder as `sam build` leaves it, with programs whose header tells of `machine`.
    fn built(machine: u8) -> (Run, PathBuf) {
        let run = Run::new().unwrap();
        let folder = run.logs().join("build");
        for (function, _) in FUNCTIONS {
            fs::create_dir_all(folder.join(function)).unwrap();
            let mut program = b"\x7fELF".to_vec();
            program.resize(64, 0);
            program[18] = machine;
            fs::write(folder.join(function).join("bootstrap"), program).unwrap();
        }
        (run, folder)
    }

    #[test]
    fn artifacts_are_the_built_template_and_the_built_programs() {
        let (_run, folder) = built(if cfg!(target_arch = "aarch64") { 0xb7 } else { 0x3e });
        let missing = Code::of_artifacts(&folder).unwrap_err().to_string();
        assert!(missing.ends_with("holds no template.yaml; run `sam build` first"), "{missing}");
        fs::write(folder.join("template.yaml"), "Resources: {}").unwrap();
        let code = Code::of_artifacts(&folder).unwrap();
        assert_eq!(code.template, folder.join("template.yaml"));
        for (function, _) in FUNCTIONS {
            let mut zip = zip::ZipArchive::new(File::open(&code.packages[function]).unwrap()).unwrap();
            let mut packed = Vec::new();
            zip.by_name("bootstrap").unwrap().read_to_end(&mut packed).unwrap();
            assert_eq!(packed, fs::read(folder.join(function).join("bootstrap")).unwrap(), "not a byte is changed");
        }
    }

    #[test]
    fn c197_programs_of_another_machine_are_refused_with_the_remedy() {
        let (other, name) = if cfg!(target_arch = "aarch64") { (0x3e, "x86_64") } else { (0xb7, "arm64") };
        let (_run, folder) = built(other);
        fs::write(folder.join("template.yaml"), "Resources: {}").unwrap();
        let refused = Code::of_artifacts(&folder).unwrap_err().to_string();
        assert!(refused.contains(&format!("is built for {name}")), "{refused}");
        assert!(refused.contains("sam build --parameter-overrides Architecture="), "{refused}");
    }
}
