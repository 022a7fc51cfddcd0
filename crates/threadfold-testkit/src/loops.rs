//! Made-up loops: turns with their calls, as a loop of ours would write them down.
//!
//! [`plausible_loop`] has a model say odd things; [`sound_loop`] has a provider's own items in the
//! answers, each as that provider would have given it.

mod plausible;
mod sound;

use threadfold_core::{
    CallId, ConversationMessage, Effect, Json, Outcome, Payload, ResultSource, Role, SessionEvent,
    SourceKind, ToolCall, ToolFailed, ToolFinished, ToolRequested, ToolStarted, ToolUnknown,
    TurnAnswered, TurnCompleted, TurnStarted, TurnState, call_key,
};

pub use self::plausible::plausible_loop;
pub use self::sound::sound_loop;

/// Writes a loop's events down, each as it should follow on the others.
#[derive(Default)]
pub struct LoopWriter {
    /// What the events so far amount to.
    pub turns: TurnState,
    /// The events so far.
    pub events: Vec<SessionEvent>,
}

impl LoopWriter {
    /// Says one thing more.
    ///
    /// # Panics
    ///
    /// If it does not follow on what was said.
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

    /// Begins the next turn with `messages`, and has `provider` answer it.
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

    /// Has the model answer, and writes its calls down.
    pub fn answer(&mut self, message: ConversationMessage) -> &mut Self {
        let payload = Json::of(&message);
        self.answer_as(message, payload)
    }

    /// Has the model answer in these words of its provider, and writes its calls down.
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

    /// Has the model ask for tools, and nothing else: `c1 Bash` each.
    pub fn call(&mut self, calls: &[(&str, &str)]) -> &mut Self {
        let tool_calls = calls.iter().map(|(id, name)| ToolCall::new(*id, name, "{}")).collect();
        self.answer(ConversationMessage { tool_calls, ..ConversationMessage::new(Role::Assistant) })
    }

    fn attempt(&self, call: &CallId) -> u64 {
        self.turns.call(call).map_or(0, |record| record.attempt)
    }

    /// Has a tool start.
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

    /// Has a tool give its result.
    pub fn finish(&mut self, call: &str, text: &str) -> &mut Self {
        self.finish_with(call, ConversationMessage::result(call, text))
    }

    /// Has a tool give its result, in words and pictures.
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

    /// Has a tool fail.
    pub fn fail(&mut self, call: &str) -> &mut Self {
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        let error = Json::string("no such file");
        self.say(Payload::ToolFailed(ToolFailed { call_id, attempt, error }))
    }

    /// Loses sight of a tool.
    pub fn lose(&mut self, call: &str) -> &mut Self {
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        let reason = "the process ended".into();
        self.say(Payload::ToolUnknown(ToolUnknown { call_id, attempt, reason }))
    }

    /// Closes the turn.
    pub fn close(&mut self) -> &mut Self {
        let turn = self.turn();
        self.say(Payload::TurnCompleted(TurnCompleted { turn }))
    }
}
