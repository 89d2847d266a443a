//! `datasets.toml` as a whole: the happy path, every problem at once, what a format takes, one text and hash.

use proptest::prelude::*;

use super::*;
use crate::id::PartitionName;

const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "customer varchar(64)", "amount decimal(12,2)", "ordered_at timestamp"]
key = ["order_id"]
required = ["order_id", "amount"]

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
"#;

fn one(text: &str) -> Definition {
    match parse(text) {
        Ok(definitions) => definitions.into_iter().next().unwrap(),
        Err(problems) => panic!("{problems:#?}"),
    }
}

/// The problems of `text`, a line each.
fn problems(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn the_least_definition_has_the_documented_defaults() {
    let orders = one(ORDERS);
    assert_eq!(orders.name.as_str(), "orders");
    assert_eq!(orders.target.to_string(), "sales.orders");
    assert_eq!(orders.columns[2].sql_type, SqlType::Decimal { precision: 12, scale: 2 });
    assert_eq!(orders.concurrency, Concurrency::Table);
    assert_eq!(orders.lookback, Some(Duration::from_hours(72)));
    assert_eq!(orders.interval, Interval::Auto);
    assert_eq!(orders.load_window, Duration::from_mins(30));
    assert_eq!(orders.tolerance, Tolerance::default());
    assert_eq!(orders.copy, CopyOptions::default());
    assert_eq!(orders.provenance, Provenance::default());
}

#[test]
fn a_partition_is_read_from_its_name() {
    let orders = one(ORDERS);
    let partition = orders.partition(&PartitionName::new("dt=2026-11-01").unwrap()).unwrap();
    assert_eq!(partition.name.as_str(), "dt=2026-11-01");
    assert_eq!(orders.partition_of("dt=2026-11-01/p.parquet").unwrap(), partition);
}

/// `ORDERS` with one line more, or one changed: `from` is replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(ORDERS.contains(from), "{from}");
    ORDERS.replacen(from, to, 1)
}

