//! What several servers over one database promise.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use threadfold_client::Client;
use threadfold_engine::{Delivery, Frame};
use threadfold_fold::Cursor;
use threadfold_testkit::{Durability, PostgresServer};
use tokio::runtime::Runtime;

use super::{Fleet, Node, NodePlace, Traffic, TrafficOptions};
use crate::env::TestEnv;
use crate::serve::{ONE, transcript};

fn database() -> PostgresServer {
    PostgresServer::start(Durability::Fast).unwrap()
}

fn node(env: &TestEnv, store: &str) -> Node {
    let (public_urls, network, sees_others) = (&[][..], None, true);
    Node::start(&NodePlace { env, store, public_urls, network, sees_others })
}

fn push(runtime: &Runtime, client: &Client, session: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let line = format!(
            "{{\"type\":\"block:upsert\",\"payload\":{{\"block\":{{\"id\":\"b{number:04}\",\"type\":\"assistant_text\",\"content\":\"text\",\"status\":\"complete\"}}}}}}\n"
        );
        let position = number * line.len() as u64;
        runtime.block_on(client.push(session, "test", position, line.into(), false)).unwrap();
    }
}

#[test]
fn a_client_that_loses_its_node_continues_at_another_without_a_gap() {
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let mut fleet = Fleet::start(&runtime, &env, &server.url(), 2);
    let options =
        TrafficOptions { sessions: 4, pause: Duration::from_millis(10), is_followed: true };
    let traffic = Traffic::start(&runtime, options, |_| fleet.client());
    for number in [0, 1, 0] {
        traffic.wait_for(40);
        fleet.kill_node(number);
        traffic.wait_for(40);
        fleet.start_node(number);
    }
    let count = traffic.finish(&runtime, &server.url()).unwrap();
    assert_eq!(count.gaps, 0, "{count:?}");
    assert!(count.connects > 4, "some client lost its node: {count:?}");
}

#[test]
fn a_ticket_is_good_at_every_node_and_once_across_all() {
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let nodes = [node(&env, &server.url()), node(&env, &server.url())];
    let connect = |node: &Node, ticket: &str| {
        let url = format!("ws://{}/v1/live?ticket={ticket}", node.address);
        async move { tokio_tungstenite::connect_async(url).await.is_ok() }
    };
    for round in 0..10 {
        let (status, body) = nodes[round % 2].ask("POST", "/v1/tickets");
        assert_eq!(status, 200, "{body}");
        let ticket: serde_json::Value = serde_json::from_str(&body).unwrap();
        let ticket = ticket["ticket"].as_str().unwrap();
        let other = &nodes[(round + 1) % 2];
        let accepted = match round {
            0 => runtime.block_on(async { [connect(other, ticket).await, false] }),
            _ => runtime.block_on(async {
                tokio::join!(connect(&nodes[0], ticket), connect(other, ticket)).into()
            }),
        };
        assert_eq!(accepted.iter().filter(|it| **it).count(), 1, "in round {round}");
        assert!(!runtime.block_on(connect(&nodes[0], ticket)), "in round {round}");
        let stored = server.sql("SELECT encode(hash, 'escape') FROM threadfold.tickets").unwrap();
        assert!(!stored.contains(ticket));
    }
}

