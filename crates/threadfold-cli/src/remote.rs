//! Sessions of a server of Threadfold, which `watch` and `view` recognize by its answers.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use threadfold_client::{Client, ClientError};
use threadfold_core::SessionId;
use threadfold_engine::{Options, PartsOnDisk, ServerAccess, Session, holder, server_at};
use threadfold_store::MemoryStore;

use crate::error::{CommandError, print_note};
use crate::serve::read_token;
use crate::sessions::LoadedSession;
use crate::surroundings::machine;
use crate::view::count;

/// What the hint of a server that wants the token mentions.
const MARK: &str = "threadfold serve";

/// Returns a client, if the server at an address is one of Threadfold.
///
/// The link that `serve` prints has the token in its fragment.
pub(crate) async fn recognize(
    address: &str,
    token_file: Option<&Path>,
) -> Result<Option<Client>, CommandError> {
    let in_link = address.split_once("#token=").map(|(_, token)| token.to_owned());
    let token = match in_link {
        Some(token) => Some(token),
        None => read_token(address, token_file)?,
    };
    let Ok(client) = Client::new(address, token) else { return Ok(None) };
    match client.status().await {
        Ok(_) => Ok(Some(client)),
        Err(error @ ClientError::Refused { .. }) => match &error {
            ClientError::Refused { hint, .. } if hint.contains(MARK) => Err(error.into()),
            _ => Ok(None),
        },
        // Whoever it is, the next question reports what is wrong.
        Err(_) => Ok(None),
    }
}

/// Returns the session that the user named, or the latest one of the server.
pub(crate) async fn session_of(
    client: &Client,
    wanted: Option<String>,
) -> Result<String, CommandError> {
    if let Some(id) = wanted {
        return Ok(id);
    }
    let status = client.status().await?;
    let latest = client.latest(1).await?.into_iter().next().ok_or_else(|| {
        CommandError::new(
            anyhow!("{} has no session yet", client.address()),
            "try again when an agent has written something",
        )
    })?;
    let others = match status.sessions.saturating_sub(1) {
        0 => String::new(),
        others => {
            let others = count(others, "other session", "other sessions");
            format!("; the server has {others}, which `--session ID` chooses")
        }
    };
    print_note(format_args!("session `{latest}`{others}"));
    Ok(latest)
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let hint = match &error {
            ClientError::Refused { status: 401, .. } => {
                "give the token with `--token-file FILE`, or in `THREADFOLD_TOKEN`".to_owned()
            }
            ClientError::Refused { hint, .. } => hint.clone(),
            ClientError::Address { .. } => {
                "an address looks like `http://127.0.0.1:4127`".to_owned()
            }
            ClientError::Mirror(_) => "use a program of the server's version".to_owned(),
            _ => "check that the server runs, and its address".to_owned(),
        };
        Self::new(error, hint)
    }
}

/// How long an agent's server must be quiet before its session counts as read, and the most.
const QUIET: Duration = Duration::from_millis(700);
const LONGEST: Duration = Duration::from_secs(15);

/// Loads a session of a server, whoever's it is.
pub(crate) async fn load_remote(
    address: &str,
    wanted: Option<String>,
    token_file: Option<&Path>,
    password: Option<String>,
) -> Result<LoadedSession, CommandError> {
    if let Some(client) = recognize(address, token_file).await? {
        let session = session_of(&client, wanted).await?;
        let mut followed = client.follow(session);
        followed.next().await?;
        let mirror = followed.mirror();
        return Ok(LoadedSession {
            state: mirror.state().clone(),
            metadata: mirror.metadata().clone(),
            records: mirror.cursor().map_or(0, |it| it.seq),
            parts: PartsOnDisk::default(),
        });
    }
    let machine = machine();
    let server = server_at(address, &ServerAccess { machine: &machine, password })?;
    let id = match wanted {
        Some(id) => SessionId::from(id.as_str()),
        None => server.sessions().await?.into_iter().next().ok_or_else(|| {
            let hint = "try again when the agent has written something";
            CommandError::new(anyhow!("{} has no session yet", server.address()), hint)
        })?,
    };
    server.check(&id).await?;
    // What an agent's server sends at the beginning is all that there is so far.
    let store = Arc::new(MemoryStore::default());
    let options = Options::new(holder("threadfold view"));
    let mut session = Session::open(store, &id, options).await?;
    let handle = session.handle();
    let mut quiet = pin!(async move {
        let begin = Instant::now();
        loop {
            let seq = handle.cursor().seq;
            tokio::time::sleep(QUIET).await;
            let is_quiet = seq > 0 && handle.cursor().seq == seq;
            if is_quiet || begin.elapsed() > LONGEST {
                return;
            }
        }
    });
    server.follow(&mut session, quiet.as_mut()).await?;
    Ok(LoadedSession::of(session.fold().fork()))
}
