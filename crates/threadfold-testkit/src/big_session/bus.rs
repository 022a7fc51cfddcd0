//! OpenCode's bus: every text in small deltas, every call with its progress, and other events.

use std::io;

use super::chance::Chance;
use super::stream::cut;
use super::tool::Call;
use super::{Lines, TranscriptCounts};

/// The lengths of texts and thinking.
const WORDS: [(usize, usize, usize); 3] =
    [(70, 600, 1_100), (22, 3_000, 9_000), (8, 9_000, 30_000)];
/// The size of a delta in bytes.
const PIECES: (usize, usize) = (4, 7);
/// The start of the session: 2026-01-01, midnight.
const BEGIN: u64 = 1_767_225_600_000;

pub(super) fn write(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    let mut bus = Bus {
        lines: Lines::new(out),
        chance: Chance::new(0x6275_7321),
        now: BEGIN,
        names: 0,
        session: String::new(),
    };
    bus.session = bus.name("ses");
    bus.session("created")?;
    while bus.lines.written.bytes < bytes {
        bus.turn()?;
    }
    bus.lines.finish()
}

struct Bus<W> {
    lines: Lines<W>,
    chance: Chance,
    now: u64,
    names: u64,
    session: String,
}

impl<W: io::Write> Bus<W> {
    fn turn(&mut self) -> io::Result<()> {
        let asked = self.name("msg");
        self.message(&asked, "user", "")?;
        let mut words = String::new();
        let length = self.chance.between(20, 400);
        self.chance.prose(length, &mut words);
        let part = self.name("prt");
        self.part(&part, &asked, &format!(r#""type":"text","text":"{words}""#))?;
        self.lines.written.prompts += 1;
        self.session("updated")?;
        for _ in 0..self.chance.between(1, 8) {
            let calls = self.chance.between(1, 3);
            self.step(&asked, calls)?;
        }
        self.step(&asked, 0)?;
        self.event("session.status", r#""status":{"type":"idle"}"#)?;
        self.event("session.idle", "")
    }

    /// Writes a message of the model.
    fn step(&mut self, asked: &str, calls: usize) -> io::Result<()> {
        let message = self.name("msg");
        let told = format!(
            r#","parentID":"{asked}","mode":"build","agent":"build","path":{{"cwd":"/home/dev/project","root":"/home/dev/project"}},"cost":0.0186,"tokens":{{"input":8069,"output":527,"reasoning":0,"cache":{{"read":0,"write":0}}}},"modelID":"model-1","providerID":"provider""#
        );
        self.message(&message, "assistant", &told)?;
        self.event("session.status", r#""status":{"type":"busy"}"#)?;
        let start = self.name("prt");
        self.part(&start, &message, r#""type":"step-start","snapshot":"e60c60ddc4a2e676""#)?;
        if self.chance.percent(20) {
            self.words(&message, "reasoning")?;
            self.lines.written.thoughts += 1;
        }
        self.words(&message, "text")?;
        self.lines.written.texts += 1;
        for _ in 0..calls {
            self.call(&message)?;
        }
        let finish = self.name("prt");
        self.part(
            &finish,
            &message,
            r#""type":"step-finish","reason":"stop","snapshot":"e60c60ddc4a2e676","cost":0.0186,"tokens":{"input":8069,"output":527,"reasoning":0,"cache":{"read":0,"write":0}}"#,
        )?;
        self.message(&message, "assistant", &told)?;
        self.session("updated")?;
        self.event("session.diff", r#""diff":[]"#)
    }

    /// Writes a text or thinking: empty, then its deltas, then complete.
    fn words(&mut self, message: &str, kind: &str) -> io::Result<()> {
        let part = self.name("prt");
        let mut words = String::new();
        let length = self.chance.spread(&WORDS);
        self.chance.prose(length, &mut words);
        let start = self.tick();
        let begun = format!(r#""type":"{kind}","text":"","time":{{"start":{start}}}"#);
        self.part(&part, message, &begun)?;
        for piece in cut(&mut self.chance, PIECES, &words) {
            self.event(
                "message.part.delta",
                &format!(
                    r#""messageID":"{message}","partID":"{part}","field":"text","delta":"{piece}""#
                ),
            )?;
        }
        let end = self.tick();
        let whole =
            format!(r#""type":"{kind}","text":"{words}","time":{{"start":{start},"end":{end}}}"#);
        self.part(&part, message, &whole)
    }

    fn call(&mut self, message: &str) -> io::Result<()> {
        let part = self.name("prt");
        let Call { id, name, input, content, structured, .. } = Call::new(&mut self.chance);
        let start = self.tick();
        let ran = format!(r#""input":{input},"time":{{"start":{start}}}"#);
        let states = [
            r#""status":"pending","input":{},"raw":"""#.to_owned(),
            format!(r#""status":"running",{ran}"#),
            format!(r#""status":"running",{ran},"metadata":{{"output":""}}"#),
            format!(
                r#""status":"completed","input":{input},"output":{content},"title":"{name}","metadata":{{"kept":{structured},"truncated":false}},"time":{{"start":{start},"end":{}}}"#,
                self.tick()
            ),
        ];
        for state in states {
            let tool =
                format!(r#""type":"tool","tool":"{name}","callID":"{id}","state":{{{state}}}"#);
            self.part(&part, message, &tool)?;
        }
        self.lines.written.calls += 1;
        Ok(())
    }

    fn session(&mut self, what: &str) -> io::Result<()> {
        let (id, now) = (self.session.clone(), self.tick());
        self.event(
            &format!("session.{what}"),
            &format!(
                r#""info":{{"id":"{id}","slug":"quiet-harbour","projectID":"c5ae6edeefa6ba5a","directory":"/home/dev/project","title":"A long session","version":"1.18.33","cost":0.0186,"tokens":{{"input":8069,"output":527,"reasoning":0,"cache":{{"read":0,"write":0}}}},"time":{{"created":{BEGIN},"updated":{now}}}}}"#
            ),
        )
    }

    fn message(&mut self, id: &str, role: &str, told: &str) -> io::Result<()> {
        let session = self.session.clone();
        self.event(
            "message.updated",
            &format!(
                r#""info":{{"id":"{id}","sessionID":"{session}","role":"{role}","time":{{"created":{BEGIN}}}{told}}}"#
            ),
        )
    }

    fn part(&mut self, id: &str, message: &str, told: &str) -> io::Result<()> {
        let (session, now) = (self.session.clone(), self.now);
        self.event(
            "message.part.updated",
            &format!(
                r#""part":{{"id":"{id}","messageID":"{message}","sessionID":"{session}",{told}}},"time":{now}"#
            ),
        )
    }

    /// Writes an event with the common fields.
    fn event(&mut self, kind: &str, told: &str) -> io::Result<()> {
        let id = self.name("evt");
        let comma = if told.is_empty() { "" } else { "," };
        let line = format!(
            r#"{{"id":"{id}","type":"{kind}","properties":{{"sessionID":"{}"{comma}{told}}}}}"#,
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
        self.now += self.chance.number() % 100;
        self.now
    }
}
