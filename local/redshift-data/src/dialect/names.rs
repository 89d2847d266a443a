//! Names as Redshift folds them and as PostgreSQL can hold them.

use sqlparser::tokenizer::Token;

use super::lex::Lexed;
use crate::failure::Failure;

/// PostgreSQL cuts longer names silently; Redshift's may have 127 bytes.
const POSTGRES_NAME_BYTES: usize = 63;

/// A name as PostgreSQL shall hold it: folded to lower case, and if too long, shortened to something still its own.
pub(crate) fn folded(name: &str) -> String {
    use sha2::Digest as _;
    let lower = name.to_ascii_lowercase();
    if lower.len() <= POSTGRES_NAME_BYTES {
        return lower;
    }
    let hash = hex::encode(&sha2::Sha256::digest(lower.as_bytes())[..8]);
    let mut cut = POSTGRES_NAME_BYTES - hash.len() - 1;
    while !lower.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}_{hash}", &lower[..cut])
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The single name at `at`: quoted where the statement quotes it.
pub(crate) fn one(lexed: &Lexed, at: usize) -> Result<String, Failure> {
    match lexed.tokens.get(at).map(|lexeme| &lexeme.token) {
        Some(Token::Word(word)) if matches!(word.quote_style, None | Some('"')) => {
            let name = folded(&word.value);
            Ok(if word.quote_style.is_some() { quoted(&name) } else { name })
        }
        _ => Err(lexed.error_at(at)),
    }
}

/// The name at `at` with its schema and database where given; also the index after it.
pub(crate) fn qualified(lexed: &Lexed, at: usize) -> Result<(String, usize), Failure> {
    let mut name = one(lexed, at)?;
    let mut next = at + 1;
    while lexed.is(next, &Token::Period) {
        name = format!("{name}.{}", one(lexed, next + 1)?);
        next += 2;
    }
    Ok((name, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let (a, b) = (format!("{}a", "x".repeat(80)), format!("{}b", "x".repeat(80)));
        assert_ne!(folded(&a), folded(&b));
        assert!(folded(&a).len() <= POSTGRES_NAME_BYTES);
        assert_eq!(folded("ORDERS"), "orders");
    }
}
