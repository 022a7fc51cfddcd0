//! Maintenance of the store: reindex, doctor, rm, gc, backup.

use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::json;

use crate::claude::{Transcript, keep_notes_session};
use crate::env::{TestEnv, seen};

const NOTES: &str = "5e551011-aaaa-4000-8000-000000000001";

fn kept() -> TestEnv {
    let env = TestEnv::new();
    keep_notes_session(&env);
    Transcript::new("other").prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", "s.db"]);
    env
}

fn alter(env: &TestEnv, sql: &str) {
    Connection::open(env.path("s.db")).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn reindex_rebuilds_the_same_derived_data() {
    let env = kept();
    let before = env.done(&["list", "--json", "--store", "s.db"]);
    assert_snapshot!(env.told(&["reindex", "--store", "s.db"]), @"
    exit 0
    --- stdout
    5e551011-aaaa-4000-8000-000000000001  same: 24 records, 17 blocks
    other  same: 3 records, 2 blocks
    --- stderr
    ");
    assert_snapshot!(env.told(&["reindex", "other", "--json", "--store", "s.db"]), @r#"
    exit 0
    --- stdout
    {"id":"other","records":3,"snapshots":0,"changed":false,"hashBefore":"4f129759db7b00a718828a478705d426d6553f4a91ec6e85d2cac2c23d473bd4","hashAfter":"4f129759db7b00a718828a478705d426d6553f4a91ec6e85d2cac2c23d473bd4","blocksBefore":2,"blocksAfter":2}
    --- stderr
    "#);
    assert_eq!(env.done(&["list", "--json", "--store", "s.db"]), before);
}

#[test]
fn a_session_whose_state_changed_is_reported() {
    let env = kept();
    let older = "UPDATE sessions SET summary = json_set(summary, '$.stateHash', 'older', '$.blocks', 1), summary_generation = 0 WHERE name = 'other'";
    alter(&env, older);
    assert_snapshot!(env.told(&["reindex", "other", "--store", "s.db"]), @"
    exit 0
    --- stdout
    other  changed: 3 records, 1 block before, 2 blocks now
    --- stderr
    ");
    assert!(env.done(&["reindex", "other", "--store", "s.db"]).contains("same"));
}

#[test]
fn missing_records_are_reported_as_a_loss_and_the_evidence_is_preserved() {
    let env = kept();
    let last = "DELETE FROM tail; DELETE FROM groups WHERE place = (SELECT max(place) FROM groups)";
    alter(&env, last);
    // Else the deleted rows are still in the file, and a salvage finds them.
    alter(&env, "VACUUM");
    for arguments in [&["doctor"][..], &["doctor", "--deep", "--repair"], &["doctor"]] {
        let told = env.run(&[arguments, &["--store", "s.db"]].concat());
        assert!(told.starts_with("exit 1") && told.contains("are missing"), "{told}");
    }
    for more in [&["--output", "out"][..], &["--output", "saved", "--salvage"]] {
        let told = env.run(&[&["export", "other", "--store", "s.db"], more].concat());
        assert!(!told.starts_with("exit 0") && told.contains("are missing"), "{told}");
    }
}

#[test]
fn a_corrupt_session_does_not_stop_reindex_of_the_others() {
    let env = kept();
    alter(&env, "UPDATE tail SET data = x'00' WHERE place = (SELECT min(place) FROM tail)");
    let told = env.run(&["reindex", "--store", "s.db"]);
    assert!(told.starts_with("exit 2") && told.contains("1 of 2 sessions"), "{told}");
    assert!(told.contains("same:"), "{told}");
}

#[test]
fn an_intact_store_has_no_findings() {
    let env = kept();
    let told = env.told(&["doctor", "--deep", "--store", "s.db"]);
    assert!(told.starts_with("exit 0\n--- stdout\nno problems: 2 sessions, "), "{told}");
    assert_eq!(env.done(&["doctor", "--json", "--store", "s.db"]), "");
}

#[test]
fn a_summary_that_differs_from_the_records_is_found_and_rebuilt() {
    let env = kept();
    alter(
        &env,
        "UPDATE sessions SET summary = json_set(summary, '$.stateHash', 'wrong') WHERE name = 'other'",
    );
    assert!(env.done(&["doctor", "--store", "s.db"]).contains("no problems"), "only deep tells");
    let told = env.told(&["doctor", "--deep", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && told.contains("its state is wrong"), "{told}");
    assert!(told.contains("--deep --repair"), "{told}");
    let repaired = env.told(&["doctor", "--deep", "--repair", "--store", "s.db"]);
    assert!(repaired.starts_with("exit 0") && repaired.contains("  repaired: "), "{repaired}");
    assert!(env.done(&["doctor", "--deep", "--store", "s.db"]).contains("no problems"));
}

/// So many records that there is a snapshot, with a piece that is damaged.
fn damaged_snapshot() -> TestEnv {
    let env = TestEnv::new();
    let long = (0..16_400).fold(Transcript::new("long"), |file, number| {
        file.note(json!({"type": "summary", "summary": number.to_string(), "leafUuid": "none"}))
    });
    long.prompt("Hello").says("Hi").keep(&env, "p");
    env.done(&["import", "--store", "s.db"]);
    alter(
        &env,
        "UPDATE blobs SET data = x'00' WHERE id = (
             SELECT min(blob) FROM snapshot_chunks
             WHERE blob NOT IN (SELECT blob FROM groups UNION SELECT blob FROM blob_refs))",
    );
    env
}

#[test]
fn a_corrupt_snapshot_is_no_loss_and_is_rebuilt() {
    let env = damaged_snapshot();
    let told = env.told(&["doctor", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && told.contains("snapshot at record"), "{told}");
    assert!(!told.contains("backup"), "{told}");
    let repaired = env.told(&["doctor", "--deep", "--repair", "--store", "s.db"]);
    assert!(repaired.starts_with("exit 0") && repaired.contains("  repaired: "), "{repaired}");
    assert!(env.done(&["doctor", "--deep", "--store", "s.db"]).contains("no problems"));
}

#[test]
fn a_failed_rebuild_is_not_reported_as_repaired() {
    let env = damaged_snapshot();
    let first = "(SELECT min(place) FROM groups)";
    alter(&env, &format!("UPDATE groups SET meta = zeroblob(40) WHERE place = {first}"));
    let told = env.told(&["doctor", "--repair", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && !told.contains("  repaired: "), "{told}");
    assert!(told.contains("backup") && told.contains("0 repaired"), "{told}");
}

#[test]
fn corrupt_records_are_reported_and_never_removed_by_repair() {
    let env = kept();
    alter(&env, "UPDATE tail SET data = zeroblob(40) WHERE rowid = (SELECT min(rowid) FROM tail)");
    let told = env.told(&["doctor", "--store", "s.db"]);
    assert!(
        told.starts_with("exit 1") && told.contains("restore the store from a backup"),
        "{told}"
    );
    let repaired = env.told(&["doctor", "--deep", "--repair", "--store", "s.db"]);
    assert!(repaired.starts_with("exit 1") && !repaired.contains("  repaired: "), "{repaired}");
    let left: i64 = Connection::open(env.path("s.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 2);
}

#[test]
fn removing_needs_a_confirmation() {
    let env = kept();
    assert_snapshot!(env.told(&["rm", "other", "--store", "s.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: 1 session would be removed permanently, and stdin is not a terminal: `other`
    hint: use `--yes` to skip the confirmation
    ");
    assert_snapshot!(env.told(&["rm", "nobody", "--yes", "--store", "s.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: session `nobody` is not in the store
    hint: `threadfold list` shows the sessions; `threadfold import` adds one
    ");
    assert_snapshot!(env.told(&["rm", "other", "5e55", "5e55", "--yes", "--store", "s.db"]), @"
    exit 0
    --- stdout
    removed  other
    removed  5e551011-aaaa-4000-8000-000000000001
    --- stderr
    ");
    let listed = env.done(&["list", "--store", "s.db"]);
    assert!(listed.contains("Count the notes") && !listed.contains("both"), "{listed}");
    assert!(env.done(&["gc", "--now", "--store", "s.db"]).starts_with("freed "));
    assert!(env.done(&["gc", "--store", "s.db"]).starts_with("freed 0 pieces"));
}

#[test]
fn a_backup_is_a_store() {
    let env = kept();
    env.done(&["backup", "copy.db", "--store", "s.db"]);
    let refused = env.told(&["backup", "copy.db", "--store", "s.db"]);
    assert_snapshot!(refused, @"
    exit 2
    --- stdout
    --- stderr
    error: `copy.db` already exists
    hint: `--force` replaces it
    ");
    env.done(&["rm", NOTES, "--yes", "--store", "s.db"]);
    assert_eq!(env.done(&["log", NOTES, "--store", "copy.db"]).lines().count(), 24);
    env.done(&["backup", "copy.db", "--force", "--store", "s.db"]);
    assert!(env.told(&["log", NOTES, "--store", "copy.db"]).starts_with("exit 2"));
    let itself = env.told(&["backup", "s.db", "--force", "--store", "s.db"]);
    assert!(itself.contains("is the store itself"), "{itself}");
}

#[test]
fn the_store_can_be_named_in_the_environment() {
    let env = kept();
    let output = env.command(&["log", "other"]).env("THREADFOLD_STORE", "s.db").output().unwrap();
    assert!(seen(&output).starts_with("exit 0"), "{}", seen(&output));
}
