//! `docs/guarantees.md` keeps its word: each test it names is a test of the suite it names, each file it names is there, and
//! each invariant has a promise.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::{Path, PathBuf};

use tidemark_domain::invariants::Broken;

/// What "held by" may name, and where its tests are. `None`: a command, which names no test.
const SUITES: &[(&str, Option<&str>)] = &[
    ("model", None),
    ("sim", None),
    ("crash", None),
    ("golden", None),
    ("stories", Some("shared/engine/tests/stories")),
    ("redshift", Some("tests/system/tests/redshift_sql.rs")),
    ("system", Some("tests/system/tests/stories")),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap()
}

/// Id and "held by" of each row under "What is promised".
fn promises(document: &str) -> Vec<(String, String)> {
    let (_, section) = document.split_once("## What is promised\n").unwrap();
    let table = section.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "a promise has an id, its words and what holds it: {row}");
        (cells[0].to_owned(), cells[2].to_owned())
    })
    .collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The Rust source at `place`, a file or a folder.
fn source(place: &Path) -> String {
    if place.is_file() {
        return std::fs::read_to_string(place).unwrap();
    }
    let entries = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let rust = entries.filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| source(&path)).collect()
}

/// Whether `source` has a function `name` that is marked as a test.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let at = lines.iter().position(|line| line.strip_prefix("async ").unwrap_or(line).starts_with(&head));
    at.is_some_and(|at| {
        let mut attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

#[test]
fn each_test_named_is_a_test_of_its_suite() {
    let mut named = 0;
    for (id, held_by) in promises(&document()) {
        for part in held_by.split("; ") {
            let word = part.split([' ', ',']).next().unwrap();
            let suite = SUITES.iter().find(|(name, _)| *name == word);
            let (_, place) = suite.unwrap_or_else(|| panic!("{id}: `{part}` begins with no suite"));
            let Some(place) = place else { continue };
            let source = source(&root().join(place));
            assert!(quoted(part).next().is_some(), "{id}: `{part}` names no test");
            for test in quoted(part) {
                assert!(is_test(&source, test), "{id}: {place} has no test `{test}`");
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named} tests named");
}

#[test]
fn each_story_told_for_every_step_is_there() {
    let document = document();
    let (_, section) = document.split_once("## Every step\n").unwrap();
    let table = section.split("\n## ").next().unwrap();
    let stories = source(&root().join("shared/engine/tests/stories"));
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        assert!(quoted(row).next().is_some(), "it names no story: {row}");
        quoted(row).for_each(|story| assert!(is_test(&stories, story), "there is no story `{story}`"));
    }
}

#[test]
fn each_file_named_is_there() {
    let document = document();
    let files: Vec<_> = quoted(&document).filter(|text| text.contains('/') && !text.contains(' ')).collect();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        assert!(root().join(file).exists(), "{file} is not there");
    }
}

#[test]
fn each_invariant_has_a_promise() {
    use Broken::{I1, I2, I3, I4, I5, I6, I7, I8, I9, I11};
    let promises = promises(&document());
    for broken in [I1, I2, I3, I4, I5, I6, I7, I8, I9, I11] {
        assert!(promises.iter().any(|(id, _)| id == broken.id()), "{} has no promise", broken.id());
    }
}

#[test]
fn a_function_that_is_no_test_does_not_count() {
    let source = "#[test]\nfn one() {}\n\nfn two() {}\n\n// fn three() {}\n#[tokio::test]\nasync fn four() {}\n";
    let tests = ["one", "two", "three", "four", "five"].map(|name| is_test(source, name));
    assert_eq!(tests, [true, false, false, true, false]);
}
