//! Generated loops: turns with their calls, as our loop records them.
//!
//! [`plausible_loop`] generates unusual model output; [`sound_loop`] generates answers with
//! provider-specific items, each in that provider's format.

mod plausible;
mod sound;

use threadfold_core::{
    CallId, ConversationMessage, Effect, Json, Outcome, Payload, ResultSource, Role, SessionEvent,
    SourceKind, ToolCall, ToolFailed, ToolFinished, ToolRequested, ToolStarted, ToolUnknown,
    TurnAnswered, TurnCompleted, TurnStarted, TurnState, call_key,
};

pub use self::plausible::plausible_loop;
pub use self::sound::sound_loop;

/// Records a loop's events, each a valid successor of the others.
#[derive(Default)]
pub struct LoopWriter {
    /// The state after the events so far.
    pub turns: TurnState,
    /// The events so far.
    pub events: Vec<SessionEvent>,
}

impl LoopWriter {
    /// Appends one event.
    ///
    /// # Panics
    ///
    /// If it is not a valid next event.
    pub fn say(&mut self, payload: Payload) -> &mut Self {
        let mut event = SessionEvent::new(payload).from_source(SourceKind::Loop);
        event.context.session_id = Some("s1".into());
        event.context.seq = Some(self.events.len() as u64 + 1);
        event.context.timestamp = Some("2026-01-15T09:30:00Z".into());
        assert_eq!(self.turns.apply(&event), Outcome::Applied, "{event:?}");
        self.events.push(event);
        self
    }

    fn turn(&self) -> u64 {
        self.turns.turns().len() as u64
    }

    /// Begins the next turn with `messages`.
    pub fn start(&mut self, messages: Vec<ConversationMessage>) -> &mut Self {
        self.start_at("anthropic", messages)
    }

    /// Begins the next turn with `messages`, to be answered by `provider`.
    pub fn start_at(&mut self, provider: &str, messages: Vec<ConversationMessage>) -> &mut Self {
        let is_first = self.turn() == 0;
        self.say(Payload::TurnStarted(TurnStarted {
            turn: self.turn() + 1,
            evaluation_id: "e1".into(),
            provider: provider.into(),
            model: "model-1".into(),
            prompt_namespace: Some("prompts".into()),
            prompt_key: Some("coder".into()),
            system: is_first.then(|| "You write code.".into()),
            tools: is_first.then(|| Json::of(&["Bash"])),
            parameters: None,
            messages,
            items: Vec::new(),
            restart: false,
            withdraws: false,
            prefix_hash: self.turns.prefix_hash(),
        }))
    }

    /// Begins the next turn with a prompt.
    pub fn ask(&mut self, prompt: &str) -> &mut Self {
        self.start(vec![ConversationMessage::text(Role::User, prompt)])
    }

    /// Records the model's answer, and its calls.
    pub fn answer(&mut self, message: ConversationMessage) -> &mut Self {
        let payload = Json::of(&message);
        self.answer_as(message, payload)
    }

    /// Records the model's answer with this provider payload, and its calls.
    pub fn answer_as(&mut self, message: ConversationMessage, payload: Json) -> &mut Self {
        let turn = self.turn();
        let seq = self.events.len() as u64 + 1;
        let calls = message.tool_calls.clone();
        let (usage, stop_reason) = (None, Some("end".into()));
        self.say(Payload::TurnAnswered(TurnAnswered {
            turn,
            message,
            payload,
            usage,
            stop_reason,
        }));
        for (ordinal, call) in (0..).zip(calls) {
            self.say(Payload::ToolRequested(ToolRequested {
                turn,
                call_id: call.call_id,
                ordinal,
                key: call_key("log", seq, ordinal),
                name: call.name,
                arguments: call.arguments,
            }));
        }
        self
    }

    /// Records an answer that contains only tool calls: `c1 Bash` each.
    pub fn call(&mut self, calls: &[(&str, &str)]) -> &mut Self {
        let tool_calls = calls.iter().map(|(id, name)| ToolCall::new(*id, name, "{}")).collect();
        self.answer(ConversationMessage { tool_calls, ..ConversationMessage::new(Role::Assistant) })
    }

    fn attempt(&self, call: &CallId) -> u64 {
        self.turns.call(call).map_or(0, |record| record.attempt)
    }

    /// Records the start of a tool.
    ///
    /// # Panics
    ///
    /// If there is no such call.
    pub fn run(&mut self, call: &str, effect: Effect) -> &mut Self {
        let call_id = CallId::from(call);
        let record = self.turns.call(&call_id).expect("the call was made");
        let key = record.key.clone().expect("the call was written down");
        let attempt = record.attempt + 1;
        self.say(Payload::ToolStarted(ToolStarted { call_id, key, attempt, effect, undoes: None }))
    }

    /// Records the result of a tool.
    pub fn finish(&mut self, call: &str, text: &str) -> &mut Self {
        self.finish_with(call, ConversationMessage::result(call, text))
    }

    /// Records the result of a tool, with text and images.
    pub fn finish_with(&mut self, call: &str, result: ConversationMessage) -> &mut Self {
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        self.say(Payload::ToolFinished(ToolFinished {
            is_error: result.is_error,
            result,
            call_id,
            attempt,
            duration_ms: Some(7),
            source: ResultSource::Tool,
        }))
    }

    /// Records the failure of a tool.
    pub fn fail(&mut self, call: &str) -> &mut Self {
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        let error = Json::string("no such file");
        self.say(Payload::ToolFailed(ToolFailed { call_id, attempt, error }))
    }

    /// Records that the outcome of a tool is unknown.
    pub fn lose(&mut self, call: &str) -> &mut Self {
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        let reason = "the process ended".into();
        self.say(Payload::ToolUnknown(ToolUnknown { call_id, attempt, reason }))
    }

    /// Completes the turn.
    pub fn close(&mut self) -> &mut Self {
        let turn = self.turn();
        self.say(Payload::TurnCompleted(TurnCompleted { turn }))
    }
}
