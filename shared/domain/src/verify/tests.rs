//! Each rule at its edge, and all of them together.

use proptest::prelude::*;

use super::*;
use crate::sql::tests::{ORDERS, definition};

fn orders() -> Definition {
    definition(ORDERS)
}

fn none() -> BTreeSet<GuardKind> {
    BTreeSet::new()
}

fn kinds(verdict: &Verdict) -> Vec<GuardKind> {
    verdict.problems.iter().map(|problem| problem.kind).collect()
}

/// Three files of 100 rows, staged as they are, over a partition of 100 rows.
fn good() -> (SourceCounts, StageCounts, LoadCounts) {
    let source = SourceCounts { objects: 3, bytes: 900, rows: Some(100) };
    let nulls = orders().required.into_iter().map(|column| (column, 0)).collect();
    let counts = StageCounts {
        staged_rows: 100,
        other_partition_rows: 0,
        duplicate_rows: 0,
        target_rows: 100,
        foreign_rows: 0,
        elsewhere_rows: 0,
        nulls,
    };
    let loads = LoadCounts { copy_query_id: Some(7), distinct_files: 3, listed_files: 3, rejected_rows: 0 };
    (source, counts, loads)
}

#[test]
fn what_is_as_it_should_be_is_good() {
    let (source, counts, loads) = good();
    assert_eq!(staged(&orders(), &none(), &source, &counts, Some(&loads)), Verdict::default());
    assert_eq!(staged(&orders(), &none(), &source, &counts, None), Verdict::default());
    let listed = Listing { objects: 3, missing: 1, told: 1, ..Listing::default() };
    assert_eq!(listing(&orders(), &none(), &listed), Verdict::default());
}

