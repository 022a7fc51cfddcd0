//! Identifiers. Each is a distinct type, and its value comes from the source, never from us.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// One run of an agent, with all its conversations.
    SessionId
}

id! {
    /// A conversation: [`ConversationId::MAIN`], or any name of a subagent.
    ConversationId
}

id! {
    /// A block. Unique within its conversation, not across conversations.
    BlockId
}

id! {
    /// The model message that a block is part of.
    MessageId
}

id! {
    /// A tool call, as named by the model.
    ToolUseId
}

id! {
    /// A subagent, as named by the agent that runs it.
    AgentId
}

id! {
    /// A question to a person, such as a permission request.
    RequestId
}

id! {
    /// A source of records.
    SourceId
}

id! {
    /// A tool call in our loop, as named by the model.
    CallId
}

id! {
    /// One evaluation of a prompt by a loop, from the prompt to the final answer.
    EvaluationId
}

id! {
    /// The idempotency key that a tool receives with a call: stable across resumes, and distinct
    /// for two equal calls. [`call_key`](crate::call_key) computes it.
    CallKey
}

id! {
    /// A checkpoint.
    CheckpointId
}

id! {
    /// The state of a loop.
    StateId
}

id! {
    /// A content hash, in lower-case hexadecimal.
    ContentHash
}

impl ConversationId {
    /// The id of the main conversation.
    pub const MAIN: &'static str = "main";

    /// Returns the id of the main conversation.
    pub fn main() -> Self {
        // Nearly every event names it, so all of them share one text.
        static SHARED: OnceLock<ConversationId> = OnceLock::new();
        SHARED.get_or_init(|| Self::from(Self::MAIN)).clone()
    }

    /// Returns true for the main conversation.
    pub fn is_main(&self) -> bool {
        self.as_str() == Self::MAIN
    }
}

impl AgentId {
    /// Returns the id without the `agent-` prefix that some files add.
    ///
    /// Both spellings refer to the same agent.
    pub fn bare(&self) -> &str {
        bare_agent_name(self.as_str())
    }

    /// Returns the id without that prefix, in the same memory if it has none: a session may have
    /// hundreds of thousands of subagents.
    pub(crate) fn to_bare(&self) -> Arc<str> {
        let bare = self.bare();
        if bare.len() == self.0.len() { self.0.clone() } else { bare.into() }
    }
}

/// Returns an agent's name without the `agent-` prefix that some files add.
pub(crate) fn bare_agent_name(name: &str) -> &str {
    match name.strip_prefix("agent-") {
        Some(bare) if !bare.is_empty() => bare,
        _ => name,
    }
}

/// Returns true if a name is a tool call's, by the prefixes that providers give to call ids.
pub(crate) fn is_call_name(name: &str) -> bool {
    ["toolu_", "tooluse_", "call_", "fc_", "chatcmpl-tool-"]
        .iter()
        .any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
}

impl From<&ToolUseId> for BlockId {
    fn from(call: &ToolUseId) -> Self {
        Self(call.0.clone())
    }
}

impl From<&ToolUseId> for ConversationId {
    fn from(call: &ToolUseId) -> Self {
        Self(call.0.clone())
    }
}

impl From<&CallId> for ToolUseId {
    fn from(call: &CallId) -> Self {
        Self(call.0.clone())
    }
}

impl From<&ConversationId> for AgentId {
    fn from(name: &ConversationId) -> Self {
        Self(name.0.clone())
    }
}

impl From<&AgentId> for ConversationId {
    fn from(agent: &AgentId) -> Self {
        Self(agent.0.clone())
    }
}
