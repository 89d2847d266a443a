//! The owner's manual, executed: what it shows is what happens, and what may be written stands in it.
//!
//! - A `toml` block that has a `source` is a whole file. Any other changes the last file that had its dataset.
//! - A `toml refused` block changes it too, and the `text` block after it is every word that is said against it.
//! - A `console` block is run where `datasets.toml` is the last valid block; what follows a command is what it prints.
//! - What a block of data becomes in the target is held by a system test, on the local cloud.
//! - A heading that names a table, such as `[orders.csv]`, is over the keys of that table: each row of its list begins with
//!   one.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod blocks;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::{env, fs};

use tidemark_domain::definition::{Definition, PartKind, parse};
use toml_edit::{DocumentMut, Item};

use blocks::{Files, blocks, manual};

/// A key that nobody will ever have: what is said against it names those there are.
const NO_KEY: &str = "zzzzzzzzzzzzzzzz";

/// A folder with a `datasets.toml` in it, and the operator's command there.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("datasets.toml"), file).unwrap();
        Self(folder)
    }

    /// Whether it went well, and what it printed.
    fn tidemark(&self, arguments: &[String]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
        let command = command.args(arguments).current_dir(self.0.path()).env_clear();
        let output = command.env("PATH", env::var("PATH").unwrap()).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(told).unwrap())
    }
}

