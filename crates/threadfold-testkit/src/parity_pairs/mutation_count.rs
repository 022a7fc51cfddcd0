//! Counts which mutations a comparison detects, and which a known gap names.

use std::collections::BTreeMap;
use std::fmt;

use threadfold_convert::parity::is_within;
use threadfold_fold::parity::{Comparison, RunGap, Side, SideState, Verdict, compare_sides};

use super::RecordedPair;
use super::identity::{REPLACED_STEP, RawSide, parts};
use super::mutate::{
    Change, Mutation, apply, is_of_other, json, mutations, other_sessions, records, texts,
    unwrapped,
};
use super::permute::{self, Permutation, PermutationForm, PermutedRecord, permutations};
use super::place_rules::{self, PlaceRule};

/// The records that a run may lack as a whole, for a reason that the comparison reports.
pub const CONVERSATION: [&str; 5] =
    ["user", "assistant", "synthetic/assistant", "tool_result", "meta"];

/// The record of the tokens and limits of Codex, which a stream that ends early may lack as well.
const COUNTS: &str = "event_msg/token_count";

/// The totals of a run, which its file has in an account.
const TOTALS: [&str; 2] = ["modelUsage", "total_cost_usd"];

/// The known gaps of fields that a stream may omit, because not every provider reports them or because
/// they have their default value: a stream without one of them is like others, which recordings show.
pub const PROVIDER_GAPS: [&str; 2] = ["tier-in-file", "v2-default-variant"];

/// The known gaps of records that an agent omits in some runs: without its record, a run is like one of
/// those.
pub const OMISSIONS: [&str; 5] = [
    "late-results-in-file",
    "late-ends-in-file",
    "unstarted-calls-in-file",
    "calls-that-never-ran",
    "calls-in-file",
];

/// The known gap of the end of a command that was interrupted, which the file need not have.
const LATE_END: &str = "late-ends-in-file";

/// The known gap of totals that the stream reports at the end of a run: it applies only to a stream
/// without that report.
const UNREPORTED: &str = "unreported-totals";

/// The known gap of counts at the end of a message, which the file lacks: it was written before that.
const UNENDED: &str = "unended-in-file";

/// The result of mutating pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MutationCount {
    /// Mutations that made the verdict `different`, or the pair unreadable.
    pub caught: usize,
    /// Mutations of what only one side has, by the known gap or gap of the run that names it.
    pub excused: BTreeMap<String, usize>,
    /// Mutations of an object's earlier state, which a later line replaces or an equal line repeats.
    pub replaced: usize,
    /// Permutations of records whose order has no meaning, by the rule that says why.
    pub placeless: BTreeMap<&'static str, usize>,
    /// All others.
    pub unseen: Vec<String>,
}

/// Why a mutation need not be detected.
enum Class {
    /// It is of an object's earlier state, or of a record that is repeated.
    Replaced,
    /// It is of what only one side has; with the known gap, or gap of the run, that names it.
    Excused(String),
    /// It is of an order that has no meaning; with the rule that says why.
    Placeless(&'static str),
}

impl MutationCount {
    fn add_class(&mut self, class: Class) {
        match class {
            Class::Replaced => self.replaced += 1,
            Class::Excused(gap) => *self.excused.entry(gap).or_default() += 1,
            Class::Placeless(rule) => *self.placeless.entry(rule).or_default() += 1,
        }
    }

    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.caught += other.caught;
        self.replaced += other.replaced;
        for (name, count) in other.excused {
            *self.excused.entry(name).or_default() += count;
        }
        for (rule, count) in other.placeless {
            *self.placeless.entry(rule).or_default() += count;
        }
        self.unseen.extend(other.unseen);
    }

    /// Returns how many mutations were made.
    pub fn total(&self) -> usize {
        let classes = self.excused.values().chain(self.placeless.values());
        self.caught + self.replaced + classes.sum::<usize>() + self.unseen.len()
    }
}

impl fmt::Display for MutationCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} mutations", self.total())?;
        writeln!(f, "unseen: {}", self.unseen.len())?;
        writeln!(f, "caught: {}", self.caught)?;
        writeln!(
            f,
            "replaced or repeated by another report of the same object: {}",
            self.replaced
        )?;
        for (name, count) in &self.excused {
            writeln!(f, "excused by {name}: {count}")?;
        }
        for (rule, count) in &self.placeless {
            writeln!(f, "order without a meaning, {rule}: {count}")?;
        }
        Ok(())
    }
}

