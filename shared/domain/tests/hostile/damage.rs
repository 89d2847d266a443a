//! What may happen to bytes that somebody else writes or keeps.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One thing that happens to bytes.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, Index),
    Repeat(Index, Index),
    Truncate(Index),
}

/// A few of them; `words` are what an attacker who knows the format would write.
pub(crate) fn damages<W>(words: &'static [&'static W]) -> impl Strategy<Value = Vec<Damage>>
where
    W: AsRef<[u8]> + std::fmt::Debug + ?Sized,
{
    let word = proptest::sample::select(words).prop_map(|word| word.as_ref().to_vec());
    let text = prop_oneof![3 => word, 1 => vec(any::<u8>(), 1..6)];
    let damage = prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, with)| Damage::Flip(at, with)),
        3 => (any::<Index>(), text).prop_map(|(at, text)| Damage::Insert(at, text)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Cut(from, to)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
        1 => any::<Index>().prop_map(Damage::Truncate),
    ];
    vec(damage, 1..6)
}

/// The bytes after all of it.
pub(crate) fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        let end = bytes.len() + 1;
        match damage {
            Damage::Flip(at, with) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= (*with).max(1);
            }
            Damage::Flip(..) => {}
            Damage::Insert(at, text) => {
                let at = at.index(end);
                bytes.splice(at..at, text.iter().copied());
            }
            Damage::Cut(from, to) => {
                bytes.drain(range(from.index(end), to.index(end)));
            }
            Damage::Repeat(from, to) => {
                let again = bytes[range(from.index(end), to.index(end))].to_vec();
                let at = from.index(end);
                bytes.splice(at..at, again);
            }
            Damage::Truncate(at) => bytes.truncate(at.index(end)),
        }
    }
    bytes
}

fn range(a: usize, b: usize) -> std::ops::Range<usize> {
    a.min(b)..a.max(b)
}
