//! Faults of nodes, of the database and of the network between them, while agents push to several
//! nodes and clients follow. The tests run a share; `cargo xtask crash postgres` runs all of it, and
//! writes the report.
//!
//! After each fault, everything that was acknowledged must be in the log: once, in its order, without
//! a gap. In the end, every client's state is compared with the fold of the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_client::Client;
use threadfold_postgres::PostgresStore;
use threadfold_store::Store;
use threadfold_testkit::{Durability, PostgresServer};
use tokio::runtime::Runtime;

use crate::cluster::{
    FaultProxy, Fleet, Node, NodePlace, PartitionedNetwork, Traffic, TrafficOptions, asked, report,
};
use crate::env::TestEnv;

const NODE_KILLS: &str = "THREADFOLD_CRASH_NODE_KILLS";
const SERVER_KILLS: &str = "THREADFOLD_CRASH_SERVER_KILLS";
const CUTS: &str = "THREADFOLD_CRASH_CUTS";
const PARTITIONS: &str = "THREADFOLD_CRASH_PARTITIONS";
/// The shortest and the longest partition, in milliseconds.
const SHORTEST_PARTITION: &str = "THREADFOLD_CRASH_SHORTEST";
const LONGEST_PARTITION: &str = "THREADFOLD_CRASH_LONGEST";
const SEED: &str = "THREADFOLD_CRASH_SEED";

/// Returns numbers that look random, the same in every run.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = asked(SEED, 18);
    move |most| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % most
    }
}

fn database() -> PostgresServer {
    PostgresServer::start(Durability::Synced).unwrap()
}

const OPTIONS: TrafficOptions =
    TrafficOptions { sessions: 8, pause: Duration::from_millis(2), is_followed: true };

/// Opens the store directly, as soon as it answers.
fn open(runtime: &Runtime, url: &str) -> Arc<dyn Store> {
    let start = Instant::now();
    loop {
        match runtime.block_on(PostgresStore::open(&url.parse().unwrap())) {
            Ok(store) => return Arc::new(store),
            Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
        }
    }
}

#[test]
fn killed_nodes_lose_nothing_and_write_nothing_twice() {
    let kills = asked(NODE_KILLS, 4);
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let (mut fleet, mut random) = (Fleet::start(&runtime, &env, &server.url(), 2), numbers());
    let store = open(&runtime, &server.url());
    let mut traffic = Traffic::start(&runtime, OPTIONS, |_| fleet.client());
    let mut killed = 0;
    for kill in 0..kills {
        traffic.wait_for(1 + random(60));
        std::thread::sleep(Duration::from_micros(random(3_000)));
        killed += 1;
        let number = usize::try_from(random(2)).unwrap();
        fleet.kill_node(number);
        runtime.block_on(traffic.check(&*store)).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        fleet.start_node(number);
    }
    let count = traffic.finish(&runtime, &server.url()).unwrap();
    assert_eq!(runtime.block_on(store.check()).unwrap(), []);
    report(&format!(
        "{killed} kills of one of two nodes that were writing: {} lines acknowledged, all of them \
         stored once and in order; {} connections of {} clients, {} gaps, all states equal",
        count.lines, count.connects, OPTIONS.sessions, count.gaps
    ));
}

