//! Many sessions and clients over several nodes, one of which is killed again and again. The tests
//! run a share; `cargo xtask soak cluster` runs all of it, and writes the report.

use std::time::{Duration, Instant};

use threadfold_testkit::{Durability, PostgresServer};
use tokio::runtime::Runtime;

use crate::cluster::{Fleet, Traffic, TrafficOptions, asked, report};
use crate::env::TestEnv;

const NODES: usize = 3;

#[test]
fn clients_of_nodes_that_are_killed_end_at_the_fold_of_the_log() {
    let sessions = asked("THREADFOLD_SOAK_SESSIONS", 12);
    let kills = asked("THREADFOLD_SOAK_KILLS", 3);
    let interval = Duration::from_millis(asked("THREADFOLD_SOAK_INTERVAL_MS", 1_500));
    let pause = Duration::from_millis(asked("THREADFOLD_SOAK_PAUSE_MS", 100));
    let (env, runtime) = (TestEnv::new(), Runtime::new().unwrap());
    let server = PostgresServer::start(Durability::Synced).unwrap();
    let mut fleet = Fleet::start(&runtime, &env, &server.url(), NODES);
    let options =
        TrafficOptions { sessions: usize::try_from(sessions).unwrap(), pause, is_followed: true };
    let traffic = Traffic::start(&runtime, options, |_| fleet.client());
    let start = Instant::now();
    for kill in 0..kills {
        let number = usize::try_from(kill).unwrap() % NODES;
        std::thread::sleep(interval);
        fleet.kill_node(number);
        fleet.start_node(number);
    }
    traffic.wait_for(1);
    let lasted = start.elapsed();
    let count = traffic.finish(&runtime, &server.url()).unwrap();
    report(&format!(
        "{NODES} nodes, one database, {sessions} live sessions, {sessions} clients; {kills} kills, one \
         every {} s, for {} s\n{} records, {} lines, each stored once; {} connections of clients, {} \
         gaps\nevery client's final state equals the fold of its log",
        interval.as_secs_f32(),
        lasted.as_secs(),
        count.records,
        count.lines,
        count.connects,
        count.gaps,
    ));
    drop(fleet);
}
