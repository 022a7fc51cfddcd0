//! The configuration of a loop: model, tools and limits.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{CallId, ConversationMessage, Effect, Json, Payload};
use threadfold_engine::holder;
use threadfold_store::{Holder, Store};
use tokio_util::sync::CancellationToken;

use crate::ledger::{NewTurn, Trust};
use crate::limits::Limits;
use crate::mark::MarkKey;
use crate::progress::Progress;
use crate::provider::Provider;
use crate::request::render_tools;
use crate::retries::Retries;
use crate::tool::{Tool, ToolDefinition};

type Watcher = Arc<dyn Fn(&Progress) + Send + Sync>;

/// A loop: a model, its tools, and the store that records everything it does.
///
/// It holds no state of a run, so any process with an equal loop can resume any run.
#[derive(Clone)]
pub struct AgentLoop {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: Arc<str>,
    pub(crate) system: Option<Arc<str>>,
    pub(crate) parameters: Option<Json>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The index of each tool by its name.
    places: HashMap<String, usize>,
    pub(crate) limits: Limits,
    pub(crate) retries: Retries,
    pub(crate) holder: Holder,
    pub(crate) lease: Duration,
    pub(crate) cancel: CancellationToken,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) notes: Vec<Payload>,
    pub(crate) marks: Option<MarkKey>,
}

/// A person's decision about a call with an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run the call again.
    Retry,
    /// The call took effect, with this result.
    Result(String),
    /// Report to the model that the outcome is unknown.
    GiveUp,
}

/// How to resume a run.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// The decisions about calls.
    pub decisions: BTreeMap<CallId, Decision>,
    /// Continue although the prompt, the tools or the model changed. The conversation is sent again
    /// in full.
    pub adopt: bool,
    /// Withdraw the last prompt if it got no answer, and send the new one instead.
    pub withdraw: bool,
    /// Whether turns are continued that no loop of this user wrote.
    pub trust: Trust,
}

impl AgentLoop {
    /// Returns a loop without tools.
    pub fn new(
        store: Arc<dyn Store>,
        provider: Arc<dyn Provider>,
        model: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            store,
            provider,
            model: model.into(),
            system: None,
            parameters: None,
            tools: Vec::new(),
            places: HashMap::new(),
            limits: Limits::default(),
            retries: Retries::default(),
            holder: holder("an agent loop"),
            lease: Duration::from_secs(30),
            cancel: CancellationToken::new(),
            watcher: None,
            notes: Vec::new(),
            marks: None,
        }
    }

    /// Sets the system prompt, for prompts without their own.
    #[must_use]
    pub fn system(mut self, system: impl Into<Arc<str>>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets additional request parameters: a JSON object, in the provider's format.
    #[must_use]
    pub fn parameters(mut self, parameters: Json) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Adds a tool, replacing an earlier one with the same name.
    #[must_use]
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds tools, replacing earlier ones with the same names.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        for tool in tools {
            match self.places.entry(tool.definition().name) {
                Entry::Occupied(known) => self.tools[*known.get()] = tool,
                Entry::Vacant(new) => {
                    new.insert(self.tools.len());
                    self.tools.push(tool);
                }
            }
        }
        self
    }

    /// Sets the limits of a run.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how often a request without an answer is retried.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the holder that other processes see while this one runs the session.
    #[must_use]
    pub fn holder(mut self, holder: Holder) -> Self {
        self.holder = holder;
        self
    }

    /// Sets how long the lease lasts without renewal.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the token that stops its runs. A stopped run can be resumed.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets the callback that receives the progress of a run.
    #[must_use]
    pub fn watch(mut self, watcher: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Marks what its runs record, and continues only runs with valid marks. Without a key, only
    /// the kind of a record separates what a loop wrote from what was imported, which suffices for
    /// stores that nobody else can write.
    #[must_use]
    pub fn mark_with(mut self, key: MarkKey) -> Self {
        self.marks = Some(key);
        self
    }

    /// Records an additional event with the next turn, in the same write.
    #[must_use]
    pub fn with_note(mut self, note: Payload) -> Self {
        self.notes.push(note);
        self
    }

    /// Returns a turn with these messages, in the form that the loop would record. Use it with your
    /// own [`Recorder`](crate::Recorder).
    pub fn new_turn(&self, messages: Vec<ConversationMessage>) -> NewTurn {
        let dialect = self.provider.dialect();
        NewTurn {
            dialect,
            system: self.system.clone(),
            tools: render_tools(dialect, &self.definitions()),
            parameters: self.parameters.clone().or_else(|| Some(self.provider.parameters())),
            ..NewTurn::new(self.provider.name(), &self.model, messages)
        }
    }

    pub(crate) fn report(&self, progress: &Progress) {
        if let Some(watcher) = &self.watcher {
            watcher(progress);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.places.get(name).map(|place| &self.tools[*place])
    }

    /// Returns the effect of running a tool twice. An unknown tool counts as unsafe.
    pub fn effect_of(&self, name: &str) -> Effect {
        self.find(name).map_or(Effect::Unsafe, |tool| tool.effect())
    }

    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition()).collect()
    }
}
