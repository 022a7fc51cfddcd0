//! Servers of OpenCode 2: other paths, answers in pages, and messages that do not name their session.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_core::Json;

use super::catch_up::one_line;
use super::dedup::Deduplicator;
use super::{OpencodeServer, ServerSession, ServerTime, segment};
use crate::server::ServerError;

/// How many objects are requested at once.
const PAGE: &str = "100";
/// How many pages are read of a list, at most: a server that repeats itself must not be followed
/// forever.
const PAGES: usize = 10_000;

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    data: Vec<Box<RawValue>>,
    #[serde(default)]
    cursor: PageCursor,
}

#[derive(Deserialize, Default)]
struct PageCursor {
    #[serde(default)]
    next: Option<String>,
}

/// An answer that is one object.
#[derive(Deserialize)]
struct Answer {
    data: Box<RawValue>,
}

/// A session of version 2.
#[derive(Deserialize)]
struct Session {
    id: String,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    title: Option<String>,
    #[serde(default)]
    location: Location,
    #[serde(default)]
    time: ServerTime,
}

#[derive(Deserialize, Default)]
struct Location {
    #[serde(default)]
    directory: String,
}

impl From<Session> for ServerSession {
    fn from(session: Session) -> Self {
        let Session { id, parent, title, location, time } = session;
        Self { id, directory: location.directory, parent, title, time }
    }
}

#[derive(Deserialize)]
struct MessageId {
    id: String,
}

impl OpencodeServer {
    /// Confirms that the server is one of version 2: its old paths answer with a web page.
    pub(super) async fn recognize(&self) -> Result<(), ServerError> {
        /// What only a server of OpenCode answers.
        #[derive(Deserialize)]
        struct Info {
            #[serde(rename = "version")]
            _version: String,
        }
        let _: Info = self.json("api/info", &[]).await?;
        self.set_newer();
        Ok(())
    }

    /// Returns the sessions without a parent, the last changed first.
    pub(super) async fn newer_sessions(&self) -> Result<Vec<ServerSession>, ServerError> {
        let mut all = Vec::new();
        for raw in self.pages("api/session", &[("parentID", "null"), ("order", "desc")]).await? {
            if let Ok(session) = serde_json::from_str::<Session>(raw.get()) {
                all.push(ServerSession::from(session));
            }
        }
        all.retain(|session| session.parent.is_none());
        all.sort_by(|one, other| other.time.updated.total_cmp(&one.time.updated));
        Ok(all)
    }

    /// Returns one session.
    pub(super) async fn newer_session(&self, id: &str) -> Result<ServerSession, ServerError> {
        let answer: Answer = self.json(&format!("api/session/{}", segment(id)), &[]).await?;
        let session = serde_json::from_str::<Session>(answer.data.get());
        session
            .map(ServerSession::from)
            .map_err(|_| ServerError::NoSession { address: self.address(), session: id.to_owned() })
    }

    /// Returns the current state of a session and its children as lines: an export for each message,
    /// and a deleted row for each message that was received and is gone.
    ///
    /// There is no event for a whole message, and the server replays nothing.
    pub(super) async fn newer_catch_up(
        &self,
        root: &str,
        family: &mut BTreeSet<String>,
        received: &Deduplicator,
    ) -> Result<Vec<u8>, ServerError> {
        let mut lines = Vec::new();
        let mut waiting = vec![root.to_owned()];
        // A cycle of parents must not be followed forever.
        let mut asked = BTreeSet::from([root.to_owned()]);
        while let Some(id) = waiting.pop() {
            let path = format!("api/session/{}", segment(&id));
            let info: Answer = self.json(&path, &[]).await?;
            let messages = self.pages(&format!("{path}/message"), &[("order", "asc")]).await?;
            let mut present = BTreeSet::new();
            push_export(&mut lines, &info.data, "");
            for message in &messages {
                if let Ok(MessageId { id }) = serde_json::from_str(message.get()) {
                    present.insert(id);
                }
                push_export(&mut lines, &info.data, message.get());
            }
            for gone in received.messages_of(&id).difference(&present) {
                let [gone, id] = [gone.as_str(), &id].map(Json::string);
                let row = format!(r#"{{"id":{gone},"session_id":{id}}}"#);
                let line = format!(r#"data: {{"table":"session_message","deleted":{row}}}"#);
                one_line(&mut lines, &line);
            }
            // A revert refers to a message, so the session is repeated after its messages.
            push_export(&mut lines, &info.data, "");
            for child in self.pages("api/session", &[("parentID", &id)]).await? {
                if let Ok(MessageId { id }) = serde_json::from_str(child.get())
                    && asked.insert(id.clone())
                {
                    family.insert(id.clone());
                    waiting.push(id);
                }
            }
        }
        Ok(lines)
    }

    /// Returns all objects of a list, in the order of the list.
    async fn pages(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<Box<RawValue>>, ServerError> {
        let mut all: Vec<Box<RawValue>> = Vec::new();
        let first = [query, &[("limit", PAGE)]].concat();
        let mut page: Page = self.json(path, &first).await?;
        for _ in 0..PAGES {
            let is_empty = page.data.is_empty();
            all.append(&mut page.data);
            let Some(next) = page.cursor.next.filter(|_| !is_empty) else { break };
            page = self.json(path, &[("cursor", &next)]).await?;
        }
        Ok(all)
    }
}

fn push_export(lines: &mut Vec<u8>, info: &RawValue, message: &str) {
    one_line(lines, &format!(r#"data: {{"info":{},"messages":[{message}]}}"#, info.get()));
}
