//! The check of a request that grows at its end: each item is read once.

use super::anthropic::AnthropicCheck;
use super::chat::ChatCheck;
use super::render::Dialect;
use super::request::Request;
use super::responses::ResponsesCheck;
use super::surrogate;
use super::violation::{ProviderRule, Violation};
use crate::json::Json;
use crate::work;

/// Checks a request whose list only grows, with the verdict of [`Dialect::check`] at every length.
///
/// An item is read once, when it is added, so the cost of a verdict does not depend on how many
/// there are. Cloning takes constant time: a clone continues from the same items.
///
/// ```
/// use threadfold_core::{Dialect, Json, RequestCheck};
///
/// let mut check = RequestCheck::new(Dialect::Chat);
/// check.push(&Json::parse(r#"{"role":"assistant","tool_calls":[{"id":"c1"}]}"#)?);
/// let frame = br#"{"model":"m","messages":[]}"#;
/// assert_eq!(check.verdict(frame, 100).len(), 1, "the call has no result");
/// check.push(&Json::parse(r#"{"role":"tool","tool_call_id":"c1","content":"done"}"#)?);
/// assert_eq!(check.verdict(frame, 200), []);
/// # Ok::<(), threadfold_core::JsonError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestCheck {
    rules: Rules,
    has_lone_surrogate: bool,
}

#[derive(Clone, Debug)]
enum Rules {
    Anthropic(AnthropicCheck),
    Chat(ChatCheck),
    Responses(ResponsesCheck),
}

impl RequestCheck {
    /// Returns the check of a request without items.
    pub fn new(dialect: Dialect) -> Self {
        let rules = match dialect {
            Dialect::Anthropic => Rules::Anthropic(AnthropicCheck::default()),
            Dialect::Chat => Rules::Chat(ChatCheck::default()),
            Dialect::Responses => Rules::Responses(ResponsesCheck::default()),
        };
        Self { rules, has_lone_surrogate: false }
    }

    /// Adds an item at the end of the request's list.
    pub fn push(&mut self, item: &Json) {
        work::read(item.as_str().len());
        self.has_lone_surrogate |= surrogate::has_lone(item.as_str());
        match &mut self.rules {
            Rules::Anthropic(check) => check.push(item.raw()),
            Rules::Chat(check) => check.push(item.raw()),
            Rules::Responses(check) => check.push(item.raw()),
        }
    }

    /// Returns the rules that the request breaks, for a provider that stores no responses.
    ///
    /// `frame` is the request with an empty list, `size` the length of the request with its items.
    pub fn verdict(&self, frame: &[u8], size: usize) -> Vec<Violation> {
        let list = match &self.rules {
            Rules::Anthropic(_) => Dialect::Anthropic.list(),
            Rules::Chat(_) => Dialect::Chat.list(),
            Rules::Responses(_) => Dialect::Responses.list(),
        };
        let frame = match Request::read(frame, list) {
            Ok(frame) => frame,
            Err(violation) => return vec![violation],
        };
        if self.has_lone_surrogate {
            return vec![Violation::new(ProviderRule::A7, "", surrogate::FOUND)];
        }
        match &self.rules {
            Rules::Anthropic(check) => check.verdict(&frame.fields, size),
            Rules::Chat(check) => check.verdict(),
            Rules::Responses(check) => check.verdict(&frame.fields, |_| false),
        }
    }
}
