//! The request formats of the providers.

use crate::json::Json;
use crate::provider_rules::{Violation, check_anthropic, check_chat, check_responses};
use crate::turn::ConversationMessage;
use crate::work;

use super::{anthropic, chat, responses};

/// The request format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API.
    Chat,
    /// OpenAI's Responses API.
    Responses,
}

impl Dialect {
    /// Returns the name of the list in a request.
    pub fn list(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Chat => "messages",
            Self::Responses => "input",
        }
    }

    /// Returns the items that messages append to that list, if they follow others.
    ///
    /// The same messages always give the same bytes, so items that were sent once need not be
    /// rendered again.
    ///
    /// ```
    /// use threadfold_core::{ConversationMessage, Dialect, Role};
    ///
    /// let thanks = ConversationMessage::text(Role::User, "Thanks");
    /// let items = Dialect::Chat.items(&[thanks]);
    /// assert_eq!(items[0].as_str(), r#"{"role":"user","content":"Thanks"}"#);
    /// ```
    pub fn items(self, messages: &[ConversationMessage]) -> Vec<Json> {
        let items = match self {
            Self::Anthropic => anthropic::items(messages),
            Self::Chat => chat::items(messages),
            Self::Responses => responses::items(messages),
        };
        items.iter().for_each(|item| work::read(item.as_str().len()));
        items
    }

    /// Returns the rules that a request breaks, for a provider that stores no responses.
    pub fn check(self, request: &[u8]) -> Vec<Violation> {
        match self {
            Self::Anthropic => check_anthropic(request),
            Self::Chat => check_chat(request),
            Self::Responses => check_responses(request, |_| false),
        }
    }
}
