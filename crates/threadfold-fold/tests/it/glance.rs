//! What the first and the last lines of a session show is what the whole session shows.

use std::path::Path;

use threadfold_convert::{FeedKind, claude, codex};
use threadfold_core::SessionId;
use threadfold_fold::{
    FileParts, Fold, Glance, HeadReader, SessionFile, SessionSummary, Slices, SourceRole,
    SourceSpec, UnknownField, fold_files,
};
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

fn recorded() -> Vec<SessionOnDisk> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let mut sessions = read_sessions(&data).expect("the test data can be read");
    // Others keep a record of the session as a whole.
    sessions.retain(|it| !it.is_stream && [claude::AGENT, codex::AGENT].contains(&it.agent));
    assert!(sessions.len() > 100, "{}", sessions.len());
    // Recorded sessions are too short to get a title.
    for (number, session) in sessions.iter_mut().enumerate() {
        if session.agent == claude::AGENT {
            add_title(session, number % 2 == 0);
        }
    }
    sessions
}

/// Adds the line by which Claude Code names a session, at the beginning or at the end.
fn add_title(session: &mut SessionOnDisk, is_first: bool) {
    let is_main = |(path, _): &&mut (String, Vec<u8>)| !path.contains("agent-");
    let (_, bytes) = session.files.iter_mut().find(is_main).expect("a main file");
    let line = b"{\"type\":\"ai-title\",\"aiTitle\":\"A title\"}\n";
    let place = if is_first { 0 } else { bytes.len() };
    bytes.splice(place..place, *line);
}

fn id_of(session: &SessionOnDisk) -> SessionId {
    SessionId::from(session.root.as_deref().unwrap_or_default())
}

fn whole(session: &SessionOnDisk) -> SessionSummary {
    let mut fold = Fold::new(id_of(session), Slices::default());
    let files: Vec<_> =
        session.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    fold_files(&mut fold, session.agent, &files, |_| {});
    fold.into_summary()
}

/// Returns the last part of a file, from the beginning of a line on.
fn last(bytes: &[u8], length: usize) -> &[u8] {
    match bytes.len().saturating_sub(length) {
        0 => bytes,
        start => {
            let line = bytes[start - 1..].iter().position(|byte| *byte == b'\n');
            line.map_or(&[], |line| &bytes[start + line..])
        }
    }
}

/// Returns what so many of the last bytes of each file show, and the first ones of the main file.
fn glance(session: &SessionOnDisk, length: usize) -> Glance {
    let files: Vec<_> =
        session.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    let mut parts = Vec::new();
    let mut head: Option<HeadReader> = None;
    for ordered in session.agent.reading_order(&files) {
        let (path, bytes) = &session.files[ordered.index];
        let (role, subagent) = match &ordered.kind {
            FeedKind::Main => (SourceRole::Main, None),
            FeedKind::Subagent(agent) => (SourceRole::Subagent, Some(agent.clone())),
            _ => continue,
        };
        let mut spec = SourceSpec::new(session.agent, role, path.as_str());
        spec.agent_id = subagent;
        if head.is_none() && role == SourceRole::Main {
            let mut reader = HeadReader::new(&id_of(session), &spec);
            let mut chunks = bytes.chunks(700);
            while chunks.next().is_some_and(|chunk| reader.push(chunk)) {}
            head = Some(reader);
        }
        let tail = last(bytes, length);
        let is_whole = tail.len() == bytes.len();
        parts.push(FileParts { spec, tail: Some(tail.to_vec()), is_whole });
    }
    head.map(|it| it.finish(session.agent, &parts)).unwrap_or_default()
}

/// Returns whether the times of each file rise: where they do not, a line in the middle may have
/// the earliest or the latest one.
fn has_rising_times(session: &SessionOnDisk) -> bool {
    session.files.iter().all(|(_, bytes)| {
        let text = String::from_utf8_lossy(bytes);
        let times: Vec<&str> = text.split("\"timestamp\":\"").skip(1).map(|it| &it[..24]).collect();
        times.is_sorted()
    })
}

#[test]
fn what_is_known_of_a_part_is_what_the_whole_session_shows() {
    let (mut titles, mut unknown_titles) = (0, 0);
    for session in recorded() {
        let whole = whole(&session);
        for length in [500, 3_000, 20_000, usize::MAX] {
            let Glance { summary, unknown } = glance(&session, length);
            let place = (&session.name, length);
            let is_known = |field| !unknown.contains(&field);
            if is_known(UnknownField::Title) {
                assert_eq!(summary.title, whole.title, "{place:?}");
                titles += usize::from(summary.title.is_some());
            } else {
                assert_eq!(summary.title, None, "{place:?}");
                unknown_titles += usize::from(whole.title.is_some());
            }
            if is_known(UnknownField::FirstPrompt) {
                assert_eq!(summary.first_prompt, whole.first_prompt, "{place:?}");
            }
            if is_known(UnknownField::Model) {
                assert_eq!(summary.model, whole.model, "{place:?}");
            }
            // The beginning of the main file counts. The agent's own helpers may begin earlier, by
            // less than a second.
            let has_one_beginning = session.files.len() == 1 && has_rising_times(&session);
            if is_known(UnknownField::StartedAt) && has_one_beginning {
                assert_eq!(summary.started_at, whole.started_at, "{place:?}");
            } else if is_known(UnknownField::StartedAt) {
                assert!(summary.started_at >= whole.started_at, "{place:?}");
            }
            // A last line that repeats an earlier one has no event of its own in the whole session.
            if is_known(UnknownField::EndedAt) && has_rising_times(&session) {
                assert!(summary.ended_at >= whole.ended_at, "{place:?}");
            }
        }
    }
    // Both happen, or nothing was tested.
    assert!(titles > 10 && unknown_titles > 10, "{titles} {unknown_titles}");
}