/// A partition that the dataset can have.
fn partition(definition: &Definition) -> String {
    let value = |kind| match kind {
        PartKind::Date => "2026-11-01",
        PartKind::Integer => "1",
        PartKind::Text => "eu",
        PartKind::Timestamp => "2026-11-01T07:00:00",
    };
    let parts = definition.parts.iter().map(|part| format!("{}={}", part.name, value(part.kind)));
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn every_example_is_valid_and_has_its_sql() {
    let mut files = Files::default();
    let mut examples = 0;
    for block in blocks(&manual()).iter().filter(|block| block.info == "toml") {
        let file = files.with(block);
        let definitions =
            parse(&file.to_string()).unwrap_or_else(|problems| panic!("line {}: {problems:?}", block.line));
        let folder = Folder::with(&file.to_string());
        for definition in &definitions {
            let words = ["sql", "datasets.toml", definition.name.as_str(), &partition(definition)].map(str::to_owned);
            let (well, told) = folder.tidemark(&words);
            assert!(well, "line {}: tidemark sql: {told}", block.line);
            let target = format!("\"{}\".\"{}\"", definition.target.schema, definition.target.table);
            assert!(told.contains(&format!("INSERT INTO {target}")), "line {}: {told}", block.line);
            // What is stored is the same once more.
            assert_eq!(parse(&definition.to_text()).unwrap(), std::slice::from_ref(definition), "line {}", block.line);
        }
        files.keep(&file);
        examples += 1;
    }
    assert!(examples > 4, "only {examples} examples were found");
}

#[test]
fn what_is_shown_as_refused_is_refused_in_just_these_words() {
    let mut files = Files::default();
    let blocks = blocks(&manual());
    let mut refused = 0;
    for (place, block) in blocks.iter().enumerate() {
        match block.info.as_str() {
            "toml" => {
                let file = files.with(block);
                files.keep(&file);
            }
            "toml refused" => {
                let told = match parse(&files.with(block).to_string()) {
                    Ok(_) => panic!("line {}: it is valid", block.line),
                    Err(problems) => {
                        problems.into_iter().map(|problem| format!("{}; {}\n", problem.what, problem.remedy))
                    }
                };
                let shown = &blocks[place + 1];
                assert_eq!(shown.info, "text", "line {}: nothing tells what is said against it", block.line);
                assert_eq!(told.collect::<String>(), shown.text, "line {}", block.line);
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(refused > 0, "no example was found");
}

#[test]
fn what_is_shown_of_a_terminal_is_what_it_shows() {
    let mut files = Files::default();
    let mut last = String::new();
    let mut commands = 0;
    for block in blocks(&manual()) {
        if block.info == "toml" {
            let file = files.with(&block);
            files.keep(&file);
            last = file.to_string();
        } else if block.info == "console" {
            let folder = Folder::with(&last);
            for shown in block.text.split("$ tidemark ").skip(1) {
                let (command, output) = shown.split_once('\n').unwrap();
                let words: Vec<String> = command.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
                assert_eq!(folder.tidemark(&words).1, output, "line {}: {command}", block.line);
                commands += 1;
            }
        }
    }
    assert!(commands > 0, "no command was found");
}

#[test]
fn every_file_that_is_shown_is_named() {
    let shown: Vec<_> = blocks(&manual()).into_iter().filter(|block| block.info == "csv").collect();
    assert!(!shown.is_empty());
    for block in shown {
        assert!(block.before.contains("`s3://"), "line {}: which object is it?", block.line);
    }
}

/// By table, such as `orders.csv`: what its reader says that it may have.
fn keys_of_the_reader() -> BTreeMap<String, BTreeSet<String>> {
    let mut keys = BTreeMap::new();
    let mut open = vec!["orders".to_owned()];
    while let Some(table) = open.pop() {
        let told = parse(&format!("[{table}]\n{NO_KEY} = 1\n")).unwrap_err();
        let about = format!("`{table}` may have ");
        let may_have = told.iter().find_map(|problem| Some(problem.remedy.split_once(&about)?.1.to_owned()));
        let Some(may_have) = may_have else { continue };
        let names: BTreeSet<String> = may_have.split(", ").map(str::to_owned).collect();
        open.extend(names.iter().map(|name| format!("{table}.{name}")));
        if names.contains("partition") {
            open.push(format!("{table}.partition.dt"));
        }
        keys.insert(table, names);
    }
    // What has a table of its own is told there.
    let tables: BTreeSet<String> = keys.keys().flat_map(|table| table.split('.').map(str::to_owned)).collect();
    for names in keys.values_mut() {
        names.retain(|name| !tables.contains(name));
    }
    keys
}

/// By table: the keys of the manual's lists, each with its row.
fn keys_of_the_manual() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut keys: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut table = None;
    for line in manual().lines() {
        if line.starts_with('#') {
            let named = line.split('`').find(|word| word.starts_with("[orders") && word.ends_with(']'));
            table = named.map(|word| word.trim_matches(['[', ']']).to_owned());
        }
        let (Some(table), Some(row)) = (&table, line.strip_prefix("| `")) else { continue };
        let (first, _) = row.split_once(" |").unwrap();
        for key in first.split('`').step_by(2).filter(|key| !key.is_empty()) {
            keys.entry(table.clone()).or_default().insert(key.to_owned(), line.to_owned());
        }
    }
    keys
}

#[test]
fn every_key_is_in_the_manual_and_every_key_of_the_manual_is_one() {
    let manual = keys_of_the_manual().into_iter().map(|(table, keys)| (table, keys.into_keys().collect()));
    assert_eq!(manual.collect::<BTreeMap<String, BTreeSet<String>>>(), keys_of_the_reader());
}

#[test]
fn every_key_is_in_an_example() {
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for block in blocks(&manual()).iter().filter(|block| block.info == "toml") {
        let file: DocumentMut = block.text.parse().unwrap();
        for (_, dataset) in file.iter() {
            gather("orders", dataset, &mut shown);
        }
    }
    for (table, keys) in keys_of_the_reader() {
        let missing: Vec<&String> =
            keys.iter().filter(|key| !shown.get(&table).is_some_and(|s| s.contains(*key))).collect();
        assert!(missing.is_empty(), "no example of [{table}] has {missing:?}");
    }
}

/// The keys of a table and of those in it, under the name it has for `orders`.
fn gather(table: &str, item: &Item, shown: &mut BTreeMap<String, BTreeSet<String>>) {
    let Some(inner) = item.as_table_like() else { return };
    for (key, item) in inner.iter() {
        shown.entry(table.to_owned()).or_default().insert(key.to_owned());
        let name = if table == "orders.partition" { "dt" } else { key };
        gather(&format!("{table}.{name}"), item, shown);
    }
}

/// Where a key takes one of a few words, its row has each of them, and no example of another.
#[test]
fn every_word_that_a_key_takes_is_in_its_row() {
    let manual = keys_of_the_manual();
    for (table, keys) in keys_of_the_reader() {
        for key in keys {
            let told = parse(&format!("[{table}]\n{key} = \"{NO_KEY}\"\n")).unwrap_err();
            let about = format!("`{key}` is \"{NO_KEY}\"");
            let Some(problem) = told.iter().find(|problem| problem.what == about) else { continue };
            let Some(words) = problem.remedy.strip_prefix("write \"") else { continue };
            for word in words.trim_end_matches('"').split("\" or \"") {
                let row = &manual[&table][&key];
                assert!(row.contains(&format!("`{word}`")), "the row of `{key}` in [{table}] has no `{word}`: {row}");
            }
        }
    }
}