#[test]
fn all_problems_are_told_together() {
    let (mut source, mut counts, mut loads) = good();
    source.rows = Some(110);
    counts.staged_rows = 80;
    counts.other_partition_rows = 2;
    counts.duplicate_rows = 3;
    counts.nulls[1].1 = 4;
    loads.distinct_files = 2;
    loads.listed_files = 2;
    loads.rejected_rows = 5;
    counts.foreign_rows = 6;
    let verdict = staged(&orders(), &none(), &source, &counts, Some(&loads));
    let expected = [
        GuardKind::LoadedFiles,
        GuardKind::RejectedRows,
        GuardKind::RowVariance,
        GuardKind::RequiredNull,
        GuardKind::DuplicateKeys,
        GuardKind::OtherPartition,
        GuardKind::RowDrop,
        GuardKind::ForeignRows,
    ];
    assert_eq!(kinds(&verdict), expected);
    assert!(!verdict.may_heal());
    assert_eq!(verdict.kind(), Some(GuardKind::LoadedFiles));
    expect_test::expect![[r#"
        8 rules are broken.
        loaded_files: COPY loaded 2 files (query 7), 3 stand in its manifest; replay; if it stays, hold sys_load_detail against the manifest.
        rejected_rows: COPY (query 7) refused 5 rows, 0 may; see sys_load_error_detail; mend the files, or raise rejected_rows.
        row_variance: the files hold 110 rows, 80 are staged: 30 differ, 0 may; write the files anew, or raise row_variance.
        required_null: amount is null in 4 staged rows, 0 may; write the files anew, or take the column out of required.
        duplicate_keys: 3 staged rows repeat the key (order_id) of another, 0 may; write the files anew, or raise duplicate_keys.
        other_partition: 2 staged rows belong to another partition by their own columns, 0 may; write those rows below their own path.
        row_drop: 80 rows are staged where the target's partition holds 100: 20 fewer, 10 may go; put the rest of the files there, or replay with accept row_drop.
        foreign_rows: 6 of the target's 100 rows were written by no batch, 0 may; move those rows elsewhere, or replay with accept foreign_rows, which deletes them"#]]
    .assert_eq(&verdict.message().replace(". ", ".\n"));
}

#[test]
fn a_single_problem_is_told_without_a_count() {
    let (source, mut counts, loads) = good();
    counts.duplicate_rows = 3;
    let told = staged(&orders(), &none(), &source, &counts, Some(&loads)).message();
    let expected = "duplicate_keys: 3 staged rows repeat the key (order_id) of another, 0 may; write the files anew, or raise \
                    duplicate_keys";
    assert_eq!(told, expected);
}

#[test]
fn many_null_columns_are_one_problem() {
    let (source, mut counts, loads) = good();
    counts.nulls = (1..=5).map(|n| (ColumnName(format!("c{n}")), n)).collect();
    let verdict = staged(&orders(), &none(), &source, &counts, Some(&loads));
    assert_eq!(kinds(&verdict), [GuardKind::RequiredNull]);
    let told = "c1 is null in 1 staged rows, c2 is null in 2 staged rows, c3 is null in 3 staged rows, and 2 more required \
                columns are null, 0 may";
    assert_eq!(verdict.problems[0].sentence, told);
    assert_eq!(verdict.problems[0].measured, "5 rows");
}

#[test]
fn where_there_is_no_room_what_to_do_is_left_out_and_no_rule() {
    let source = SourceCounts { objects: u64::MAX, bytes: u64::MAX, rows: Some(u64::MAX) };
    let counts = StageCounts {
        staged_rows: u64::MAX / 3,
        other_partition_rows: u64::MAX,
        duplicate_rows: u64::MAX,
        target_rows: u64::MAX,
        foreign_rows: u64::MAX,
        elsewhere_rows: u64::MAX,
        nulls: good().1.nulls.into_iter().map(|(column, _)| (column, u64::MAX)).collect(),
    };
    let loads =
        LoadCounts { copy_query_id: Some(i64::MAX), distinct_files: 1, listed_files: 1, rejected_rows: u64::MAX };
    let verdict = staged(&orders(), &none(), &source, &counts, Some(&loads));
    let told = verdict.message_within(1_400);
    assert!(told.len() <= 1_400 && verdict.message().len() > 1_400, "{}", verdict.message().len());
    for problem in &verdict.problems {
        assert!(told.contains(&format!("{}: {}", problem.kind, problem.sentence)), "{} is not in {told}", problem.kind);
    }
    assert!(!told.contains(verdict.problems[0].remedy));
}

#[test]
fn c119_a_manifest_that_lost_an_object_is_noticed_before_the_copy() {
    let (source, _, _) = good();
    assert!(manifest(&source, &SourceCounts { rows: None, ..source }).is_good());
    for written in [SourceCounts { objects: 2, ..source }, SourceCounts { bytes: 800, ..source }] {
        let verdict = manifest(&source, &written);
        assert_eq!(kinds(&verdict), [GuardKind::Manifest]);
        assert!(!verdict.may_heal());
        assert!(verdict.message().contains("3 objects of 900 bytes were listed"), "{}", verdict.message());
    }
}

#[test]
fn foreign_rows_are_told_beside_other_problems_unless_they_may_go() {
    let (source, mut counts, loads) = good();
    counts.foreign_rows = 1;
    assert!(staged(&orders(), &none(), &source, &counts, Some(&loads)).is_good(), "the swap asks, after its claim");
    counts.duplicate_rows = 1;
    let both = [GuardKind::DuplicateKeys, GuardKind::ForeignRows];
    assert_eq!(kinds(&staged(&orders(), &none(), &source, &counts, Some(&loads))), both);
    let accepted = BTreeSet::from([GuardKind::ForeignRows]);
    assert_eq!(kinds(&staged(&orders(), &accepted, &source, &counts, Some(&loads))), both[..1]);
    let mut definition = orders();
    definition.tolerance.foreign_rows = ForeignRows::Accept;
    assert_eq!(kinds(&staged(&definition, &none(), &source, &counts, Some(&loads))), both[..1]);
}

#[test]
fn c119_a_file_missing_from_the_manifest() {
    let (mut source, counts, mut loads) = good();
    source.objects = 23;
    loads.distinct_files = 22;
    loads.listed_files = 22;
    assert_eq!(kinds(&staged(&orders(), &none(), &source, &counts, Some(&loads))), [GuardKind::LoadedFiles]);
    loads.distinct_files = 24;
    loads.listed_files = 24;
    assert_eq!(kinds(&staged(&orders(), &none(), &source, &counts, Some(&loads))), [GuardKind::LoadedFiles]);
}

#[test]
fn names_cut_by_the_view_are_no_missing_files() {
    let (source, counts, mut loads) = good();
    loads.distinct_files = 1;
    assert!(staged(&orders(), &none(), &source, &counts, Some(&loads)).is_good());
}

#[test]
fn a_view_that_shows_nothing_is_unknown() {
    let (source, counts, _) = good();
    assert!(staged(&orders(), &none(), &source, &counts, Some(&LoadCounts::default())).is_good());
}

#[test]
fn c146_maxerror_hides_rows() {
    let (source, counts, mut loads) = good();
    let mut definition = orders();
    definition.tolerance.rejected_rows = 5;
    loads.rejected_rows = 5;
    assert!(staged(&definition, &none(), &source, &counts, Some(&loads)).is_good());
    loads.rejected_rows = 6;
    assert_eq!(kinds(&staged(&definition, &none(), &source, &counts, Some(&loads))), [GuardKind::RejectedRows]);
}

#[test]
fn c144_header_in_every_file_shows_as_rows() {
    let (mut source, mut counts, loads) = good();
    source.rows = Some(4);
    counts.staged_rows = 5;
    counts.target_rows = 0;
    assert_eq!(kinds(&staged(&orders(), &none(), &source, &counts, Some(&loads))), [GuardKind::RowVariance]);
}

#[test]
fn a_row_drop_waits_and_may_be_accepted() {
    let (mut source, mut counts, loads) = good();
    source.rows = None;
    counts.staged_rows = 90;
    assert!(staged(&orders(), &none(), &source, &counts, Some(&loads)).is_good(), "10% may go");
    counts.staged_rows = 89;
    let verdict = staged(&orders(), &none(), &source, &counts, Some(&loads));
    assert_eq!(kinds(&verdict), [GuardKind::RowDrop]);
    assert!(verdict.may_heal());
    let accepted = BTreeSet::from([GuardKind::RowDrop]);
    assert!(staged(&orders(), &accepted, &source, &counts, Some(&loads)).is_good());
    let mut definition = orders();
    definition.tolerance.row_drop = RowDrop::Accept;
    assert!(staged(&definition, &none(), &source, &counts, Some(&loads)).is_good());
    definition.tolerance.row_drop = RowDrop::Refuse;
    counts.staged_rows = 99;
    assert_eq!(kinds(&staged(&definition, &none(), &source, &counts, Some(&loads))), [GuardKind::RowDrop]);
}

#[test]
fn an_accepted_empty_source_is_no_row_drop() {
    let (_, mut counts, _) = good();
    counts.staged_rows = 0;
    let source = SourceCounts::default();
    assert!(staged(&orders(), &none(), &source, &counts, None).is_good());
}

#[test]
fn c024_an_empty_source_is_refused_unless_told_otherwise() {
    let empty = Listing { missing: 3, told: 0, ..Listing::default() };
    let verdict = listing(&orders(), &none(), &empty);
    assert_eq!(kinds(&verdict), [GuardKind::EmptySource]);
    assert!(verdict.may_heal());
    assert!(listing(&orders(), &BTreeSet::from([GuardKind::EmptySource]), &empty).is_good());
    let mut definition = orders();
    definition.tolerance.empty_source = EmptySource::Delete;
    assert!(listing(&definition, &none(), &empty).is_good());
}

#[test]
fn missing_objects_are_counted_against_what_was_told() {
    let gone = Listing { objects: 5, missing: 3, missing_example: Some("a.parquet"), told: 2, ..Listing::default() };
    let verdict = listing(&orders(), &none(), &gone);
    assert_eq!(kinds(&verdict), [GuardKind::MissingObjects]);
    let sentence = &verdict.problems[0].sentence;
    assert!(
        sentence.contains("3 objects") && sentence.contains("a.parquet") && sentence.contains("told of 2"),
        "{sentence}"
    );
    assert!(listing(&orders(), &BTreeSet::from([GuardKind::MissingObjects]), &gone).is_good());
    let mut definition = orders();
    definition.tolerance.missing_objects = MissingObjects::Accept;
    assert!(listing(&definition, &none(), &gone).is_good());
    definition.tolerance.missing_objects = MissingObjects::Refuse;
    assert!(!listing(&definition, &none(), &Listing { told: 3, ..gone }).is_good());
}

#[test]
fn where_the_last_inventory_cant_be_read_missing_objects_says_so() {
    let unreadable =
        Listing { objects: 5, told: 9, unreadable: Some("s3://c/i can't be read: gone"), ..Listing::default() };
    let verdict = listing(&orders(), &none(), &unreadable);
    assert_eq!(kinds(&verdict), [GuardKind::MissingObjects]);
    assert!(verdict.message().contains("s3://c/i can't be read: gone"), "{}", verdict.message());
    assert!(listing(&orders(), &BTreeSet::from([GuardKind::MissingObjects]), &unreadable).is_good());
    let mut definition = orders();
    definition.tolerance.missing_objects = MissingObjects::Accept;
    assert!(listing(&definition, &none(), &unreadable).is_good());
}

#[test]
fn archived_objects_park_at_once() {
    let archived = Listing { objects: 5, archived: 1, archived_example: Some("old.parquet"), ..Listing::default() };
    let verdict = listing(&orders(), &none(), &archived);
    assert_eq!(kinds(&verdict), [GuardKind::ArchivedObjects]);
    assert!(!verdict.may_heal());
    assert!(verdict.message().contains("old.parquet"));
}

#[test]
fn the_names_are_the_stored_ones() {
    for kind in GuardKind::ALL {
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
    }
}

proptest! {
    #[test]
    fn a_share_is_never_off_by_one(percent in 0_u32..=100, rows in 0_u64..10_000_000) {
        prop_assert_eq!(share_of(f64::from(percent) / 100.0, rows), rows * u64::from(percent) / 100);
    }

    #[test]
    fn accepting_more_never_finds_more(
        staged_rows in 0_u64..200, target_rows in 0_u64..200, objects in 0_u64..4, source_rows in proptest::option::of(0_u64..200)
    ) {
        let (_, mut counts, loads) = good();
        counts.staged_rows = staged_rows;
        counts.target_rows = target_rows;
        let source = SourceCounts { objects, bytes: 1, rows: source_rows };
        let all: BTreeSet<_> = GuardKind::ALL.into();
        let strict = staged(&orders(), &none(), &source, &counts, Some(&loads));
        let lenient = staged(&orders(), &all, &source, &counts, Some(&loads));
        prop_assert!(lenient.problems.iter().all(|problem| strict.problems.contains(problem)));
    }
}
