//! The recorder on real Codex: scenarios of both live views, verified from their folders.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;
use threadfold_convert::codex::AGENT;
use threadfold_fold::parity::Verdict;
use threadfold_testkit::recording::codex::{Abilities, record, scenarios};
use threadfold_testkit::recording::{Verification, table, verify};

use crate::parity_codex_live::codex;

/// Records scenarios, hands each folder over, and returns the verifications.
fn recorded(names: &[&str], mut each: impl FnMut(&Path)) -> Option<Vec<Verification>> {
    let codex = codex()?;
    let abilities = Abilities::probe(&codex).unwrap();
    let out = tempfile::tempdir().unwrap();
    let all = scenarios(&abilities);
    assert!(all.len() > 100, "only {} scenarios", all.len());
    let verified = names.iter().map(|name| {
        let scenario = all.iter().find(|it| it.name() == *name).unwrap();
        let folder = out.path().join(name);
        record(&codex, &abilities, scenario, |it| it.write(&folder)).unwrap();
        each(&folder);
        verify(AGENT, &folder).unwrap()
    });
    Some(verified.collect())
}

fn verdicts(verifications: &[Verification]) -> Vec<Verdict> {
    verifications.iter().map(Verification::verdict).collect()
}

#[test]
fn recordings_of_stops_forks_reviews_and_scripts_are_equal() {
    let names = [
        "app_fork",
        "app_go_back",
        "app_review",
        "app_compact",
        "app_steer",
        "app_code_nested",
        "exec_code_shell",
        "exec_kill_tool",
        "exec_sigint_tool",
        "app_resume_after_kill",
    ];
    let Some(verified) = recorded(&names, |_| {}) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Equal; 10], "{}", table(&verified));
    assert!(verified.iter().all(|it| it.blocks() > 1), "{}", table(&verified));
}

#[test]
fn a_long_output_is_partial_only_where_the_scenario_explains_it() {
    let mut forgets = false;
    let forget = |folder: &Path| {
        if forgets {
            let path = folder.join("info.json");
            let mut info: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            info["mayLack"] = Value::Array(Vec::new());
            fs::write(path, info.to_string()).unwrap();
        }
        forgets = true;
    };
    let names = ["exec_long_output", "exec_long_output"];
    let Some(verified) = recorded(&names, forget) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Partial, Verdict::Different], "{}", table(&verified));
}

#[test]
fn a_recording_has_no_long_instructions_and_only_rollouts() {
    let check = |folder: &Path| {
        let mut files = Vec::new();
        walk(&folder.join("transcript"), &mut files).unwrap();
        assert_eq!(files.len(), 1, "{files:?}");
        let text = fs::read_to_string(&files[0]).unwrap();
        let records = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let metas: Vec<_> = records.filter(|it| it["type"] == "session_meta").collect();
        let instructions = metas[0]["payload"]["base_instructions"]["text"].as_str().unwrap();
        assert!(instructions.contains("more characters>"), "{instructions}");
        assert!(instructions.len() < 100, "{instructions}");
    };
    let Some(verified) = recorded(&["app_text"], check) else { return };
    assert_eq!(verdicts(&verified), [Verdict::Equal], "{}", table(&verified));
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
