//! Result sets: PostgreSQL's text of each value, typed as the API's JSON types it.

use serde_json::{Value, json};
use tokio_postgres::types::Type;

/// The columns and rows of a query that ended.
#[derive(Debug, Default)]
pub(crate) struct ResultSet {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    /// Bytes of all values.
    pub(crate) size: usize,
    /// Bytes of the widest row.
    pub(crate) widest: usize,
}

/// A column, as `ColumnMetadata` describes it.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) modifier: i32,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) nullable: bool,
}

impl Column {
    /// The API's name for the type.
    fn type_name(&self) -> &str {
        match self.kind {
            Type::TEXT | Type::NAME | Type::UNKNOWN => "varchar",
            Type::JSONB | Type::JSON => "super",
            Type::BYTEA => "varbyte",
            _ => self.kind.name(),
        }
    }

    /// Digits, characters or fractional digits; and the scale.
    fn precision(&self) -> (i32, i32) {
        match self.kind {
            Type::INT2 => (5, 0),
            Type::INT4 => (10, 0),
            Type::INT8 => (19, 0),
            Type::FLOAT4 => (8, 8),
            Type::FLOAT8 => (17, 17),
            Type::BOOL => (1, 0),
            Type::NUMERIC if self.modifier >= 4 => ((self.modifier - 4) >> 16, (self.modifier - 4) & 0xffff),
            Type::NUMERIC => (38, 0),
            Type::VARCHAR | Type::BPCHAR if self.modifier >= 4 => (self.modifier - 4, 0),
            Type::DATE => (13, 0),
            Type::TIMESTAMP => (29, 6),
            Type::TIMESTAMPTZ => (35, 6),
            _ => (i32::MAX, 0),
        }
    }

    pub(crate) fn metadata(&self) -> Value {
        let (precision, scale) = self.precision();
        let text = matches!(self.kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN);
        let signed =
            matches!(self.kind, Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC);
        json!({
            "name": self.name,
            "label": self.name,
            "typeName": self.type_name(),
            "schemaName": self.schema,
            "tableName": self.table,
            "nullable": i32::from(self.nullable),
            "precision": precision,
            "scale": scale,
            "length": 0,
            "isCaseSensitive": text,
            "isCurrency": false,
            "isSigned": signed,
        })
    }

    /// One value as the API's `Field`.
    pub(crate) fn field(&self, value: Option<&str>) -> Value {
        let Some(text) = value else { return json!({ "isNull": true }) };
        match self.kind {
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => text
                .parse::<i64>()
                .map_or_else(|_| json!({ "stringValue": text }), |value| json!({ "longValue": value })),
            // JSON has no number for NaN and the infinities; the SDKs read them from a string.
            Type::FLOAT4 | Type::FLOAT8 => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => json!({ "doubleValue": value }),
                _ => json!({ "doubleValue": text }),
            },
            Type::BOOL => json!({ "booleanValue": text == "t" }),
            // As Java prints a timestamp: at least one digit of a second's fraction.
            Type::TIMESTAMP if !text.contains('.') => json!({ "stringValue": format!("{text}.0") }),
            _ => json!({ "stringValue": text }),
        }
    }
}

impl ResultSet {
    /// The rows from one index up to another, as `Records`.
    pub(crate) fn records(&self, from: usize, to: usize) -> Vec<Vec<Value>> {
        self.rows
            .iter()
            .take(to)
            .skip(from)
            .map(|row| self.columns.iter().zip(row).map(|(column, value)| column.field(value.as_deref())).collect())
            .collect()
    }
}
