//! Texts and codes as AWS documents them and as people have reported them.

use super::*;

fn refused(call: ApiCall, code: &str, message: &str) -> (FailureKind, Effect) {
    match api_refusal(call, code, message) {
        ApiRefusal::Failed(failure) => (failure.kind, failure.effect),
        other => panic!("{other:?}"),
    }
}

fn failed(sql: &str, error: &str) -> FailureKind {
    statement_failure(Some(SubStatementError { number: 4, sql, error }), "").kind
}

#[test]
fn c164_throttle_dressed_as_validation_exception() {
    let text = "Service returned error code ThrottlingException (Service: RedshiftServerless, Status Code: 400)";
    assert_eq!(refused(ApiCall::Submit, "ValidationException", text), (FailureKind::Unavailable, Effect::Unknown));
    let other = "Database name is not valid";
    assert_eq!(
        refused(ApiCall::Submit, "ValidationException", other),
        (FailureKind::Misconfigured, Effect::NotApplied)
    );
}

#[test]
fn c166_active_statements_exceeded() {
    let text = "Active statements exceeded the allowed quota (500).";
    let code = "ActiveStatementsExceededException";
    assert_eq!(refused(ApiCall::Submit, code, text), (FailureKind::Unavailable, Effect::Unknown));
}

#[test]
fn c176_secret_with_wrong_keys() {
    let text = "username and password in secret cannot be empty";
    assert_eq!(refused(ApiCall::Submit, "ValidationException", text), (FailureKind::Misconfigured, Effect::NotApplied));
}

#[test]
fn c177_who_may_describe_a_statement() {
    let text = "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: redshift-data:DescribeStatement";
    assert_eq!(
        refused(ApiCall::Describe, "AccessDeniedException", text),
        (FailureKind::Misconfigured, Effect::Unknown)
    );
}

#[test]
fn c181_long_polling_too_many_waiters() {
    let refusal = api_refusal(ApiCall::Describe, "ActiveWaitingRequestsExceededException", "Too many waiting requests");
    assert_eq!(refusal, ApiRefusal::TooManyWaiters);
}

#[test]
fn refusals_of_the_data_api() {
    use ApiCall::{Describe, Result, Submit};
    use Effect::{NotApplied, Unknown};
    use FailureKind::{Bug, Misconfigured, Unavailable};
    let table = [
        (Submit, "ThrottlingException", "Rate exceeded", Unavailable, Unknown),
        (Submit, "com.amazonaws.redshiftdata#InternalServerException", "", Unavailable, Unknown),
        (Submit, "BatchExecuteStatementException", "environmental error", Unavailable, Unknown),
        (Submit, "Transport", "connection reset by peer", Unavailable, Unknown),
        (Submit, "Http503", "status 503", Unavailable, Unknown),
        (Describe, "Http502", "status 502", Unavailable, Unknown),
        (Result, "Http429", "status 429", Unavailable, Unknown),
        (Submit, "Http404", "status 404", Bug, Unknown),
        (Submit, "ValidationException", "Cluster c1 is paused", Unavailable, Unknown),
        (Submit, "ValidationException", "Redshift endpoint doesn't exist in this region.", Misconfigured, NotApplied),
        (
            Submit,
            "ValidationException",
            "Either ClusterIdentifier or WorkgroupName needs to be specified.",
            Misconfigured,
            NotApplied,
        ),
        (
            Submit,
            "ValidationException",
            "1 validation error detected: Value at 'sqls' failed to satisfy constraint",
            Bug,
            NotApplied,
        ),
        (
            Submit,
            "AccessDeniedException",
            "not authorized to perform: redshift:GetClusterCredentials",
            Misconfigured,
            NotApplied,
        ),
        (
            Submit,
            "ExpiredTokenException",
            "The security token included in the request is expired",
            Unavailable,
            Unknown,
        ),
        (Describe, "InternalServerException", "oops", Unavailable, Unknown),
        (Result, "SomethingNew", "?", Bug, Unknown),
    ];
    for (call, code, message, kind, effect) in table {
        assert_eq!(refused(call, code, message), (kind, effect), "{code}: {message}");
    }
}

