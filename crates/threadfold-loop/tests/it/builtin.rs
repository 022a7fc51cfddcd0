//! The file tools, with valid and with nonsensical arguments.

use std::fs;

use futures_util::future::join_all;
use threadfold_core::MessagePartBody;
use threadfold_loop::{Effect, builtin_tools};

use crate::calls::{Place, context, within};

#[tokio::test]
async fn every_tool_declares_its_effect() {
    let place = Place::new(&[]);
    let effects: Vec<_> = builtin_tools(&place.folder)
        .iter()
        .map(|it| (it.definition().name, it.effect()))
        .map(|(name, effect)| format!("{name} {effect:?}"))
        .collect();
    let mut wanted =
        vec!["read Pure", "list Pure", "search Pure", "write Idempotent", "edit Probe"];
    if cfg!(unix) {
        wanted.push("shell Unsafe");
    }
    assert_eq!(effects, wanted);
    assert_eq!(place.tool("read").effect(), Effect::Pure);
}

#[tokio::test]
async fn a_file_is_read_exactly_and_in_parts() {
    let place = Place::new(&[("a.txt", "one\r\ntwo\n\nfour")]);
    assert_eq!(place.call("read", r#"{"path":"a.txt"}"#).await, "one\r\ntwo\n\nfour");
    assert_eq!(
        place.call("read", r#"{"path":"./a.txt","offset":2,"limit":1}"#).await,
        "two\n[there is more: continue with offset 3]"
    );
    assert_eq!(place.call("read", r#"{"path":"a.txt","offset":4}"#).await, "four");
    assert_eq!(
        place.call("read", r#"{"path":"a.txt","offset":5}"#).await,
        "failed: `a.txt` has only 4 lines, but line 5 was requested"
    );
    let whole = place.path.join("a.txt");
    let arguments = serde_json::json!({ "path": whole }).to_string();
    assert_eq!(place.call("read", &arguments).await, "one\r\ntwo\n\nfour");
}

#[tokio::test]
async fn unreadable_files_are_reported() {
    let place = Place::new(&[("empty", "")]);
    fs::write(place.path.join("binary"), b"ab\0cd").unwrap();
    fs::write(place.path.join("latin"), b"caf\xe9\n").unwrap();
    assert_eq!(place.call("read", r#"{"path":"empty"}"#).await, "[the file is empty]");
    assert_eq!(
        place.call("read", r#"{"path":"binary"}"#).await,
        "failed: `binary` is a binary file of 5 bytes, which cannot be shown; \
         use `shell` to run a program that reads it"
    );
    assert_eq!(
        place.call("read", r#"{"path":"latin"}"#).await,
        "caf\u{fffd}\n[some bytes are not UTF-8 and shown as \u{fffd}]"
    );
    assert_eq!(
        place.call("read", r#"{"path":"none"}"#).await,
        "failed: `none` does not exist; `list` shows what does"
    );
    assert_eq!(
        place.call("read", r#"{"path":"."}"#).await,
        "failed: `.` is a folder; `list` shows what is in it"
    );
}

#[tokio::test]
async fn small_images_are_shown_and_large_ones_refused() {
    let place = Place::new(&[]);
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    picture.resize(20_000, 7);
    fs::write(place.path.join("small.png"), &picture).unwrap();
    picture.resize(3_800_000, 7);
    fs::write(place.path.join("large.png"), &picture).unwrap();

    let tool = place.tool("read");
    let output = tool.call(r#"{"path":"small.png"}"#, &context("key")).await.unwrap();
    let [part] = &output.content[..] else { panic!("one part: {output:?}") };
    let MessagePartBody::Image(image) = &part.body else { panic!("a picture: {part:?}") };
    assert_eq!(image.media_type.as_deref(), Some("image/png"));
    assert_eq!(image.data.as_ref().unwrap().len(), 20_000_usize.div_ceil(3) * 4);

    let large = place.call("read", r#"{"path":"large.png"}"#).await;
    assert!(large.starts_with("failed: `large.png` is an image (image/png) of 3800000"));
}

#[tokio::test]
async fn reading_a_huge_file_uses_bounded_memory() {
    let place = Place::new(&[]);
    // A sparse file of 256 MB: one line without an end.
    let file = fs::File::create(place.path.join("huge")).unwrap();
    fs::write(place.path.join("huge"), "x".repeat(10_000)).unwrap();
    file.set_len(1 << 28).unwrap();
    let shown = place.call("read", r#"{"path":"huge"}"#).await;
    assert_eq!(shown.len(), 8 * 1024 + "\n[268427264 bytes of line 1 are not shown]".len());
    assert!(shown.ends_with("[268427264 bytes of line 1 are not shown]"), "{shown:.99}");

    let late = place.tool("read").call(r#"{"path":"huge"}"#, &within("key", 1)).await;
    assert!(late.unwrap_err().message.starts_with("stopped before it was done: it timed out"));
    let found = place.call("search", r#"{"pattern":"xy"}"#).await;
    assert_eq!(found, "[nothing matches]");
    let edited = place.call("edit", r#"{"path":"huge","old":"a","new":"b"}"#).await;
    assert!(edited.contains("at most 33554432 can be edited"), "{edited}");
}

#[tokio::test]
async fn writing_replaces_the_whole_file_and_keeps_its_mode() {
    let place = Place::new(&[]);
    let arguments = r##"{"path":"new/deep/run.sh","content":"#!/bin/sh\n"}"##;
    assert_eq!(place.call("write", arguments).await, "wrote 10 bytes to `new/deep/run.sh`");
    assert_eq!(place.call("write", arguments).await, "wrote 10 bytes to `new/deep/run.sh`");
    assert_eq!(place.content("new/deep/run.sh"), "#!/bin/sh\n");
    assert_eq!(place.call("list", r#"{"path":"new/deep"}"#).await, "run.sh\n");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = place.path.join("new/deep/run.sh");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        place.call("write", r#"{"path":"new/deep/run.sh","content":"x"}"#).await;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o777);
    }
    assert_eq!(
        place.call("write", r#"{"path":"new","content":"x"}"#).await,
        "failed: `new` is a folder; `list` shows what is in it"
    );
    assert_eq!(
        place.call("write", r#"{"path":"new/deep/run.sh/x","content":"x"}"#).await,
        "failed: a part of the path `new/deep/run.sh/x` is a file, not a folder"
    );
}

#[tokio::test]
async fn an_edit_requires_exactly_one_match() {
    let place = Place::new(&[("a", "one two two\nthree\n"), ("crlf", "a\r\nb\r\n"), ("o", "aaa")]);
    let edit = |old: &str, new: &str| {
        serde_json::json!({ "path": "a", "old": old, "new": new }).to_string()
    };
    assert_eq!(place.call("edit", &edit("one", "1")).await, "replaced it once in `a`");
    assert_eq!(
        place.call("edit", &edit("two", "2")).await,
        "failed: `old` is in `a` 2 times (first in lines 1, 1); include more of the \
         surrounding lines, or set `all`"
    );
    assert_eq!(place.content("a"), "1 two two\nthree\n");
    let all = r#"{"path":"a","old":"two","new":"2","all":true}"#;
    assert_eq!(place.call("edit", all).await, "replaced it 2 times in `a`");
    assert_eq!(place.content("a"), "1 2 2\nthree\n");
    assert_eq!(
        place.call("edit", &edit("four", "4")).await,
        "failed: `old` is not in `a`; `read` the file and copy the text exactly"
    );
    assert!(place.call("edit", &edit("", "4")).await.starts_with("failed: `old` is empty"));
    assert!(place.call("edit", &edit("1", "1")).await.starts_with("failed: `old` and `new`"));
    let crlf = r#"{"path":"crlf","old":"a\nb","new":"c"}"#;
    assert!(place.call("edit", crlf).await.contains(r"has `\r\n` line ends"));
    let overlapping = r#"{"path":"o","old":"aa","new":"b"}"#;
    assert!(place.call("edit", overlapping).await.contains("2 times"));
}

#[tokio::test]
async fn concurrent_edits_of_one_file_are_all_applied() {
    const COUNT: usize = 8;
    for round in 0..20 {
        let lines: String = (0..COUNT).map(|it| format!("old {it};\n")).collect();
        let place = Place::new(&[("a.txt", &lines)]);
        let edits = (0..COUNT).map(|it| {
            format!("{{\"path\":\"a.txt\",\"old\":\"old {it};\",\"new\":\"new {it};\"}}")
        });
        let edits: Vec<_> = edits.collect();
        let calls = edits.iter().map(|arguments| place.call("edit", arguments));
        for output in join_all(calls).await {
            assert_eq!(output, "replaced it once in `a.txt`");
        }
        let found = fs::read_to_string(place.path.join("a.txt")).unwrap();
        assert_eq!(found, lines.replace("old", "new"), "round {round}");
    }
}

#[tokio::test]
async fn an_edit_can_be_probed() {
    let happened = "happened: `a` already contains this edit";
    let plain = r#"{"path":"a","old":"one","new":"two"}"#;
    let place = Place::new(&[("a", "one\n")]);
    assert_eq!(place.probe(plain, "key").await, "cannot tell", "it may have been undone since");
    place.call("edit", plain).await;
    assert_eq!(place.probe(plain, "key").await, happened);
    assert_eq!(place.probe(plain, "another").await, happened);

    // The new text contains the old one, so only the mark on the file is conclusive.
    let longer = r#"{"path":"a","old":"one\n","new":"one\ntwo\n"}"#;
    let place = Place::new(&[("a", "one\n")]);
    place.call("edit", longer).await;
    if cfg!(target_os = "linux") {
        assert_eq!(place.probe(longer, "key").await, happened);
    }
    assert_eq!(place.probe(longer, "another").await, "cannot tell");
    fs::remove_file(place.path.join("a")).unwrap();
    assert_eq!(place.probe(longer, "key").await, "did not");

    let removed = r#"{"path":"a","old":"one\n","new":""}"#;
    let place = Place::new(&[("a", "one\ntwo\n")]);
    place.call("edit", removed).await;
    assert_eq!(place.probe(removed, "key").await, happened);

    // Running it again would change nothing.
    let other = r#"{"path":"a","old":"three","new":"four"}"#;
    assert_eq!(place.probe(other, "another").await, "did not");
}

#[tokio::test]
async fn an_edit_that_a_later_one_undid_is_not_reported_as_failed() {
    let (there, back) =
        (r#"{"path":"a","old":"one","new":"two"}"#, r#"{"path":"a","old":"two","new":"one"}"#);
    let place = Place::new(&[("a", "one\n")]);
    place.call_as("edit", there, "first").await;
    place.call_as("edit", back, "second").await;
    assert_eq!(place.content("a"), "one\n");
    let probed = place.probe(there, "first").await;
    match cfg!(target_os = "linux") {
        true => assert_eq!(probed, "happened: `a` already contains this edit"),
        false => assert_eq!(probed, "cannot tell"),
    }
    // Another program rewrites the file, without the marks.
    fs::remove_file(place.path.join("a")).unwrap();
    fs::write(place.path.join("a"), "one\n").unwrap();
    assert_eq!(place.probe(there, "first").await, "cannot tell");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_edit_that_was_stopped_before_the_file_was_replaced_did_not_happen() {
    let edit = r#"{"path":"d/a","old":"one","new":"one two"}"#;
    let place = Place::new(&[("d/a", "one\n")]);
    // Nothing can be renamed over a folder with the draft's name.
    let hash = blake3::hash(b"key").to_hex();
    let draft = place.path.join(format!("d/.threadfold-{}.tmp", &hash[..16]));
    fs::create_dir(&draft).unwrap();
    let output = place.call("edit", edit).await;
    assert!(output.starts_with("failed"), "{output}");
    assert_eq!(place.probe(edit, "key").await, "did not");
    fs::remove_dir(&draft).unwrap();
    place.call("edit", edit).await;
    assert!(place.probe(edit, "key").await.starts_with("happened"));
}

#[tokio::test]
async fn names_are_listed_in_order_and_within_bounds() {
    let place = Place::new(&[("b", ""), ("a/x", ""), (".hidden", "")]);
    fs::write(place.path.join("line\nend"), "").unwrap();
    assert_eq!(place.call("list", "").await, ".hidden\na/\nb\nline\\nend\n");
    for number in 0..1_100 {
        fs::write(place.path.join(format!("a/{number:04}")), "").unwrap();
    }
    let listed = place.call("list", r#"{"path":"a"}"#).await;
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[999]), (1_001, "0000", "0999"));
    assert_eq!(lines[1_000], "[101 more names; `search` finds files by their content]");
}

#[tokio::test]
async fn lines_are_found_except_where_git_ignores_them() {
    let place = Place::new(&[
        (".gitignore", "*.log\n/target\n!kept.log\n"),
        ("a.rs", "fn main() {}\nfn other() {}\n"),
        ("a.log", "fn log() {}\n"),
        ("kept.log", "fn kept() {}\n"),
        ("target/b.rs", "fn built() {}\n"),
        (".git/c.rs", "fn git() {}\n"),
        ("src/.gitignore", "made.rs\n"),
        ("src/made.rs", "fn made() {}\n"),
        ("src/target/d.rs", "fn deep() {}\n"),
        ("src/x.ts", "fn ts() {}\n"),
    ]);
    fs::write(place.path.join("binary"), b"fn binary\0").unwrap();
    assert_eq!(
        place.call("search", r#"{"pattern":"^FN \\w+","ignore_case":true}"#).await,
        "a.rs:1: fn main() {}\na.rs:2: fn other() {}\nkept.log:1: fn kept() {}\n\
         src/target/d.rs:1: fn deep() {}\nsrc/x.ts:1: fn ts() {}\n"
    );
    assert_eq!(
        place.call("search", r#"{"pattern":"fn","path":"src","glob":"*.rs"}"#).await,
        "src/target/d.rs:1: fn deep() {}\n"
    );
    assert_eq!(
        place.call("search", r#"{"pattern":"fn","path":"target"}"#).await,
        "target/b.rs:1: fn built() {}\n"
    );
    assert_eq!(
        place.call("search", r#"{"pattern":"fn","path":"a.log"}"#).await,
        "a.log:1: fn log() {}\n"
    );
    assert_eq!(
        place.call("search", r#"{"pattern":"fn","limit":1}"#).await,
        "a.rs:1: fn main() {}\n[there are more: these are the first 1 lines; narrow it down by \
         `path`, `glob` or `pattern`]"
    );
    assert!(
        place.call("search", r#"{"pattern":"("}"#).await.contains("not a valid regular expression")
    );
    assert_eq!(place.call("search", r#"{"pattern":"zz"}"#).await, "[nothing matches]");
}

#[tokio::test]
async fn hostile_arguments_fail_with_short_errors() {
    let place = Place::new(&[("a", "text")]);
    let long = "x".repeat(10_000_000);
    let hostile = [
        "{".to_owned(),
        "not json".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
        "\"text\"".to_owned(),
        "{}".repeat(2),
        r#"{"path":7,"pattern":[],"old":null,"command":{}}"#.to_owned(),
        r#"{"unknown":1}"#.to_owned(),
        "[".repeat(1_000_000),
        format!(r#"{{"path":"{long}","content":"","old":"a","new":"b"}}"#),
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"path":"a","pattern":"{long}","command":"{long}"}}"#),
        format!(r#"{{"path":"a","offset":"{long}","timeout_seconds":"{long}","glob":9}}"#),
        "{\"path\":\"a\\u0000b\",\"command\":\"a\\u0000b\"}".to_owned(),
        long,
    ];
    for tool in builtin_tools(&place.folder) {
        for arguments in &hostile {
            let name = tool.definition().name;
            let error = tool.call(arguments, &context("key")).await.unwrap_err();
            assert!(error.message.len() < 2_200, "{name}: {:.400}", error.message);
            assert_eq!(error.outcome, threadfold_loop::ErrorOutcome::Failed, "{name}");
        }
    }
    assert_eq!(place.content("a"), "text");
}

#[tokio::test]
async fn a_tool_that_was_cancelled_does_nothing() {
    let place = Place::new(&[("a", "text")]);
    for (name, arguments) in [
        ("read", r#"{"path":"a"}"#),
        ("list", "{}"),
        ("search", r#"{"pattern":"t"}"#),
        ("write", r#"{"path":"a","content":"b"}"#),
        ("edit", r#"{"path":"a","old":"text","new":"b"}"#),
    ] {
        let cancelled = context("key");
        cancelled.cancel.cancel();
        let error = place.tool(name).call(arguments, &cancelled).await.unwrap_err();
        assert!(error.message.contains("it was cancelled"), "{name}: {error}");
    }
    assert_eq!(place.content("a"), "text");
}
