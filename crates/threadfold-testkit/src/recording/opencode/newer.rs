//! The same scenarios with a server of version 2. The transcript is its exports.

use std::fs;

use serde_json::Value;

use super::{Bus, Scenario, recording};
use crate::recording::Recording;
use crate::{AgentHome, OpenCode, ScriptedModel, TestkitError, opencode_newer_scripts};

/// Plays scenarios with one server, and hands over each recording.
pub(super) fn record(
    opencode: &OpenCode,
    scenarios: &[Scenario],
    keep: &mut dyn FnMut(&Recording) -> Result<(), TestkitError>,
) -> Result<(), TestkitError> {
    let scripts = opencode_newer_scripts();
    let model = ScriptedModel::builder().require_tools().scripts(scripts).start()?;
    let home = AgentHome::new()?;
    let server = opencode.serve_newer(&home, &model.base_url())?;
    for scenario in scenarios {
        let folder = home.project().join(scenario.name);
        let transcripts = home.temporary().join(scenario.name);
        for folder in [&folder, &transcripts] {
            fs::create_dir_all(folder)
                .map_err(TestkitError::io(format!("create `{}`", folder.display())))?;
        }
        let mut bus = Bus { events: server.events()?, lines: Vec::new() };
        // The first event is sent to every new listener: from then on nothing is missed.
        bus.read_until(|_| true)?;
        let session = server.create_session(&folder)?;
        server.prompt(&session, &format!("[[play:{}]] please run", scenario.name))?;
        if let Some(kind) = scenario.interrupt_at {
            bus.read_until(|event| event["type"] == kind)?;
            server.interrupt(&session)?;
        }
        bus.read_until(|event| is_end(event) && event["data"]["sessionID"] == *session)?;
        bus.settle(|| {
            let mut sessions = vec![session.clone()];
            sessions.extend(server.descendants(&session)?);
            for (number, session) in sessions.iter().enumerate() {
                let path = transcripts.join(format!("{number:03}.export.json"));
                fs::write(&path, server.export(session)?)
                    .map_err(TestkitError::io(format!("write `{}`", path.display())))?;
            }
            Ok(())
        })?;
        keep(&recording(opencode, scenario, session, bus.lines, transcripts))?;
    }
    Ok(())
}

/// Returns whether an event ends a busy period of a session.
fn is_end(event: &Value) -> bool {
    let kind = event["type"].as_str().and_then(|it| it.strip_prefix("session.execution."));
    matches!(kind, Some("succeeded" | "failed" | "interrupted"))
}