/// Mutates a pair in every kind of field, or in those that `is_wanted` selects by number, and counts
/// what is detected.
pub fn count(pair: &RecordedPair, is_wanted: impl Fn(usize) -> bool) -> MutationCount {
    let sides = Sides::new(pair);
    let mut count = MutationCount::default();
    if sides.base.verdict() == Verdict::Different {
        count.unseen.push(format!("{}: different without a mutation", pair.name));
        return count;
    }
    for (number, mutation) in mutations(pair).iter().enumerate() {
        if is_wanted(number) {
            sides.judge(pair, mutation, &mut count);
        }
    }
    count
}

/// Permutes the records of a pair, or does that of it which `is_wanted` selects by number, and counts
/// what is detected.
pub fn count_permutations(pair: &RecordedPair, is_wanted: impl Fn(usize) -> bool) -> MutationCount {
    let sides = Sides::new(pair);
    let mut count = MutationCount::default();
    if sides.base.verdict() == Verdict::Different {
        count.unseen.push(format!("{}: different without a permutation", pair.name));
        return count;
    }
    for (number, permutation) in permutations(pair).iter().enumerate() {
        if is_wanted(number) {
            sides.judge_permutation(pair, permutation, &mut count);
        }
    }
    count
}

/// Both sides as they were recorded.
struct Sides {
    stream: SideState,
    files: SideState,
    base: Comparison,
    raw_stream: RawSide,
    raw_files: RawSide,
}

impl Sides {
    fn new(pair: &RecordedPair) -> Self {
        let (stream, files) = (pair.stream_side(), pair.file_side());
        let base = compare_sides(pair.agent, &stream, &files);
        Self {
            base,
            stream,
            files,
            raw_stream: raw(pair, Side::Stream),
            raw_files: raw(pair, Side::Transcript),
        }
    }

    fn judge(&self, pair: &RecordedPair, mutation: &Mutation, count: &mut MutationCount) {
        let Some(comparison) = self.compare(pair, &apply(pair, mutation), mutation.side) else {
            count.caught += 1;
            return;
        };
        match self.classify(pair, mutation, &comparison) {
            Some(class) => count.add_class(class),
            None => count.unseen.push(format!(
                "{}: {:?} {} {} {:?} (line {}){}",
                pair.name,
                mutation.side,
                mutation.kind,
                general(&mutation.path),
                mutation.change,
                mutation.line + 1,
                if self.is_common(mutation) { ", both sides have it" } else { "" },
            )),
        }
    }

    /// Compares both sides after one was changed. Returns nothing if the change is detected.
    fn compare(
        &self,
        pair: &RecordedPair,
        changed: &RecordedPair,
        side: Side,
    ) -> Option<Comparison> {
        // A stream that names nothing gets the names of the files.
        let is_renamed = side == Side::Stream || !self.stream.arrival.is_empty();
        let stream = is_renamed.then(|| changed.stream_side());
        let files = (side == Side::Transcript).then(|| changed.file_side());
        let own = if side == Side::Stream { &stream } else { &files };
        let is_empty = own.as_ref().is_some_and(|it| it.events == 0);
        let (stream, files) =
            (stream.as_ref().unwrap_or(&self.stream), files.as_ref().unwrap_or(&self.files));
        let is_other_session = pair.agent.has_one_main_file() && stream.session != files.session;
        let comparison = compare_sides(pair.agent, stream, files);
        let is_caught = is_empty || is_other_session || comparison.verdict() == Verdict::Different;
        (!is_caught).then_some(comparison)
    }

    fn raw_sides(&self, side: Side) -> (&RawSide, &RawSide) {
        match side {
            Side::Stream => (&self.raw_stream, &self.raw_files),
            Side::Transcript => (&self.raw_files, &self.raw_stream),
        }
    }

    /// Returns whether the other side has what a mutation changes.
    fn is_common(&self, mutation: &Mutation) -> bool {
        let (_, other) = self.raw_sides(mutation.side);
        match mutation.change == Change::RemoveRecord {
            true => other.has(&mutation.ids),
            false => {
                let field = (mutation.kind.as_str(), mutation.path.as_str());
                other.carries(&mutation.ids, field, &mutation.value)
            }
        }
    }

