//! A script is played without state, in the process and over HTTP.

use std::time::Duration;

use serde_json::json;
use threadfold_core::{ConversationMessage, Dialect, Fields, Json, Role};
use threadfold_loop::{
    Answer, Anthropic, Delta, Key, Provider, ProviderError, ProviderScript, ScriptedProvider,
    Timeouts, usage_of,
};
use threadfold_testkit::ScriptedModel;

use super::{KEY, ask};

const SCRIPT: &str = r#"{
    "name": "two files!",
    "steps": [
        { "thinking": "Both at once.", "text": "I read both.", "calls": [
            { "name": "read", "arguments": {"path":"a"} },
            { "name": "read", "arguments": "{ \"path\": 1" },
            { "name": "list" }
        ], "usage": { "input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 1 } },
        { "text": "They are equal.", "delayMs": 1 }
    ]
}"#;

fn provider() -> ScriptedProvider {
    ScriptedProvider::new(serde_json::from_str(SCRIPT).unwrap())
}

/// A conversation with a provider.
struct Conversation(Vec<ConversationMessage>);

impl Conversation {
    fn new() -> Self {
        Self(vec![ConversationMessage::text(Role::User, "[[play:two files!]]")])
    }

    fn request(&self) -> String {
        let mut request = Fields::default();
        request.insert("stream", Json::of(&true));
        request.insert("messages", Json::of(&Dialect::Anthropic.items(&self.0)));
        Json::of(&request).to_string()
    }

    async fn ask(&mut self, provider: &dyn Provider) -> (Answer, Vec<Delta>) {
        assert_eq!(Dialect::Anthropic.check(self.request().as_bytes()), []);
        let (answer, deltas) = ask(provider, self.request()).await;
        let answer = answer.unwrap();
        self.0.push(answer.message.clone());
        for call in &answer.message.tool_calls {
            self.0.push(ConversationMessage::result(call.call_id.clone(), "done"));
        }
        (answer, deltas)
    }
}

fn describe(answer: &Answer) -> String {
    let calls = answer.message.tool_calls.iter();
    let calls: Vec<_> =
        calls.map(|it| format!("{} {} {}", it.call_id, it.name, it.arguments)).collect();
    format!("{} [{}]", answer.message.to_text(), calls.join(", "))
}

#[tokio::test]
async fn the_step_depends_only_on_the_request() {
    let mut talk = Conversation::new();
    let mut heard = Vec::new();
    for prompt in 0..2 {
        for _ in 0..2 {
            // Each answer comes from a new provider, as if from another process.
            heard.push(describe(&talk.ask(&provider()).await.0));
        }
        talk.0.push(ConversationMessage::text(Role::User, &format!("and {prompt}?")));
    }
    assert_eq!(
        heard,
        [
            "I read both. [toolu_two_files__0_0 read {\"path\":\"a\"}, \
             toolu_two_files__0_1 read { \"path\": 1, toolu_two_files__0_2 list {}]",
            "They are equal. []",
            "The script `two files!` is over. []",
            "The script `two files!` is over. []",
        ]
    );
    let mut again = Conversation::new();
    assert_eq!(again.ask(&provider()).await, Conversation::new().ask(&provider()).await);
}

#[tokio::test]
async fn it_is_streamed_word_by_word() {
    let (answer, deltas) = Conversation::new().ask(&provider()).await;
    assert_eq!(deltas[0], Delta::Started { message: answer.message.message_id.clone() });
    let text = |text: &str| Delta::Text { part: 1, text: text.to_owned() };
    assert_eq!(deltas[1], Delta::Thinking { part: 0, text: "Both ".to_owned() });
    assert_eq!(deltas[4..7], [text("I "), text("read "), text("both.")]);
    assert_eq!(usage_of(&answer.usage.unwrap()).cache_read, 1);
}

#[tokio::test]
async fn the_same_script_plays_over_http() {
    let script = threadfold_testkit::Script::from_json(SCRIPT).unwrap();
    let model = ScriptedModel::builder().script(script).start().unwrap();
    let wait = Duration::from_secs(20);
    let wire = Anthropic::new(&model.base_url(), Key::new(KEY).unwrap())
        .unwrap()
        .with_timeouts(Timeouts { connect: wait, idle: wait })
        .unwrap();
    let (mut here, mut there) = (Conversation::new(), Conversation::new());
    for _ in 0..3 {
        let (here, there) = (here.ask(&provider()).await.0, there.ask(&wire).await.0);
        let calls = |answer: &Answer| {
            let calls = answer.message.tool_calls.iter();
            calls.map(|it| (it.name.clone(), it.arguments.clone())).collect::<Vec<_>>()
        };
        assert_eq!(here.message.to_text(), there.message.to_text());
        assert_eq!(calls(&here), calls(&there));
        assert_eq!(here.stop_reason, there.stop_reason);
    }
}

#[tokio::test]
async fn invalid_scripts_and_requests_are_refused() {
    for wrong in [
        json!({ "name": "a", "steps": [{ "thinking": "hm" }] }),
        json!({ "name": "a", "steps": [{ "text": " " }] }),
        json!({ "name": "a", "steps": [{ "text": "a", "delay": 1 }] }),
        json!({ "steps": [] }),
    ] {
        assert!(serde_json::from_str::<ProviderScript>(&wrong.to_string()).is_err(), "{wrong}");
    }
    let error = ask(&provider(), "{}").await.0.unwrap_err();
    assert!(matches!(error, ProviderError::Refused { status: 400, .. }));
}
