//! Orders and returns, made from a seed: the same seed makes the same files, byte for byte.

use std::sync::Arc;

use anyhow::Result;
use arrow::array::{Decimal128Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// An order, as in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its business key.
    pub order_id: i64,
    /// Who ordered; also names that need quoting.
    pub customer: String,
    /// The amount in cents.
    pub cents: i64,
    /// Seconds since 1970.
    pub ordered_at: i64,
}

/// A return, as in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// Its business key.
    pub return_id: i64,
    /// What came back.
    pub order_id: i64,
    /// Why.
    pub reason: String,
    /// How many pieces.
    pub quantity: i32,
}

const CUSTOMERS: [&str; 6] = ["Ada", "Zoë", "O'Hara", "Müller, GmbH", "Li \"Lee\" Na", "D\\Angelo"];
const REASONS: [&str; 4] = ["too small", "broken, sadly", "\"not as shown\"", "changed my mind"];
/// 2026-11-01 00:00:00 UTC.
const FIRST_SECOND: i64 = 1_793_491_200;

/// `count` orders with ids from `first_id` on.
pub fn orders(first_id: i64, count: usize) -> Vec<Order> {
    let ids = (first_id..).take(count);
    ids.map(|order_id| {
        let mut dice = Dice::new(order_id);
        Order {
            order_id,
            customer: dice.pick(&CUSTOMERS).to_owned(),
            cents: dice.below(100_000),
            ordered_at: FIRST_SECOND + dice.below(86_400),
        }
    })
    .collect()
}

/// `count` returns with ids from `first_id` on.
pub fn returns(first_id: i64, count: usize) -> Vec<Return> {
    let ids = (first_id..).take(count);
    ids.map(|return_id| {
        let mut dice = Dice::new(return_id);
        Return {
            return_id,
            order_id: dice.below(10_000),
            reason: dice.pick(&REASONS).to_owned(),
            quantity: i32::try_from(1 + dice.below(5)).unwrap_or(1),
        }
    })
    .collect()
}

/// A Parquet file of orders.
pub fn parquet(orders: &[Order]) -> Result<Vec<u8>> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("order_id", DataType::Int64, true),
        Field::new("customer", DataType::Utf8, true),
        Field::new("amount", DataType::Decimal128(12, 2), true),
        Field::new("ordered_at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
    ]));
    let amounts = Decimal128Array::from_iter_values(orders.iter().map(|order| i128::from(order.cents)));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(orders.iter().map(|order| order.order_id))),
            Arc::new(StringArray::from_iter_values(orders.iter().map(|order| &order.customer))),
            Arc::new(amounts.with_precision_and_scale(12, 2)?),
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                orders.iter().map(|order| order.ordered_at * 1_000_000),
            )),
        ],
    )?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// A CSV file of returns, with a header.
pub fn csv(returns: &[Return]) -> Result<Vec<u8>> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(["return_id", "order_id", "reason", "quantity"])?;
    for row in returns {
        let fields = [&row.return_id.to_string(), &row.order_id.to_string(), &row.reason, &row.quantity.to_string()];
        writer.write_record(fields)?;
    }
    Ok(writer.into_inner()?)
}

/// Random numbers without surprise (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn new(seed: i64) -> Self {
        Self(seed.cast_unsigned())
    }

    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 1).cast_signed() % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.below(i64::try_from(of.len()).unwrap_or(1));
        of[usize::try_from(at).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_ids_make_the_same_files() {
        assert_eq!(orders(7, 20), orders(7, 20));
        assert_eq!(orders(7, 20)[5], orders(12, 1)[0]);
        assert_eq!(parquet(&orders(7, 20)).unwrap(), parquet(&orders(7, 20)).unwrap());
        assert_ne!(returns(1, 3), returns(2, 3));
    }
}
