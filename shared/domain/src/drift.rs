//! How a file's columns differ from the definition's, in one line of words.

/// So many differences are told by name; the rest by their number.
const TOLD: usize = 5;

/// The differences of single columns, and that of their number; `fill` allows columns to lack at the end. `None`: there are none.
pub(crate) fn told(mut differences: Vec<String>, found: usize, expected: usize, fill: bool) -> Option<String> {
    if found > expected || found < expected && !fill {
        differences.push(format!("{found} columns, but the definition says {expected}"));
    }
    let more = differences.len().saturating_sub(TOLD);
    differences.truncate(TOLD);
    if more > 0 {
        differences.push(format!("{more} more differences"));
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}
