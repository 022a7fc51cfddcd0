//! The end of a source with very many subagents: its events come in portions.

use threadfold_core::SessionEvent;
use threadfold_fold::{Agent, Cutter, Fold, Record, RecordKind, Slices, SourceRole, SourceSpec};

/// How many events a portion may have.
const LARGEST_PORTION: usize = 2_048;

/// Returns the fold of a text that is the only source of a session, and has not ended.
fn folded(agent: &str, role: SourceRole, text: &str) -> Fold {
    let agent = Agent::from_name(agent).expect("a known agent");
    let spec = SourceSpec::new(agent, role, "s.jsonl");
    let mut records = vec![Record::new(RecordKind::Source, 1, 0, spec.to_json())];
    let mut cutter = Cutter::new(1);
    cutter.push(text.as_bytes(), &mut records);
    cutter.finish(&mut records);
    let mut fold = Fold::new("s".into(), Slices::default());
    for record in records {
        let seq = fold.seq() + 1;
        fold.push(&record.at(seq));
    }
    fold
}

/// Returns folds of sessions in which `count` subagents end with the source. None has an open text:
/// those that OpenCode leaves open come before the rest, all at once.
fn sessions(count: usize) -> Vec<Fold> {
    let each = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let sidechain = |number| {
        format!(
            r#"{{"type":"user","isSidechain":true,"agentId":"a{number}","uuid":"u{number}","sessionId":"s","message":{{"role":"user","content":"a"}}}}"#
        ) + "\n"
    };
    let task = |number| {
        format!(
            r#"{{"type":"system","subtype":"task_started","session_id":"s","uuid":"u{number}","task_id":"k{number}","tool_use_id":"t{number}","task_type":"local_agent"}}"#
        ) + "\n"
    };
    let child = |number| {
        format!(
            r#"{{"type":"message.part.updated","properties":{{"part":{{"id":"p{number}","messageID":"m{number}","sessionID":"c{number}","type":"text","text":"a","time":{{"start":1,"end":2}}}}}}}}"#
        ) + "\n"
    };
    let created = |number| {
        format!(
            r#"{{"type":"session.created","properties":{{"info":{{"id":"c{number}","parentID":"s"}}}}}}"#
        ) + "\n"
    };
    let bus = each(&created) + &each(&child);
    vec![
        folded("claude", SourceRole::Main, &each(&sidechain)),
        folded("claude", SourceRole::Stream, &each(&task)),
        folded("opencode", SourceRole::Stream, &bus),
    ]
}

#[test]
fn the_end_of_very_many_subagents_comes_in_portions_and_is_the_same() {
    for fold in sessions(5_000) {
        let settled = fold.settled();
        let all = fold.settling();
        assert!(all.len() >= 5_000, "{} events", all.len());
        let mut state = fold.conversation().clone();
        state.extend(&all);
        assert_eq!(state, settled);

        // A source that ends with a record emits the same.
        let mut ended = fold.fork();
        let end = Record::new(RecordKind::End, 1, 0, "");
        let events = ended.push(&end.at(fold.seq() + 1)).events;
        let kinds = |events: &[SessionEvent]| -> Vec<_> {
            events
                .iter()
                .map(|it| (it.payload.clone(), it.context.conversation_id.clone()))
                .collect()
        };
        assert_eq!(kinds(&events), kinds(&all));
        assert_eq!(ended.conversation(), &settled);

        let (hash, mut portions) = (fold.state_hash(), Vec::new());
        let summary = fold.fork().into_summary_with(|events| portions.push(events.to_vec()));
        assert_eq!(summary.state_hash, Some(hash));
        assert!(portions.iter().all(|it| it.len() <= LARGEST_PORTION));
        assert_eq!(portions.concat(), all);

        let mut portions = Vec::new();
        assert_eq!(fold.into_settled_with(|events| portions.push(events.to_vec())), settled);
        assert!(portions.iter().all(|it| it.len() <= LARGEST_PORTION));
        assert_eq!(portions.concat(), all);
    }
}

#[test]
fn a_source_without_conversations_ends_at_once() {
    for fold in sessions(0) {
        assert_eq!(fold.settling(), Vec::<SessionEvent>::new());
        assert!(fold.into_settled().blocks().is_empty());
    }
}