#[test]
fn refusals_that_are_answers() {
    let no_result = "Query does not have result. Please check query status with DescribeStatement.";
    assert_eq!(api_refusal(ApiCall::Result, "ResourceNotFoundException", no_result), ApiRefusal::NoResult);
    let unknown = "Query does not exist.";
    assert_eq!(api_refusal(ApiCall::Describe, "ResourceNotFoundException", unknown), ApiRefusal::NoSuchStatement);
    let over = "Could not cancel a query that is already in FINISHED state with ID: d9b6c0c9";
    assert_eq!(api_refusal(ApiCall::Cancel, "ValidationException", over), ApiRefusal::AlreadyOver);
}

#[test]
fn c151_conflict_text_of_snapshot_isolation() {
    for text in [
        "ERROR: could not complete because of conflict with concurrent transaction",
        "ERROR: deadlock detected\n  Detail: Process 1 waits for AccessExclusiveLock",
        "ERROR: 1018 DETAIL: Relation does not exist.",
        "ERROR: could not open relation with OID 123",
    ] {
        assert_eq!(failed("DELETE FROM t", text), FailureKind::Contended, "{text}");
    }
    let aborted = "ERROR: current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(statement_failure(None, aborted).kind, FailureKind::Unavailable, "25P02 alone tells no cause");
    let cancelled = "ERROR: Query (4711) cancelled on user's request";
    assert_eq!(failed("COPY t", cancelled), FailureKind::TooSlow);
    assert_eq!(failed("LOCK TABLE t", "ERROR: Query (4711) canceled on user's request"), FailureKind::Contended);
}

#[test]
fn c147_1023_between_concurrent_loads_of_one_table() {
    let text = "ERROR: 1023\n  Detail: Serializable isolation violation on table - 100161, transactions forming the cycle \
                are: 2011, 2012 (pid:32) [ErrorId: 1-6a]";
    let failure = statement_failure(Some(SubStatementError { number: 8, sql: "DELETE FROM t", error: text }), "");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Contended, Effect::NotApplied));
    assert!(failure.kind.may_be_retried());
    assert!(
        failure.message.starts_with("statement 8 (DELETE): ERROR: 1023 Detail: Serializable"),
        "{}",
        failure.message
    );
}

#[test]
fn c161_25p02_hides_the_first_error() {
    let sub = |number, error| SubStatementError { number, sql: "COPY t FROM 's3://b/m'", error };
    let errors = [
        sub(2, "ERROR: current transaction is aborted, commands ignored until end of transaction block"),
        sub(3, "ERROR: Load into table 't' failed.  Check 'sys_load_error_detail' system table for details."),
        sub(4, "Connection or an prior query failed."),
    ];
    let failure = statement_failure(culprit(&errors), "Connection or an prior query failed.");
    assert_eq!(failure.kind, FailureKind::RejectedData);
    assert!(failure.message.starts_with("statement 3 (COPY): ERROR: Load into table"), "{}", failure.message);
}

#[test]
fn a_refused_connection_leaves_only_the_parent_to_blame() {
    let errors = [SubStatementError { number: 1, sql: "SET x TO 1", error: "Connection or an prior query failed." }];
    assert_eq!(culprit(&errors), None);
    let failure = statement_failure(None, "FATAL: password authentication failed for user \"x\"");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Misconfigured, Effect::Unknown));
    let lost = statement_failure(None, "FATAL: An I/O error occurred while sending to the backend.");
    assert_eq!(
        (lost.kind, lost.effect),
        (FailureKind::Unavailable, Effect::Unknown),
        "COMMIT's answer may be what is lost"
    );
    let failure = statement_failure(None, "The connection attempt failed.");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Unavailable, Effect::Unknown));
}

#[test]
fn c122_no_such_key_while_copy_reads() {
    let text =
        "ERROR: S3ServiceException:The specified key does not exist.,Status 404,Error NoSuchKey,Rid X,CanRetry 1";
    assert_eq!(failed("COPY t", text), FailureKind::SourceChanged);
}

