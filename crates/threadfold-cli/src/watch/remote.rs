//! Shows a session of a server of Threadfold.

use std::io::{self, Stdout};
use std::pin::pin;

use threadfold_client::{Client, FollowEvent};
use threadfold_engine::{Frame, ListenOptions};

use super::show::{Output, write_frame};
use crate::error::CommandError;
use crate::view::LiveView;

/// Shows a session until it ends, or the user stops.
pub(super) async fn watch(
    client: &Client,
    session: &str,
    output: Output,
    listening: &ListenOptions,
) -> Result<(), CommandError> {
    let mut stop = pin!(crate::stop::stop());
    tokio::select! {
        ended = show(client, session, output, listening) => ended,
        stopped = &mut stop => stopped,
    }
}

async fn show(
    client: &Client,
    session: &str,
    output: Output,
    listening: &ListenOptions,
) -> Result<(), CommandError> {
    match output {
        Output::Json => {
            let after = listening.after.as_ref().map(ToString::to_string);
            let mut frames = client.frames(session, listening.delivery, after);
            let mut out: Stdout = io::stdout();
            loop {
                let (frame, json) = frames.next().await?;
                write_frame(&mut out, &json)?;
                if matches!(frame, Frame::End { .. }) {
                    return Ok(());
                }
            }
        }
        Output::Text { width, is_coloured, is_terminal, shown } => {
            let mut live = LiveView::new(io::stdout(), width, is_coloured, shown, is_terminal);
            let mut followed = client.follow(session);
            loop {
                match followed.next().await? {
                    FollowEvent::Changed => {
                        let mirror = followed.mirror();
                        live.catch_up(mirror.state(), mirror.metadata())?;
                    }
                    FollowEvent::Ended(_) => return Ok(live.end()?),
                }
            }
        }
    }
}
