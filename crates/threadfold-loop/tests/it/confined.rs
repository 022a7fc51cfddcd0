//! The file tools can neither leave their folder nor be blocked in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::json;

use crate::calls::{Place, context, within};

/// Calls each file tool with this path, and returns the outputs.
async fn all(place: &Place, path: &str) -> Vec<String> {
    vec![
        place.call("read", &json!({ "path": path }).to_string()).await,
        place.call("list", &json!({ "path": path }).to_string()).await,
        place.call("search", &json!({ "path": path, "pattern": "." }).to_string()).await,
        place.call("write", &json!({ "path": path, "content": "x" }).to_string()).await,
        place.call("edit", &json!({ "path": path, "old": "the", "new": "x" }).to_string()).await,
    ]
}

#[tokio::test]
async fn no_path_leaves_the_folder() {
    let place = Place::new(&[("in/file", "x")]);
    symlink(&place.outside, place.path.join("absolute")).unwrap();
    symlink("../outside", place.path.join("relative")).unwrap();
    symlink("../outside/secret", place.path.join("file")).unwrap();
    symlink("relative", place.path.join("twice")).unwrap();
    symlink("../outside/new", place.path.join("dangling")).unwrap();
    let secret = place.outside.join("secret");
    let paths = [
        "../outside/secret",
        "in/../../outside/secret",
        "in/../../inside/in/file",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "//etc/passwd",
        "absolute/secret",
        "relative/secret",
        "relative/new",
        "file",
        "twice/secret",
        "in/../twice/../secret",
        "dangling",
    ];
    for path in paths {
        for output in all(&place, path).await {
            assert!(
                output.starts_with(&format!("failed: `{path}` is outside the folder")),
                "{path}: {output}"
            );
        }
    }
    for path in ["..", "absolute", "relative", "/"] {
        let listed = place.call("list", &json!({ "path": path }).to_string()).await;
        assert!(listed.contains("is outside the folder"), "{path}: {listed}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "the secret");
    assert_eq!(fs::read_dir(&place.outside).unwrap().count(), 1);
    assert_eq!(place.call("search", r#"{"pattern":"secret"}"#).await, "[nothing matches]");
}

#[tokio::test]
async fn a_link_that_stays_within_is_followed() {
    let place = Place::new(&[("in/file", "one")]);
    symlink("in/file", place.path.join("link")).unwrap();
    assert_eq!(place.call("read", r#"{"path":"link"}"#).await, "one");
    place.call("write", r#"{"path":"link","content":"two"}"#).await;
    assert_eq!(place.content("in/file"), "two");
    assert!(fs::symlink_metadata(place.path.join("link")).unwrap().is_symlink());
    assert_eq!(place.call("list", "{}").await, "in/\nlink -> in/file\n");
    symlink("in/none", place.path.join("dangling")).unwrap();
    let dangling = place.call("write", r#"{"path":"dangling","content":"x"}"#).await;
    assert!(dangling.contains("a broken link"), "{dangling}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_link_does_not_leave_the_folder() {
    let place = Place::new(&[("door/secret", "harmless")]);
    let (door, link) = (place.path.join("door"), place.path.join("link"));
    symlink(&place.outside, &link).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let swapping = thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut swaps = 0_u64;
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &door, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        }
    });
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let read = place.call("read", r#"{"path":"door/secret"}"#).await;
        match read.as_str() {
            "harmless" => inside += 1,
            it if it.contains("is outside the folder") => refused += 1,
            // The kernel gives up on a path that keeps changing.
            it if it.contains("os error") => {}
            it => panic!("{it}"),
        }
        place.call("write", r#"{"path":"door/secret","content":"harmless"}"#).await;
        let found = place.call("search", r#"{"pattern":"the secret"}"#).await;
        assert_eq!(found, "[nothing matches]");
        assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "the secret");
    }
    done.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(inside > 0 && refused > 0 && swaps > 100, "{inside} {refused} {swaps}");
    assert_eq!(fs::read_dir(&place.outside).unwrap().count(), 1);
}

#[tokio::test]
async fn pipes_and_devices_do_not_block() {
    let place = Place::new(&[("a/file", "text")]);
    for name in ["pipe", ".gitignore", "a/.gitignore"] {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, place.path.join(name), FileType::Fifo, mode, 0).unwrap();
    }
    let socket = std::os::unix::net::UnixListener::bind(place.path.join("socket")).unwrap();
    for name in ["pipe", "socket"] {
        let output = all(&place, name).await;
        for (output, tool) in output.iter().zip(["read", "list", "search", "write", "edit"]) {
            let wanted =
                if tool == "list" { "is a file, not a folder" } else { "is a pipe, a socket" };
            assert!(output.contains(wanted), "{tool} {name}: {output}");
        }
    }
    let found = place.tool("search").call(r#"{"pattern":"t"}"#, &within("key", 20_000)).await;
    assert_eq!(found.unwrap().to_text(), "a/file:1: text\n");
    drop(socket);

    // A device, if this user may create one.
    let device = place.path.join("zero");
    let number = rustix::fs::makedev(1, 5);
    let made = mknodat(CWD, &device, FileType::CharacterDevice, Mode::from_raw_mode(0o600), number);
    if made.is_ok() {
        let output = place.tool("read").call(r#"{"path":"zero"}"#, &context("key")).await;
        assert!(output.unwrap_err().message.contains("is a pipe, a socket"));
    }
}

#[tokio::test]
async fn a_leftover_draft_is_removed_and_not_followed() {
    let place = Place::new(&[("a", "old")]);
    place.call("write", r#"{"path":"a","content":"new"}"#).await;
    let hash = blake3::hash(b"key").to_hex();
    let draft = place.path.join(format!(".threadfold-{}.tmp", &hash[..16]));
    symlink(place.outside.join("secret"), &draft).unwrap();
    place.call("write", r#"{"path":"a","content":"newer"}"#).await;
    assert_eq!(place.content("a"), "newer");
    assert!(fs::symlink_metadata(&draft).is_err());
    assert_eq!(fs::read_to_string(place.outside.join("secret")).unwrap(), "the secret");
}
