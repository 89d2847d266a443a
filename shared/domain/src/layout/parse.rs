//! Reads a layout's text, and tells everything that is wrong with it.

use super::{Layout, Level, Slot};
use crate::definition::Flaw;

/// More levels than any lake has; a bound for what walks them.
const MAX_LEVELS: usize = 16;
/// With this a root and its levels fit in a key of 1,024 bytes.
const MAX_BYTES: usize = 500;

impl Layout {
    /// Reads a layout such as `dt={dt}/hour={hour}/`, `{yyyy}/{mm}/{dd}/` or `dt={dt}/*.parquet`.
    pub fn parse(text: &str) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let (folders, file) =
            text.rsplit_once('/').map_or(("", text), |(_, file)| text.split_at(text.len() - file.len()));
        let suffix = suffix(file, &mut flaws);
        let levels: Vec<Level> = folders.split_terminator('/').filter_map(|text| level(text, &mut flaws)).collect();
        let layout = Self { levels, suffix };
        if flaws.is_empty() {
            layout.check_whole(text, &mut flaws);
        }
        if flaws.is_empty() { Ok(layout) } else { Err(flaws) }
    }

    fn check_whole(&self, text: &str, flaws: &mut Vec<Flaw>) {
        if text.len() > MAX_BYTES || self.levels.len() > MAX_LEVELS {
            let remedy = format!("keep it within {MAX_LEVELS} levels and {MAX_BYTES} bytes");
            flaws.push(Flaw::new(
                format!("the layout has {} levels in {} bytes", self.levels.len(), text.len()),
                remedy,
            ));
        }
        let slots: Vec<&Slot> = self.slots().collect();
        if slots.is_empty() {
            flaws.push(Flaw::new("the layout names no part of a partition", "write a level such as `dt={dt}/`"));
        }
        for (place, slot) in slots.iter().enumerate() {
            if slots[..place].contains(slot) {
                flaws.push(Flaw::new(format!("the layout has `{{{slot}}}` twice"), "name each part once"));
            }
        }
        let pieces = [Slot::Year, Slot::Month, Slot::Day, Slot::Hour];
        if slots.contains(&&Slot::Date) {
            for piece in pieces[..3].iter().filter(|piece| slots.contains(piece)) {
                let what = format!("the layout has `{{{piece}}}` beside `{{yyyy-mm-dd}}`, which holds it");
                flaws.push(Flaw::new(what, "leave one of them"));
            }
            return;
        }
        if let Some(finest) = pieces.iter().rposition(|piece| slots.contains(&piece)) {
            for needed in pieces[..finest].iter().filter(|needed| !slots.contains(needed)) {
                let remedy = format!("add `{{{needed}}}/`, or read the levels as integers, such as `year={{year}}/`");
                flaws.push(Flaw::new(format!("the layout's date has no `{{{needed}}}`"), remedy));
            }
        }
    }
}

impl TryFrom<String> for Layout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|flaws| {
            let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            format!("layout {text:?}: {}", flaws.join(", "))
        })
    }
}

/// What stands after the last `/`: nothing, or `*` and the ending of the objects that are data.
fn suffix(file: &str, flaws: &mut Vec<Flaw>) -> Option<String> {
    if file.is_empty() {
        return None;
    }
    match file.strip_prefix('*') {
        Some(suffix) if !suffix.is_empty() && !suffix.contains(['*', '{', '}']) => return Some(suffix.to_owned()),
        Some(_) => flaws.push(Flaw::new(
            format!("the layout ends in `{file}`"),
            "after the last `/` write nothing, or one ending such as `*.parquet`",
        )),
        None => flaws.push(Flaw::new("the layout doesn't end in `/`", format!("write `{file}/`"))),
    }
    None
}

fn level(text: &str, flaws: &mut Vec<Flaw>) -> Option<Level> {
    match read_level(text) {
        Ok(level) => Some(level),
        Err(flaw) => {
            flaws.push(flaw);
            None
        }
    }
}

fn read_level(text: &str) -> Result<Level, Flaw> {
    if text.is_empty() {
        return Err(Flaw::new("the layout has an empty level", "take the `/` away at its beginning, or one of `//`"));
    }
    if text.contains(char::is_control) {
        return Err(Flaw::new(format!("the level `{text}` has control characters"), "write it without"));
    }
    if text.starts_with(['_', '.']) {
        let remedy = "let `source` end below it: what begins with `_` or `.` below the root is never data";
        return Err(Flaw::new(format!("the level `{text}` is hidden"), remedy));
    }
    let Some((before, rest)) = text.split_once('{') else {
        return literal(text);
    };
    let one = || {
        let remedy = "write a level as `{part}` or `key={part}`, or as plain text";
        Flaw::new(format!("the level `{text}` is no placeholder with at most a key before it"), remedy)
    };
    let name = rest.strip_suffix('}').ok_or_else(one)?;
    if name.contains(['{', '}']) || before.contains('}') {
        return Err(one());
    }
    let key = match before.strip_suffix('=') {
        None if before.is_empty() => None,
        Some(key) if !key.is_empty() && !key.contains('=') => Some(key.to_ascii_lowercase()),
        _ => return Err(one()),
    };
    Ok(Level::Value { key, slot: slot(name)? })
}

