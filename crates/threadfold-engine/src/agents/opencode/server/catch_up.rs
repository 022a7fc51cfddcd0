//! A session and its children as the server has them now, told in the bus's own form.

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
struct Named {
    id: String,
}

impl OpencodeServer {
    /// Returns the lines that the bus would have said of all that is there.
    pub(super) async fn catch_up(
        &self,
        of: &ServerSession,
        family: &mut BTreeSet<String>,
    ) -> Result<Vec<u8>, ServerError> {
        let mut lines = Vec::new();
        let mut waiting = vec![of.id.clone()];
        // Who names a parent as its child is not asked for ever.
        let mut asked = BTreeSet::from([of.id.clone()]);
        let directory = Some(of.directory.as_str());
        while let Some(id) = waiting.pop() {
            let path = format!("session/{}", segment(&id));
            let info: Json = self.json(&path, directory).await?;
            say(&mut lines, "session.updated", &format!(r#"{{"info":{info}}}"#));
            let messages: Vec<Message> = self.json(&format!("{path}/message"), directory).await?;
            for message in messages {
                let info = format!(r#"{{"info":{}}}"#, message.info);
                say(&mut lines, "message.updated", &info);
                for part in message.parts {
                    say(&mut lines, "message.part.updated", &format!(r#"{{"part":{part}}}"#));
                }
            }
            let children: Vec<Named> = self.json(&format!("{path}/children"), directory).await?;
            for Named { id } in children {
                if asked.insert(id.clone()) {
                    family.insert(id.clone());
                    waiting.push(id);
                }
            }
        }
        Ok(lines)
    }
}

fn say(lines: &mut Vec<u8>, kind: &str, properties: &str) {
    let line = format!("data: {{\"type\":\"{kind}\",\"properties\":{properties}}}\n");
    // JSON of the server may hold line ends between its tokens, and a line has only one.
    let (content, _) = line.as_bytes().split_at(line.len() - 1);
    lines.extend(
        content.iter().map(|byte| if *byte == b'\n' || *byte == b'\r' { b' ' } else { *byte }),
    );
    lines.push(b'\n');
}
