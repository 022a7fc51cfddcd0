//! The recorder on the real program: a few scenarios of each kind, verified from their folders.

use std::{fs, path::Path};

use serde_json::Value;
use threadfold_convert::claude::AGENT;
use threadfold_fold::parity::Verdict;
use threadfold_testkit::recording::claude::{Abilities, record, scenarios};
use threadfold_testkit::recording::{Verification, table, verify};

use crate::real::claude;

/// Records scenarios, hands each folder over, and returns the verifications.
fn recorded(names: &[&str], mut each: impl FnMut(&Path)) -> Option<Vec<Verification>> {
    let claude = claude()?;
    let abilities = Abilities::probe(&claude).unwrap();
    let out = tempfile::tempdir().unwrap();
    let all = scenarios(&abilities);
    let verified = names.iter().map(|name| {
        let scenario = all.iter().find(|it| it.name() == *name).unwrap();
        let folder = out.path().join(name);
        record(&claude, &abilities, scenario, |it| it.write(&folder)).unwrap();
        each(&folder);
        verify(AGENT, &folder).unwrap()
    });
    Some(verified.collect())
}

fn verdicts(verifications: &[Verification]) -> Vec<Verdict> {
    verifications.iter().map(Verification::verdict).collect()
}

#[test]
fn recordings_of_the_newest_version_are_equal() {
    let names = ["many_texts", "nested", "interrupt_tool", "queued", "drop_in_tool", "compact"];
    let Some(verified) = recorded(&names, |_| {}) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Equal; 6], "{}", table(&verified));
    assert!(verified.iter().all(|it| it.blocks() > 1), "{}", table(&verified));
}

#[test]
fn a_resumed_recording_lacks_only_what_its_scenario_explains() {
    let mut infos = Vec::new();
    let read = |folder: &Path| infos.push(fs::read(folder.join("info.json")).unwrap());
    let Some(verified) = recorded(&["resume", "kill_text"], read) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Partial; 2], "{}", table(&verified));
    let infos: Vec<Value> = infos.iter().map(|it| serde_json::from_slice(it).unwrap()).collect();
    assert_eq!(infos[0]["exitCode"], 0);
    assert_eq!((&infos[1]["exitCode"], &infos[1]["signal"]), (&Value::Null, &Value::from(9)));
}

#[test]
fn a_lack_that_its_scenario_does_not_explain_is_a_difference() {
    let forget = |folder: &Path| {
        let path = folder.join("info.json");
        let mut info: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        info["mayLack"] = Value::Array(Vec::new());
        fs::write(path, info.to_string()).unwrap();
    };
    let Some(verified) = recorded(&["resume"], forget) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Different]);
    let reasons = verified[0].reasons();
    assert!(reasons[0].starts_with("nothing in this run explains that"), "{reasons:?}");
}

#[test]
fn a_recording_holds_no_long_text_of_the_agents_maker() {
    let mut snapshots = 0;
    let check = |folder: &Path| {
        let session = fs::read_dir(folder.join("transcript")).unwrap().next().unwrap().unwrap();
        let main = fs::read_dir(session.path())
            .unwrap()
            .map(|it| it.unwrap().path())
            .find(|it| it.extension().is_some_and(|it| it == "jsonl"))
            .unwrap();
        for line in fs::read_to_string(main).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            if record["attachment"]["type"] == "prompt_snapshot" {
                snapshots += 1;
                assert!(line.len() < 20_000, "{} bytes", line.len());
                assert!(line.contains("more characters>"), "{line}");
            }
        }
    };
    let Some(verified) = recorded(&["text"], check) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Equal], "{}", table(&verified));
    assert!(snapshots > 0, "the newest version writes its prompt into the transcript");
}

#[test]
fn a_recording_of_an_agent_that_said_nothing_is_different() {
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(out.path().join("transcript")).unwrap();
    fs::write(out.path().join("stream.jsonl"), "").unwrap();
    fs::write(out.path().join("info.json"), r#"{"scenario": "text"}"#).unwrap();
    let verified = verify(AGENT, out.path()).unwrap();
    assert_eq!(verified.verdict(), Verdict::Different);
    assert_eq!(verified.reasons(), ["the stream is empty"]);
}