#[test]
fn every_problem_of_a_file_is_told_at_once_with_its_place() {
    let text = r#"
pipeline = "x"

[Orders]
source = "s3://lake-raw/orders"
layout = "dt={dt}/{region}"
fromat = "parquet"
target = "orders"
columns = ["order_id bigint", "order_id int", "customer varchar(70000)", 7]
key = ["id"]
lookback = "3 days"
concurrency = "row"
interval = 15

[Orders.partition.dt]
type = "datum"
colunm = "dt"

[Orders.tolerance]
row_drop = "10"
duplicate_keys = -1
"#;
    let expected = expect_test::expect![[r#"
        2:1: `pipeline` is no table but a value of type string; write `[pipeline]`
        4:1: `Orders` has no `format`; add `format = …`
        4:1: dataset name "Orders" must be 1 to 63 characters of a-z, 0-9 and _, and begin with a letter; rename it
        5:10: `source` "s3://lake-raw/orders" doesn't end in `/`; write `s3://lake-raw/orders/`: without it, `s3://lake-raw/orders-old/` would belong to it too
        6:10: the layout doesn't end in `/`; write `{region}/`
        7:1: `fromat` is unknown; did you mean `format`?
        8:10: target "orders" is no table; write `schema.table`
        9:31: column `order_id` is there twice; name each column once
        9:47: type "varchar(70000)" is out of range; write a length of 1 to 65535 bytes
        9:74: `columns` is 7; write text in quotes
        11:12: `lookback` is "3 days"; write a whole number and one of s, m, h, d, from 1h to 3660d
        12:15: `concurrency` is "row"; write "table" or "partition"
        13:12: `interval` is 15; write text in quotes
        16:8: `type` is "datum"; write "date" or "integer" or "text" or "timestamp"
        17:1: `colunm` is unknown; did you mean `column`?
        20:12: `row_drop` is "10"; write a share such as "10%" (0 to 100, at most four digits after the point), "refuse" or "accept"
        21:18: `duplicate_keys` is -1; write a whole number from 0 to 9223372036854775807"#]];
    expected.assert_eq(&problems(text).join("\n"));
}

#[test]
fn a_syntax_error_has_its_place() {
    let found = problems("[orders]\nsource = \"s3://x/\"\nlayout = dt={dt}/\n");
    let expected = expect_test::expect!["3:12: unexpected key or value, expected newline, `#`; write valid TOML"];
    expected.assert_eq(&found.join("\n"));
    let found = problems("[orders]\nsource = 1\nsource = 2\n");
    let expected = expect_test::expect!["3:1: duplicate key; write valid TOML"];
    expected.assert_eq(&found.join("\n"));
}

#[test]
fn a_problem_is_one_line_whatever_the_owner_wrote() {
    let found = problems("[orders]\n\"a\\nb\" = 1\nsource = \"\\n\"\nlayout = \"{\\n\"\n");
    assert!(found.iter().all(|problem| !problem.contains('\n')), "{found:?}");
    assert!(found.iter().any(|problem| problem.starts_with("2:1: `a\\nb` is unknown")), "{found:?}");
}

#[test]
fn columns_keys_and_parts_are_held_against_each_other() {
    let text = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/region={region}/hour={hour}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "dt date", "region integer", "_batch_id text", "xmin bigint"]
key = ["dt", "dt", "Order_ID"]

[orders.partition.dt]
type = "date"

[orders.partition.region]
type = "text"
in_files = true

[orders.partition.hour]
type = "integer"
column = "region"

[orders.provenance]
batch_id = "_batch_id"
loaded_at = "dt"
"#;
    let expected = expect_test::expect![[r#"
        7:78: column `xmin` is a system column of Redshift; give it another name
        8:14: `key` has `dt` twice; name it once
        10:1: column `dt` of part `dt` is in `columns`, but `in_files` is false; write `in_files = true` if the files hold it, else take it out of `columns`
        13:1: column `region` is integer, which part `region` can't be compared with; give part and column the same type
        19:10: column `region` of part `hour` is in `columns`, but `in_files` is false; write `in_files = true` if the files hold it, else take it out of `columns`
        19:10: column `region` of part `hour` is that of part `region` too; give each part a column of its own
        22:12: provenance column `_batch_id` is a column of the files already; give it a name of its own
        23:13: provenance column `dt` is a column of part `dt` already; give it a name of its own"#]];
    expected.assert_eq(&problems(text).join("\n"));
}

#[test]
fn a_part_in_the_files_must_be_a_column_of_its_type() {
    let found = problems(&changed("in_files = false", "in_files = true"));
    let expected = expect_test::expect![
        "13:10: column `dt` of part `dt` isn't in `columns`, but `in_files` is true; write `in_files = false` to take it from the path, else add it to `columns`"
    ];
    expected.assert_eq(&found.join("\n"));
    let text = changed("in_files = false", "in_files = true").replace("ordered_at timestamp", "dt timestamp");
    let expected = expect_test::expect![
        "13:10: column `dt` is timestamp, which part `dt` can't be compared with; give part and column the same type"
    ];
    expected.assert_eq(&problems(&text).join("\n"));
    one(&text.replace("dt timestamp", "dt date"));
}

#[test]
fn layout_and_parts_must_fit() {
    let layout = |layout: &str, parts: &str| {
        let text = changed("dt={dt}/", layout);
        let (head, _) = text.split_once("[orders.partition.dt]").unwrap();
        problems(&format!("{head}{parts}")).join("\n")
    };
    let expected = expect_test::expect![[r#"
        4:10: the layout has `{hour}`, which no table describes; add `[orders.partition.hour]` with its `type` and `column`
        --
        13:1: the layout has no `{hour}`; take the table out, or add a level such as `hour={hour}/`
        --
        4:10: no table describes the date that the layout's `{yyyy}`, `{mm}`, `{dd}` make; add a table such as `[orders.partition.day]` with `type = "date"`
        --
        11:1: the layout's date pieces don't make the type of part `day`; write `type = "date"`
        --
        11:1: the layout's date pieces don't make the type of part `day`; write `type = "date"`, or add `{hh}/` to the layout
        --
        11:1: part `a` is one of 2 that the layout doesn't name; leave only the one that `{yyyy}`, `{mm}` and `{dd}` make
        13:1: part `b` is one of 2 that the layout doesn't name; leave only the one that `{yyyy}`, `{mm}` and `{dd}` make
        --
        13:1: part "mm" has no valid name; name it with a-z, 0-9 and _, beginning with a letter, 63 at most, but not yyyy, mm, dd or hh
        13:1: the layout has no `{mm}`; take the table out, or add a level such as `mm={mm}/`
        --
        4:10: the layout has `{dt}`, which no table describes; add `[orders.partition.dt]` with its `type` and `column`"#]];
    expected.assert_eq(
        &[
            layout("dt={dt}/hour={hour}/", "[orders.partition.dt]\ntype = \"date\"\n"),
            layout("dt={dt}/", "[orders.partition.dt]\ntype = \"date\"\n[orders.partition.hour]\ntype = \"integer\"\n"),
            layout("{yyyy}/{mm}/{dd}/", "[orders.partition]\n"),
            layout("{yyyy}/{mm}/{dd}/", "[orders.partition.day]\ntype = \"text\"\n"),
            layout("{yyyy}/{mm}/{dd}/", "[orders.partition.day]\ntype = \"timestamp\"\n"),
            layout(
                "{yyyy}/{mm}/{dd}/",
                "[orders.partition.a]\ntype = \"date\"\n[orders.partition.b]\ntype = \"date\"\n",
            ),
            layout("dt={dt}/", "[orders.partition.dt]\ntype = \"date\"\n[orders.partition.mm]\ntype = \"integer\"\n"),
            layout("dt={dt}/", ""),
        ]
        .join("\n--\n"),
    );
}

/// `ORDERS` with these lines instead of the part's.
fn with_part(layout: &str, lines: &str) -> String {
    let text = changed("dt={dt}/", layout);
    let (head, _) = text.split_once("[orders.partition.dt]").unwrap();
    format!("{head}[orders.partition.dt]\n{lines}\n")
}

#[test]
fn a_range_has_the_grain_of_its_type_and_is_written_in_one_way() {
    let short = one(&with_part("dt={dt}/", "type = \"date\"\nrange_of = \"Ordered_At\""));
    let long = "type = \"date\"\nrange_of = \"ordered_at\"\ngrain = \"day\"\ntimezone = \"etc/utc\"\nin_files = true";
    assert_eq!(short, one(&with_part("dt={dt}/", long)));
    assert!(short.to_text().ends_with(
        "[orders.partition.dt]\ntype = \"date\"\nrange_of = \"ordered_at\"\ngrain = \"day\"\n\n[orders.tolerance]\n\
         row_variance = 0\nrejected_rows = 0\nduplicate_keys = 0\nmissing_objects = \"told\"\nempty_source = \"refuse\"\n\
         row_drop = \"10%\"\nforeign_rows = \"refuse\"\npatience = \"15m\"\n"
    ));
    let berlin = "type = \"timestamp\"\nrange_of = \"ordered_at\"\ntimezone = \"europe/berlin\"";
    let berlin = one(&with_part("{yyyy}/{mm}/{dd}/{hh}/", berlin));
    let range = berlin.parts[0].range.as_ref().unwrap();
    assert_eq!((range.grain, berlin.parts[0].in_files), (Grain::Hour, true));
    assert_eq!(one(&berlin.to_text()), berlin);
    let stored = serde_json::to_string(&berlin.parts[0]).unwrap();
    assert_eq!(
        stored,
        r#"{"name":"dt","kind":"timestamp","column":"ordered_at","in_files":true,"range":{"grain":"hour","timezone":"Europe/Berlin"}}"#
    );
    assert_eq!(serde_json::from_str::<Part>(&stored).unwrap(), berlin.parts[0]);
}

#[test]
fn a_change_of_a_range_changes_what_a_partition_owns() {
    let of = |lines: &str| one(&with_part("dt={dt}/", &format!("type = \"date\"\n{lines}")));
    let day = of("range_of = \"ordered_at\"");
    for other in [
        "column = \"dt\"",
        "range_of = \"ordered_at\"\ngrain = \"month\"",
        "range_of = \"ordered_at\"\ntimezone = \"Europe/Berlin\"",
    ] {
        assert_ne!(of(other).owns_hash_part(), day.owns_hash_part(), "{other}");
        assert_ne!(of(other).rows_hash_part(), day.rows_hash_part(), "{other}");
        assert_ne!(of(other).hash(), day.hash(), "{other}");
    }
}

#[test]
fn a_range_that_would_mean_nothing_is_refused() {
    let told = |layout: &str, lines: &str| problems(&with_part(layout, lines)).join("\n");
    let dates = |layout: &str, lines: &str| {
        problems(&with_part(layout, lines).replace("ordered_at timestamp", "ordered_at date")).join("\n")
    };
    let expected = expect_test::expect![[r#"
        13:9: `grain` of part `dt` says nothing without `range_of`; add `range_of` with a column of the files, or take it out
        14:12: `timezone` of part `dt` says nothing without `range_of`; add `range_of` with a column of the files, or take it out
        --
        13:12: part `dt` has a `range_of`, but `in_files` is false; take `in_files` out: the column is one of the files
        14:10: part `dt` has both `column` and `range_of`; leave one: its column equals the value, or lies in its range
        --
        13:12: `range_of` of part `dt` is `seen_at`, which is no column of the files; name one of `columns`
        14:12: time zone "Berlin" is unknown; write a name of the IANA database, such as "Europe/Berlin"
        --
        14:9: `grain` of part `dt`: a date begins no hour; write "hour" for a timestamp; "day", "month" or "year" for a date
        --
        14:9: `grain` of part `dt`: a timestamp begins an hour; write "hour" for a timestamp; "day", "month" or "year" for a date
        --
        13:12: part `dt` has a `range_of`, but is no date or timestamp; write `type = "date"` or `type = "timestamp"`
        --
        14:9: `grain` is "week"; write "hour" or "day" or "month" or "year"
        --
        13:12: column `ordered_at` is date, which has no range of part `dt`; take `timezone` out: a date has no moment; or name a timestamp or timestamptz
        --
        13:12: column `ordered_at` is date, which has no range of part `dt`; name a timestamp or timestamptz: a date has no hours
        --
        11:1: the layout's date pieces don't make the type of part `dt`; add `{dd}/` to the layout, or write `range_of` with `grain = "month"`, or read the levels as integers, such as `year={year}/`
        --
        13:12: the layout's date pieces don't make the range of part `dt`; add `{mm}/{dd}/` to the layout, or write `range_of` with `grain = "year"`, or read the level as an integer, such as `{year}/`
        --
        13:12: the layout's date pieces don't make the range of part `dt`; write `grain = "month"`, or take `{dd}/` and what is below out of the layout"#]];
    expected.assert_eq(
        &[
            told("dt={dt}/", "type = \"date\"\ngrain = \"day\"\ntimezone = \"Europe/Berlin\""),
            told("dt={dt}/", "type = \"date\"\nrange_of = \"ordered_at\"\ncolumn = \"dt\"\nin_files = false"),
            told("dt={dt}/", "type = \"date\"\nrange_of = \"seen_at\"\ntimezone = \"Berlin\""),
            told("dt={dt}/", "type = \"date\"\nrange_of = \"ordered_at\"\ngrain = \"hour\""),
            told("dt={dt}/", "type = \"timestamp\"\nrange_of = \"ordered_at\"\ngrain = \"day\""),
            told("dt={dt}/", "type = \"integer\"\nrange_of = \"ordered_at\""),
            told("dt={dt}/", "type = \"date\"\nrange_of = \"amount\"\ngrain = \"week\""),
            dates("dt={dt}/", "type = \"date\"\nrange_of = \"ordered_at\"\ntimezone = \"Europe/Berlin\""),
            dates("dt={dt}/", "type = \"timestamp\"\nrange_of = \"ordered_at\""),
            told("{yyyy}/{mm}/", "type = \"date\""),
            told("{yyyy}/", "type = \"date\"\nrange_of = \"ordered_at\"\ngrain = \"month\""),
            told("{yyyy}/{mm}/{dd}/", "type = \"date\"\nrange_of = \"ordered_at\"\ngrain = \"year\""),
        ]
        .join("\n--\n"),
    );
}

#[test]
fn options_that_could_have_no_effect_are_refused() {
    let tail = |tail: &str| problems(&format!("{ORDERS}{tail}")).join("\n");
    let csv = ORDERS.replace("parquet", "csv").replace("key = [\"order_id\"]\n", "");
    let expected = expect_test::expect![[r#"
        15:1: there are csv options, but the format is parquet; take it out, or write `format = "csv"`
        --
        16:17: `rejected_rows = 1`, but COPY of parquet fails at the first bad row; take it out
        --
        15:16: `row_variance = 1`, but the rows of csv files aren't known before COPY; take it out
        16:17: `rejected_rows` is 100000; write a whole number from 0 to 99999
        17:18: `duplicate_keys = 1`, but there is no `key`; add `key = […]`, or take it out
        --
        14:1: `delimiter` and `quote` are both ','; write two characters
        15:13: `delimiter` is "||"; write one ASCII character ("\t" for a tab)
        17:17: `ignore_header` is -1; write a whole number from 0 to 65535
        18:11: `null_as` is "\n"; write at most 100 bytes without control characters
        --
        8:12: there is a `lookback`, but no part is a date or a timestamp; take it out, or write `type = "date"` for the part that is one"#]];
    expected.assert_eq(
        &[
            tail("[orders.csv]\ndelimiter = \";\"\n"),
            tail("[orders.tolerance]\nrejected_rows = 1\n"),
            problems(&format!(
                "{csv}[orders.tolerance]\nrow_variance = 1\nrejected_rows = 100000\nduplicate_keys = 1\n"
            ))
            .join("\n"),
            problems(&format!(
                "{csv}[orders.csv]\ndelimiter = \"||\"\nquote = \",\"\nignore_header = -1\nnull_as = \"\\n\"\n"
            ))
            .join("\n"),
            problems(
                &ORDERS.replace("type = \"date\"", "type = \"text\"").replace("key =", "lookback = \"3d\"\nkey ="),
            )
            .join("\n"),
        ]
        .join("\n--\n"),
    );
}

#[test]
fn two_datasets_may_share_neither_source_nor_target() {
    let other = |source: &str, target: &str| {
        let text = ORDERS.replace("orders]", "sales]").replace("[orders.", "[sales.");
        format!("{ORDERS}{}", text.replace("s3://lake-raw/orders/", source).replace("sales.orders", target))
    };
    let expected = expect_test::expect![[r#"
        17:10: s3://lake-raw/orders/eu/ overlaps the source of `orders`; let each dataset have a root of its own, none inside another
        20:10: sales.orders is the target of `orders` too; let one dataset write a table
        --
        17:10: s3://lake-raw/ overlaps the source of `orders`; let each dataset have a root of its own, none inside another
        20:10: sales.orders is the target of `orders` too; let one dataset write a table"#]];
    expected.assert_eq(
        &[
            problems(&other("s3://lake-raw/orders/eu/", "Sales.ORDERS")).join("\n"),
            problems(&other("s3://lake-raw/", "dev.sales.orders")).join("\n"),
        ]
        .join("\n--\n"),
    );
    assert!(parse(&other("s3://lake-raw/orders2/", "sales.orders2")).is_ok());
}

#[test]
fn the_place_of_deployment_is_held_against_the_file() {
    let checks = Checks { control_bucket: Some("lake-raw".to_owned()), database: Some("prod".to_owned()) };
    let found = parse_with(&changed("sales.orders", "dev.sales.orders"), &checks).unwrap_err();
    let expected = expect_test::expect![[r#"
        3:10: s3://lake-raw/orders/ is in the control bucket; read from another bucket: what Tidemark writes there would mark partitions
        6:10: the target is in database `dev`, this stack writes to `prod`; write `sales.orders`; another database needs a stack of its own"#]];
    expected.assert_eq(&found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    assert!(
        parse_with(&changed("sales.orders", "PROD.sales.orders"), &Checks { control_bucket: None, ..checks }).is_ok()
    );
}

#[test]
fn five_hundred_datasets_are_read_and_one_more_is_refused() {
    let many = |count: usize| {
        let dataset = |n: usize| {
            ORDERS
                .replace("[orders", &format!("[d{n}"))
                .replace("/orders/", &format!("/d{n}/"))
                .replace("sales.", &format!("s{n}."))
        };
        (0..count).map(dataset).collect::<String>()
    };
    assert_eq!(parse(&many(500)).unwrap().len(), 500);
    assert_eq!(problems(&many(501)), ["1:1: there are 501 datasets; keep 500 at most"]);
}

#[test]
fn inline_and_dotted_tables_are_tables_too() {
    let text = changed("[orders.partition.dt]", "[orders.tolerance]\npatience = \"1m\"\n[orders.partition.dt]");
    let inline = "orders = { source = \"s3://lake-raw/orders/\", layout = \"dt={dt}/\", format = \"parquet\", \
                  target = \"sales.orders\", columns = [\"order_id bigint\", \"customer varchar(64)\", \
                  \"amount decimal(12,2)\", \"ordered_at timestamp\"], key = [\"order_id\"], \
                  required = [\"amount\", \"order_id\"], partition.dt.type = \"date\", tolerance.patience = \"60s\" }";
    assert_eq!(one(inline), one(&text));
}

#[test]
fn what_means_the_same_has_one_text_and_hash() {
    let orders = one(ORDERS);
    let other = one(&changed("sales.orders", "SALES.Orders")
        .replace("bigint", "INT8")
        .replace("[\"order_id\", \"amount\"]", "[\"AMOUNT\", \"order_id\"]")
        .replace("dt={dt}", "DT={dt}")
        .replace("format =", "load_window = \"1800s\"\nlookback = \"72h\"\nformat ="));
    assert_eq!(other, orders);
    assert_eq!(other.hash(), orders.hash());
    let expected = expect_test::expect![[r#"
        [orders]
        source = "s3://lake-raw/orders/"
        layout = "dt={dt}/"
        format = "parquet"
        target = "sales.orders"
        columns = ["order_id bigint", "customer varchar(64)", "amount decimal(12,2)", "ordered_at timestamp"]
        key = ["order_id"]
        required = ["order_id", "amount"]
        write = "replace"
        concurrency = "table"
        lookback = "3d"
        interval = "auto"
        load_window = "30m"

        [orders.partition.dt]
        type = "date"
        column = "dt"
        in_files = false

        [orders.tolerance]
        row_variance = 0
        rejected_rows = 0
        duplicate_keys = 0
        missing_objects = "told"
        empty_source = "refuse"
        row_drop = "10%"
        foreign_rows = "refuse"
        patience = "15m"
    "#]];
    expected.assert_eq(&orders.to_text());
    assert_eq!(one(&orders.to_text()), orders);
}

#[test]
fn a_change_shows_in_the_hashes_it_concerns() {
    let orders = one(ORDERS);
    // What is changed, and whether that changes (hash, rows, owns).
    for (from, to, expected) in [
        ("key =", "lookback = \"9d\"\nkey =", (true, false, false)),
        ("key =", "interval = \"1m\"\nkey =", (true, false, false)),
        ("key = [\"order_id\"]\n", "", (true, false, false)),
        ("in_files = false\n", "[orders.tolerance]\nrow_drop = \"accept\"\n", (true, false, false)),
        ("in_files = false\n", "[orders.provenance]\nbatch_id = \"b\"\n", (true, true, false)),
        ("bigint", "integer", (true, true, false)),
        ("parquet", "csv", (true, true, false)),
        ("sales.orders", "sales.orders_2", (true, true, false)),
        ("column = \"dt\"", "column = \"day\"", (true, true, true)),
        ("dt={dt}/", "day={dt}/", (true, false, true)),
        ("type = \"date\"", "type = \"text\"", (true, true, true)),
    ] {
        let other = one(&changed(from, to));
        let changes = (
            other.hash() != orders.hash(),
            other.rows_hash_part() != orders.rows_hash_part(),
            other.owns_hash_part() != orders.owns_hash_part(),
        );
        assert_eq!(changes, expected, "{to}");
    }
}

#[test]
fn a_partitions_name_is_read_strictly_and_comes_back_canonical() {
    let text = changed("dt={dt}/", "dt={dt}/hour={hour}/{region}/")
        + "[orders.partition.hour]\ntype = \"integer\"\n[orders.partition.region]\ntype = \"text\"\n";
    let orders = one(&text);
    let read =
        |name: &str| orders.partition(&PartitionName::new(name).unwrap()).map(|partition| partition.name.to_string());
    assert_eq!(read("dt=2026-11-01/hour=07/region=eu"), Ok("dt=2026-11-01/hour=7/region=eu".to_owned()));
    let refused = |name: &str| read(name).unwrap_err().to_string();
    assert_eq!(
        refused("dt=2026-11-01"),
        "\"dt=2026-11-01\" is no partition's name here; write `dt=<date>/hour=<integer>/region=<text>`"
    );
    assert_eq!(
        refused("dt=2026-11-31/hour=7/region=eu"),
        "value \"2026-11-31\" of dt is no date of the form YYYY-MM-DD"
    );
    for name in ["dt=2026-11-01/hour=7/region=a%2Fb", "dt=2026-11-01/hour=7/region=_x"] {
        assert!(refused(name).starts_with("no key of the layout `dt={dt}/hour={hour}/{region}/` can be of"), "{name}");
    }
    assert!(read("dt=2026-11-01/hour=7/region=__HIVE_DEFAULT_PARTITION__").is_err());
    assert!(read("hour=7/dt=2026-11-01/region=eu").is_err());
}

/// Some of a dataset's lines: any choice of them makes a valid definition.
fn some_definition() -> impl Strategy<Value = String> {
    let types = "bigint|Decimal\\([1-9],0\\)|varchar\\([1-9][0-9]{0,3}\\)|char|DOUBLE  PRECISION|timestamptz|bool";
    let columns = prop::collection::vec(types, 1..6);
    let layouts = prop_oneof![
        Just(("dt={dt}/", "[t.partition.dt]\ntype = \"date\"\n")),
        Just(("{YYYY}/{MM}/{dd}/{HH}/*.gz", "[t.partition.at]\ntype = \"timestamp\"\ncolumn = \"At\"\n")),
        Just((
            "x/R={r}/{n}/",
            "[t.partition.n]\ntype = \"integer\"\n[t.partition.r]\ntype = \"text\"\nin_files = false\n"
        )),
    ];
    let how = prop::option::of((0..86_401_u32, "[sm]", prop::bool::ANY)).prop_map(|how| match how {
        Some((number, _, true)) => {
            format!("interval = \"{number}s\"\nload_window = \"24h\"\nconcurrency = \"partition\"\n")
        }
        Some((number, unit, false)) => format!("load_window = \"{}{unit}\"\n", number % 23 + 60),
        None => String::new(),
    });
    let csv = ("[!-~]", "[a-z\"\\\\\u{e9}']{0,9}", 0..65_536_u32).prop_filter("quote", |(c, ..)| c != "\"").prop_map(
        |(delimiter, null_as, header)| {
            let delimiter = delimiter.replace('\\', "\\\\");
            let null_as = null_as.replace('\\', "\\\\").replace('"', "\\\"");
            format!("[t.csv]\ndelimiter = \"{delimiter}\"\nnull_as = \"{null_as}\"\nignore_header = {header}\n")
        },
    );
    let tolerance = (0..1_000_001_u32, 0..99_999_u32, 0..604_800_u32).prop_map(|(drop, rejected, patience)| {
        let (whole, fraction) = (drop / 10_000, drop % 10_000);
        format!("[t.tolerance]\nrow_drop = \"{whole}.{fraction:04}%\"\nrejected_rows = {rejected}\npatience = \"{patience}s\"\n")
    });
    let provenance = prop_oneof![Just(""), Just("[t.provenance]\nloaded_at = \"_Loaded\"\n")];
    (columns, layouts, how, csv, tolerance, provenance).prop_map(
        |(types, (layout, parts), how, csv, tolerance, provenance)| {
            let columns: Vec<String> = types.iter().enumerate().map(|(n, t)| format!("\"Ä{n} {t}\"")).collect();
            format!(
                "[t]\nsource = \"s3://lake/a b's/\"\nlayout = \"{layout}\"\nformat = \"csv\"\ntarget = \"D.s.T\"\n\
             columns = [{}]\nkey = [\"Ä0\"]\n{how}{parts}{csv}{tolerance}{provenance}",
                columns.join(", ")
            )
        },
    )
}

proptest! {
    #[test]
    fn a_stored_text_is_read_back_as_the_same_definition(text in some_definition()) {
        let definition = one(&text);
        let stored = one(&definition.to_text());
        prop_assert_eq!(&stored, &definition);
        prop_assert_eq!(stored.to_text(), definition.to_text());
        prop_assert_eq!(stored.hash(), definition.hash());
    }

    #[test]
    fn no_text_is_a_panic(text in any::<String>(), at in 0..400_usize, cut in "\\PC{0,6}|[\"\\[\\]{}=\n]{1,3}") {
        let _ = parse(&text);
        // A valid text with something else in it.
        let mut damaged = ORDERS.to_owned();
        let at = at.min(damaged.len());
        damaged.insert_str(at, &cut);
        let _ = parse(&damaged);
    }
}

#[test]
fn an_upsert_needs_a_key_and_a_lock_that_are_meant() {
    let text = ORDERS
        .replace("key = [", "write = \"upsert\"\nconcurrency = \"partition\"\norder_by = \"changed_at\"\nkey = [");
    let text = text.replace("required = [\"order_id\", ", "required = [");
    let tolerance = "\n[orders.tolerance]\nduplicate_keys = 1\nempty_source = \"delete\"\n";
    let expected = expect_test::expect![[r#"
        8:9: `write = "upsert"` with `concurrency = "partition"`: two partitions may hold one key; write `concurrency = "table"`
        8:9: `write = "upsert"` with `duplicate_keys = 1`; take `duplicate_keys` out: of two rows with one key nobody could say which is meant
        8:9: `write = "upsert"` with `empty_source = "delete"`: rows that vanish from the files stay; take `empty_source` out
        8:9: `write = "upsert"`, but `order_id` of the `key` may be null; add it to `required`
        10:12: `order_by` is `changed_at`, which is no column of the files; name one of `columns`: it is compared in the target too; `select` may shape its values"#]];
    expected.assert_eq(&problems(&format!("{text}{tolerance}")).join("\n"));
    let replace = ORDERS.replace("key = [", "order_by = \"ordered_at\"\nkey = [");
    let expected = expect_test::expect![[
        r#"8:12: there is an `order_by`, but nothing is upserted; take it out, or write `write = "upsert"`"#
    ]];
    expected.assert_eq(&problems(&replace).join("\n"));
}

#[test]
fn select_shapes_columns_of_the_files() {
    let select = |lines: &str| format!("{ORDERS}\n[orders.select]\n{lines}\n");
    let text = select("customer = \"lower(trim(customer))\"\nAMOUNT = \"round(amount, 1)\"");
    let read = parse(&text).unwrap().remove(0);
    let names: Vec<_> = read.select.iter().map(|(name, expression)| format!("{name}: {expression}")).collect();
    assert_eq!(names, ["customer: lower(trim(customer))", "amount: round(amount, 1)"], "in the columns' order");
    assert_eq!(parse(&read.to_text()).unwrap().remove(0), read);
    let plain = parse(ORDERS).unwrap().remove(0);
    assert_ne!(plain.rows_hash_part(), read.rows_hash_part(), "it shapes rows");
    assert_eq!(plain.owns_hash_part(), read.owns_hash_part());
    let expected = expect_test::expect![[r#"
        17:9: `select` names `price`, which is no column of the files; name one of `columns`: each goes into the target once
        18:12: `random()` calls `random`, which may give another value at each call or more than one row's; write one scalar expression over `columns`, such as "lower(trim(customer))"
        19:10: `amount` is 7; write text in quotes"#]];
    expected.assert_eq(&problems(&select("price = \"1\"\ncustomer = \"random()\"\namount = 7")).join("\n"));
}

#[test]
fn what_a_format_does_not_take_is_refused_with_the_reason() {
    let of = |format: &str, options: &str| {
        problems(&format!("{}[orders.{format}]\n{options}\n", ORDERS.replace("parquet", format))).join("\n")
    };
    for (format, options, words) in [
        ("orc", "compression = \"zstd\"", "each file says itself how it is compressed; take it out"),
        ("avro", "compression = \"gzip\"", "each file says itself how it is compressed; take it out"),
        (
            "csv",
            "compression = \"lzop\"",
            "no well-kept library to try it with; have the files written with zstd or gzip",
        ),
        ("csv", "maxerror = 3", "`maxerror` is told by a tolerance; write `rejected_rows` in `tolerance`"),
        ("json", "acceptanydate = true", "turns dates it can't read into NULL, and nothing counts them"),
        ("parquet", "truncatecolumns = true", "is not taken by COPY of columnar files"),
        ("json", "paths = \"noshred\"", "or \"auto\" or \"auto ignorecase\""),
        ("csv", "timeformat = \"yyyy\"", "each once, or \"auto\" or \"epochsecs\" or \"epochmillisecs\""),
        ("csv", "dateformat = \"epochsecs\"", "write a pattern of YYYY, MM and DD, each once, or \"auto\""),
        ("json", "delimiter = \"|\"", "`delimiter` is unknown"),
    ] {
        let told = of(format, options);
        assert!(told.contains(words) && !told.contains('\n'), "{format} {options}: {told}");
    }
    let keyed = ORDERS.replace("order_id bigint", "order_id super");
    assert!(problems(&keyed)[0].contains("values of `super` can't be compared"));
}

#[test]
fn options_of_each_format_are_written_as_they_are_read() {
    let switches = "acceptinvchars = \"?\"\ntruncatecolumns = true\ntrimblanks = true\nblanksasnull = true\n\
                    emptyasnull = true\nroundec = true\ndateformat = \"DD.MM.YYYY\"\ntimeformat = \"epochmillisecs\"\n";
    for (format, options) in [
        (
            "csv",
            format!(
                "{switches}compression = \"zstd\"\nencoding = \"utf16le\"\nignoreblanklines = true\nfillrecord = true\n"
            ),
        ),
        ("json", format!("{switches}compression = \"bzip2\"\npaths = \"auto ignorecase\"\nencoding = \"iso88591\"\n")),
        ("avro", format!("{switches}paths = \"s3://config/paths.json\"\n")),
        ("orc", "fillrecord = true\nacceptinvchars = \"?\"\n".to_owned()),
        ("parquet", "fillrecord = true\n".to_owned()),
    ] {
        let plain = ORDERS.replace("parquet", format);
        let definition = one(&format!("{plain}[orders.{format}]\n{options}"));
        assert_ne!(definition.copy, CopyOptions::default());
        assert_eq!(one(&definition.to_text()), definition, "{format}");
        assert_ne!(one(&plain).rows_hash_part(), definition.rows_hash_part(), "options shape rows");
        assert_eq!(definition.to_text().matches("true").count(), options.matches("true").count());
    }
}

#[test]
fn a_time_is_refused_where_copy_knows_none() {
    let time = ORDERS.replace("ordered_at timestamp", "ordered_at time");
    let told = "column `ordered_at` is time, which COPY fills from no parquet file; write `integer` or `bigint`";
    assert!(problems(&time)[0].contains(told), "{:?}", problems(&time));
    assert!(problems(&time.replace("\"parquet\"", "\"orc\""))[0].contains("no orc file"));
    for format in ["csv", "json", "avro"] {
        assert!(parse(&time.replace("\"parquet\"", &format!("\"{format}\""))).is_ok(), "{format}");
    }
}
