//! Finds the files of a session in all four layouts.
//!
//! Up to 1.0.128 the main file contains the subagents' lines. In 2.0 each subagent has a file in
//! the project's folder. From 2.1 on that file is in `<session>/subagents/`, later with a
//! `.meta.json` beside it, and workflows have subfolders there.

use std::collections::BTreeMap;

use threadfold_core::{AgentId, SessionId};

/// The files of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    /// The session's id: the name of the main file.
    pub session: String,
    /// The main file.
    pub main: String,
    /// The subagents' files.
    pub subagents: Vec<SubagentFile>,
}

/// The file of one subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentFile {
    /// The subagent's id.
    pub agent: AgentId,
    /// Its file.
    pub path: String,
    /// Its metadata file.
    pub meta: Option<String>,
}

/// Groups paths into sessions, sorted by name.
///
/// In the layout of 2.0 a path does not show which session a subagent's file belongs to. Such a
/// file is listed in every session of its folder; [`belongs_to`] decides by its first line.
///
/// ```
/// use threadfold_convert::claude::layout::sessions;
///
/// let found = sessions(&["p/s1.jsonl", "p/s1/subagents/agent-a1.jsonl", "p/s1/subagents/agent-a1.meta.json"]);
/// assert_eq!(found[0].session, "s1");
/// assert_eq!(found[0].subagents[0].agent.as_str(), "a1");
/// assert!(found[0].subagents[0].meta.is_some());
/// ```
pub fn sessions<P: AsRef<str>>(paths: &[P]) -> Vec<SessionFiles> {
    let mut mains: BTreeMap<(String, String), SessionFiles> = BTreeMap::new();
    let mut agents: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut metas: BTreeMap<String, String> = BTreeMap::new();
    for path in paths {
        let path = path.as_ref().replace('\\', "/");
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if let Some(stem) = name.strip_suffix(".meta.json") {
            metas.insert(format!("{folder}/{stem}"), path.clone());
        } else if let Some(stem) = name.strip_suffix(".jsonl") {
            if let Some(agent) = stem.strip_prefix("agent-") {
                agents.insert(path.clone(), (format!("{folder}/{stem}"), agent.to_owned()));
            } else if !folder.split('/').any(|part| part == "subagents") {
                let files = SessionFiles {
                    session: stem.to_owned(),
                    main: path.clone(),
                    subagents: Vec::new(),
                };
                mains.insert((folder.to_owned(), stem.to_owned()), files);
            }
        }
    }
    for (path, (stem, agent)) in agents {
        let file = SubagentFile {
            agent: AgentId::from(agent.as_str()),
            meta: metas.get(&stem).cloned(),
            path: path.clone(),
        };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for ((project, session), files) in &mut mains {
            let own = format!("{project}/{session}/subagents");
            let own = own.trim_start_matches('/');
            let inside = folder.trim_start_matches('/').starts_with(own);
            if inside || folder == project {
                files.subagents.push(file.clone());
            }
        }
    }
    mains.into_values().collect()
}

/// Returns whether a subagent's file belongs to the session, according to its first line.
///
/// A line that names no session belongs to any: a corrupt first line must not lose the file.
pub fn belongs_to(first_line: &[u8], session: &str) -> bool {
    session_of_line(first_line).is_none_or(|it| it == session)
}

/// Returns the id of the session that a line of a transcript names.
pub fn session_of_line(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct SessionLine<'a> {
        #[serde(borrow, rename = "sessionId")]
        session: Option<std::borrow::Cow<'a, str>>,
    }
    let line: SessionLine<'_> = serde_json::from_slice(line).ok()?;
    line.session.map(std::borrow::Cow::into_owned).filter(|name| !name.is_empty())
}

/// Returns the name of a subagent's file, by one of its lines: the line is of a side chain, and
/// names the subagent.
///
/// ```
/// use threadfold_convert::claude::layout::subagent_of_line;
///
/// let line = br#"{"type":"user","sessionId":"s1","isSidechain":true,"agentId":"a1"}"#;
/// assert_eq!(subagent_of_line(line).map(|it| it.to_string()), Some("agent-a1".into()));
/// assert_eq!(subagent_of_line(br#"{"type":"user","sessionId":"s1"}"#), None);
/// ```
pub fn subagent_of_line(line: &[u8]) -> Option<SessionId> {
    #[derive(serde::Deserialize)]
    struct SubagentLine {
        #[serde(rename = "isSidechain")]
        is_sidechain: bool,
        #[serde(rename = "agentId")]
        agent: AgentId,
    }
    let line: SubagentLine = serde_json::from_slice(line).ok()?;
    let agent = line.agent.bare();
    (line.is_sidechain && !agent.is_empty()).then(|| SessionId::from(format!("agent-{agent}")))
}

/// Returns whether a file's name, without its extension, is a session id of Claude Code: a UUID.
///
/// A copy that somebody renamed is therefore recognized as one.
///
/// ```
/// use threadfold_convert::claude::layout::is_session_name;
///
/// assert!(is_session_name("be1a18de-2cb7-4306-972b-1c58b5256718"));
/// assert!(!is_session_name("session"));
/// ```
pub fn is_session_name(stem: &str) -> bool {
    let parts: Vec<&str> = stem.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
}