    /// Returns why a mutation need not be detected.
    fn classify(
        &self,
        pair: &RecordedPair,
        mutation: &Mutation,
        comparison: &Comparison,
    ) -> Option<Class> {
        let (own, other) = self.raw_sides(mutation.side);
        let is_removal = mutation.change == Change::RemoveRecord;
        let kind = mutation.kind.as_str();
        let is_object =
            matches!(kind, "session" | "v2/session" | "message" | "part" | REPLACED_STEP);
        let is_lost = is_removal || (mutation.path == "id" && mutation.change == Change::Remove);
        // The end of an item repeats its beginning.
        let is_begun = ["item/started/", "item.started/", "item.updated/"];
        let is_object = is_object || is_begun.iter().any(|it| kind.starts_with(it));
        let is_replaced = is_object && own.is_reported_after(&mutation.ids, mutation.line);
        let is_repeated = is_lost && own.is_repeated(&mutation.ids, mutation.line);
        // A message that was removed again is on the stream only.
        let is_of_gone = mutation.message.as_ref().is_some_and(|message| {
            !other.has(std::slice::from_ref(message)) && mutation.side == Side::Stream
        });
        let is_gone = is_of_gone || (is_object && !other.has(&mutation.ids));
        let is_removed = own.has_removals() && is_gone;
        // One version of Codex sends every event a second time, under another name.
        let is_repeated = is_repeated || kind.starts_with("codex/event/");
        // The end of a message repeats counts of its start, and need not.
        let is_count = mutation.change == Change::Remove
            && own.is_repeated_count(mutation.line, &mutation.path);
        let place = (mutation.file, mutation.line);
        let is_count = is_count || own.is_earlier_total(place, &mutation.path);
        if is_replaced || is_repeated || is_removed || is_count {
            return Some(Class::Replaced);
        }
        let run_gap = self.lost_end(mutation, comparison).or_else(|| self.lost_message(mutation));
        let excuse = run_gap
            .map(|gap| format!("run gap {gap:?}"))
            .or_else(|| self.other_provider(mutation, comparison).map(str::to_owned))
            .or_else(|| self.is_unended_count(pair, mutation).then(|| UNENDED.to_owned()))
            .or_else(|| self.omission(mutation, comparison));
        let by_row = || {
            let is_one_sided = !self.is_common(mutation);
            is_one_sided.then(|| self.excuse(pair, mutation, other)).flatten()
        };
        excuse.or_else(by_row).map(Class::Excused)
    }

    fn judge_permutation(
        &self,
        pair: &RecordedPair,
        permutation: &Permutation,
        count: &mut MutationCount,
    ) {
        let (first, second) = (&permutation.first, &permutation.second);
        let changed = permute::apply(pair, permutation);
        let Some(comparison) = self.compare(pair, &changed, first.mutation.side) else {
            count.caught += 1;
            return;
        };
        let classify = |it: &PermutedRecord| self.classify(pair, &it.mutation, &comparison);
        let class = match permutation.form {
            PermutationForm::Texts => match (classify(first), classify(second)) {
                (Some(Class::Excused(gap)), Some(_)) => Some(Class::Excused(gap)),
                (Some(first), Some(second)) => Some(first).and(Some(second)),
                _ => None,
            },
            PermutationForm::Repetition => match place_rules::is_named(first) {
                true => Some(Class::Replaced),
                false => classify(first),
            },
            PermutationForm::Neighbours | PermutationForm::Places => {
                let rule = place_rules::why_placeless(pair.agent, permutation);
                // Counts that only the stream has may be those of another message.
                let is_unended = [first, second]
                    .iter()
                    .all(|it| self.is_unended_end(pair, it.mutation.side, it.mutation.line));
                let by_gap = is_unended.then(|| Class::Excused(UNENDED.to_owned()));
                let rule = rule.or(stated_order(&comparison));
                let by_rule = by_gap.or(rule.map(|rule| Class::Placeless(rule.name())));
                by_rule.or_else(|| classify(first)).or_else(|| classify(second))
            }
        };
        match class {
            Some(class) => count.add_class(class),
            None => count.unseen.push(format!(
                "{}: {:?} {:?} {} and {} {} (line {} and {})",
                pair.name,
                permutation.form,
                first.mutation.side,
                first.mutation.kind,
                second.mutation.kind,
                general(&first.mutation.path),
                first.mutation.line + 1,
                second.mutation.line + 1,
            )),
        }
    }

    /// Returns the gap of the run that lists a record which was removed from the end of a file: nothing
    /// distinguishes that file from the one of an agent that died one line earlier.
    fn lost_end(&self, mutation: &Mutation, comparison: &Comparison) -> Option<RunGap> {
        let is_removal = mutation.change == Change::RemoveRecord;
        let gaps = [RunGap::FileEndsAtKill, RunGap::FileEndsAtSignal];
        let is_lost =
            is_removal && mutation.side == Side::Transcript && comparison.blocks < self.base.blocks;
        gaps.into_iter().find(|gap| is_lost && comparison.lacking.contains_key(gap))
    }

