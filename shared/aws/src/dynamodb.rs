//! The state table on DynamoDB.
//!
//! One update is an `UpdateItem`, several are one `TransactWriteItems`; both are judged by DynamoDB on the newest state. A
//! conflict with another transaction says nothing about the conditions, so it is tried again here, for a second or two.

#[cfg(test)]
mod answers;
mod attribute;
mod expression;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_get_items::TransactGetItemsError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Get, ReturnValue, ReturnValuesOnConditionCheckFailure,
    TransactGetItem, TransactWriteItem, Update as TransactUpdate,
};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::update::{Item, Key, Update};
use tidemark_engine::ports::{DueEntry, Effect, Index, Refusal, StateError, StateStore, Written};

use self::attribute::{ForeignAttribute, from_item, key};
use self::expression::Expressions;
use crate::error::{Cause, Fault, is_throttling};
use crate::retry;

type Attributes = HashMap<String, AttributeValue>;

/// The state table.
#[derive(Debug, Clone)]
pub struct StateTable {
    client: Client,
    table: String,
}

impl StateTable {
    /// The table of this name.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    async fn read_one(&self, wanted: &Key) -> Result<Option<Item>, StateError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(key(wanted))).consistent_read(true);
        let answer = request.send().await.map_err(|e| Fault::of("GetItem", &e))?;
        Ok(answer.item().map(from_item).transpose()?)
    }

    async fn read_snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        let mut gets = Vec::with_capacity(keys.len());
        for wanted in keys {
            let get = Get::builder().table_name(&self.table).set_key(Some(key(wanted))).build().map_err(malformed)?;
            gets.push(TransactGetItem::builder().get(get).build());
        }
        let mut last = None;
        for attempt in 0..retry::ATTEMPTS {
            retry::pause(attempt).await;
            match self.client.transact_get_items().set_transact_items(Some(gets.clone())).send().await {
                Ok(answer) if answer.responses().len() == keys.len() => {
                    let items = answer.responses().iter();
                    return items.map(|r| Ok(r.item().map(from_item).transpose()?)).collect();
                }
                Ok(answer) => {
                    let found = format!("{} items for {} keys", answer.responses().len(), keys.len());
                    return Err(Fault::unknown("TransactGetItems", "Incomplete", found).into());
                }
                Err(error) => match read_again(&error) {
                    Some(Passing(why)) => last = Some(why),
                    None => return Err(Fault::of("TransactGetItems", &error).into()),
                },
            }
        }
        Err(StateError::Unavailable { message: last.unwrap_or_default(), effect: Effect::NotApplied })
    }

    async fn write_one(&self, update: &Update) -> Result<Written, StateError> {
        let expressions = Expressions::of(update);
        let mut last = None;
        for attempt in 0..retry::ATTEMPTS {
            retry::pause(attempt).await;
            let expressions = expressions.clone();
            let request = self
                .client
                .update_item()
                .table_name(&self.table)
                .set_key(Some(key(&update.key)))
                .set_condition_expression(expressions.condition)
                .set_update_expression(expressions.update)
                .set_expression_attribute_names(expressions.names)
                .set_expression_attribute_values(expressions.values)
                .return_values(ReturnValue::AllOld)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            let error = match request.send().await {
                Ok(answer) => {
                    return Ok(Written::Applied { before: answer.attributes().map(from_item).transpose()? });
                }
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    return Ok(Written::Refused(vec![Some(found(refused.item())?)]));
                }
                Some(UpdateItemError::TransactionConflictException(conflict)) => {
                    last = Some(format!("UpdateItem: {conflict}"));
                }
                _ => return Err(Fault::of("UpdateItem", &error).into()),
            }
        }
        // An attempt inside the SDK whose answer was lost may have been applied; here no token tells.
        Err(StateError::Unavailable { message: last.unwrap_or_default(), effect: Effect::Unknown })
    }

    async fn write_all(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        let items = updates.iter().map(|u| self.transact_item(u)).collect::<Result<Vec<_>, _>>()?;
        let token = request_token(token);
        let mut last = None;
        for attempt in 0..retry::ATTEMPTS {
            retry::pause(attempt).await;
            let request =
                self.client.transact_write_items().client_request_token(&token).set_transact_items(Some(items.clone()));
            let Err(error) = request.send().await else { return Ok(Written::Applied { before: None }) };
            let Some(TransactWriteItemsError::TransactionCanceledException(canceled)) = error.as_service_error() else {
                return Err(Fault::of("TransactWriteItems", &error).into());
            };
            match judge(canceled.cancellation_reasons(), updates.len()) {
                Cancelled::Refused => {
                    let reasons = canceled.cancellation_reasons().iter().map(refusal);
                    return Ok(Written::Refused(reasons.collect::<Result<_, _>>()?));
                }
                Cancelled::Passing(why) => last = Some(format!("TransactWriteItems: {why}")),
                Cancelled::Unforeseen(why) => {
                    return Err(StateError::Misconfigured(format!("TransactWriteItems: {why}")));
                }
            }
        }
        Err(StateError::Unavailable { message: last.unwrap_or_default(), effect: Effect::NotApplied })
    }

    fn transact_item(&self, update: &Update) -> Result<TransactWriteItem, StateError> {
        let Expressions { condition, update: changes, names, values } = Expressions::of(update);
        let item = TransactWriteItem::builder();
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        // A transaction has a word of its own for an update that changes nothing.
        let Some(changes) = changes else {
            let check = ConditionCheck::builder()
                .table_name(&self.table)
                .set_key(Some(key(&update.key)))
                .set_condition_expression(condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(all_old);
            return Ok(item.condition_check(check.build().map_err(malformed)?).build());
        };
        let update = TransactUpdate::builder()
            .table_name(&self.table)
            .set_key(Some(key(&update.key)))
            .update_expression(changes)
            .set_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(all_old);
        Ok(item.update(update.build().map_err(malformed)?).build())
    }
}

