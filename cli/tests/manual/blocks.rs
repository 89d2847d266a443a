//! The fenced blocks of the owner's manual, and the files that its examples make.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike};

/// The page.
pub(crate) fn manual() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|folder| folder.join("docs/datasets.md").exists()).unwrap();
    fs::read_to_string(root.join("docs/datasets.md")).unwrap()
}

/// A fenced block, and the line it begins in.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) info: String,
    pub(crate) text: String,
    /// The line of prose before it.
    pub(crate) before: String,
}

/// All of them, in order.
pub(crate) fn blocks(manual: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = String::new();
    for (index, line) in manual.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    line: index + 1,
                    info: info.to_owned(),
                    text: String::new(),
                    before: std::mem::take(&mut before),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) if line.is_empty() => {}
            (None, None) => line.clone_into(&mut before),
        }
    }
    assert!(open.is_none(), "a block isn't closed");
    blocks
}

/// The files of the manual, as they grow: by dataset the last that had it.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<String, DocumentMut>);

impl Files {
    /// The whole file that a block is, or makes of the one before.
    pub(crate) fn with(&self, block: &Block) -> DocumentMut {
        let change: DocumentMut = block.text.parse().unwrap_or_else(|error| panic!("line {}: {error}", block.line));
        let is_whole = change.iter().any(|(_, table)| table.get("source").is_some());
        if is_whole {
            return change;
        }
        let (dataset, _) = change.iter().next().unwrap_or_else(|| panic!("line {}: nothing is in it", block.line));
        let base = self.0.get(dataset).unwrap_or_else(|| panic!("line {}: no file before has [{dataset}]", block.line));
        let mut whole = base.clone();
        merge(whole.as_table_mut(), change.as_table());
        // Read again: only a text has places.
        whole.to_string().parse().unwrap()
    }

    pub(crate) fn keep(&mut self, file: &DocumentMut) {
        self.0.extend(file.iter().map(|(dataset, _)| (dataset.to_owned(), file.clone())));
    }
}

fn merge(into: &mut Table, change: &dyn TableLike) {
    for (key, item) in change.iter() {
        match (into.get_mut(key).and_then(Item::as_table_mut), item.as_table()) {
            (Some(inner), Some(change)) => merge(inner, change),
            _ => drop(into.insert(key, item.clone())),
        }
    }
}
