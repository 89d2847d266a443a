//! Holds the dependency arrows: domain ← engine ← aws ← functions, cli. Only `aws` knows the SDK.
//!
//! What counts is what is compiled into what is shipped to Lambda: normal dependencies, also indirect ones.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, NodeDep, PackageId};

const DOMAIN: &str = "tidemark-domain";
const ENGINE: &str = "tidemark-engine";
const AWS: &str = "tidemark-aws";
const SHIPPED: [&str; 4] = ["tidemark-mark", "tidemark-rebuild", "tidemark-sweep", "tidemark-cli"];
const LOCAL: [&str; 4] = ["tidemark-local", "tidemark-redshift-data", "tidemark-kit", "tidemark-demo"];

/// What each package of the workspace needs at run time.
struct Arrows {
    direct: BTreeMap<String, BTreeSet<String>>,
    all: BTreeMap<String, BTreeSet<String>>,
}

impl Arrows {
    fn read() -> Result<Self> {
        let platform = ["--filter-platform".to_owned(), "aarch64-unknown-linux-gnu".to_owned()];
        let metadata = MetadataCommand::new().other_options(platform).exec()?;
        let graph = graph(&metadata)?;
        let names: BTreeMap<&PackageId, String> =
            metadata.packages.iter().map(|package| (&package.id, package.name.to_string())).collect();
        let named = |ids: Vec<&PackageId>| -> BTreeSet<String> { ids.iter().map(|id| names[id].clone()).collect() };
        let members = || metadata.workspace_members.iter();
        Ok(Self {
            direct: members().map(|id| (names[id].clone(), named(graph[id].clone()))).collect(),
            all: members().map(|id| (names[id].clone(), named(reach(&graph, id)))).collect(),
        })
    }

    /// The workspace's own crates that `package` names in its manifest.
    fn ours(&self, package: &str) -> BTreeSet<&str> {
        self.direct[package].iter().map(String::as_str).filter(|name| self.direct.contains_key(*name)).collect()
    }
}

fn graph(metadata: &Metadata) -> Result<BTreeMap<&PackageId, Vec<&PackageId>>> {
    let nodes = &metadata.resolve.as_ref().context("cargo metadata resolved nothing")?.nodes;
    let needed = |dep: &&NodeDep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
    Ok(nodes.iter().map(|node| (&node.id, node.deps.iter().filter(needed).map(|dep| &dep.pkg).collect())).collect())
}

fn reach<'a>(graph: &BTreeMap<&'a PackageId, Vec<&'a PackageId>>, from: &PackageId) -> Vec<&'a PackageId> {
    let mut seen = BTreeSet::new();
    let mut left = graph[from].clone();
    while let Some(id) = left.pop() {
        if seen.insert(id) {
            left.extend(graph[id].iter().copied());
        }
    }
    seen.into_iter().collect()
}

fn is_sdk(name: &str) -> bool {
    name.starts_with("aws-") || name.starts_with("aws_") || name.starts_with("lambda_")
}

#[test]
fn domain_decides_alone() -> Result<()> {
    let arrows = Arrows::read()?;
    assert_eq!(arrows.ours(DOMAIN), BTreeSet::new(), "domain knows no crate of ours");
    let not_pure = ["tokio", "async-trait", "futures", "futures-util", "hyper", "mio", "tracing"];
    let found: Vec<_> =
        arrows.all[DOMAIN].iter().filter(|name| is_sdk(name) || not_pure.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "domain is pure: no async, no SDK, no I/O; but it needs {found:?}");
    Ok(())
}

#[test]
fn engine_knows_the_domain_and_no_sdk() -> Result<()> {
    let arrows = Arrows::read()?;
    assert_eq!(arrows.ours(ENGINE), BTreeSet::from([DOMAIN]));
    let found: Vec<_> = arrows.all[ENGINE].iter().filter(|name| is_sdk(name)).collect();
    assert!(found.is_empty(), "engine owns the ports and aws adapts them; but engine needs {found:?}");
    Ok(())
}

#[test]
fn aws_adapts_the_engines_ports() -> Result<()> {
    assert_eq!(Arrows::read()?.ours(AWS), BTreeSet::from([DOMAIN, ENGINE]));
    Ok(())
}

#[test]
fn functions_and_cli_only_wire() -> Result<()> {
    let arrows = Arrows::read()?;
    for package in SHIPPED {
        let mut beyond = arrows.ours(package);
        beyond.retain(|name| ![DOMAIN, ENGINE, AWS].contains(name));
        assert!(beyond.is_empty(), "{package} may need only domain, engine and aws of ours, but names {beyond:?}");
        let sdk: Vec<_> = arrows.direct[package].iter().filter(|name| name.starts_with("aws-sdk-")).collect();
        assert!(sdk.is_empty(), "only {AWS} knows the SDK, but {package} names {sdk:?}");
    }
    Ok(())
}

#[test]
fn nothing_shipped_needs_what_is_local() -> Result<()> {
    let arrows = Arrows::read()?;
    for package in SHIPPED.into_iter().chain([DOMAIN, ENGINE, AWS]) {
        let local: Vec<_> = LOCAL.into_iter().filter(|local| arrows.all[package].contains(*local)).collect();
        assert!(local.is_empty(), "{package} needs {local:?}, which is never shipped");
    }
    Ok(())
}
