//! `datasets.toml` as a whole: the happy path, every problem at once, what isn't there yet, one text and hash.

use super::*;

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
        Err(problems) => panic!("{}", problems.iter().map(|problem| format!("{problem}\n")).collect::<String>()),
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
    assert_eq!(orders.lookback, Some(Duration::from_secs(3 * 86_400)));
    assert_eq!(orders.interval, Interval::Auto);
    assert_eq!(orders.load_window, Duration::from_secs(1_800));
    assert_eq!(orders.tolerance, Tolerance::default());
    assert_eq!(orders.csv, CsvOptions::default());
    assert_eq!(orders.provenance, Provenance::default());
}

#[test]
fn a_partition_is_read_from_its_name() {
    let orders = one(ORDERS);
    let partition = orders.partition(&PartitionName::new("dt=2026-11-01").unwrap()).unwrap();
    assert_eq!(partition.name.as_str(), "dt=2026-11-01");
    assert_eq!(orders.partition_of("dt=2026-11-01/p.parquet").unwrap(), partition);
}
