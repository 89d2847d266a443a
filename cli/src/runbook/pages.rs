//! The pages and queries of docs/runbook, as they are there.

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its file's name, without the ending.
    pub(crate) name: &'static str,
    /// Markdown.
    pub(crate) text: &'static str,
}

/// A query with placeholders.
#[derive(Debug)]
pub(crate) struct Query {
    /// Its file's name, without the ending.
    pub(crate) name: &'static str,
    /// SQL.
    pub(crate) text: &'static str,
}

macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        &[$(Page { name: $name, text: include_str!(concat!("../../../docs/runbook/", $name, ".md")) }),+]
    };
}

macro_rules! queries {
    ($($name:literal),+ $(,)?) => {
        &[$(Query { name: $name, text: include_str!(concat!("../../../docs/runbook/queries/", $name, ".sql")) }),+]
    };
}

/// All pages: the four failure states, then the alarms.
pub(crate) const PAGES: &[Page] = pages![
    "before-staging",
    "during-staging",
    "before-commit",
    "after-commit",
    "parked",
    "halted",
    "oldest-dirty",
    "load-window",
    "lock-contention",
    "no-events",
    "events-wait",
    "events-dead-letters",
    "partitions-wait",
    "partitions-dead-letters",
    "function-errors",
    "function-throttles",
    "sweep-missing",
    "sweep-tasks-failing",
];

/// The six queries.
pub(crate) const QUERIES: &[Query] =
    queries!["batch-state", "staged-count", "target-count", "duplicate-keys", "source-objects", "late-files"];

impl Page {
    /// Its heading.
    pub(crate) fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// The queries it names.
    pub(crate) fn queries(&self) -> Vec<&'static Query> {
        QUERIES.iter().filter(|query| self.text.contains(&format!("queries/{}.sql", query.name))).collect()
    }
}

impl Query {
    /// Its first line, without the marks of a comment.
    pub(crate) fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("-- ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use clap::{CommandFactory as _, Parser as _};
    use tidemark_domain::sql::runbook::PLACEHOLDERS;

    use super::*;
    use crate::arguments::Arguments;

    const RUNBOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/runbook");

    fn files(folder: &str, ending: &str) -> BTreeSet<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned())).collect()
    }

    #[test]
    fn every_page_and_every_query_is_built_in() {
        let pages: BTreeSet<String> = PAGES.iter().map(|page| page.name.to_owned()).collect();
        assert_eq!(pages, files(RUNBOOK, ".md"));
        let queries: BTreeSet<String> = QUERIES.iter().map(|query| query.name.to_owned()).collect();
        assert_eq!(queries, files(&format!("{RUNBOOK}/queries"), ".sql"));
    }

    #[test]
    fn every_page_says_the_same_six_things() {
        for page in PAGES {
            let headings: Vec<&str> = page.text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(headings, ["Meaning", "By itself", "Check", "Act", "Never", "Verify"], "{}", page.name);
            assert!(page.text.starts_with("# "), "{}", page.name);
        }
    }

    #[test]
    fn what_a_page_links_to_is_there_and_every_query_is_on_a_page() {
        for page in PAGES {
            for link in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = format!("{RUNBOOK}/{}", link.split('#').next().unwrap());
                assert!(link.starts_with("http") || fs::exists(&file).unwrap(), "{} links to {link}", page.name);
            }
        }
        for query in QUERIES {
            assert!(PAGES.iter().any(|page| page.queries().iter().any(|on| on.name == query.name)), "{}", query.name);
        }
    }

    /// The words of a command, as a shell splits them.
    fn words(command: &str) -> Vec<String> {
        let parts = command.split('"').enumerate();
        parts
            .flat_map(|(n, part)| match n % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    /// Each command of ours on a page is one that the command line takes; a name alone is a command's name.
    #[test]
    fn every_command_on_a_page_is_one() {
        let mut commands = 0;
        for page in PAGES {
            let quoted = page.text.split('`').skip(1).step_by(2).filter(|text| !text.contains('\n'));
            let typed = page.text.lines().filter_map(|line| line.strip_prefix("$ "));
            for command in quoted.chain(typed).filter(|text| text.starts_with("tidemark ")) {
                let filled = [("<dataset>", "orders"), ("<partition>", "dt=2026-11-01"), ("<kind>", "row_drop")];
                let filled = filled.iter().fold(command.to_owned(), |text, (of, with)| text.replace(of, with));
                let words = words(&filled);
                if words.len() == 2 {
                    assert!(Arguments::command().find_subcommand(&words[1]).is_some(), "{}: {command}", page.name);
                } else if let Err(error) = Arguments::try_parse_from(&words) {
                    panic!("{}: {command}: {error}", page.name);
                }
                commands += 1;
            }
        }
        assert!(commands > 30, "{commands}");
    }

    #[test]
    fn every_placeholder_of_a_query_is_told_in_its_comment() {
        for query in QUERIES {
            let (comment, sql): (Vec<&str>, Vec<&str>) = query.text.lines().partition(|line| line.starts_with("--"));
            let (comment, sql) = (comment.join("\n"), sql.join("\n"));
            for name in sql.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                assert!(PLACEHOLDERS.iter().any(|(known, _)| *known == name), "{}: {{{name}}}", query.name);
                let told = comment.contains(&format!("{{{name}}}")) || comment.contains("the others are names");
                assert!(told, "{}: {{{name}}}", query.name);
            }
        }
    }
}
