//! A store whose process is killed, shares its file, or loses write permission.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use threadfold_core::SessionId;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{ChangePosition, LogStore, Maintenance, Store};
use threadfold_testkit::report_skipped;
use threadfold_testkit::store_crash::{AcknowledgedWrites, Control, can_cut, cut_power, kill};
use threadfold_testkit::store_suite::{read_all, run};

type Result = std::result::Result<(), Box<dyn Error + Send + Sync>>;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_store-crash"))
}

#[test]
fn no_acknowledged_write_is_lost_by_two_hundred_kills() -> Result {
    let folder = tempfile::tempdir()?;
    let sum = kill(program(), &folder.path().join("store.db"), 200, 7)?;
    assert!(sum.acknowledged > 1000, "{sum:?}");
    Ok(())
}

#[test]
fn no_acknowledged_write_is_lost_by_a_power_cut() -> Result {
    if let Err(error) = can_cut() {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?;
        report_skipped(target, "power cuts", &error.to_string())?;
        return Ok(());
    }
    cut_power(program(), 3, Control::No, 7)?;
    let control = cut_power(program(), 3, Control::Unsynced, 7)?;
    assert!(control.losses > 0, "the control lost nothing, so nothing was proved");
    Ok(())
}

#[test]
fn two_processes_write_to_one_file() -> Result {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.db");
    // The same sessions: whoever comes second takes them over, and the first must stop.
    let children: Vec<_> = (0..2)
        .map(|_| {
            Command::new(program())
                .arg("child")
                .arg(&file)
                .args(["3", "300"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        })
        .collect::<std::result::Result<_, _>>()?;
    let mut acknowledged: Vec<AcknowledgedWrites> = Vec::new();
    let mut errors = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output()?;
        let mut heard = AcknowledgedWrites::default();
        heard.hear_all(&output.stdout[..])?;
        acknowledged.push(heard);
        errors.insert(String::from_utf8(output.stderr)?);
    }
    run(async {
        let store = SqliteStore::open(&file).expect("it is whole");
        assert_eq!(store.check().await.expect("it can be read"), []);
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(store);
        for writer in 0..3 {
            let records =
                read_all(&store, &SessionId::from(format!("writer-{writer}").as_str())).await;
            let last = acknowledged.iter().map(|it| it.last(writer)).max();
            assert_eq!(Some(records.len() as u64), last);
            for (record, seq) in records.iter().zip(1..) {
                let text = String::from_utf8_lossy(&record.bytes);
                assert!(
                    text.starts_with(&format!("{{\"session\":\"writer-{writer}\",\"seq\":{seq},"))
                );
            }
        }
    });
    let all = errors.into_iter().collect::<String>();
    assert!(all.is_empty() || all.contains("being written by"), "{all}");
    Ok(())
}

#[test]
fn a_write_of_another_process_wakes_waiters_for_any_session() -> Result {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.db");
    run(async {
        let store = SqliteStore::open(&file).expect("it can be created");
        let mut position = ChangePosition::default();
        let mut child =
            Command::new(program()).arg("child").arg(&file).args(["2", "5"]).spawn().unwrap();
        loop {
            // Taken before looking, so that nothing in between is missed.
            let next = store.sessions_changed(&position);
            let hung = std::time::Duration::from_secs(30);
            let next = tokio::time::timeout(hung, next).await.expect("the child's writes wake");
            position = next.expect("changes can be waited for");
            let sessions = store.list_all("writer-").await.expect("sessions can be listed");
            if sessions.len() == 2 && sessions.iter().all(|it| it.head.seq >= 5) {
                break;
            }
        }
        assert!(child.wait().unwrap().success());
    });
    Ok(())
}

#[test]
fn a_process_at_its_file_size_limit_acknowledges_nothing() -> Result {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("store.db");
    // The shell's unit is 512 or 1024 bytes; either way the limit is soon reached.
    let script = "ulimit -f 600; trap '' XFSZ; exec \"$0\" child \"$1\" 2";
    let output = Command::new("sh").args(["-c", script]).arg(program()).arg(&file).output()?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success());
    assert!(said.contains("cannot write to"), "{said}");
    let mut acknowledged = AcknowledgedWrites::default();
    acknowledged.hear_all(&output.stdout[..])?;
    assert!(acknowledged.count > 10);
    run(async {
        let store = SqliteStore::open(&file).expect("it is whole");
        assert_eq!(store.check().await.expect("it can be read"), []);
        for writer in 0..2 {
            let session = SessionId::from(format!("writer-{writer}").as_str());
            let head = store.head(&session).await.expect("it can be read").expect("it began");
            assert!(head.seq >= acknowledged.last(writer));
        }
    });
    Ok(())
}