    /// Returns the gap of the run because of which the file lacks a message, if the mutation is of the
    /// event that reports the message's end. A run that was killed has no report that sums it up, so
    /// nothing on either side repeats its reason and counts.
    fn lost_message(&self, mutation: &Mutation) -> Option<RunGap> {
        let gaps = [RunGap::FileEndsAtKill, RunGap::FileEndsAtSignal];
        let is_lost = mutation.side == Side::Stream
            && !self.raw_stream.has_report()
            && self.raw_stream.is_end_of_lost(mutation.line, &self.raw_files);
        gaps.into_iter().find(|gap| is_lost && self.base.lacking.contains_key(gap))
    }

    /// Returns whether a mutation is of the output tokens at the end of a message, in a run without a
    /// report that sums them up, and the file of this version has the message as it was before its end.
    fn is_unended_count(&self, pair: &RecordedPair, mutation: &Mutation) -> bool {
        mutation.change == Change::Alter
            && mutation.path == "event.usage.output_tokens"
            && !self.raw_stream.has_report()
            && self.is_unended_end(pair, mutation.side, mutation.line)
    }

    /// Returns whether a line is the end of a message that the file of this version has as it was
    /// before its end.
    fn is_unended_end(&self, pair: &RecordedPair, side: Side, line: usize) -> bool {
        let version = self.files.facts.version.as_deref();
        let mut gaps = pair.agent.known_gaps().iter().filter(|gap| gap.name == UNENDED);
        side == Side::Stream
            && self.raw_stream.is_end_of_unended(line, &self.raw_files)
            && gaps.any(|gap| gap.versions.include(version))
    }

    /// Returns the known gap that names the field, or what the run lacks on the other side.
    fn excuse(&self, pair: &RecordedPair, mutation: &Mutation, other: &RawSide) -> Option<String> {
        let version = self.files.facts.version.as_deref().or(self.stream.facts.version.as_deref());
        // What is in a message that the agent wrote itself is not like others.
        let is_own = mutation.kind == "synthetic/assistant" && mutation.path.starts_with("message");
        let kinds: Vec<&str> = match is_own {
            true => vec![&mutation.kind],
            false => mutation.gap_kinds.iter().map(String::as_str).collect(),
        };
        // Rows about all outputs are not about those of calls about subagents.
        let kinds = kinds_of_field(&kinds, &mutation.path);
        let mut gaps = pair.agent.known_gaps().iter();
        let named = gaps.find(|gap| {
            let covers = match mutation.change {
                // A record may be missing as a whole only if known gaps name its fields.
                Change::RemoveRecord => {
                    gap.whole && gap.side == mutation.side && kinds.contains(&gap.record)
                }
                _ => kinds.iter().any(|kind| gap.covers(kind, &mutation.path, mutation.side)),
            };
            // Where both sides have the record, only rows about its fields count.
            let applies = !gap.whole || !other.has(&mutation.ids);
            let applies = applies && (gap.name != UNREPORTED || !other.has_report());
            covers && applies && gap.versions.include(version)
        });
        // The run lacks whole records: a record that both sides have is not excused.
        let is_hook =
            |it: &str| it.starts_with("attachment/hook_") || it == "system/stop_hook_summary";
        let lacks_hooks = self.base.lacking.contains_key(&RunGap::UnstreamedHooks);
        // At a signal the account of a file may precede the last answers.
        let is_account = self.base.lacking.contains_key(&RunGap::FileEndsAtSignal)
            && TOTALS.iter().any(|it| is_within(it, &mutation.path));
        let is_run = |it: &&str| {
            CONVERSATION.contains(it)
                || *it == COUNTS
                || (lacks_hooks && is_hook(it))
                || (is_account && it.starts_with("result/"))
        };
        let is_lacking = kinds.iter().any(is_run) && !other.has(&mutation.ids);
        let lacks = || {
            // A file that is out of order lacks no record.
            let is_lack = |gap: &&RunGap| **gap != RunGap::FileOrder;
            let gaps = self.base.lacking.keys().filter(is_lack);
            let gaps = gaps.filter(|gap| gap.side() == mutation.side);
            let gaps = gaps.map(|gap| format!("{gap:?}")).collect::<Vec<_>>().join(", ");
            (is_lacking && !gaps.is_empty()).then(|| format!("run gap {gaps}"))
        };
        // The file lacks the result of a call, and has the call.
        let cut = self.base.lacking.contains_key(&RunGap::CutResult)
            && mutation.side == Side::Stream
            && mutation.kind == "item/completed/commandExecution";
        let cut = cut.then(|| format!("run gap {:?}", RunGap::CutResult));
        named.map(|gap| gap.name.to_owned()).or_else(lacks).or(cut)
    }

