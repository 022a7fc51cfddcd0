//! Made-up loops: turns with their calls, as a loop of ours would write them down.

use proptest::prelude::*;
use proptest::sample::select;
use threadfold_core::{
    CallId, ConversationMessage, Effect, Json, MessagePart, Outcome, Payload, ResultSource, Role,
    SessionEvent, SourceKind, ToolCall, ToolFailed, ToolFinished, ToolRequested, ToolStarted,
    ToolUnknown, TurnAnswered, TurnCompleted, TurnStarted, TurnState, call_key,
};

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
        let is_first = self.turn() == 0;
        self.say(Payload::TurnStarted(TurnStarted {
            turn: self.turn() + 1,
            evaluation_id: "e1".into(),
            provider: "anthropic".into(),
            model: "model-1".into(),
            prompt_namespace: Some("prompts".into()),
            prompt_key: Some("coder".into()),
            system: is_first.then(|| "You write code.".into()),
            tools: is_first.then(|| Json::of(&["Bash"])),
            parameters: None,
            messages,
            items: Vec::new(),
            restart: false,
            prefix_hash: self.turns.prefix_hash(),
        }))
    }

    /// Begins the next turn with a prompt.
    pub fn ask(&mut self, prompt: &str) -> &mut Self {
        self.start(vec![ConversationMessage::text(Role::User, prompt)])
    }

    /// Has the model answer, and writes its calls down.
    pub fn answer(&mut self, message: ConversationMessage) -> &mut Self {
        let turn = self.turn();
        let seq = self.events.len() as u64 + 1;
        let calls = message.tool_calls.clone();
        let payload = Json::of(&message);
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
        let call_id = CallId::from(call);
        let attempt = self.attempt(&call_id);
        self.say(Payload::ToolFinished(ToolFinished {
            result: ConversationMessage::result(call_id.clone(), text),
            call_id,
            attempt,
            is_error: false,
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

/// What happens in one turn.
#[derive(Clone, Debug)]
struct Turn {
    prompts: Vec<String>,
    content: Vec<MessagePart>,
    is_named: bool,
    calls: Vec<Call>,
    at_once: bool,
}

#[derive(Clone, Debug)]
struct Call {
    arguments: &'static str,
    effect: Effect,
    mishap: Option<bool>,
    output: String,
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "x", "hé", "lo 😀", "\u{0}", "\"quoted\"\\"]).prop_map(str::to_owned)
}

fn part() -> impl Strategy<Value = MessagePart> {
    let item = |text: &str| Json::parse(text).expect("it is JSON");
    prop_oneof![
        4 => text().prop_map(|text| MessagePart::text(&text)),
        2 => text().prop_map(|text| MessagePart::thinking(&text, "sig")),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"redacted_thinking","data":"AA=="}"#))),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"server_tool_use","id":"srv1","name":"web_search","input":{}}"#))),
        1 => Just(MessagePart::native("anthropic", item(r#"{"type":"web_search_tool_result","tool_use_id":"srv1","content":[]}"#))),
        1 => Just(MessagePart::native("openai", item(r#"{ "type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AA==" }"#))),
        1 => Just(MessagePart::native("openai", item(r#"{"type":"reasoning","id":"rs_2","summary":[]}"#))),
        1 => Just(MessagePart::native("other", item(r#"{"any":[1e400,"\ud800"]}"#))),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let arguments = select(vec!["", "{}", "{ \"a\": 1 }", "{\"cut", "[1]", r#"{"a":"\ud800"}"#]);
    let effects =
        [Effect::Pure, Effect::Idempotent, Effect::Probe, Effect::Compensable, Effect::Unsafe];
    let mishap = prop::option::weighted(0.3, any::<bool>());
    (arguments, select(effects.to_vec()), mishap, text())
        .prop_map(|(arguments, effect, mishap, output)| Call { arguments, effect, mishap, output })
}

fn turn() -> impl Strategy<Value = Turn> {
    let prompts = prop::collection::vec(text(), 0..3);
    let content = prop::collection::vec(part(), 0..4);
    let calls = prop::collection::vec(call(), 0..4);
    (prompts, content, any::<bool>(), calls, any::<bool>()).prop_map(
        |(prompts, content, is_named, calls, at_once)| Turn {
            prompts,
            content,
            is_named,
            calls,
            at_once,
        },
    )
}

/// Returns loops that could have been, from the first event to the last.
pub fn plausible_loop() -> impl Strategy<Value = Vec<SessionEvent>> {
    prop::collection::vec(turn(), 0..6).prop_map(|turns| {
        let mut writer = LoopWriter::default();
        turns.iter().for_each(|turn| write(&mut writer, turn));
        writer.events
    })
}

fn write(writer: &mut LoopWriter, turn: &Turn) {
    let number = writer.turn() + 1;
    let prompts = turn.prompts.iter().map(|it| ConversationMessage::text(Role::User, it));
    writer.start(prompts.collect());
    let named = |place| format!("t{number}c{place}");
    let mut message = ConversationMessage::new(Role::Assistant);
    message.message_id = turn.is_named.then(|| format!("m{number}").into());
    message.content.clone_from(&turn.content);
    message.tool_calls = (0..)
        .zip(&turn.calls)
        .map(|(place, call)| ToolCall::new(named(place), "Bash", call.arguments))
        .collect();
    writer.answer(message);
    if turn.at_once {
        for (place, call) in turn.calls.iter().enumerate() {
            writer.run(&named(place), call.effect);
        }
    }
    for (place, call) in turn.calls.iter().enumerate().rev() {
        let name = named(place);
        if !turn.at_once {
            writer.run(&name, call.effect);
        }
        match call.mishap {
            Some(true) => _ = writer.fail(&name),
            Some(false) => _ = writer.lose(&name).run(&name, call.effect),
            None => {}
        }
        writer.finish(&name, &call.output);
    }
    writer.close();
}
