//! The request of a run, which is extended from turn to turn instead of assembled again.
//!
//! A request repeats everything that was sent before. Its bytes and the result of their check are
//! therefore kept: the next turn copies and checks only its own items.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use threadfold_core::{
    ConversationTurn, Dialect, RequestCheck, TurnStarted, TurnState, Violation, work,
};

use super::{Frame, TAIL, add};

/// The request of a run's last turn, always equal to [`request`](super::request).
pub(crate) struct GrowingRequest {
    dialect: Dialect,
    frame: Frame,
    body: Bytes,
    /// The check of all items.
    check: RequestCheck,
    /// The request as it was before the last turn.
    before: Before,
    /// The last turn in it.
    last: Option<Arc<ConversationTurn>>,
}

/// A request before the items of its last turn.
struct Before {
    /// The length of the body.
    end: usize,
    check: RequestCheck,
}

/// What is left of a kept request for the next one.
enum ReusablePart {
    /// Everything: it is the same request.
    Same,
    /// Everything: the turn appends its items.
    Whole,
    /// What precedes its last turn, which this turn replaces.
    BeforeLast,
    Nothing,
}

impl GrowingRequest {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let check = RequestCheck::new(dialect);
        Self {
            dialect,
            frame: Frame::default(),
            body: Bytes::new(),
            before: Before { end: 0, check: check.clone() },
            check,
            last: None,
        }
    }

    /// Makes it the request of a state's last turn.
    ///
    /// What it has already is kept if the state shows that the turn appends to it: the log may have
    /// changed in any way in between.
    pub(crate) fn follow(&mut self, state: &TurnState) {
        let frame = Frame::of(self.dialect, state);
        let kept = if frame == self.frame { self.kept(state) } else { ReusablePart::Nothing };
        let turn = state.last();
        match kept {
            ReusablePart::Same => return,
            ReusablePart::Whole => {
                let end = self.body.len() - TAIL.len();
                self.before = Before { end, check: self.check.clone() };
            }
            ReusablePart::BeforeLast => {}
            ReusablePart::Nothing => self.begin(frame, state),
        }
        self.append(turn);
        self.last = turn.cloned();
    }

    /// Returns what the state's last turn leaves of the request.
    fn kept(&self, state: &TurnState) -> ReusablePart {
        let (Some(last), Some(turn)) = (&self.last, state.last()) else {
            return ReusablePart::Nothing;
        };
        if is_same(last, turn) {
            return ReusablePart::Same;
        }
        let sent = turn.sent();
        if restarts(turn) {
            return ReusablePart::Nothing;
        }
        let (known, number) = (last.number(), turn.number());
        if known == number && last.sent().prefix_hash == sent.prefix_hash && !restarts(last) {
            return ReusablePart::BeforeLast;
        }
        let is_next = known + 1 == number;
        match is_next && state.turn(known).is_some_and(|it| is_same(last, it)) {
            true => ReusablePart::Whole,
            false => ReusablePart::Nothing,
        }
    }

    /// Starts over with everything that precedes the state's last turn.
    fn begin(&mut self, frame: Frame, state: &TurnState) {
        let mut items = state.sent_items();
        let mut body = BytesMut::with_capacity(frame.size(&items));
        items.truncate(items.len() - state.last().map_or(0, |turn| turn.sent().items.len()));
        let mut check = RequestCheck::new(self.dialect);
        frame.begin(&mut body);
        frame.first.iter().for_each(|item| check.push(item));
        for item in items {
            add(&mut body, item);
            check.push(item);
        }
        work::read(body.len());
        self.before = Before { end: body.len(), check };
        self.body = body.freeze();
        self.frame = frame;
    }

    /// Appends the items of a turn to what precedes it.
    fn append(&mut self, turn: Option<&Arc<ConversationTurn>>) {
        // A provider that still reads the last request keeps it, and this one gets a copy.
        let mut body = std::mem::take(&mut self.body).try_into_mut().unwrap_or_else(|shared| {
            work::read(self.before.end);
            BytesMut::from(&shared[..self.before.end])
        });
        body.truncate(self.before.end);
        self.check = self.before.check.clone();
        for item in turn.into_iter().flat_map(|turn| &turn.sent().items) {
            work::read(item.as_str().len());
            add(&mut body, item);
            self.check.push(item);
        }
        body.put_slice(TAIL.as_bytes());
        self.body = body.freeze();
    }

    /// Returns the request.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the rules that the request breaks.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.check.verdict(self.frame.empty_request().as_bytes(), self.body.len())
    }
}

/// Returns true if two turns send the same after the same conversation.
fn is_same(one: &ConversationTurn, other: &ConversationTurn) -> bool {
    let (one, other) = (one.sent(), other.sent());
    let place = |it: &TurnStarted| (it.turn, it.restart, it.withdraws);
    place(one) == place(other)
        && one.prefix_hash == other.prefix_hash
        && one.items.len() == other.items.len()
        && one.items.iter().zip(&other.items).all(|(one, other)| one.as_str() == other.as_str())
}

/// Returns true if a turn does not continue what precedes it.
fn restarts(turn: &ConversationTurn) -> bool {
    turn.sent().restart || turn.sent().withdraws
}