fn literal(text: &str) -> Result<Level, Flaw> {
    if text.contains(['}', '*']) {
        return Err(Flaw::new(format!("the level `{text}` has a stray `}}` or `*`"), "write `{part}` for a value"));
    }
    Ok(Level::Literal(text.to_owned()))
}

fn slot(name: &str) -> Result<Slot, Flaw> {
    match name {
        "yyyy-mm-dd" | "YYYY-MM-DD" => Ok(Slot::Date),
        "yyyy" | "YYYY" => Ok(Slot::Year),
        "mm" | "MM" => Ok(Slot::Month),
        "dd" | "DD" => Ok(Slot::Day),
        "hh" | "HH" => Ok(Slot::Hour),
        _ if is_part_name(name) => Ok(Slot::Part(name.to_owned())),
        _ => Err(Flaw::new(
            format!("the placeholder `{{{name}}}` is no name of a part"),
            "name it with a-z, 0-9 and _, beginning with a letter, 63 at most",
        )),
    }
}

/// Whether a part may have that name: 1 to 63 of `[a-z0-9_]`, a letter first, none of the pieces of a date.
pub(crate) fn is_part_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !matches!(name, "yyyy" | "mm" | "dd" | "hh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_written_normalised_and_read_back() {
        for (text, normalised) in [
            ("dt={dt}/", "dt={dt}/"),
            ("DT={dt}/", "dt={dt}/"),
            ("{yyyy}/{MM}/{dd}/{HH}/", "{yyyy}/{mm}/{dd}/{hh}/"),
            ("data/region={region}/{yyyy}/{mm}/{dd}/", "data/region={region}/{yyyy}/{mm}/{dd}/"),
            ("{region}/dt={dt}/*.csv.gz", "{region}/dt={dt}/*.csv.gz"),
            ("DT={YYYY-MM-DD}/hour={HH}/", "dt={yyyy-mm-dd}/hour={hh}/"),
        ] {
            let layout = Layout::parse(text).unwrap();
            assert_eq!(layout.to_string(), normalised);
            assert_eq!(Layout::parse(normalised).unwrap(), layout);
        }
    }

    #[test]
    fn each_flaw_is_told() {
        for (text, what) in [
            ("", "the layout names no part of a partition"),
            ("data/", "the layout names no part of a partition"),
            ("dt={dt}", "the layout doesn't end in `/`"),
            ("/dt={dt}/", "the layout has an empty level"),
            ("dt={dt}//hour={hour}/", "the layout has an empty level"),
            ("dt={dt}/{dt}/", "the layout has `{dt}` twice"),
            ("{yyyy}/{mm}/{hh}/", "the layout's date has no `{dd}`"),
            ("{yyyy}/{dd}/", "the layout's date has no `{mm}`"),
            ("{yyyy}/{yyyy-mm-dd}/", "the layout has `{yyyy}` beside `{yyyy-mm-dd}`, which holds it"),
            ("{dt}{hour}/", "the level `{dt}{hour}` is no placeholder with at most a key before it"),
            ("dt-{dt}/", "the level `dt-{dt}` is no placeholder with at most a key before it"),
            ("={dt}/", "the level `={dt}` is no placeholder with at most a key before it"),
            ("dt={Dt}/", "the placeholder `{Dt}` is no name of a part"),
            ("_data/dt={dt}/", "the level `_data` is hidden"),
            ("_dt={dt}/", "the level `_dt={dt}` is hidden"),
            ("a\nb/dt={dt}/", "the level `a\\nb` has control characters"),
            ("dt}/{dt}/", "the level `dt}` has a stray `}` or `*`"),
            ("dt={dt}/*", "the layout ends in `*`"),
        ] {
            let flaws = Layout::parse(text).unwrap_err();
            assert_eq!(flaws.iter().map(|flaw| flaw.what.as_str()).collect::<Vec<_>>(), [what], "{text}");
        }
        assert_eq!(Layout::parse("//_x/{}/y").unwrap_err().len(), 5);
    }
}
