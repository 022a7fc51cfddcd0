//! The server's current state of a session and its children, in the bus's own format.

use std::collections::BTreeSet;

use serde::Deserialize;
use threadfold_core::Json;

use super::{OpencodeServer, ServerSession, segment};
use crate::server::ServerError;

#[derive(Deserialize)]
struct Message {
    info: Json,
    #[serde(default)]
    parts: Vec<Json>,
}

#[derive(Deserialize)]
struct ObjectId {
    id: String,
}

impl OpencodeServer {
    /// Returns the lines with which the bus would have reported the current state.
    pub(super) async fn catch_up(
        &self,
        of: &ServerSession,
        family: &mut BTreeSet<String>,
    ) -> Result<Vec<u8>, ServerError> {
        let mut lines = Vec::new();
        let mut waiting = vec![of.id.clone()];
        // A cycle of parents must not be followed forever.
        let mut asked = BTreeSet::from([of.id.clone()]);
        let directory = &[("directory", of.directory.as_str())];
        while let Some(id) = waiting.pop() {
            let path = format!("session/{}", segment(&id));
            let info: Json = self.json(&path, directory).await?;
            push_event(&mut lines, "session.updated", &format!(r#"{{"info":{info}}}"#));
            let messages: Vec<Message> = self.json(&format!("{path}/message"), directory).await?;
            for message in messages {
                let info = format!(r#"{{"info":{}}}"#, message.info);
                push_event(&mut lines, "message.updated", &info);
                for part in message.parts {
                    push_event(
                        &mut lines,
                        "message.part.updated",
                        &format!(r#"{{"part":{part}}}"#),
                    );
                }
            }
            let children: Vec<ObjectId> = self.json(&format!("{path}/children"), directory).await?;
            for ObjectId { id } in children {
                if asked.insert(id.clone()) {
                    family.insert(id.clone());
                    waiting.push(id);
                }
            }
        }
        Ok(lines)
    }
}

fn push_event(lines: &mut Vec<u8>, kind: &str, properties: &str) {
    one_line(lines, &format!("data: {{\"type\":\"{kind}\",\"properties\":{properties}}}"));
}

/// Appends a line. The server's JSON may contain line ends between tokens, but a record is one line.
pub(super) fn one_line(lines: &mut Vec<u8>, line: &str) {
    lines.extend(line.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    lines.push(b'\n');
}
