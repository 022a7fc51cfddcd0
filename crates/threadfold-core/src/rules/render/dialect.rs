//! The ways in which providers want a conversation to be written.

use crate::json::Json;
use crate::rules::{Violation, check_anthropic, check_chat, check_responses};
use crate::turn::ConversationMessage;

use super::{anthropic, chat, responses};

/// How a provider wants a conversation to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
}

impl Dialect {
    /// Returns the name of the list that a request carries.
    pub fn list(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "messages",
            Self::Responses => "input",
        }
    }

    /// Returns what messages add to that list, if they follow on others.
    ///
    /// The same messages give the same bytes, so what was sent once need not be written again.
    ///
    /// ```
    /// use threadfold_core::{ConversationMessage, Dialect, Role};
    ///
    /// let thanks = ConversationMessage::text(Role::User, "Thanks");
    /// let items = Dialect::Chat.items(&[thanks]);
    /// assert_eq!(items[0].as_str(), r#"{"role":"user","content":"Thanks"}"#);
    /// ```
    pub fn items(self, messages: &[ConversationMessage]) -> Vec<Json> {
        match self {
            Self::Anthropic => anthropic::items(messages),
            Self::Chat => chat::items(messages),
            Self::Responses => responses::items(messages),
        }
    }

    /// Returns the rules that a request breaks, if the provider keeps no answers.
    pub fn check(self, request: &[u8]) -> Vec<Violation> {
        match self {
            Self::Anthropic => check_anthropic(request),
            Self::Chat => check_chat(request),
            Self::Responses => check_responses(request, |_| false),
        }
    }
}
