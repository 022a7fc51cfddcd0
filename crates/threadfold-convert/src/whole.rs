//! Whole sessions in one call.

use threadfold_core::{ConversationState, SessionEvent};

use crate::claude::layout::{belongs_to, sessions};
use crate::lines::lines;
use crate::record::{Agent, Feed, FeedKind, Record};
use crate::{Converter, converter};

/// A file of a session: where it was, and what is in it.
#[derive(Clone, Copy, Debug)]
pub struct SessionFile<'a> {
    /// Its path; only its names count.
    pub path: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Converts records of one session, in their order.
///
/// ```
/// use threadfold_convert::{Agent, Feed, FeedKind, Record, convert_all};
///
/// let stream = Feed::new(Agent::Claude, FeedKind::Stream, "stdout");
/// let bytes = br#"{"type":"result","subtype":"success","session_id":"s1","uuid":"r1"}"#;
/// let events = convert_all(Agent::Claude, [Record { feed: &stream, line: 1, bytes }]);
/// assert_eq!(events.last().map(|event| event.payload.kind()), Some("session:idle"));
/// ```
pub fn convert_all<'a>(
    agent: Agent,
    records: impl IntoIterator<Item = Record<'a>>,
) -> Vec<SessionEvent> {
    let mut converter = converter(agent);
    let mut events = Vec::new();
    let mut feeds: Vec<&Feed> = Vec::new();
    for record in records {
        if !feeds.contains(&record.feed) {
            feeds.push(record.feed);
        }
        converter.push(&record, &mut events);
    }
    feeds.into_iter().for_each(|feed| converter.finish(feed, &mut events));
    events
}

/// Converts the files of one session, handing on events a file's line at a time.
///
/// The main file may stand anywhere among them.
pub fn convert_files(
    agent: Agent,
    converter: &mut dyn Converter,
    files: &[SessionFile<'_>],
    mut each: impl FnMut(&mut Vec<SessionEvent>),
) {
    let mut events = Vec::new();
    for (kind, file) in in_order(agent, files) {
        let feed = Feed::new(agent, kind, file.path);
        if matches!(feed.kind, FeedKind::SubagentMeta(_)) || is_one_record(agent, file.bytes) {
            converter.push(&Record { feed: &feed, line: 1, bytes: file.bytes }, &mut events);
        } else {
            for line in lines(file.bytes) {
                let record = Record { feed: &feed, line: line.number, bytes: line.bytes };
                converter.push(&record, &mut events);
                each(&mut events);
                events.clear();
            }
        }
        converter.finish(&feed, &mut events);
        each(&mut events);
        events.clear();
    }
}

/// Says whether a file is one record, however many lines it has: OpenCode's exports are.
fn is_one_record(agent: Agent, bytes: &[u8]) -> bool {
    agent == Agent::Opencode
        && serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

/// Returns the state that a session's files tell.
///
/// See the crate's front page for an example.
pub fn parse_transcript(agent: Agent, files: &[SessionFile<'_>]) -> ConversationState {
    let mut state = ConversationState::default();
    let mut converter = converter(agent);
    convert_files(agent, converter.as_mut(), files, |events| state.extend(events.iter()));
    state
}

/// Returns the files in the order to read them: notes, the main file, the subagents'.
fn in_order<'a>(agent: Agent, files: &[SessionFile<'a>]) -> Vec<(FeedKind, SessionFile<'a>)> {
    if agent == Agent::Other {
        return files.iter().map(|file| (FeedKind::Main, *file)).collect();
    }
    if agent == Agent::Opencode {
        let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
        let found = |path: &str| files.iter().find(|file| file.path == path).copied();
        let ordered = crate::opencode::layout::in_order(&paths);
        return ordered.into_iter().filter_map(|it| Some((FeedKind::Main, found(it)?))).collect();
    }
    let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
    let find = |path: &str| files.iter().find(|file| file.path.replace('\\', "/") == path).copied();
    let mut ordered = Vec::new();
    let found = sessions(&paths);
    for session in &found {
        let own = |bytes: &[u8]| {
            lines(bytes).next().is_none_or(|first| belongs_to(first.bytes, &session.session))
        };
        let mine: Vec<_> = session
            .subagents
            .iter()
            .filter(|it| find(&it.path).is_some_and(|file| found.len() == 1 || own(file.bytes)))
            .collect();
        for subagent in &mine {
            let meta = subagent.meta.as_deref().and_then(find);
            ordered.extend(meta.map(|file| (FeedKind::SubagentMeta(subagent.agent.clone()), file)));
        }
        ordered.extend(find(&session.main).map(|file| (FeedKind::Main, file)));
        for subagent in &mine {
            let file = find(&subagent.path);
            ordered.extend(file.map(|file| (FeedKind::Subagent(subagent.agent.clone()), file)));
        }
    }
    if found.is_empty() {
        ordered.extend(files.iter().map(|file| (FeedKind::Main, *file)));
    }
    ordered
}
