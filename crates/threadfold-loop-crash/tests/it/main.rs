//! A run that is killed at every point, resumed by two processes, or suspended beyond its lease.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

use threadfold_loop_crash::{
    Matrix, RaceResult, StoreKind, boundaries, control_fails, race, random_kills, zombie,
};
use threadfold_testkit::{Durability, PostgresServer};

fn matrix() -> Matrix {
    Matrix { program: env!("CARGO_BIN_EXE_crash-loop").into(), pace: 10, store: StoreKind::File }
}

#[test]
fn a_run_killed_at_every_write_repeats_nothing_and_loses_nothing() {
    let report = boundaries(&matrix()).unwrap();
    println!("{report}");
    assert!(report.is_clean(), "{report}");
    assert!(report.kills >= 60, "{report}");
    assert!(report.decisions > 0, "no kill hit an unsafe tool: {report}");
}

#[test]
fn runs_killed_100_times_at_random_repeat_nothing_and_lose_nothing() {
    let report = random_kills(&matrix(), 100, 1).unwrap();
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn runs_killed_another_100_times_at_random_repeat_nothing_and_lose_nothing() {
    let report = random_kills(&matrix(), 100, 2).unwrap();
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_loop_that_records_turns_after_tools_is_detected() {
    let mut has_started_twice = false;
    // Where a random kill hits depends on timing; every round runs something twice.
    for seed in 3..9 {
        let report = control_fails(&matrix(), 20, seed).unwrap();
        println!("{report}");
        assert!(!report.is_clean(), "{report}");
        has_started_twice |= report.unsafe_twice > 0;
        if has_started_twice {
            break;
        }
    }
    assert!(has_started_twice);
}

#[test]
fn one_of_two_processes_that_resume_a_run_wins_100_times() {
    let matrix = Matrix { pace: 2, ..matrix() };
    for number in 0..100 {
        let raced = race(&matrix).unwrap();
        assert_eq!(raced, RaceResult { winners: 1, refused: 1, started_twice: 0 }, "race {number}");
    }
}

#[test]
fn a_process_suspended_beyond_its_lease_writes_nothing_more() {
    let (ended, is_untouched) = zombie(&matrix()).unwrap();
    assert_eq!(ended, Some(5), "it reports that it lost its lease");
    assert!(is_untouched);
}

/// Returns a matrix whose runs are in a database, and whose processes are on different machines.
fn distributed() -> (PostgresServer, Matrix) {
    let server = PostgresServer::start(Durability::Fast).unwrap();
    let store = StoreKind::Postgres(server.url());
    (server, Matrix { store, ..matrix() })
}

#[test]
fn a_run_in_a_database_killed_at_random_is_resumed_on_other_machines() {
    let (_server, matrix) = distributed();
    let report = random_kills(&matrix, 12, 18).unwrap();
    println!("{report}");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_loop_in_a_database_that_records_turns_after_tools_is_detected() {
    let (_server, matrix) = distributed();
    // Where a random kill hits depends on timing.
    let is_detected = (18..24).any(|seed| !control_fails(&matrix, 6, seed).unwrap().is_clean());
    assert!(is_detected);
}

#[test]
fn one_of_two_machines_that_resume_a_run_wins() {
    let (_server, matrix) = distributed();
    let matrix = Matrix { pace: 2, ..matrix };
    for number in 0..5 {
        let raced = race(&matrix).unwrap();
        assert_eq!(raced, RaceResult { winners: 1, refused: 1, started_twice: 0 }, "race {number}");
    }
}

#[test]
fn a_machine_suspended_beyond_its_lease_writes_nothing_more() {
    let (_server, matrix) = distributed();
    let (ended, is_untouched) = zombie(&matrix).unwrap();
    assert_eq!(ended, Some(5), "it reports that it lost its lease");
    assert!(is_untouched);
}
