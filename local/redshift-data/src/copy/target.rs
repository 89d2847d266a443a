//! The table a COPY fills, as the catalogue has it.

use tokio_postgres::types::Type;

use super::value::{Kind, Problem, code};
use crate::dialect::copy::{CopyCommand, Format};
use crate::dialect::names;
use crate::failure::Failure;
use crate::session::Session;

/// A column that gets values.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) not_null: bool,
    /// What an absent member of a JSON object becomes.
    pub(crate) default: Option<String>,
}

impl Column {
    /// NULL for this column, if it may be.
    pub(crate) fn null(&self) -> Result<Option<String>, Problem> {
        if self.not_null { Err(Problem::new(code::NULL, "Missing data for not-null field")) } else { Ok(None) }
    }
}

/// A table and the columns that get values, in the order of the file's.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) oid: u32,
    /// Without its schema.
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

impl Target {
    /// Looks the table up in the session's own transaction.
    pub(crate) async fn of(session: &Session, command: &CopyCommand, query_id: i64) -> Result<Self, Failure> {
        let failed = |error: tokio_postgres::Error| Failure::from_postgres(&error, query_id, session.pid, 0);
        let rows = session
            .client
            .query(
                "SELECT t.oid, t.relname::text, a.attname::text, a.atttypid, a.atttypmod, a.attnotnull, \
                 a.attidentity::text, pg_get_expr(d.adbin, d.adrelid) \
                 FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid \
                 LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum \
                 WHERE t.oid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
                &[&command.table],
            )
            .await
            .map_err(failed)?;
        let Some(first) = rows.first() else {
            return Err(Failure::new(format!("relation \"{}\" does not exist", command.table)));
        };
        let (oid, name) = (first.get(0), first.get(1));
        let mut found = Vec::new();
        for row in &rows {
            let column: String = row.get(2);
            let identity = !row.get::<_, String>(6).is_empty();
            let expression: Option<String> = row.get(7);
            let kind = Type::from_oid(row.get(3)).and_then(|kind| Kind::of(&kind, row.get(4)));
            let not_null = row.get(5);
            if let Some(listed) = &command.columns {
                if !listed.contains(&column) {
                    if not_null && expression.is_none() && !identity {
                        return Err(left_out());
                    }
                    continue;
                }
            } else if identity && !command.explicit_ids {
                if command.format.is_columnar() {
                    return Err(left_out());
                }
                continue;
            }
            let Some(kind) = kind else { return Err(Failure::not_imitated(&format!("COPY into column \"{column}\""))) };
            let default =
                match expression.filter(|_| matches!(command.format, Format::Json { .. } | Format::Avro { .. })) {
                    Some(sql) => {
                        session.client.query_one(&format!("SELECT ({sql})::text"), &[]).await.map_err(failed)?.get(0)
                    }
                    None => None,
                };
            found.push(Column { name: column, kind, not_null, default });
        }
        Ok(Self { oid, name, columns: in_order(found, command)? })
    }

    /// The names for PostgreSQL's COPY.
    pub(crate) fn column_list(&self) -> String {
        self.columns.iter().map(|column| names::quoted(&column.name)).collect::<Vec<_>>().join(", ")
    }
}

fn left_out() -> Failure {
    Failure::new("NOT NULL column without DEFAULT must be included in column list")
}

/// As the statement lists them; the table's order without a list.
fn in_order(found: Vec<Column>, command: &CopyCommand) -> Result<Vec<Column>, Failure> {
    let Some(listed) = &command.columns else { return Ok(found) };
    listed
        .iter()
        .map(|name| {
            found.iter().find(|column| column.name == *name).cloned().ok_or_else(|| {
                Failure::new(format!("column \"{name}\" of relation \"{}\" does not exist", command.table))
            })
        })
        .collect()
}