#[async_trait]
impl StateStore for StateTable {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        match keys {
            [] => Ok(Vec::new()),
            [one] => Ok(vec![self.read_one(one).await?]),
            several => self.read_snapshot(several).await,
        }
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        match updates {
            [] => Ok(Written::Applied { before: None }),
            [one] => self.write_one(one).await,
            several => self.write_all(several, token).await,
        }
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        let mut entries = Vec::new();
        let mut start = None;
        while entries.len() < limit {
            let most = i32::try_from(limit - entries.len()).unwrap_or(i32::MAX);
            let (page, next) = match dataset {
                Some(dataset) => self.of_index(index, dataset, &within, most, start).await?,
                None => self.whole_index(index, &within, most, start).await?,
            };
            entries.extend(page.iter().filter_map(|item| entry(item, keys_of(index).1)));
            start = next;
            if start.is_none() {
                break;
            }
        }
        Ok(entries)
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        let after = after.map(|name| format!("{PARTITION}{name}"));
        let items = self.sorted(&format!("{DATASET}{dataset}"), PARTITION, after.as_deref(), limit).await?;
        let read = items.into_iter().filter_map(|item| Some((partition_of(&item)?.partition, item)));
        read.map(|(name, item)| Ok((name, from_item(&item)?))).collect()
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        let items = self.sorted(pk, prefix, after, limit).await?;
        let read = items.into_iter().map(|item| {
            let sk = item.get("sk").and_then(|sk| sk.as_s().ok()).cloned().unwrap_or_default();
            Ok((sk, from_item(&item)?))
        });
        read.collect()
    }
}

/// The attributes that are an index's keys: whose entry it is, and its time.
fn keys_of(index: Index) -> (&'static str, &'static str) {
    match index {
        Index::Due => ("work", "due_at"),
        Index::Parked => ("parked_work", "parked_since"),
    }
}

fn name_of(index: Index) -> &'static str {
    match index {
        Index::Due => "due",
        Index::Parked => "parked",
    }
}

fn time(time: &Timestamp) -> AttributeValue {
    AttributeValue::N(time.as_millisecond().to_string())
}

/// Items, and where the next page begins.
type IndexPage = (Vec<Attributes>, Option<Attributes>);

impl StateTable {
    /// A page of a dataset's entries.
    async fn of_index(
        &self,
        index: Index,
        dataset: &DatasetName,
        within: &RangeInclusive<Timestamp>,
        limit: i32,
        start: Option<Attributes>,
    ) -> Result<IndexPage, StateError> {
        let (hash, range) = keys_of(index);
        let query = self.client.query().table_name(&self.table).index_name(name_of(index));
        let query = query
            .key_condition_expression("#0 = :0 AND #1 BETWEEN :1 AND :2")
            .expression_attribute_names("#0", hash)
            .expression_attribute_names("#1", range)
            .expression_attribute_values(":0", AttributeValue::S(dataset.to_string()))
            .expression_attribute_values(":1", time(within.start()))
            .expression_attribute_values(":2", time(within.end()))
            .limit(limit)
            .set_exclusive_start_key(start);
        let answer = query.send().await.map_err(|e| Fault::of("Query", &e))?;
        Ok((answer.items().to_vec(), answer.last_evaluated_key().cloned()))
    }