/// Adds lines to the transcript that both nodes watch.
fn grow(env: &TestEnv, lines: &mut std::vec::IntoIter<String>, count: usize) {
    let path = env.path(&format!("claude/projects/-work-project/{ONE}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    for line in lines.take(count) {
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Waits until a node's store has so many lines of the transcript, and returns how long that took.
fn wait_for_lines(node: &Node, count: usize) -> Duration {
    let start = Instant::now();
    loop {
        let (_, log) = node.ask("GET", &format!("/v1/sessions/{ONE}/log"));
        let is_line = |it: &&str| it.contains(r#""kind":"line""#);
        let found = log.lines().filter(is_line).count();
        assert!(found <= count, "lines were written twice: {found} of {count}");
        if found == count {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{found} of {count} lines");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nodes_that_watch_one_folder_write_each_line_once_and_one_takes_over_for_another() {
    let (env, server) = (TestEnv::new(), database());
    let url = server.url();
    // Each in a process namespace of its own, as on two machines: only the end of its lease tells
    // that the other one is gone.
    let is_root = rustix::process::geteuid().is_root();
    let (public_urls, network, sees_others) = (&[][..], None, !is_root);
    let place = NodePlace { env: &env, store: &url, public_urls, network, sees_others };
    let mut lines =
        transcript(ONE, 200).split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
    lines.truncate(120);
    let mut lines = lines.into_iter();
    grow(&env, &mut lines, 10);
    let first = Node::start(&place);
    first.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    wait_for_lines(&first, 10);
    grow(&env, &mut lines, 10);
    wait_for_lines(&first, 20);
    // The first one holds the lease by now.
    let second = Node::start(&place);
    for round in 1..=4 {
        grow(&env, &mut lines, 10);
        wait_for_lines(&second, 20 + round * 10);
    }
    first.kill();
    grow(&env, &mut lines, 10);
    let taken_over = wait_for_lines(&second, 70);
    assert!(taken_over < Duration::from_secs(35), "longer than a lease: {taken_over:?}");
    grow(&env, &mut lines, 10);
    wait_for_lines(&second, 80);
    let doubled = second.ask("GET", &format!("/v1/sessions/{ONE}/log")).1;
    let observations: Vec<&str> =
        doubled.lines().filter(|it| it.contains(r#""kind":"observation""#)).collect();
    let mut positions: Vec<_> = observations.iter().map(|it| it.split("position").last()).collect();
    positions.dedup();
    assert_eq!(positions.len(), observations.len(), "an observation was written twice");
}

#[test]
fn a_node_of_an_older_version_stops_writing_after_a_migration_and_says_so() {
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let node = node(&env, &server.url());
    push(&runtime, &node.client(), "s1", 0..5);
    assert_eq!(node.ask("GET", "/readyz").0, 200);
    let known: u32 =
        server.sql("SELECT version FROM threadfold.store").unwrap().trim().parse().unwrap();
    server.sql("UPDATE threadfold.store SET version = version + 1").unwrap();
    let told =
        format!("version {}, but this program supports only up to version {known}", known + 1);
    let before = server.sql("SELECT sum(head) FROM threadfold.sessions").unwrap();
    let line = "{\"type\":\"session:idle\"}\n";
    let refused = runtime.block_on(node.client().push("s1", "other", 0, line.into(), false));
    let refused = refused.unwrap_err();
    assert!(refused.is_temporary() && refused.to_string().contains(&told), "{refused}");
    let refused = runtime.block_on(node.client().push("s2", "new", 0, line.into(), false));
    assert!(refused.unwrap_err().to_string().contains(&told));
    let (status, ready) = node.ask("GET", "/readyz");
    assert!(status == 503 && ready.contains("a newer program has migrated the store"), "{ready}");
    assert_eq!(node.ask("GET", "/healthz").0, 200);
    assert_eq!(node.get("/v1/sessions/s1")["seq"], 6, "reading goes on");
    let mut command = env.command(&["reindex"]);
    let run = crate::env::seen(&command.env("THREADFOLD_STORE", server.url()).output().unwrap());
    assert!(run.starts_with("exit 2") && run.contains(&told), "{run}");
    assert_eq!(server.sql("SELECT sum(head) FROM threadfold.sessions").unwrap(), before);
    server.sql("UPDATE threadfold.store SET version = version - 1").unwrap();
    assert_eq!(node.ask("GET", "/readyz").0, 200);
    push(&runtime, &node.client(), "s1", 5..7);
}

#[test]
fn a_client_of_another_generation_gets_one_gap_and_one_snapshot() {
    let (env, server, runtime) = (TestEnv::new(), database(), Runtime::new().unwrap());
    let node = node(&env, &server.url());
    push(&runtime, &node.client(), "s1", 0..3);
    for step in [1, u32::MAX] {
        let cursor = node.get("/v1/sessions/s1")["cursor"].as_str().unwrap().to_owned();
        let cursor: Cursor = cursor.parse().unwrap();
        let other = Cursor { generation: cursor.generation.wrapping_add(step), ..cursor };
        let client = node.client();
        let mut frames = client.frames("s1", Delivery::Events, Some(other.to_string()));
        let mut next = || runtime.block_on(frames.next()).unwrap().0;
        assert!(matches!(next(), Frame::Gap { .. }));
        assert!(matches!(next(), Frame::Snapshot { .. }));
        let seq = node.get("/v1/sessions/s1")["seq"].as_u64().unwrap() - 1;
        push(&runtime, &client, "s1", seq..seq + 2);
        assert!(matches!(next(), Frame::Events { .. }), "nothing else follows");
        assert!(matches!(next(), Frame::Events { .. }));
        // With the cursor that it has now, it goes on.
        frames.disconnect();
        push(&runtime, &client, "s1", seq + 2..seq + 3);
        let mut next = || runtime.block_on(frames.next()).unwrap().0;
        assert!(matches!(next(), Frame::Resume { .. }));
        assert!(matches!(next(), Frame::Events { .. }));
    }
}

#[test]
fn a_node_is_ready_while_its_database_answers() {
    let (env, mut server) = (TestEnv::new(), database());
    let node = node(&env, &server.url());
    assert_eq!(node.ask("GET", "/readyz"), (200, "ready\n".to_owned()));
    server.stop_at_once();
    let (status, told) = node.ask("GET", "/readyz");
    assert_eq!(status, 503, "{told}");
    assert_eq!(node.ask("GET", "/healthz").0, 200);
    server.start_again().unwrap();
    let start = Instant::now();
    while node.ask("GET", "/readyz").0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    node.stop();
}
