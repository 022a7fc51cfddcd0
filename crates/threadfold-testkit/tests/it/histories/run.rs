//! A run that is cut: its histories, one after the other, and what its provider gave in between.

use threadfold_core::{ConversationMessage, Json, Payload, SessionEvent, TurnState};

/// A run, as far as its histories tell.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) cuts: Vec<Cut>,
}

/// The history after one event.
pub(crate) struct Cut {
    pub(crate) history: Vec<ConversationMessage>,
    /// The answer that the event was, if it was one.
    pub(crate) answer: Option<Answer>,
}

/// What a provider answered, and to which history.
pub(crate) struct Answer {
    pub(crate) before: Vec<ConversationMessage>,
    pub(crate) given: Words,
}

/// An answer in the words of its provider.
pub(crate) enum Words {
    Anthropic(Json),
    OpenAi(Json),
    /// Only the neutral message is known; what it is rendered to was given.
    Rendered,
    /// Nothing that a provider holds us to.
    Nothing,
}

/// How the answers of a run are known.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    AsAnswered,
    AsRendered,
}

impl Run {
    pub(crate) fn of_events(name: &str, events: Vec<SessionEvent>, known: Given) -> Self {
        let mut turns = TurnState::default();
        let mut cuts = Vec::new();
        for event in &events {
            let before = turns.history();
            turns.extend([event]);
            let answer = match &event.payload {
                Payload::TurnAnswered(said) => {
                    let provider = turns.last().map(|turn| turn.sent().provider.clone());
                    let given = match (known, provider.as_deref()) {
                        (Given::AsRendered, _) => Words::Rendered,
                        (_, Some("anthropic")) => Words::Anthropic(said.payload.clone()),
                        (_, Some("openai")) => Words::OpenAi(said.payload.clone()),
                        _ => Words::Nothing,
                    };
                    Some(Answer { before, given })
                }
                _ => None,
            };
            cuts.push(Cut { history: turns.history(), answer });
        }
        Self { name: name.to_owned(), cuts }
    }
}
