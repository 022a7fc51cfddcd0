//! Checks a history with validator and strict provider.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    thread,
};

use serde_json::value::RawValue;
use threadfold_core::{
    ConversationMessage, Json, RepairedHistory, Violation, check_anthropic,
    check_anthropic_continuation, check_chat, check_responses, render_anthropic, render_chat,
    render_responses, repair,
};
use threadfold_testkit::strict::{Endpoint, ResponseStorage, StrictServer};

use super::run::{Answer, AnswerContent, HistoryPrefix, Run};
use crate::strict::client::Client;

/// The validators and a strict provider, which listens on a port.
pub(crate) struct Checker {
    server: StrictServer,
}

/// How much was checked.
#[derive(Default)]
pub(crate) struct Counts {
    cuts: usize,
    repaired: usize,
    edited: usize,
    different: HashSet<u64>,
    requests: u64,
    wrong: Vec<String>,
}

impl Counts {
    /// Prints the counts, and checks that they are worth something.
    pub(crate) fn report(self, what: &str, wanted: usize) {
        let Self { cuts, repaired, edited, different, requests, wrong } = self;
        let different = different.len();
        println!(
            "{what}: {cuts} cuts, {different} different histories, {repaired} repaired \
             ({edited} not only by appending), {requests} requests taken"
        );
        let first = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} requests are wrong, such as\n{first}", wrong.len());
        assert!(different >= wanted, "only {different} histories, not {wanted}");
        assert!(repaired > 0);
    }

    fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.repaired += other.repaired;
        self.edited += other.edited;
        self.different.extend(other.different);
        self.wrong.extend(other.wrong);
    }
}

impl Checker {
    pub(crate) fn open() -> Self {
        Self { server: StrictServer::start().unwrap() }
    }

    /// Tries every cut of every run, on a few connections at once.
    pub(crate) fn check_all(&self, runs: Vec<Run>) -> Counts {
        let runs = Mutex::new(VecDeque::from(runs));
        let next = || runs.lock().unwrap().pop_front();
        let mut counts = Counts::default();
        thread::scope(|scope| {
            let work = || {
                let mut client = Client::connect(&self.server);
                let mut counts = Counts::default();
                while let Some(run) = next() {
                    self.try_run(&run, &mut client, &mut counts);
                }
                counts
            };
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
            workers.into_iter().for_each(|it| counts.add(it.join().unwrap()));
        });
        counts.requests = self.server.taken();
        counts
    }

    fn try_run(&self, run: &Run, client: &mut Client, counts: &mut Counts) {
        let mut last = None;
        for (at, HistoryPrefix { history, answer }) in run.cuts.iter().enumerate() {
            counts.cuts += 1;
            if let Some(answer) = answer {
                self.give(run, answer, history);
                last = Some(answer);
            }
            let mut hasher = DefaultHasher::new();
            (&run.name, Json::of(history).as_str()).hash(&mut hasher);
            if history.is_empty() || !counts.different.insert(hasher.finish()) {
                continue;
            }
            let place = format!("{} after event {at}", run.name);
            let repaired = repair(history);
            counts.repaired += usize::from(!repaired.repairs.is_empty());
            counts.edited += usize::from(repaired.untouched < history.len());
            assert_untouched(history, &repaired, &place);
            for endpoint in Endpoint::ALL {
                let body = request(run, endpoint, &repaired.messages);
                let mut found = validate(endpoint, &body);
                if let (Endpoint::Messages, Some(answer)) = (endpoint, last) {
                    found.extend(continued(run, answer, &body));
                }
                let (status, told) = client.post(endpoint, body.as_bytes());
                if status != 200 || !found.is_empty() {
                    let told = if status == 200 { "taken" } else { &told };
                    let repairs = &repaired.repairs;
                    counts.wrong.push(format!("{place}: {found:?} {told}\n{repairs:?}\n{body}"));
                }
            }
        }
    }

