//! Upkeep of the store: reindex, doctor, rm, gc, backup.

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
fn what_is_derived_is_made_again_and_is_the_same() {
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
    {"id":"other","records":3,"snapshots":0,"changed":false,"hashBefore":"661ccadf77eaf0135157404c1e530470b1017728e1e8fbc334fa4016124aea29","hashAfter":"661ccadf77eaf0135157404c1e530470b1017728e1e8fbc334fa4016124aea29","blocksBefore":2,"blocksAfter":2}
    --- stderr
    "#);
    assert_eq!(env.done(&["list", "--json", "--store", "s.db"]), before);
}

#[test]
fn a_session_that_means_something_else_now_is_said() {
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
fn records_that_are_gone_are_told_as_a_loss_and_the_proof_stays() {
    let env = kept();
    let last = "DELETE FROM tail; DELETE FROM groups WHERE place = (SELECT max(place) FROM groups)";
    alter(&env, last);
    for arguments in [&["doctor"][..], &["doctor", "--deep", "--repair"], &["doctor"]] {
        let told = env.run(&[arguments, &["--store", "s.db"]].concat());
        assert!(told.starts_with("exit 1") && told.contains("were there once"), "{told}");
    }
    for more in [&["--output", "out"][..], &["--output", "saved", "--salvage"]] {
        let told = env.run(&[&["export", "other", "--store", "s.db"], more].concat());
        assert!(!told.starts_with("exit 0") && told.contains("were there once"), "{told}");
    }
}

#[test]
fn one_damaged_session_does_not_keep_the_others_from_being_made_again() {
    let env = kept();
    alter(&env, "UPDATE tail SET data = x'00' WHERE place = (SELECT min(place) FROM tail)");
    let told = env.run(&["reindex", "--store", "s.db"]);
    assert!(told.starts_with("exit 2") && told.contains("1 of 2 sessions"), "{told}");
    assert!(told.contains("same:"), "{told}");
}

#[test]
fn a_store_that_is_whole_is_well() {
    let env = kept();
    let told = env.told(&["doctor", "--deep", "--store", "s.db"]);
    assert!(told.starts_with("exit 0\n--- stdout\nall is well: 2 sessions, "), "{told}");
    assert_eq!(env.done(&["doctor", "--json", "--store", "s.db"]), "");
}

#[test]
fn a_summary_that_the_records_do_not_give_is_found_and_made_again() {
    let env = kept();
    alter(
        &env,
        "UPDATE sessions SET summary = json_set(summary, '$.stateHash', 'wrong') WHERE name = 'other'",
    );
    assert!(env.done(&["doctor", "--store", "s.db"]).contains("all is well"), "only deep tells");
    let told = env.told(&["doctor", "--deep", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && told.contains("has state wrong"), "{told}");
    assert!(told.contains("--deep --repair"), "{told}");
    let repaired = env.told(&["doctor", "--deep", "--repair", "--store", "s.db"]);
    assert!(repaired.starts_with("exit 0") && repaired.contains("  repaired: "), "{repaired}");
    assert!(env.done(&["doctor", "--deep", "--store", "s.db"]).contains("all is well"));
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
fn a_damaged_snapshot_is_no_loss_and_is_made_again() {
    let env = damaged_snapshot();
    let told = env.told(&["doctor", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && told.contains("snapshot at record"), "{told}");
    assert!(!told.contains("backup"), "{told}");
    let repaired = env.told(&["doctor", "--deep", "--repair", "--store", "s.db"]);
    assert!(repaired.starts_with("exit 0") && repaired.contains("  repaired: "), "{repaired}");
    assert!(env.done(&["doctor", "--deep", "--store", "s.db"]).contains("all is well"));
}

#[test]
fn what_could_not_be_made_again_is_not_called_repaired() {
    let env = damaged_snapshot();
    let first = "(SELECT min(place) FROM groups)";
    alter(&env, &format!("UPDATE groups SET meta = zeroblob(40) WHERE place = {first}"));
    let told = env.told(&["doctor", "--repair", "--store", "s.db"]);
    assert!(told.starts_with("exit 1") && !told.contains("  repaired: "), "{told}");
    assert!(told.contains("backup") && told.contains("0 repaired"), "{told}");
}

#[test]
fn damage_to_records_is_told_and_never_repaired_away() {
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
fn removing_needs_a_yes() {
    let env = kept();
    assert_snapshot!(env.told(&["rm", "other", "--store", "s.db"]), @"
    exit 2
    --- stdout
    --- stderr
    error: 1 session would be removed for good, and nobody can be asked: `other`
    hint: `--yes` removes without asking
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
    error: `copy.db` is there already
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
