//! `infra/redshift/grants.sql`, read as it stands there and told in PostgreSQL's words.

/// Stands for the role that functions call as.
const FUNCTIONS: &str = "\"IAMR:tidemark-RebuildRole-EXAMPLE\"";

/// What the names in the file stand for.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// The user `tidemark`.
    pub user: &'a str,
    /// The user of the functions, where they have one of their own.
    pub functions: &'a str,
    /// Who reads the ledger.
    pub analyst: &'a str,
    /// The database.
    pub database: &'a str,
    /// A target, with its schema.
    pub target: &'a str,
}

/// The statements of a section, those for some only too.
pub fn grants(section: u8, names: Names<'_>) -> Vec<String> {
    let text = include_str!("../../../infra/redshift/grants.sql");
    let begins = format!("-- {section}. ");
    let next = format!("-- {}. ", section + 1);
    let lines = text.lines().skip_while(|line| !line.starts_with(&begins)).take_while(|line| !line.starts_with(&next));
    let lines = lines.map(|line| line.strip_prefix("--   ").filter(|line| is_statement(line)).unwrap_or(line));
    let sql: String = lines.map(|line| line.split("--").next().unwrap_or_default()).collect();
    let schema = names.target.split('.').next().unwrap_or_default();
    // PostgreSQL knows no PASSWORD DISABLE, and procedures among routines only.
    let sql = sql.replace(" PASSWORD DISABLE", "").replace("EXECUTE ON PROCEDURES", "EXECUTE ON ROUTINES");
    let sql = sql.replace("DATABASE dev ", &format!("DATABASE {} ", names.database));
    let sql = sql.replace("sales.orders", names.target).replace("SCHEMA sales ", &format!("SCHEMA {schema} "));
    let sql = sql.replace("USER tidemark", &format!("USER {}", names.user));
    let sql = sql.replace("TO tidemark;", &format!("TO {};", names.user)).replace(FUNCTIONS, names.functions);
    let sql = sql.replace("analyst", names.analyst);
    sql.split(';').map(|statement| statement.trim().to_owned()).filter(|statement| !statement.is_empty()).collect()
}

fn is_statement(line: &str) -> bool {
    ["CREATE ", "GRANT ", "ALTER "].iter().any(|verb| line.starts_with(verb))
}
