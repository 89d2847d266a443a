//! What the doctor asks Redshift of the rights of the user that statements run as. Reads catalogs only.

use super::identifier::{self, PerTarget, per_target_name};
use super::rows::{Field, Reader, RowError};
use super::{Batch, SqlError, literal};
use crate::definition::TableName;

/// A right that isn't there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The user that statements run as.
    pub user: String,
    /// The privilege, such as `insert`.
    pub privilege: String,
    /// On what.
    pub object: String,
    /// The statement that gives it.
    pub grant: String,
}

/// Which schemas of those that `init` makes stand there: rows of their names. Whether they may be used isn't asked.
pub fn schemas() -> Result<Batch, SqlError> {
    let names = [identifier::SCHEMA, identifier::STAGING_SCHEMA];
    let names = names.map(literal::text).into_iter().collect::<Result<Vec<_>, _>>()?.join(", ");
    let sql = format!("SELECT CAST(nspname AS varchar(128)) FROM pg_namespace WHERE nspname IN ({names})");
    Batch::new("tidemark/doctor/schemas", vec![sql])
}

/// Reads the rows of [`schemas`]: those that aren't there.
pub fn read_schemas(rows: &[Vec<Field>]) -> Result<Vec<&'static str>, RowError> {
    let mut missing = vec![identifier::SCHEMA, identifier::STAGING_SCHEMA];
    for row in rows {
        let there = Reader::new("schemas", row).text("schema")?;
        missing.retain(|name| *name != there);
    }
    Ok(missing)
}

/// The rights that a rebuild of a target needs: rows of user, privilege, kind of object, object, and whether it is there. The
/// target and its fence table must exist.
pub fn rights(target: &TableName) -> Result<Batch, SqlError> {
    let fence = TableName { schema: identifier::SCHEMA.to_owned(), table: per_target_name(PerTarget::Fence, target) };
    let ledger = TableName { schema: identifier::SCHEMA.to_owned(), table: "batches".to_owned() };
    let mut selects = Vec::new();
    for (schema, privilege) in [
        (target.schema.as_str(), "usage"),
        (identifier::SCHEMA, "usage"),
        (identifier::STAGING_SCHEMA, "usage"),
        (identifier::STAGING_SCHEMA, "create"),
    ] {
        let (name, quoted) = (literal::text(schema)?, identifier::quoted(schema)?);
        let (right, named) = (literal::text(privilege)?, literal::text(&quoted)?);
        selects.push(right_of(&right, "SCHEMA", &named, &format!("has_schema_privilege({name}, {right})")));
    }
    for (table, privileges) in [
        (target, &["select", "insert", "delete"][..]),
        (&fence, &["select", "insert", "update"]),
        (&ledger, &["select", "insert"]),
    ] {
        let name = literal::text(&identifier::table(table)?)?;
        for privilege in privileges {
            let right = literal::text(privilege)?;
            selects.push(right_of(&right, "TABLE", &name, &format!("has_table_privilege({name}, {right})")));
        }
    }
    let database = "CAST(quote_ident(current_database()) AS varchar(130))";
    selects.push(right_of("'temp'", "DATABASE", database, "has_database_privilege(current_database(), 'temp')"));
    Batch::new("tidemark/doctor/rights", vec![selects.join("\nUNION ALL\n")])
}

fn right_of(right: &str, kind: &str, object: &str, has: &str) -> String {
    // A name isn't a varchar everywhere, so it is cast.
    format!("SELECT CAST(current_user AS varchar(128)), {right}, '{kind}', {object}, CASE WHEN {has} THEN 1 ELSE 0 END")
}

/// Reads the rows of [`rights`]: those that aren't there.
pub fn read_rights(rows: &[Vec<Field>]) -> Result<Vec<Missing>, RowError> {
    let mut missing = Vec::new();
    for row in rows {
        let mut row = Reader::new("rights", row);
        let (user, privilege, kind) = (row.text("user")?, row.text("privilege")?, row.text("kind")?);
        let object = row.text("object")?;
        if row.count("has it")? == 0 {
            let grant = format!("GRANT {} ON {kind} {object} TO \"{user}\"", privilege.to_uppercase());
            missing.push(Missing { user, privilege, object, grant });
        }
    }
    Ok(missing)
}
