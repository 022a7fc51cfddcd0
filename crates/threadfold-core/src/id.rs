//! Names of things: every identifier is a type of its own, made by the source and never by us.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the name as text.
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
    /// A block, unique within its conversation and not across them.
    BlockId
}

id! {
    /// The model's message that a block is a piece of.
    MessageId
}

id! {
    /// A tool call, as the model named it.
    ToolUseId
}

id! {
    /// A subagent, as the agent that runs it names it.
    AgentId
}

id! {
    /// A question to a person, such as a permission request.
    RequestId
}

id! {
    /// A place that records come from.
    SourceId
}

id! {
    /// A tool call in a loop of ours, as the model named it.
    CallId
}

id! {
    /// One run of a loop: from what it was asked to its last answer.
    EvaluationId
}

id! {
    /// A call's name towards the tool that runs it: the same over resumes, different for two
    /// equal calls. [`call_key`](crate::call_key) makes it.
    CallKey
}

id! {
    /// A place to resume from.
    CheckpointId
}

id! {
    /// What a loop has said and done so far.
    StateId
}

id! {
    /// The hash of some content, in lower-case hexadecimal.
    ContentHash
}

impl ConversationId {
    /// The name of the conversation that is no subagent's.
    pub const MAIN: &'static str = "main";

    /// Returns the name of the conversation that is no subagent's.
    pub fn main() -> Self {
        Self::from(Self::MAIN)
    }

    /// Says whether this is the conversation that is no subagent's.
    pub fn is_main(&self) -> bool {
        self.as_str() == Self::MAIN
    }
}

impl AgentId {
    /// Returns the name without the `agent-` that some files put before it.
    ///
    /// Both spellings name one agent.
    pub fn bare(&self) -> &str {
        bare_agent_name(self.as_str())
    }
}

/// Returns an agent's name without the `agent-` that some files put before it.
pub(crate) fn bare_agent_name(name: &str) -> &str {
    match name.strip_prefix("agent-") {
        Some(bare) if !bare.is_empty() => bare,
        _ => name,
    }
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

impl From<&AgentId> for ConversationId {
    fn from(agent: &AgentId) -> Self {
        Self(agent.0.clone())
    }
}
