//! The commands that need nobody: `validate`, `explain`, `sql`, as a shell sees them.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fmt::Write as _;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use expect_test::expect;

const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
key = ["order_id"]
required = ["order_id"]

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
"#;

/// A folder of one test, with a `datasets.toml` in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(datasets: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("datasets.toml"), datasets).unwrap();
        Self(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
        command.args(arguments).current_dir(self.0.path()).env_clear().env("PATH", env::var("PATH").unwrap());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Exit code, standard output and standard error, as one text.
    fn told(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let mut text = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("out", output.stdout), ("err", output.stderr)] {
            for line in String::from_utf8(bytes).unwrap().lines() {
                writeln!(text, "{name}: {line}").unwrap();
            }
        }
        text
    }
}

#[test]
fn a_valid_file_is_called_valid() {
    let folder = Folder::with(ORDERS);
    expect![[r#"
        exit 0
        out: valid: 1 dataset in datasets.toml
    "#]]
    .assert_eq(&folder.told(&["validate", "datasets.toml"]));
    expect![[r#"
        exit 0
        out: {
        out:   "file": "datasets.toml",
        out:   "valid": true,
        out:   "problems": []
        out: }
    "#]]
    .assert_eq(&folder.told(&["validate", "--json", "datasets.toml"]));
}

#[test]
fn ten_errors_are_told_at_once() {
    let folder = Folder::with(
        r#"
[orders]
source = "s3://lake-raw/orders"
layout = "dt={dt}"
format = "xlsx"
target = "orders"
columns = ["order_id bigint", "order_id varchar(70000)", "amount"]
key = ["id"]
lokback = "3d"
interval = "soon"
load_window = 30

[orders.partition.day]
type = "day"

[orders.tolerance]
row_drop = "110%"
empty_source = "maybe"

[Returns]
"#,
    );
    expect![[r#"
        exit 1
        out: datasets.toml:3:10: `source` "s3://lake-raw/orders" doesn't end in `/`; write `s3://lake-raw/orders/`: without it, `s3://lake-raw/orders-old/` would belong to it too
        out: datasets.toml:4:10: the layout doesn't end in `/`; write `dt={dt}/`
        out: datasets.toml:5:10: `format` is "xlsx"; write "parquet" or "orc" or "csv" or "json" or "avro"
        out: datasets.toml:6:10: target "orders" is no table; write `schema.table`
        out: datasets.toml:7:31: type "varchar(70000)" is out of range; write a length of 1 to 65535 bytes
        out: datasets.toml:7:58: column "amount" has no type; write a name and a type, such as `id bigint`
        out: datasets.toml:9:1: `lokback` is unknown; did you mean `lookback`?
        out: datasets.toml:10:12: `interval` is "soon"; write a whole number and one of s, m, h, d, from 0s to 1d
        out: datasets.toml:11:15: `load_window` is 30; write text in quotes
        out: datasets.toml:14:8: `type` is "day"; write "date" or "integer" or "text" or "timestamp"
        out: datasets.toml:17:12: `row_drop` is "110%"; write a share such as "10%" (0 to 100, at most four digits after the point), "refuse" or "accept"
        out: datasets.toml:18:16: `empty_source` is "maybe"; write "refuse" or "delete"
        out: datasets.toml:20:1: `Returns` has no `columns`; add `columns = …`
        out: datasets.toml:20:1: `Returns` has no `format`; add `format = …`
        out: datasets.toml:20:1: `Returns` has no `layout`; add `layout = …`
        out: datasets.toml:20:1: `Returns` has no `source`; add `source = …`
        out: datasets.toml:20:1: `Returns` has no `target`; add `target = …`
        out: datasets.toml:20:1: dataset name "Returns" must be 1 to 63 characters of a-z, 0-9 and _, and begin with a letter; rename it
        err: error: 18 problems in datasets.toml
    "#]].assert_eq(&folder.told(&["validate", "datasets.toml"]));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::with(ORDERS);
    expect![[r#"
        exit 1
        err: error: can't read nowhere.toml: No such file or directory (os error 2)
    "#]]
    .assert_eq(&folder.told(&["validate", "nowhere.toml"]));
    fs::write(folder.0.path().join("latin1.toml"), b"# caf\xe9\n").unwrap();
    expect![[r#"
        exit 1
        err: error: latin1.toml is not UTF-8; save it as UTF-8
    "#]]
    .assert_eq(&folder.told(&["validate", "latin1.toml"]));
    fs::write(folder.0.path().join("no.toml"), "[orders\n").unwrap();
    expect![[r#"
        exit 1
        out: no.toml:1:8: unclosed table, expected `]`; write valid TOML
        err: error: 1 problem in no.toml
    "#]]
    .assert_eq(&folder.told(&["validate", "no.toml"]));
}

#[test]
fn an_object_is_explained_plain_and_as_events_write_it() {
    let folder = Folder::with(ORDERS);
    let explained = |object: &str| folder.told(&["explain", "datasets.toml", object]);
    expect![[r#"
        exit 0
        out: s3://lake-raw/orders/dt=2026-11-01/p.parquet
        out:   dataset    orders (s3://lake-raw/orders/, layout dt={dt}/)
        out:   partition  dt=2026-11-01
    "#]]
    .assert_eq(&explained("s3://lake-raw/orders/dt=2026-11-01/p.parquet"));
    expect![[r#"
        exit 0
        out: s3://lake-raw/orders/dt%3D2026-11-01/late+file.parquet
        out:   dataset    orders (s3://lake-raw/orders/, layout dt={dt}/)
        out:   partition  none: has "dt%3D2026-11-01" where the layout has `dt={dt}/` [unexpected_segment]
        out: as the encoded key of an event it is s3://lake-raw/orders/dt=2026-11-01/late file.parquet
        out:   dataset    orders (s3://lake-raw/orders/, layout dt={dt}/)
        out:   partition  dt=2026-11-01
    "#]]
    .assert_eq(&explained("s3://lake-raw/orders/dt%3D2026-11-01/late+file.parquet"));
    expect![[r#"
        exit 1
        out: s3://lake-raw/orders/dt=2026-02-30/p.parquet
        out:   dataset    orders (s3://lake-raw/orders/, layout dt={dt}/)
        out:   partition  none: value "2026-02-30" of dt is no date of the form YYYY-MM-DD [impossible_date]
    "#]]
    .assert_eq(&explained("s3://lake-raw/orders/dt=2026-02-30/p.parquet"));
    expect![[r#"
        exit 1
        out: s3://lake-raw/order/dt=2026-11-01/p.parquet
        out:   dataset    none: it lies below no source; in this bucket are
        out:                s3://lake-raw/orders/ of orders
    "#]]
    .assert_eq(&explained("s3://lake-raw/order/dt=2026-11-01/p.parquet"));
    expect![[r#"
        exit 2
        err: error: "orders/p.parquet" is no object; write s3://bucket/key
    "#]]
    .assert_eq(&explained("orders/p.parquet"));
    expect![[r#"
        exit 1
        out: {
        out:   "bucket": "lake-raw",
        out:   "plain": {
        out:     "key": "orders/dt=2026-11-01/_SUCCESS",
        out:     "dataset": "orders",
        out:     "partition": null,
        out:     "reason": "hidden",
        out:     "why": "is hidden: below the root, what begins with `_` or `.`, ends in `_$folder$` or ends in `/` is never data"
        out:   },
        out:   "as_event": null
        out: }
    "#]].assert_eq(&folder.told(&[
        "explain",
        "--json",
        "datasets.toml",
        "s3://lake-raw/orders/dt=2026-11-01/_SUCCESS",
    ]));
}

#[test]
fn the_sql_of_a_rebuild_is_printed() {
    let folder = Folder::with(ORDERS);
    let printed = folder.told(&["sql", "datasets.toml", "orders", "dt=2026-11-01"]);
    // The statements themselves are golden where they are made.
    let headings: Vec<&str> = printed.lines().filter(|line| line.starts_with("out: -- ")).collect();
    expect![[r#"
        out: -- dt=2026-11-01 of orders, definition f77ec0867126e016e68b29325a190e6e92728955e4ec8ac9c0a3b4b1d58e6e02
        out: -- What a batch is born with or finds out stands here as an example: its id 00000000-0000-7000-8000-000000000000, fence,
        out: -- generation and epoch 1, digest 0…0, the manifest's key, the role, the numbers of objects, bytes and rows.
        out: -- Each transaction is one call of the Data API, submitted whole under a client token.
        out: -- fencing: only after a batch whose swap may still land: shuts it out (one transaction, 4 statements)
        out: -- fencing: then looks which batch landed last (one transaction, 3 statements)
        out: -- staging: fills the staging table and counts (one transaction, 6 statements)
        out: -- staging: only where it was filled before: counts it again (one transaction, 3 statements)
        out: -- staging: only then: which files were loaded (one transaction, 3 statements)
        out: -- staging: only if COPY refused rows: which (one transaction, 3 statements)
        out: -- swapping: replaces the partition's rows (one transaction, 13 statements)
        out: -- swapping: only if that didn't end well: whether it landed (one transaction, 3 statements)
        out: -- swapping: only if it waited in vain: for whom (one transaction, 3 statements)
        out: -- swapping: at last (one transaction, 3 statements)"#]].assert_eq(&headings.join("\n"));
    let delete = "out: DELETE FROM \"sales\".\"orders\" WHERE \"dt\" = DATE '2026-11-01';";
    assert!(printed.lines().any(|line| line == delete), "{printed}");
    assert_eq!(folder.told(&["sql", "datasets.toml", "dt=2026-11-01"]), printed, "the only dataset needn't be named");
    let document = folder.run(&["sql", "datasets.toml", "dt=2026-11-01", "--json"]).stdout;
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let transactions = document["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), headings.len() - 4);
    let statements = transactions.iter().flat_map(|transaction| transaction["statements"].as_array().unwrap());
    let told = format!("{};", statements.map(|sql| sql.as_str().unwrap()).collect::<Vec<_>>().join(";\n"));
    let lines: Vec<String> = told.lines().map(|line| format!("out: {line}")).collect();
    let printed = printed.lines().skip(1).filter(|line| !line.starts_with("out: -- ") && *line != "out: ");
    assert_eq!(printed.collect::<Vec<_>>(), lines, "the same statements");
}

#[test]
fn what_there_is_no_sql_for_is_told() {
    let folder = Folder::with(ORDERS);
    expect![[r#"
        exit 1
        err: error: no dataset "order" in the file; it has orders
    "#]]
    .assert_eq(&folder.told(&["sql", "datasets.toml", "order", "dt=2026-11-01"]));
    expect![[r#"
        exit 1
        err: error: "day=2026-11-01" is no partition's name here; write `dt=<date>`
    "#]]
    .assert_eq(&folder.told(&["sql", "datasets.toml", "day=2026-11-01"]));
    expect![[r#"
        exit 1
        err: error: value "yesterday" of dt is no date of the form YYYY-MM-DD
    "#]]
    .assert_eq(&folder.told(&["sql", "datasets.toml", "dt=yesterday"]));
    let two = Folder::with(&format!("{ORDERS}{}", ORDERS.replace("orders", "returns")));
    expect![[r#"
        exit 2
        err: error: which dataset's "dt=2026-11-01" is not said; write one of orders, returns before it
    "#]]
    .assert_eq(&two.told(&["sql", "datasets.toml", "dt=2026-11-01"]));
}

#[test]
fn the_command_line_is_held_to_its_form() {
    let folder = Folder::with(ORDERS);
    for arguments in [&["apply"][..], &["frobnicate"], &["replay", "orders", "dt=1", "--digest", "d"]] {
        assert_eq!(folder.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let help = String::from_utf8(folder.run(&["--help"]).stdout).unwrap();
    assert!(help.contains("Exit codes:") && help.contains("TIDEMARK_STACK"), "{help}");
}

#[test]
fn colours_are_for_terminals_only() {
    let folder = Folder::with(ORDERS);
    assert!(!folder.run(&["validate", "datasets.toml"]).stdout.contains(&b'\x1b'));
    let forced = folder.command(&["validate", "datasets.toml"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&b'\x1b'));
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let folder = Folder::with(ORDERS);
    let mut command = folder.command(&["sql", "datasets.toml", "dt=2026-11-01"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn an_environment_file_is_put_into_the_environment() {
    let folder = Folder::with(ORDERS);
    fs::write(folder.0.path().join("local.env"), "export CLICOLOR_FORCE=1\n").unwrap();
    assert!(folder.run(&["--env-file", "local.env", "validate", "datasets.toml"]).stdout.contains(&b'\x1b'));
    expect![[r#"
        exit 2
        err: error: datasets.toml:2: not NAME=VALUE; write one a line
    "#]]
    .assert_eq(&folder.told(&["validate", "datasets.toml", "--env-file", "datasets.toml"]));
    expect![[r#"
        exit 2
        err: error: can't read the environment file gone.env: No such file or directory (os error 2)
    "#]]
    .assert_eq(&folder.told(&["validate", "datasets.toml", "--env-file", "gone.env"]));
}

#[test]
fn the_runbook_is_built_in() {
    let folder = Folder::with(ORDERS);
    let list = folder.told(&["runbook"]);
    assert!(list.contains("out: after-commit             A worker died after the commit"), "{list}");
    assert!(list.contains("out: late-files"), "{list}");
    let page = folder.told(&["runbook", "before-commit"]);
    assert!(page.starts_with("exit 0\nout: # A worker died before the commit\n"), "{page}");
    assert!(folder.told(&["runbook", "--query", "late-files"]).contains("{day_over}"), "as it stands in docs/runbook");
    expect![[r#"
        exit 2
        err: error: the runbook has no page "nowhere"; `tidemark runbook` lists them
    "#]]
    .assert_eq(&folder.told(&["runbook", "nowhere"]));
    let json: serde_json::Value = serde_json::from_slice(&folder.run(&["runbook", "parked", "--json"]).stdout).unwrap();
    assert_eq!((&json["page"], &json["queries"]), (&"parked".into(), &serde_json::Value::Null));
}

/// Each shell reads its script, where it is there to ask, and knows every command.
#[test]
fn completions_are_read_by_their_shell_and_know_every_command() {
    let folder = Folder::with(ORDERS);
    let help = String::from_utf8(folder.run(&["--help"]).stdout).unwrap();
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let commands: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = folder.run(&["completions", shell]);
        assert!(script.status.success(), "{shell}: {script:?}");
        let text = String::from_utf8(script.stdout).unwrap();
        for command in &commands {
            assert!(text.contains(command), "{shell} doesn't complete {command}");
        }
        let file = folder.0.path().join(shell);
        fs::write(&file, &text).unwrap();
        match Command::new(shell).arg(check).arg(&file).output() {
            Ok(read) => assert!(read.status.success(), "{shell}: {read:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{shell}: {error}"),
        }
    }
    // What bash offers after `tidemark sta`.
    let ask =
        "source ./bash; COMP_WORDS=(tidemark sta); COMP_CWORD=1; _tidemark tidemark sta tidemark; echo ${COMPREPLY[@]}";
    let offered = Command::new("bash").args(["-c", ask]).current_dir(folder.0.path()).output().unwrap();
    assert_eq!(String::from_utf8(offered.stdout).unwrap(), "status\n");
}
