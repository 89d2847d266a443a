//! A statement as tokens that know where they stand in its text, so that it can be searched and edited in place.

use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::failure::Failure;

/// A token that is neither blank nor comment.
#[derive(Debug, Clone)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    /// Bytes of the text, `start..end`.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Lexeme {
    /// An unquoted word in upper case; empty for anything else.
    pub(crate) fn word(&self) -> String {
        match &self.token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    /// The name this token may be, folded as Redshift folds it: to lower case, quoted or not.
    pub(crate) fn name(&self) -> Option<String> {
        match &self.token {
            Token::Word(word) => Some(word.value.to_ascii_lowercase()),
            _ => None,
        }
    }

    /// The value of a string literal, its escapes resolved.
    pub(crate) fn string(&self) -> Option<&str> {
        match &self.token {
            Token::SingleQuotedString(value) => Some(value),
            _ => None,
        }
    }
}

/// A text and its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Lexed {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Lexeme>,
}

impl Lexed {
    /// Splits a text into tokens; an unfinished literal or comment is a syntax error.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let spanned = Tokenizer::new(&RedshiftSqlDialect {}, text)
            .tokenize_with_location()
            .map_err(|error| Failure::new(format!("syntax error: {}", error.message)))?;
        let mut walk = Walk { text, at: 0, line: 1, column: 1 };
        let starts: Vec<usize> =
            spanned.iter().map(|token| walk.offset(token.span.start.line, token.span.start.column)).collect();
        let mut tokens = Vec::with_capacity(spanned.len());
        for (index, token) in spanned.into_iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(text.len());
            if !matches!(token.token, Token::Whitespace(_) | Token::EOF) {
                tokens.push(Lexeme { token: token.token, start: starts[index], end });
            }
        }
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// The tokens' own text.
    pub(crate) fn slice(&self, lexeme: &Lexeme) -> &str {
        &self.text[lexeme.start..lexeme.end]
    }

    /// Where in the text a token begins, counted in characters from 1, as `Position:` counts.
    pub(crate) fn position(&self, lexeme: &Lexeme) -> usize {
        self.text[..lexeme.start].chars().count() + 1
    }

    /// The syntax error at the token `index`, or at the end of the text.
    pub(crate) fn error_at(&self, index: usize) -> Failure {
        match self.tokens.get(index) {
            Some(lexeme) => Failure::syntax(self.slice(lexeme), self.position(lexeme)),
            None => Failure::new("syntax error at end of input").with_position(self.text.chars().count() + 1),
        }
    }

    /// The unquoted word at `index` in upper case; empty if there is none.
    pub(crate) fn word(&self, index: usize) -> String {
        self.tokens.get(index).map(Lexeme::word).unwrap_or_default()
    }

    /// Whether the unquoted words from `index` on are these.
    pub(crate) fn words_are(&self, index: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.word(index + offset) == *word)
    }

    pub(crate) fn is(&self, index: usize, token: &Token) -> bool {
        self.tokens.get(index).is_some_and(|lexeme| lexeme.token == *token)
    }

    /// The text from the token `from` up to the token `to`, that one not included.
    pub(crate) fn between(&self, from: usize, to: usize) -> &str {
        match (self.tokens.get(from), to.checked_sub(1).and_then(|last| self.tokens.get(last))) {
            (Some(first), Some(last)) if from < to => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// The index after the parenthesis that closes the one at `open`.
    pub(crate) fn after_parenthesis(&self, open: usize) -> Result<usize, Failure> {
        let mut depth = 0usize;
        for (index, lexeme) in self.tokens.iter().enumerate().skip(open) {
            match lexeme.token {
                Token::LParen => depth += 1,
                Token::RParen if depth <= 1 => return Ok(index + 1),
                Token::RParen => depth -= 1,
                _ => {}
            }
        }
        Err(self.error_at(self.tokens.len()))
    }

    /// The text with these pieces replaced: `(start, end, new)`, in order, apart from each other.
    pub(crate) fn edited(&self, edits: &[(usize, usize, String)]) -> String {
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (start, end, new) in edits {
            out.push_str(&self.text[at..*start]);
            out.push_str(new);
            at = *end;
        }
        out.push_str(&self.text[at..]);
        out
    }
}

/// Turns the tokenizer's lines and columns into bytes; they only ever go forward.
struct Walk<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    column: u64,
}

impl Walk<'_> {
    fn offset(&mut self, line: u64, column: u64) -> usize {
        while (self.line, self.column) < (line, column) {
            let Some(next) = self.text[self.at..].chars().next() else { break };
            self.at += next.len_utf8();
            if next == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_know_their_place() {
        let lexed = Lexed::new("SELECT 'é\\'x',\n  \"A b\" -- c\n FROM t").unwrap();
        let texts: Vec<&str> = lexed.tokens.iter().map(|token| lexed.slice(token)).collect();
        assert_eq!(texts, ["SELECT", "'é\\'x'", ",", "\"A b\"", "FROM", "t"]);
        assert_eq!(lexed.tokens[1].string(), Some("é'x"));
        assert_eq!(lexed.tokens[3].name().as_deref(), Some("a b"));
    }
}
