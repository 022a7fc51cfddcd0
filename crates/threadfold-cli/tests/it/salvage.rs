//! Damaged stores: what is still in the file can be salvaged, also where SQLite refuses all of it.

use std::fs;

use crate::env::{TestEnv, seen};

const SESSIONS: [&str; 3] = ["first", "second", "third"];
const PAGE: usize = 4096;

/// Returns the lines of a session: long enough for several groups.
fn lines(session: &str) -> String {
    let mut number: u64 = session.len() as u64;
    let mut word = || {
        // Words that do not compress, always the same ones.
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:012x}", number >> 16)
    };
    let mut line = |count: usize| {
        let words: Vec<_> = (0..60).map(|_| word()).collect();
        format!(
            r#"{{"type":"user","uuid":"{session}-{count}","sessionId":"{session}","message":{{"role":"user","content":"{}"}}}}"#,
            words.join(" ")
        ) + "\n"
    };
    (0..150).map(&mut line).collect()
}

fn stored() -> TestEnv {
    let env = TestEnv::new();
    for session in SESSIONS {
        env.write(&format!("{session}.jsonl"), lines(session));
        env.done(&["import", &format!("{session}.jsonl"), "--store", "store.db"]);
    }
    env
}

/// Returns the lines of a session that can be read: exported, or salvaged if that is refused.
fn readable(env: &TestEnv, damaged: &[u8], session: &str) -> Vec<String> {
    // Not all are there.
    fs::remove_dir_all(env.path("out")).ok();
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(env.path(&format!("damaged.db{ending}"))).ok();
    }
    env.write("damaged.db", damaged);
    for more in [&[][..], &["--salvage"]] {
        let export = ["export", session, "-o", "out/", "--store", "damaged.db"];
        let output = env.command(&[&export, more].concat()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0..=2)), "{}", seen(&output));
        if output.status.success() {
            break;
        }
    }
    let (mut found, mut folders) = (Vec::new(), vec![env.path("out")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).unwrap();
            found.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
        }
    }
    found
}

/// How many lines of each session can be read; checks that no line is made up.
fn readable_lines(env: &TestEnv, damaged: &[u8], name: &str) -> Vec<usize> {
    let count = |session: &&str| {
        let found = readable(env, damaged, session);
        let lines = lines(session);
        let all: Vec<&str> = lines.lines().collect();
        let is_known = |line: &String| all.contains(&line.as_str());
        assert!(found.iter().all(is_known), "{name}: an unknown line of {session}");
        found.len()
    };
    SESSIONS.iter().map(count).collect()
}

#[test]
fn a_store_that_sqlite_refuses_is_read_page_by_page() {
    let env = stored();
    let intact = fs::read(env.path("store.db")).unwrap();
    let zeroed = |from: usize, to: usize| {
        let mut bytes = intact.clone();
        bytes[from..to].fill(0);
        bytes
    };
    let with_page_size = |size: u16| {
        let mut bytes = intact.clone();
        bytes[16..18].copy_from_slice(&size.to_be_bytes());
        bytes
    };
    for (name, damaged, least) in [
        ("the header", zeroed(0, 100), 450),
        ("a smaller page size", with_page_size(1024), 450),
        ("a larger page size", with_page_size(32768), 450),
        ("an impossible page size", with_page_size(4097), 450),
        ("the first page", zeroed(0, PAGE), 450),
        ("the schema", zeroed(200, PAGE), 450),
        ("the size", zeroed(28, 32), 450),
        ("its last page is gone", intact[..intact.len() - 100].to_vec(), 300),
        ("the second half is gone", intact[..intact.len() / 2].to_vec(), 185),
        ("the last third is gone", intact[..intact.len() * 2 / 3].to_vec(), 270),
    ] {
        let found = readable_lines(&env, &damaged, name);
        assert!(found.iter().sum::<usize>() >= least, "{name}: {found:?}");
    }
}

#[test]
fn a_page_of_noise_costs_the_lines_on_it_and_no_others() {
    let env = stored();
    let intact = fs::read(env.path("store.db")).unwrap();
    let (mut tried, mut nothing) = (0, 0);
    // A share of the pages: each costs several runs of the program.
    for page in (0..intact.len() / PAGE).step_by(9) {
        let mut damaged = intact.clone();
        for (index, byte) in damaged[page * PAGE..(page + 1) * PAGE].iter_mut().enumerate() {
            *byte = (index * 167 + page * 31 + 13) as u8;
        }
        let found = readable_lines(&env, &damaged, &format!("page {page}"));
        // A page has about five lines, and cuts one at each end.
        assert!(found.iter().sum::<usize>() >= 435, "page {page}: {found:?}");
        tried += SESSIONS.len();
        nothing += found.iter().filter(|it| **it == 0).count();
    }
    assert!(nothing * 10 <= tried, "nothing was salvaged of {nothing} in {tried}");
}

#[test]
fn a_store_that_is_cut_anywhere_is_salvaged_up_to_there() {
    let env = stored();
    let intact = fs::read(env.path("store.db")).unwrap();
    // What follows the first missing page of a session is lost: its text is compressed as a whole.
    // The table of tickets is empty: its page, near the beginning, is not counted.
    for (tenths, least) in [(3, 80), (5, 185), (7, 150), (9, 300)] {
        let length = PAGE + (intact.len() - PAGE) * tenths / 10;
        let found = readable_lines(&env, &intact[..length], &format!("{tenths} tenths"));
        assert!(found.iter().sum::<usize>() >= least, "{tenths} tenths: {found:?}");
    }
}

#[test]
fn all_sessions_of_a_damaged_store_are_salvaged_without_their_names() {
    let env = stored();
    let mut damaged = fs::read(env.path("store.db")).unwrap();
    damaged[..100].fill(0);
    env.write("damaged.db", &damaged);
    for command in [&["doctor"][..], &["runs"], &["view", "first"], &["list"]] {
        let said = env.run(&[command, &["--store", "damaged.db"]].concat());
        assert!(said.contains("`threadfold export --salvage --output FOLDER`"), "{said}");
    }
    env.run(&["export", "--salvage", "--output", "out", "--store", "damaged.db"]);
    for session in SESSIONS {
        let file = env.path(&format!("out/{session}/{session}.jsonl"));
        assert!(fs::read_to_string(&file).unwrap() == lines(session), "{}", file.display());
    }
    let said =
        env.run(&["export", "nosuch", "--salvage", "--output", "one", "--store", "damaged.db"]);
    let named = "session `nosuch` is not among the sessions that were found: `first`, `second`, \
                 `third`";
    assert!(said.starts_with("exit 2") && said.contains(named), "{said}");
}

#[test]
fn a_file_without_sessions_is_refused_by_a_salvage_as_well() {
    let env = TestEnv::new();
    env.write("notes.txt", "my notes");
    let said = env.run(&["export", "--salvage", "--output", "out", "--store", "notes.txt"]);
    assert!(said.starts_with("exit 2") && said.contains("not a Threadfold store"), "{said}");
}