#[test]
fn killed_databases_lose_nothing_and_write_nothing_twice() {
    let kills = asked(SERVER_KILLS, 4);
    let (env, mut server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let (fleet, mut random) = (Fleet::start(&runtime, &env, &server.url(), 2), numbers());
    let mut traffic = Traffic::start(&runtime, OPTIONS, |_| fleet.client());
    let [mut immediate, mut by_signal] = [0, 0];
    for kill in 0..kills {
        traffic.wait_for(1 + random(60));
        std::thread::sleep(Duration::from_micros(random(3_000)));
        if kill % 2 == 0 {
            immediate += 1;
            server.stop_at_once();
        } else {
            by_signal += 1;
            server.kill();
        }
        server.start_again().unwrap();
        let store = open(&runtime, &server.url());
        runtime.block_on(traffic.check(&*store)).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
    }
    let count = traffic.finish(&runtime, &server.url()).unwrap();
    let store = open(&runtime, &server.url());
    assert_eq!(runtime.block_on(store.check()).unwrap(), []);
    report(&format!(
        "{immediate} immediate stops and {by_signal} kills (SIGKILL of the postmaster) of PostgreSQL: \
         {} lines acknowledged, all of them stored once and in order; {} gaps, all states equal",
        count.lines, count.gaps
    ));
}

#[test]
fn the_same_kills_lose_records_if_commits_are_not_synchronous() {
    let (env, mut server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    // What is committed is written to the disk seconds later.
    server.sql("ALTER SYSTEM SET wal_writer_delay = '10s'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let url = format!("{}?options=-c%20synchronous_commit%3Doff", server.url());
    let fleet = Fleet::start(&runtime, &env, &url, 1);
    let options = TrafficOptions { is_followed: false, ..OPTIONS };
    let mut traffic = Traffic::start(&runtime, options, |_| fleet.client());
    let mut lost = None;
    for attempt in 1..=10 {
        traffic.wait_for(40);
        server.stop_at_once();
        server.start_again().unwrap();
        let store = open(&runtime, &server.url());
        if let Err(why) = runtime.block_on(traffic.check(&*store)) {
            lost = Some((attempt, why));
            break;
        }
    }
    let (attempt, why) = lost.expect("the control loses something, or the test proves nothing");
    report(&format!(
        "control with synchronous_commit=off: the loss was detected at stop {attempt} ({why})"
    ));
    drop(fleet);
}

#[test]
fn commits_whose_answer_is_dropped_are_neither_lost_nor_repeated() {
    let cuts = asked(CUTS, 6);
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let place = format!("127.0.0.1:{}", server.port()).parse().unwrap();
    let proxy = FaultProxy::start(&runtime, "127.0.0.1:0".parse().unwrap(), place);
    let through = server.url().replace(&place.to_string(), &proxy.address.to_string());
    let (fleet, mut random) = (Fleet::start(&runtime, &env, &through, 2), numbers());
    let store = open(&runtime, &server.url());
    let mut traffic = Traffic::start(&runtime, OPTIONS, |_| fleet.client());
    for cut in 0..cuts {
        traffic.wait_for(1 + random(40));
        proxy.cut_next_answer();
        let start = Instant::now();
        while proxy.cuts() <= cut {
            assert!(start.elapsed() < Duration::from_secs(30), "nothing was cut");
            std::thread::sleep(Duration::from_millis(2));
        }
        runtime.block_on(traffic.check(&*store)).unwrap_or_else(|why| panic!("cut {cut}: {why}"));
    }
    let count = traffic.finish(&runtime, &server.url()).unwrap();
    report(&format!(
        "{cuts} connections cut after a commit, before its answer: {} lines acknowledged, all of \
         them stored once and in order; {} gaps, all states equal",
        count.lines, count.gaps
    ));
}

/// How a node is separated from its database.
enum Partition {
    Network(PartitionedNetwork),
    Stall,
}

#[test]
fn a_node_that_is_cut_off_from_the_database_is_replaced_and_refused() {
    let partitions = asked(PARTITIONS, 1);
    let (shortest, longest) = (asked(SHORTEST_PARTITION, 3_000), asked(LONGEST_PARTITION, 3_001));
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let mut random = numbers();
    let database: std::net::SocketAddr = format!("127.0.0.1:{}", server.port()).parse().unwrap();
    let network = PartitionedNetwork::create(u8::try_from(std::process::id() % 250).unwrap());
    let bind = network.as_ref().map_or("127.0.0.1:0".parse().unwrap(), |it| it.database_side);
    let proxy = FaultProxy::start(&runtime, bind, database);
    let through = server.url().replace(&database.to_string(), &proxy.address.to_string());
    let (url, public_urls) = (server.url(), &[][..]);
    let inside = network.as_ref().map(|it| (it.name(), it.node));
    // As on another machine: nobody sees that its process is gone.
    let sees_others = !rustix::process::geteuid().is_root();
    let cut_off = Node::start(&NodePlace {
        env: &env,
        store: &through,
        public_urls,
        network: inside,
        sees_others,
    });
    let other =
        Node::start(&NodePlace { env: &env, store: &url, public_urls, network: None, sees_others });
    let partition = network.map_or(Partition::Stall, Partition::Network);
    let store = open(&runtime, &url);
    // Half of the agents and clients talk to each node, whatever happens to it.
    let options = TrafficOptions { pause: Duration::from_millis(20), ..OPTIONS };
    let mut traffic = Traffic::start(&runtime, options, |number| match number % 2 {
        0 => cut_off.client(),
        _ => other.client(),
    });
    let mut lengths = Vec::new();
    for number in 0..partitions {
        traffic.wait_for(20 + random(40));
        let length = Duration::from_millis(shortest + random(longest - shortest));
        match &partition {
            Partition::Network(network) => network.cut(),
            Partition::Stall => proxy.stall(true),
        }
        // Somebody else writes one of its sessions meanwhile, as soon as its lease has ended.
        let taken = format!("live-{:03}", number % 4 * 2);
        let taker = runtime.spawn({
            let (client, session) = (other.client(), taken.clone());
            let within = length + Duration::from_secs(3);
            async move { take(&client, &session, number, within).await }
        });
        std::thread::sleep(length);
        match &partition {
            Partition::Network(network) => network.restore(),
            Partition::Stall => proxy.stall(false),
        }
        lengths.push(length);
        let start = Instant::now();
        traffic.wait_for(20);
        runtime.block_on(traffic.check(&*store)).unwrap_or_else(|why| panic!("{number}: {why}"));
        println!("partition {number} of {length:?}; back after {:?}", start.elapsed());
        let was_taken = runtime.block_on(taker).unwrap();
        println!("{taken} was written by another node: {was_taken}");
    }
    let count = traffic.finish(&runtime, &url).unwrap();
    assert_eq!(runtime.block_on(store.check()).unwrap(), []);
    let how = match partition {
        Partition::Network(_) => "network namespaces, the link to the database set down",
        Partition::Stall => "a proxy that holds everything back",
    };
    let [least, most] = [lengths.iter().min(), lengths.iter().max()];
    report(&format!(
        "{partitions} partitions between a node and the database ({how}) of {:?} to {:?}: {} lines \
         acknowledged, all of them stored once and in order; {} gaps, all states equal",
        least.unwrap(),
        most.unwrap(),
        count.lines,
        count.gaps
    ));
}

/// Writes a line of a stream of its own to a session, if the lease of its writer ends.
async fn take(client: &Client, session: &str, number: u64, within: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < within {
        let stream = format!("taker-{number}");
        let line = "{\"type\":\"session:idle\"}\n";
        if client.push(session, &stream, 0, line.into(), false).await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    false
}