#[cfg(test)]
mod tests {
    use threadfold_core::{
        ConversationMessage, Json, Outcome, Payload, Role, SessionEvent, TurnAnswered,
        TurnCompleted,
    };

    use super::super::request;
    use super::*;

    /// What can happen between two requests.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A turn that is answered.
        Answered,
        /// A turn without an answer, which the next one abandons or withdraws.
        Unanswered,
        Withdraws,
        Restarts,
        /// A request that is assembled, but never recorded.
        Abandoned,
        /// Turns that this request does not see.
        Unseen,
        /// A provider keeps the request.
        Retained,
        /// The system prompt changes.
        Prompted,
    }

    const STEPS: [Step; 8] = [
        Step::Answered,
        Step::Unanswered,
        Step::Withdraws,
        Step::Restarts,
        Step::Abandoned,
        Step::Unseen,
        Step::Retained,
        Step::Prompted,
    ];

    fn started(state: &TurnState, dialect: Dialect, text: &str, step: Step) -> Payload {
        let number = state.turns().len() as u64 + 1;
        let message = ConversationMessage::text(Role::User, text);
        Payload::TurnStarted(TurnStarted {
            turn: number,
            evaluation_id: "e1".into(),
            provider: "p".into(),
            model: "m".into(),
            prompt_namespace: None,
            prompt_key: None,
            system: (number == 1 || matches!(step, Step::Prompted))
                .then(|| format!("You work {number}.").into()),
            tools: (number == 1).then(|| Json::parse(r#"[{"name":"look"}]"#).unwrap()),
            parameters: (number == 1).then(|| Json::parse(r#"{"max_tokens":9}"#).unwrap()),
            items: dialect.items(std::slice::from_ref(&message)),
            messages: vec![message],
            restart: matches!(step, Step::Restarts) && number > 1,
            withdraws: matches!(step, Step::Withdraws)
                && state.last().is_some_and(|it| it.answer().is_none()),
            prefix_hash: state.prefix_hash(),
        })
    }

    fn say(state: &mut TurnState, payload: Payload) {
        assert_eq!(state.apply(&SessionEvent::new(payload)), Outcome::Applied);
    }

    fn answer(state: &mut TurnState) {
        let turn = state.turns().len() as u64;
        let message = ConversationMessage::text(Role::Assistant, "yes");
        say(
            state,
            Payload::TurnAnswered(TurnAnswered {
                turn,
                payload: Json::of(&message),
                message,
                usage: None,
                stop_reason: None,
            }),
        );
        say(state, Payload::TurnCompleted(TurnCompleted { turn }));
    }

    fn assert_followed(growing: &mut GrowingRequest, state: &TurnState, steps: &[Step]) {
        growing.follow(state);
        let whole = request(growing.dialect, state);
        assert_eq!(growing.body(), &whole, "{steps:?}");
        assert_eq!(growing.violations(), growing.dialect.check(&whole), "{steps:?}");
    }

    /// Performs the steps, and compares the request after each of them.
    fn perform(dialect: Dialect, steps: &[Step]) {
        let mut state = TurnState::default();
        let mut growing = GrowingRequest::new(dialect);
        let mut retained = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Abandoned => {
                    let mut other = state.clone();
                    let payload = started(&other, dialect, &format!("never {at}"), *step);
                    say(&mut other, payload);
                    assert_followed(&mut growing, &other, steps);
                }
                Step::Retained => retained.push(growing.body().clone()),
                _ => {
                    let payload = started(&state, dialect, &format!("say {at}"), *step);
                    say(&mut state, payload);
                    if !matches!(step, Step::Unseen) {
                        assert_followed(&mut growing, &state, steps);
                        // Asking does not change it, neither before nor after the answer.
                        assert_followed(&mut growing, &state, steps);
                    }
                    if !matches!(step, Step::Unanswered | Step::Withdraws) {
                        answer(&mut state);
                    }
                }
            }
        }
        assert_followed(&mut growing, &state, steps);
    }

    #[test]
    fn it_equals_the_request_that_is_assembled_from_everything() {
        for dialect in [Dialect::Anthropic, Dialect::Chat, Dialect::Responses] {
            let length = 4;
            for number in 0..STEPS.len().pow(length) {
                let step = |place: u32| STEPS[number / STEPS.len().pow(place) % STEPS.len()];
                let mut steps: Vec<_> = (0..length).map(step).collect();
                steps.extend([Step::Answered, Step::Answered]);
                perform(dialect, &steps);
            }
        }
    }

    #[test]
    fn a_request_that_nobody_keeps_is_extended_in_place() {
        let dialect = Dialect::Anthropic;
        let (mut state, mut growing) = (TurnState::default(), GrowingRequest::new(dialect));
        let mut copied = Vec::new();
        for number in 0..1_000 {
            let payload = started(&state, dialect, &format!("say {number}"), Step::Answered);
            say(&mut state, payload);
            let before = work::bytes();
            growing.follow(&state);
            copied.push(work::bytes() - before);
            answer(&mut state);
        }
        assert_eq!(copied[999], copied[100], "a turn of the same size");
    }
}