    /// Registers with the strict provider the items that it sent.
    fn give(&self, run: &Run, answer: &Answer, after: &[ConversationMessage]) {
        let provider = self.server.provider();
        let asked = |endpoint| request(run, endpoint, &answer.before);
        match &answer.given {
            AnswerContent::Nothing => {}
            AnswerContent::Anthropic(words) => {
                let request = asked(Endpoint::Messages);
                provider.gave_message(request.as_bytes(), words.as_str().as_bytes());
            }
            AnswerContent::OpenAi(words) => {
                provider.gave_response(words.as_str().as_bytes(), ResponseStorage::NotStored);
            }
            AnswerContent::Rendered => {
                if let Some(message) = rendered_answer(answer, after) {
                    provider.gave_message(asked(Endpoint::Messages).as_bytes(), message.as_bytes());
                }
                let before = items(&render_responses(&answer.before)).len();
                let output = items(&render_responses(after)).split_off(before).join(",");
                let response = format!(r#"{{"id":"r","output":[{output}]}}"#);
                provider.gave_response(response.as_bytes(), ResponseStorage::NotStored);
            }
        }
    }
}

/// Returns the last message, if the answer was rendered to one.
fn rendered_answer(answer: &Answer, after: &[ConversationMessage]) -> Option<String> {
    let before = items(&render_anthropic(&answer.before)).len();
    let mut messages = items(&render_anthropic(after));
    (messages.len() > before).then(|| messages.remove(before))
}

fn items(list: &Json) -> Vec<String> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(list.as_str()).unwrap();
    items.iter().map(|it| it.get().to_owned()).collect()
}

/// Returns a whole request. The system prompt names the run, so that no two have one prefix.
fn request(run: &Run, endpoint: Endpoint, messages: &[ConversationMessage]) -> String {
    let name = &run.name;
    match endpoint {
        Endpoint::Messages => format!(
            r#"{{"model":"m","max_tokens":9,"system":"{name}","tools":[{{"name":"Bash","input_schema":{{"type":"object"}}}}],"messages":{}}}"#,
            render_anthropic(messages)
        ),
        Endpoint::ChatCompletions => {
            let mut all = vec![format!(r#"{{"role":"system","content":"{name}"}}"#)];
            all.extend(items(&render_chat(messages)));
            format!(r#"{{"model":"m","messages":[{}]}}"#, all.join(","))
        }
        Endpoint::Responses => format!(
            r#"{{"model":"m","store":false,"instructions":"{name}","input":{}}}"#,
            render_responses(messages)
        ),
    }
}

fn validate(endpoint: Endpoint, body: &str) -> Vec<Violation> {
    match endpoint {
        Endpoint::Messages => check_anthropic(body.as_bytes()),
        Endpoint::ChatCompletions => check_chat(body.as_bytes()),
        Endpoint::Responses => check_responses(body.as_bytes(), |_| false),
    }
}

/// Checks a request against the last answer that its provider gave.
fn continued(run: &Run, answer: &Answer, body: &str) -> Vec<Violation> {
    let AnswerContent::Anthropic(words) = &answer.given else { return Vec::new() };
    let before = request(run, Endpoint::Messages, &answer.before);
    check_anthropic_continuation(before.as_bytes(), words.as_str().as_bytes(), body.as_bytes())
}

/// Checks that what stands before the first defect is rendered as it was, byte for byte.
fn assert_untouched(history: &[ConversationMessage], repaired: &RepairedHistory, place: &str) {
    let kept = &history[..repaired.untouched];
    for render in [render_anthropic, render_chat, render_responses] {
        let (was, is) = (render(history), render(&repaired.messages));
        let kept = render(kept);
        let kept = kept.as_str().trim_end_matches([']', '}']);
        assert!(was.as_str().starts_with(kept) && is.as_str().starts_with(kept), "{place}");
        if repaired.repairs.is_empty() {
            assert_eq!(was.as_str(), is.as_str(), "{place}");
        }
    }
}