    /// A page of all datasets' entries. A scan of one segment gives the entries of a key in the order of their times.
    async fn whole_index(
        &self,
        index: Index,
        within: &RangeInclusive<Timestamp>,
        limit: i32,
        start: Option<Attributes>,
    ) -> Result<IndexPage, StateError> {
        let scan = self.client.scan().table_name(&self.table).index_name(name_of(index));
        let scan = scan
            .filter_expression("#1 BETWEEN :1 AND :2")
            .expression_attribute_names("#1", keys_of(index).1)
            .expression_attribute_values(":1", time(within.start()))
            .expression_attribute_values(":2", time(within.end()))
            .limit(limit)
            .set_exclusive_start_key(start);
        let answer = scan.send().await.map_err(|e| Fault::of("Scan", &e))?;
        Ok((answer.items().to_vec(), answer.last_evaluated_key().cloned()))
    }

    /// Items of a partition key, by the bytes of their sort keys.
    async fn sorted(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Attributes>, StateError> {
        // The least sort key beyond `after`, and the greatest that begins so. A key is never empty, nor may a bound be.
        let first = match after {
            Some(after) => format!("{after}\u{0}"),
            None if prefix.is_empty() => "\u{0}".to_owned(),
            None => prefix.to_owned(),
        };
        let last = format!("{prefix}{}", char::MAX);
        let mut found = Vec::new();
        let mut start = None;
        while found.len() < limit {
            let answer = self
                .client
                .query()
                .table_name(&self.table)
                .consistent_read(true)
                .key_condition_expression("pk = :0 AND sk BETWEEN :1 AND :2")
                .expression_attribute_values(":0", AttributeValue::S(pk.to_owned()))
                .expression_attribute_values(":1", AttributeValue::S(first.clone()))
                .expression_attribute_values(":2", AttributeValue::S(last.clone()))
                .limit(i32::try_from(limit - found.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|e| Fault::of("Query", &e))?;
            found.extend_from_slice(answer.items());
            start = answer.last_evaluated_key().cloned();
            if start.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// How keys of a dataset's items begin.
const DATASET: &str = "DATASET#";
const PARTITION: &str = "PARTITION#";

/// The partition that an item is of. An item that isn't one of ours is told and passed over: it must not keep the others
/// from being seen.
fn partition_of(item: &Attributes) -> Option<PartitionId> {
    let text = |name: &str| item.get(name).and_then(|a| a.as_s().ok());
    let read = || {
        let dataset = DatasetName::new(text("pk")?.strip_prefix(DATASET)?).ok()?;
        let partition = PartitionName::new(text("sk")?.strip_prefix(PARTITION)?).ok()?;
        Some(PartitionId { dataset, partition })
    };
    let id = read();
    if id.is_none() {
        tracing::error!(pk = text("pk"), sk = text("sk"), "an item that is no partition stands among the partitions");
    }
    id
}

/// An index entry; `range` is the index's range key, in milliseconds.
fn entry(item: &Attributes, range: &str) -> Option<DueEntry> {
    let at = item.get(range)?.as_n().ok()?.parse().ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())?;
    Some(DueEntry { id: partition_of(item)?, at })
}

/// What the cancellation of a transaction means.
#[derive(Debug, PartialEq, Eq)]
enum Cancelled {
    /// A condition failed. The others' conflicts don't matter: nothing was applied, and that condition doesn't hold.
    Refused,
    /// Conflict or throttling: it says nothing; again.
    Passing(String),
    /// A reason that the same request would meet again, or one nobody knows.
    Unforeseen(String),
}

/// Judges by each reason's code, never by the exception alone.
fn judge(reasons: &[CancellationReason], updates: usize) -> Cancelled {
    let mut passing = None;
    let mut refused = false;
    if reasons.len() != updates {
        return Cancelled::Unforeseen(format!("{} cancellation reasons for {updates} updates", reasons.len()));
    }
    for reason in reasons {
        match reason.code().unwrap_or_default() {
            "None" => {}
            "ConditionalCheckFailed" => refused = true,
            code if code == "TransactionConflict" || is_throttling(code) => passing = Some(told(reason)),
            _ => return Cancelled::Unforeseen(told(reason)),
        }
    }
    match passing {
        _ if refused => Cancelled::Refused,
        Some(why) => Cancelled::Passing(why),
        None => Cancelled::Unforeseen("cancelled without a reason".to_owned()),
    }
}

fn told(reason: &CancellationReason) -> String {
    format!("{}: {}", reason.code().unwrap_or("no code"), reason.message().unwrap_or_default())
}

fn refusal(reason: &CancellationReason) -> Result<Option<Refusal>, ForeignAttribute> {
    (reason.code() == Some("ConditionalCheckFailed")).then(|| found(reason.item())).transpose()
}

/// The item as it was found; empty where there was none.
fn found(item: Option<&Attributes>) -> Result<Item, ForeignAttribute> {
    item.map_or_else(|| Ok(Item::new()), from_item)
}

struct Passing(String);

fn read_again(error: &SdkError<TransactGetItemsError>) -> Option<Passing> {
    let TransactGetItemsError::TransactionCanceledException(canceled) = error.as_service_error()? else { return None };
    let reasons = canceled.cancellation_reasons();
    match judge(reasons, reasons.len()) {
        Cancelled::Passing(why) => Some(Passing(format!("TransactGetItems: {why}"))),
        _ => None,
    }
}

/// DynamoDB takes at most 36 characters.
fn request_token(token: &str) -> String {
    let mut hash = hex::encode(Sha256::digest(token));
    hash.truncate(32);
    hash
}

fn malformed(error: impl std::fmt::Display) -> StateError {
    StateError::Misconfigured(error.to_string())
}

impl From<Fault> for StateError {
    fn from(fault: Fault) -> Self {
        match fault.cause {
            Cause::Refused => Self::Misconfigured(fault.to_string()),
            Cause::Throttled | Cause::Unreachable => {
                Self::Unavailable { message: fault.to_string(), effect: fault.effect }
            }
        }
    }
}

impl From<ForeignAttribute> for StateError {
    fn from(foreign: ForeignAttribute) -> Self {
        Self::Misconfigured(foreign.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(codes: &[&str]) -> Vec<CancellationReason> {
        codes.iter().map(|code| CancellationReason::builder().code(*code).build()).collect()
    }

    #[test]
    fn c111_a_cancellation_is_judged_by_its_codes() {
        let judged = |codes: &[&str]| judge(&reasons(codes), codes.len());
        assert_eq!(judged(&["None", "ConditionalCheckFailed"]), Cancelled::Refused);
        assert_eq!(judged(&["TransactionConflict", "ConditionalCheckFailed"]), Cancelled::Refused);
        for passing in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
            assert!(matches!(judged(&["None", passing]), Cancelled::Passing(_)), "{passing}");
        }
        for unforeseen in ["ValidationError", "ItemCollectionSizeLimitExceeded", "DuplicateItem", "Novelty", ""] {
            assert!(
                matches!(judged(&["ConditionalCheckFailed", unforeseen]), Cancelled::Unforeseen(_)),
                "{unforeseen}"
            );
        }
        assert!(matches!(judged(&["None", "None"]), Cancelled::Unforeseen(_)));
        assert!(matches!(judge(&reasons(&["ConditionalCheckFailed"]), 2), Cancelled::Unforeseen(_)));
    }

    #[test]
    fn a_token_of_any_length_fits() {
        assert_eq!(request_token(&"x".repeat(500)).len(), 32);
        assert_ne!(request_token("a"), request_token("b"));
    }

    #[test]
    fn an_entry_that_is_no_partition_is_passed_over() {
        let mut item = key(&Key { pk: "DATASET#orders".into(), sk: "PARTITION#dt=2026-11-01".into() });
        item.insert("due_at".into(), AttributeValue::N("5".into()));
        let read = entry(&item, "due_at").unwrap();
        assert_eq!((read.id.to_string(), read.at.as_millisecond()), ("orders dt=2026-11-01".into(), 5));
        item.insert("sk".into(), AttributeValue::S("DEFINITION".into()));
        assert_eq!(entry(&item, "due_at"), None);
    }
}
