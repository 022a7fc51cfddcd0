//! Events of OpenCode 2: every text in small deltas, and every call in five events.

use std::io;

use super::chance::Chance;
use super::stream::cut;
use super::tool::Call;
use super::{Lines, TranscriptCounts};

/// The lengths of texts and thinking.
const WORDS: [(usize, usize, usize); 3] =
    [(70, 600, 1_100), (22, 3_000, 9_000), (8, 9_000, 30_000)];
/// The size of a delta in bytes: deltas are bundled by time.
const PIECES: (usize, usize) = (14, 22);
/// The start of the session: 2026-01-01, midnight.
const BEGIN: u64 = 1_767_225_600_000;

pub(super) fn write(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    let mut bus = NewerBus {
        lines: Lines::new(out),
        chance: Chance::new(0x6e65_7765),
        now: BEGIN,
        names: 0,
        seq: 0,
        session: String::new(),
    };
    bus.session = bus.name("ses");
    bus.durable(
        "created",
        r#""slug":"quiet-harbour","version":"2.0.15","projectID":"c5ae6edeefa6ba5a","location":{"directory":"/home/dev/project"},"subpath":"""#,
    )?;
    while bus.lines.written.bytes < bytes {
        bus.turn()?;
    }
    bus.lines.finish()
}

struct NewerBus<W> {
    lines: Lines<W>,
    chance: Chance,
    now: u64,
    names: u64,
    seq: u64,
    session: String,
}

impl<W: io::Write> NewerBus<W> {
    fn turn(&mut self) -> io::Result<()> {
        let prompt = self.name("msg");
        let mut words = String::new();
        let length = self.chance.between(20, 400);
        self.chance.prose(length, &mut words);
        self.durable(
            "inbox.enqueued",
            &format!(
                r#""inboxID":"{prompt}","item":{{"type":"user","payload":{{"text":"{words}"}},"delivery":"steer"}}"#
            ),
        )?;
        self.durable("execution.started", "")?;
        self.durable("inbox.delivered", &format!(r#""inboxID":"{prompt}""#))?;
        self.lines.written.prompts += 1;
        for _ in 0..self.chance.between(1, 8) {
            let calls = self.chance.between(1, 3);
            self.step(calls)?;
        }
        self.step(0)?;
        self.durable("execution.succeeded", "")
    }

    /// Writes a message of the model.
    fn step(&mut self, calls: usize) -> io::Result<()> {
        let message = self.name("msg");
        let own = format!(r#""assistantMessageID":"{message}""#);
        let started = self.tick();
        self.durable(
            "step.started",
            &format!(
                r#"{own},"agent":"build","model":{{"id":"model-1","providerID":"provider"}},"snapshot":"e60c60ddc4a2e676","started":{started}"#
            ),
        )?;
        if self.chance.percent(20) {
            self.words(&own, "reasoning")?;
            self.lines.written.thoughts += 1;
        }
        self.words(&own, "text")?;
        self.lines.written.texts += 1;
        for _ in 0..calls {
            self.call(&own)?;
        }
        self.durable("step.streamed", &own)?;
        let used = r#""cost":0.0186,"tokens":{"input":8069,"output":527,"reasoning":0,"cache":{"read":0,"write":0}}"#;
        self.durable(
            "step.ended",
            &format!(
                r#"{own},"finish":"stop","rawFinish":"stop",{used},"snapshot":"e60c60ddc4a2e676","files":[]"#
            ),
        )?;
        self.event("usage.updated", used, "")
    }

    /// Writes a text or thinking: its start, its deltas, its end.
    fn words(&mut self, own: &str, kind: &str) -> io::Result<()> {
        let mut words = String::new();
        let length = self.chance.spread(&WORDS);
        self.chance.prose(length, &mut words);
        let own = format!(r#"{own},"ordinal":0"#);
        self.durable(&format!("{kind}.started"), &own)?;
        for piece in cut(&mut self.chance, PIECES, &words) {
            self.event(&format!("{kind}.delta"), &format!(r#"{own},"delta":"{piece}""#), "")?;
        }
        self.durable(&format!("{kind}.ended"), &format!(r#"{own},"text":"{words}""#))
    }

    fn call(&mut self, own: &str) -> io::Result<()> {
        let Call { id, name, input, content, structured, .. } = Call::new(&mut self.chance);
        let own = format!(r#"{own},"id":"{id}""#);
        self.durable("tool.input.started", &format!(r#"{own},"name":"{name}""#))?;
        let raw = serde_json::Value::from(input.to_string());
        self.durable("tool.input.ended", &format!(r#"{own},"text":{raw}"#))?;
        self.durable("tool.called", &format!(r#"{own},"input":{input},"executed":false"#))?;
        self.event("tool.progress", &format!(r#"{own},"metadata":{{}}"#), "")?;
        self.durable(
            "tool.success",
            &format!(
                r#"{own},"content":[{{"type":"text","text":{content}}}],"metadata":{{"kept":{structured},"truncated":false}},"executed":false"#
            ),
        )?;
        self.lines.written.calls += 1;
        Ok(())
    }

    /// Writes an event that has a number.
    fn durable(&mut self, kind: &str, told: &str) -> io::Result<()> {
        let durable = format!(
            r#","durable":{{"aggregateID":"{}","seq":{},"version":1}}"#,
            self.session, self.seq
        );
        self.seq += 1;
        self.event(kind, told, &durable)
    }

    /// Writes an event with the common fields.
    fn event(&mut self, kind: &str, told: &str, durable: &str) -> io::Result<()> {
        let (id, created) = (self.name("evt"), self.tick());
        let comma = if told.is_empty() { "" } else { "," };
        let line = format!(
            r#"{{"id":"{id}","created":{created},"type":"session.{kind}","location":{{"directory":"/home/dev/project"}},"data":{{"sessionID":"{}"{comma}{told}}}{durable}}}"#,
            self.session
        );
        self.lines.push(&line)
    }

    /// Returns an id that sorts after all earlier ones.
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}_{:012x}{:014x}", self.names, self.chance.number() >> 8)
    }

    /// Returns a time shortly after the last one; a session of gigabytes fits into a day.
    fn tick(&mut self) -> u64 {
        self.now += self.chance.number() % 20;
        self.now
    }
}