    /// Returns the known gap, or gap of the run, that explains why a record may be missing that was
    /// removed.
    fn omission(&self, mutation: &Mutation, comparison: &Comparison) -> Option<String> {
        let times = |it: &Comparison, gap: &str| it.explained.get(gap).copied().unwrap_or(0);
        let is_removal = mutation.change == Change::RemoveRecord;
        let is_more = |gap: &&str| times(comparison, gap) > times(&self.base, gap);
        let known = OMISSIONS.into_iter().find(is_more).map(str::to_owned);
        // What is not stored need not be reported as a whole.
        let review = "review-calls-in-stream";
        let is_less = times(comparison, review) < times(&self.base, review);
        let known = known.or(is_less.then(|| review.to_owned()));
        // The end of a command that a person interrupted is stored if Codex still runs then.
        let is_late = mutation.side == Side::Transcript
            && mutation.kind == "item/CommandExecution"
            && self.raw_stream.is_open(&mutation.ids);
        let known = known.or(is_late.then(|| LATE_END.to_owned()));
        let of_run = || {
            let mut gaps = comparison.lacking.iter();
            let is_more = |(gap, times): &(&RunGap, &usize)| {
                let is_more = self.base.lacking.get(gap).is_none_or(|before| before < times);
                match gap {
                    RunGap::CutResult => is_more,
                    RunGap::AfterInterruption => {
                        let before = self.base.lacking.get(gap);
                        before != Some(times) || comparison.blocks != self.base.blocks
                    }
                    _ => false,
                }
            };
            gaps.find(is_more).map(|(gap, _)| format!("run gap {gap:?}"))
        };
        known.or_else(of_run).filter(|_| is_removal)
    }

    /// Returns the known gap that depends on the provider, if the mutation made the stream one of
    /// another provider.
    fn other_provider(&self, mutation: &Mutation, comparison: &Comparison) -> Option<&'static str> {
        let times = |it: &Comparison, gap| it.explained.get(gap).copied().unwrap_or(0);
        let is_removed = mutation.change == Change::Remove && mutation.side == Side::Stream;
        let mut gaps = PROVIDER_GAPS.into_iter();
        gaps.find(|gap| is_removed && times(comparison, *gap) > times(&self.base, *gap))
    }
}

/// Returns the names under which rows may name a field of a record: what a call about subagents
/// returned has rows of its own.
pub fn kinds_of_field<'a>(kinds: &[&'a str], path: &str) -> Vec<&'a str> {
    let is_own = |it: &&&str| {
        it.ends_with("/response_item/function_call_output") && !it.starts_with("exec/")
    };
    match kinds.iter().find(is_own).filter(|_| path == "payload.output") {
        Some(own) => vec![*own],
        None => kinds.to_vec(),
    }
}

/// Returns the rule for a permutation after which a file was compared in the order that its lines
/// state.
fn stated_order(comparison: &Comparison) -> Option<PlaceRule> {
    comparison.lacking.contains_key(&RunGap::FileOrder).then_some(PlaceRule::FileOrder)
}

/// Returns the raw records of one side.
pub fn raw(pair: &RecordedPair, side: Side) -> RawSide {
    let mut raw = RawSide::default();
    let others = other_sessions(pair);
    let is_read = |bytes: &[u8]| side == Side::Stream || !is_of_other(bytes, &others);
    let texts = texts(pair, side).into_iter().enumerate();
    for (file, bytes) in texts.filter(|(_, bytes)| is_read(bytes)) {
        raw.begin_file(file);
        for (line, record) in records(bytes).into_iter().enumerate() {
            if let Some(value) = json(record) {
                let (_, inner) = unwrapped(&value);
                debug_assert!(!parts(inner).is_empty() || inner.is_array());
                raw.add(line, inner);
            }
        }
    }
    raw
}

/// Returns a path without the numbers of elements.
pub fn general(path: &str) -> String {
    let mut skip = false;
    let keep = |letter: &char| {
        skip = *letter == '[' || (skip && *letter != ']');
        !skip && *letter != ']'
    };
    path.chars().filter(keep).collect()
}
