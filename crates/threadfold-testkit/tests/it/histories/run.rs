//! A truncated run: its histories, and the provider's answers between them.

use threadfold_core::{ConversationMessage, Json, Payload, SessionEvent, TurnState};

/// A run, as far as its histories show.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) cuts: Vec<HistoryPrefix>,
}

/// The history after one event.
pub(crate) struct HistoryPrefix {
    pub(crate) history: Vec<ConversationMessage>,
    /// The answer that the event was, if it was one.
    pub(crate) answer: Option<Answer>,
}

/// What a provider answered, and to which history.
pub(crate) struct Answer {
    pub(crate) before: Vec<ConversationMessage>,
    pub(crate) given: AnswerContent,
}

/// An answer in the words of its provider.
pub(crate) enum AnswerContent {
    Anthropic(Json),
    OpenAi(Json),
    /// Only the neutral message is known; what it is rendered to was given.
    Rendered,
    /// Nothing that a provider holds us to.
    Nothing,
}

/// How the answers of a run are known.
#[derive(Clone, Copy)]
pub(crate) enum AnswerForm {
    AsAnswered,
    AsRendered,
}

impl Run {
    pub(crate) fn of_events(name: &str, events: Vec<SessionEvent>, known: AnswerForm) -> Self {
        let mut turns = TurnState::default();
        let mut cuts = Vec::new();
        for event in &events {
            let before = turns.history();
            turns.extend([event]);
            let answer = match &event.payload {
                Payload::TurnAnswered(said) => {
                    let provider = turns.last().map(|turn| turn.sent().provider.clone());
                    let given = match (known, provider.as_deref()) {
                        (AnswerForm::AsRendered, _) => AnswerContent::Rendered,
                        (_, Some("anthropic")) => AnswerContent::Anthropic(said.payload.clone()),
                        (_, Some("openai")) => AnswerContent::OpenAi(said.payload.clone()),
                        _ => AnswerContent::Nothing,
                    };
                    Some(Answer { before, given })
                }
                _ => None,
            };
            cuts.push(HistoryPrefix { history: turns.history(), answer });
        }
        Self { name: name.to_owned(), cuts }
    }
}