#[test]
fn c118_object_overwritten_between_list_and_copy() {
    let text = "ERROR: Spectrum Scan Error\n  Detail: \n  -----------------------------------------------\n  error:  \
                Spectrum Scan Error\n  code:      15001\n  context:   S3 Query Exception (Fetch). HTTP response error code: 416 Message: InvalidRange";
    assert_eq!(failed("COPY t", text), FailureKind::SourceChanged);
}

#[test]
fn c127_column_counts_differ() {
    let text = "ERROR: Spectrum Scan Error\n  Detail: \n  -----\n  error:  Spectrum Scan Error\n  code:      15007\n  \
                context:   File 'https://s3.eu-west-1.amazonaws.com/lake/p.parquet' has an incompatible Parquet schema\n  \
                query:     12\n";
    let failure = statement_failure(Some(SubStatementError { number: 4, sql: "COPY t", error: text }), "");
    assert_eq!(failure.kind, FailureKind::RejectedData);
    assert!(!failure.kind.may_be_retried());
    for kept in ["15007", "p.parquet", "incompatible Parquet schema"] {
        assert!(failure.message.contains(kept), "{} lacks {kept}", failure.message);
    }
}

#[test]
fn an_archived_file_is_one_files_fault_and_halts_no_dataset() {
    let text = "ERROR: S3ServiceException:The operation is not valid for the object's storage class,Status 403,\
                Error InvalidObjectState,Rid 4F2,CanRetry 1";
    assert_eq!(failed("COPY", text), FailureKind::RejectedData);
    let denied = "ERROR: S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid 4F2,CanRetry 1";
    assert_eq!(failed("COPY", denied), FailureKind::Misconfigured);
}

#[test]
fn what_spectrum_asks_to_try_later_rejects_nothing() {
    for context in
        ["Retries exceeded", "Access throttled", "S3 Query Exception (Fetch). Resource temporarily unavailable"]
    {
        let text = format!("ERROR: Spectrum Scan Error\n code: 15001\n context: {context}");
        assert_eq!(failed("COPY", &text), FailureKind::Unavailable, "{context}");
    }
}

#[test]
fn c129_parquet_string_length_is_bytes() {
    let text = "ERROR: Spectrum Scan Error\n code: 15001\n context: The length of the data column title is longer than the \
                length defined in the table. Table: 256, Data: 320";
    assert_eq!(failed("COPY t", text), FailureKind::RejectedData);
}

#[test]
fn c132_staging_wider_than_target() {
    assert_eq!(
        failed("INSERT INTO t", "ERROR: value too long for type character varying(512)"),
        FailureKind::RejectedData
    );
}

#[test]
fn c139_identity_column() {
    let text = "ERROR: NOT NULL column without DEFAULT must be included in column list";
    assert_eq!(failed("COPY t", text), FailureKind::Misconfigured);
}

