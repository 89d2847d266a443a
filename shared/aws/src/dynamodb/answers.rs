//! Tests: what becomes of DynamoDB's odd answers.

use serde_json::{Value, json};
use tidemark_domain::update::{Change, Condition, Item, Key, Update};
use tidemark_engine::ports::{Effect, StateError, StateStore as _, Written};

use super::StateTable;
use crate::retry;
use crate::stub::{Answer, Stub, refusal};

fn update(sk: &str) -> Update {
    let key = Key { pk: "P".into(), sk: sk.into() };
    Update { key, conditions: vec![Condition::Equals("fence", 7.into())], changes: vec![Change::Add("fence", 1)] }
}

fn canceled(codes: &[&str]) -> Answer {
    let reasons: Vec<Value> = codes
        .iter()
        .map(|code| match *code {
            "ConditionalCheckFailed" => {
                json!({"Code": code, "Message": "m", "Item": {"pk": {"S": "P"}, "fence": {"N": "9"}}})
            }
            code => json!({"Code": code}),
        })
        .collect();
    (400, json!({"__type": "TransactionCanceledException", "Message": "cancelled", "CancellationReasons": reasons}))
}

fn table(stub: &Stub) -> StateTable {
    StateTable::new(aws_sdk_dynamodb::Client::new(&stub.sdk), "state")
}

#[tokio::test]
async fn c109_a_conflict_is_tried_again_with_the_same_token() {
    let stub = Stub::answering([canceled(&["TransactionConflict", "None"]), (200, json!({}))]).await;
    let written = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap();
    assert_eq!(written, Written::Applied { before: None });
    let tokens: Vec<_> = stub.asked().iter().map(|a| a.body["ClientRequestToken"].clone()).collect();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1] && tokens[0].as_str().unwrap().len() <= 36, "{tokens:?}");
}

#[tokio::test]
async fn c109_a_conflict_that_lasts_is_unavailable_and_nothing_was_written() {
    let stub = Stub::answering((0..retry::ATTEMPTS).map(|_| canceled(&["None", "TransactionConflict"]))).await;
    let error = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap_err();
    assert!(matches!(&error, StateError::Unavailable { effect: Effect::NotApplied, .. }), "{error}");
    assert!(stub.is_done() && error.to_string().contains("TransactionConflict"), "{error}");
}

#[tokio::test]
async fn a_refused_transaction_gives_the_item_whose_condition_failed() {
    let stub = Stub::answering([canceled(&["None", "ConditionalCheckFailed"])]).await;
    let written = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap();
    assert_eq!(written, Written::Refused(vec![None, Some(Item::from([("fence".into(), json!(9))]))]));
}

#[tokio::test]
async fn c111_throttling_in_a_cancellation_is_no_refusal() {
    let stub = Stub::answering([canceled(&["ThrottlingError", "None"]), (200, json!({}))]).await;
    let written = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap();
    assert_eq!(written, Written::Applied { before: None });
}

#[tokio::test]
async fn c111_a_reason_nobody_knows_is_an_error() {
    let stub = Stub::answering([canceled(&["Novelty", "ConditionalCheckFailed"])]).await;
    let error = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap_err();
    assert!(matches!(&error, StateError::Misconfigured(why) if why.contains("Novelty")), "{error}");
}

#[tokio::test]
async fn a_token_used_for_another_request_is_an_error() {
    let stub = Stub::answering([refusal(400, "IdempotentParameterMismatchException", "other parameters")]).await;
    let error = table(&stub).write(&[update("a"), update("b")], "take").await.unwrap_err();
    assert!(matches!(error, StateError::Misconfigured(_)), "{error}");
}

#[tokio::test]
async fn c100_a_single_write_in_conflict_is_tried_again() {
    let conflict = || refusal(400, "TransactionConflictException", "a transaction is under way");
    let stub = Stub::answering([conflict(), conflict(), (200, json!({"Attributes": {"fence": {"N": "7"}}}))]).await;
    let written = table(&stub).write(&[update("a")], "record").await.unwrap();
    assert_eq!(written, Written::Applied { before: Some(Item::from([("fence".into(), json!(7))])) });
    assert_eq!(stub.operations(), ["UpdateItem"; 3]);
}

#[tokio::test]
async fn c096_a_failed_condition_is_an_outcome_with_the_item_as_found() {
    let failed = json!({"__type": "ConditionalCheckFailedException", "message": "m", "Item": {"fence": {"N": "8"}}});
    let absent = json!({"__type": "ConditionalCheckFailedException", "message": "m"});
    let stub = Stub::answering([(400, failed), (400, absent)]).await;
    let refused = |item| Written::Refused(vec![Some(item)]);
    let table = table(&stub);
    let written = table.write(&[update("a")], "record").await.unwrap();
    assert_eq!(written, refused(Item::from([("fence".into(), json!(8))])));
    assert_eq!(table.write(&[update("a")], "record").await.unwrap(), refused(Item::new()));
}

#[tokio::test]
async fn a_service_that_fails_or_throttles_is_unavailable_with_an_unknown_effect() {
    for (status, code) in [(500, "InternalServerError"), (400, "ThrottlingException")] {
        let stub = Stub::answering((0..3).map(|_| refusal(status, code, "later"))).await;
        let error = table(&stub).write(&[update("a")], "record").await.unwrap_err();
        assert!(
            matches!(&error, StateError::Unavailable { effect: Effect::Unknown, message } if message.contains(code))
        );
        assert!(stub.is_done(), "the SDK makes three attempts");
    }
}

#[tokio::test]
async fn a_missing_table_is_a_matter_of_configuration() {
    let stub = Stub::answering([refusal(400, "ResourceNotFoundException", "no such table")]).await;
    let error = table(&stub).read(&[Key { pk: "P".into(), sk: "S".into() }]).await.unwrap_err();
    assert!(matches!(&error, StateError::Misconfigured(why) if why.contains("GetItem")), "{error}");
}

#[tokio::test]
async fn a_snapshot_in_conflict_is_read_again() {
    let found = json!({"Responses": [{"Item": {"pk": {"S": "P"}, "a": {"S": "x"}}}, {}]});
    let stub = Stub::answering([canceled(&["TransactionConflict", "None"]), (200, found)]).await;
    let keys = ["a", "b"].map(|sk| Key { pk: "P".into(), sk: sk.into() });
    let items = table(&stub).read(&keys).await.unwrap();
    assert_eq!(items, [Some(Item::from([("a".into(), json!("x"))])), None]);
}
