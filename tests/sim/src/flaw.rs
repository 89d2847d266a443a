//! Rules made weaker, between the engine and its twins: a write without a condition, a swap without its claim. Nothing of this is
//! in anything that ships; each shows that the oracle sees the loss of a rule.

use serde_json::Value;
use tidemark_domain::update::{Change, Condition, Item, Key, Update};

/// Which write of the design an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// MARK, or a REPLAY.
    Mark,
    /// TAKE
    Take,
    /// RECORD
    Record,
    /// HOLD
    Hold,
    /// CONFIRM A
    ConfirmRest,
    /// CONFIRM B
    ConfirmAgain,
    /// PARK A
    Park,
    /// RESTORED
    Restored,
    /// PUT OFF, WAKE, LEAVE, or of another item.
    Other,
}

/// Which write of the design this is.
pub fn kind(update: &Update) -> Write {
    let has = |wanted: fn(&Change) -> bool| update.changes.iter().any(wanted);
    if !update.key.sk.starts_with("PARTITION#") {
        Write::Other
    } else if has(|c| matches!(c, Change::Add("marked", _))) {
        Write::Mark
    } else if has(|c| matches!(c, Change::Add("tries", _))) {
        Write::Take
    } else if has(|c| matches!(c, Change::Set("parked", _))) {
        Write::Park
    } else if has(|c| matches!(c, Change::Set("built", _))) {
        if has(|c| matches!(c, Change::Remove("work"))) { Write::ConfirmRest } else { Write::ConfirmAgain }
    } else if has(|c| matches!(c, Change::Set("holds", _))) {
        Write::Hold
    } else if has(|c| matches!(c, Change::Set("forced", _))) {
        Write::Restored
    } else if has(|c| matches!(c, Change::Set("batch", _))) {
        Write::Record
    } else {
        Write::Other
    }
}

/// A rule made weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The swap doesn't claim its fence.
    SwapWithoutClaim,
    /// Fencing off makes every older fence fail but the newest.
    FenceOffOneTooFew,
    /// The look doesn't fence before.
    LookWithoutFencing,
    /// A hold or park that ends a batch doesn't say that its swap may be out.
    UnresolvedNotSet,
    /// A take that gives a batch up doesn't say so.
    UnresolvedForgottenAtTake,
    /// The swap writes no ledger row.
    SwapWithoutLedger,
    /// A batch's writes don't ask for the take's fence, nor for the batch.
    WritesUnfenced,
    /// They ask for the fence only, not for the batch as their worker wrote it last.
    WritesIgnoreBatch,
    /// A take asks for the fence as read, not for the batch.
    TakeComparesFenceOnly,
    /// Confirm and park don't ask whether a mark came since.
    LeavesThoughMarkedSince,
    /// A mark doesn't put its partition into the index.
    MarkWithoutIndex,
    /// Wake never runs.
    NoWake,
    /// Statements go out under a token of their own each time.
    FreshTokens,
    /// The swap inserts without deleting, and isn't sealed.
    NothingDeleted,
    /// Which definition is in force is read once and believed for ever.
    DefinitionCachedTooLong,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::SwapWithoutClaim,
        Self::FenceOffOneTooFew,
        Self::LookWithoutFencing,
        Self::UnresolvedNotSet,
        Self::UnresolvedForgottenAtTake,
        Self::SwapWithoutLedger,
        Self::WritesUnfenced,
        Self::WritesIgnoreBatch,
        Self::TakeComparesFenceOnly,
        Self::LeavesThoughMarkedSince,
        Self::MarkWithoutIndex,
        Self::NoWake,
        Self::FreshTokens,
        Self::NothingDeleted,
        Self::DefinitionCachedTooLong,
    ];

    /// What the flaw leaves of an update.
    pub fn weaken(self, mut update: Update) -> Update {
        let kind = kind(&update);
        let fenced = !matches!(kind, Write::Mark | Write::Take | Write::Other);
        let drops = |condition: &Condition| match (self, condition) {
            (Self::WritesUnfenced, Condition::Equals("fence" | "batch", _))
            | (Self::WritesIgnoreBatch, Condition::Equals("batch", _)) => fenced,
            (Self::TakeComparesFenceOnly, Condition::Equals("batch", _) | Condition::Absent("batch")) => {
                kind == Write::Take
            }
            (Self::LeavesThoughMarkedSince, Condition::Equals("marked", _)) => {
                matches!(kind, Write::ConfirmRest | Write::Park)
            }
            _ => false,
        };
        update.conditions.retain(|condition| !drops(condition));
        let forgets = |change: &Change| match (self, change) {
            (Self::UnresolvedNotSet, Change::Set("unresolved", _)) => matches!(kind, Write::Hold | Write::Park),
            (Self::UnresolvedForgottenAtTake, Change::Set("unresolved", _)) => kind == Write::Take,
            (Self::MarkWithoutIndex, Change::SetIfAbsent("work" | "due_at" | "dirty_since", _)) => kind == Write::Mark,
            _ => false,
        };
        update.changes.retain(|change| !forgets(change));
        update
    }

    /// What the flaw leaves of a request's statements.
    pub fn bend(self, statements: &[String]) -> Vec<String> {
        let kept = |sql: &&String| match self {
            Self::SwapWithoutClaim => !sql.contains("claim_"),
            Self::SwapWithoutLedger => !sql.starts_with("INSERT INTO tidemark.batches "),
            Self::LookWithoutFencing => !(sql.starts_with("CALL ") && sql.contains("fence_off_")),
            Self::NothingDeleted => !sql.starts_with("DELETE FROM ") && *sql != "CALL tidemark.seal()",
            _ => true,
        };
        let mut statements: Vec<String> = statements.iter().filter(kept).cloned().collect();
        if self == Self::FenceOffOneTooFew {
            let call = |sql: &&mut String| sql.starts_with("CALL ") && sql.contains("fence_off_");
            statements.iter_mut().filter(call).for_each(|sql| *sql = one_less(sql));
        }
        statements
    }
}

/// `CALL fence_off('dt=…', 7, …)` with 6.
fn one_less(sql: &str) -> String {
    let fence = |part: &str| part.parse::<u64>().map_or(part.to_owned(), |n| n.saturating_sub(1).to_string());
    let parts: Vec<&str> = sql.split(", ").collect();
    let bent = parts.iter().enumerate().map(|(at, part)| if at == 1 { fence(part) } else { (*part).to_owned() });
    bent.collect::<Vec<_>>().join(", ")
}

/// What tells a write in a trace.
pub fn describe(updates: &[Update]) -> String {
    let one = |update: &Update| {
        let phase = update.changes.iter().find_map(|change| match change {
            Change::Set("batch", batch) => {
                let statement = if batch.get("statement").is_some() { "+statement" } else { "" };
                let phase = batch.get("phase").and_then(Value::as_str).unwrap_or_default();
                Some(format!(" ({phase}{statement} try {})", batch["attempt"]))
            }
            _ => None,
        });
        let kind = match kind(update) {
            Write::Other => "write".to_owned(),
            kind => format!("{kind:?}"),
        };
        format!("{kind} {}{}", place(&update.key), phase.unwrap_or_default())
    };
    updates.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The partition, or what else it is.
pub fn place(key: &Key) -> &str {
    if key.sk == "LOCK" { &key.pk } else { key.sk.trim_start_matches("PARTITION#") }
}

/// Whether this is the item that says which definition is in force.
pub fn is_head(key: &Key, item: Option<&Item>) -> bool {
    key.sk == "DEFINITION" && item.is_some()
}