#[test]
fn texts_of_the_engine() {
    use FailureKind::{
        Bug, EpochOver, ForeignRows, Misconfigured, RejectedData, SourceChanged, Superseded, TooSlow, Unavailable,
    };
    let table = [
        ("ERROR: TIDEMARK-SUPERSEDED: partition dt=1023 is at fence 7, not older than 6", Superseded),
        ("ERROR: TIDEMARK-EPOCH: the target is at epoch 4, newer than 3", EpochOver),
        ("ERROR: TIDEMARK-REWOUND: the target is at epoch 2, older than 3", Misconfigured),
        ("ERROR: TIDEMARK-OWNER: the target belongs to dataset a of stack b (0 guard rows match)", Misconfigured),
        ("ERROR: TIDEMARK-FOREIGN-ROWS: 3 of the 9 rows to be deleted were written by no batch of ours", ForeignRows),
        ("ERROR: TIDEMARK-SEAL: the partition holds 9 rows after the swap, but 8 were staged", Bug),
        ("ERROR: TIDEMARK-STAGED: staging holds 9 rows, but 8 were verified", Bug),
        ("ERROR: permission denied for relation orders", Misconfigured),
        ("ERROR: permission denied for schema sales", Misconfigured),
        ("ERROR: relation \"sales.orders\" does not exist", Misconfigured),
        ("ERROR: column \"x\" of relation \"orders\" does not exist", Misconfigured),
        (
            "ERROR: User arn:aws:redshift:eu-west-1:1:dbuser:c/u is not authorized to assume IAM Role arn:aws:iam::1:role/r",
            Misconfigured,
        ),
        ("ERROR: S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid X", Misconfigured),
        (
            "ERROR: S3ServiceException:The bucket you are attempting to access must be addressed, Status 301",
            Misconfigured,
        ),
        ("ERROR: Mandatory url is not present in manifest file", SourceChanged),
        ("ERROR: The specified S3 prefix 'x' does not exist", SourceChanged),
        (
            "ERROR: Problem reading manifest file - S3ServiceException:The specified key does not exist.,Status 404",
            SourceChanged,
        ),
        ("ERROR: S3ServiceException:Please reduce your request rate.,Status 503,Error SlowDown", Unavailable),
        ("ERROR: File entry does not have 'meta' key. code 15003", Bug),
        ("ERROR: Load into table 't' failed.  Check 'stl_load_errors' system table for details.", RejectedData),
        ("ERROR: Cannot insert a NULL value into column c", RejectedData),
        ("ERROR: Assert code: 1000 context: Unreachable - Invalid type: 4000", RejectedData),
        ("ERROR: Unexpected end of AVRO file.", RejectedData),
        ("ERROR: Query (12) canceled on user's request", TooSlow),
        ("ERROR: Query (12) cancelled by WLM abort action of Query Monitoring Rule \"r\"", TooSlow),
        ("FATAL: terminating connection due to administrator command", Unavailable),
        ("FATAL: An I/O error occurred while sending to the backend.", Unavailable),
        ("java.net.SocketException: Broken pipe (Write failed)", Unavailable),
        ("ERROR: Disk Full", Unavailable),
        ("ERROR: syntax error at or near \"x\"\n  Position: 3", Bug),
        ("ERROR: something nobody has ever seen", Bug),
    ];
    for (text, kind) in table {
        assert_eq!(failed("COPY t", text), kind, "{text}");
    }
}

#[test]
fn u01_a_file_of_another_compression_is_the_files_fault() {
    let text = "ERROR: S3ServiceException:failed to inflate: invalid gzip header, file s3://b/k.csv. code: 9001";
    assert_eq!(failed("COPY t", text), FailureKind::RejectedData);
}

#[test]
fn u03_one_object_that_may_not_be_read_halts_and_is_not_tried_as_one_that_is_gone() {
    let text =
        "ERROR: S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid X,ExtRid Y,CanRetry 1, s3://b/k.csv";
    assert_eq!(failed("COPY t", text), FailureKind::Misconfigured);
}

#[test]
fn a_raise_is_told_without_its_place() {
    let error =
        "ERROR: TIDEMARK-SEAL: the partition holds 9 rows\n  Where: PL/pgSQL function tidemark.seal() line 9 at RAISE";
    let failure = statement_failure(Some(SubStatementError { number: 11, sql: "CALL tidemark.seal()", error }), error);
    assert_eq!(failure.message, "statement 11 (CALL): ERROR: TIDEMARK-SEAL: the partition holds 9 rows");
}

#[test]
fn a_cancelled_statement_leaves_no_text() {
    let failure = statement_failure(None, "");
    assert_eq!((failure.kind, failure.effect), (FailureKind::TooSlow, Effect::Unknown));
    assert_eq!(failure.message, "it was cancelled, and no error was told");
}

#[test]
fn a_files_name_decides_nothing() {
    for name in ["part-1023-1018.parquet", "tidemark-seal/connection/status-503.parquet", "paused/57014.parquet"] {
        let text = format!(
            "ERROR: Spectrum Scan Error code: 15007 context: File 's3://b/{name}' has an incompatible Parquet schema"
        );
        assert_eq!(failed("COPY t", &text), FailureKind::RejectedData, "{name}");
    }
}

#[test]
fn the_own_staging_table_is_recognised() {
    let error = "ERROR: Relation \"batch_01936000-0000-7000-8000-000000000002\" already exists";
    assert!(staging_exists(error, "batch_01936000-0000-7000-8000-000000000002"));
    assert!(!staging_exists(error, "batch_01936000-0000-7000-8000-000000000003"));
    assert!(!staging_exists("ERROR: relation \"tidemark_counts\" already exists", "batch_1"));
}
