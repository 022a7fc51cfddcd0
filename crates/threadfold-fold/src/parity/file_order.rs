//! The order that the lines of a file state, where the file has them in another one.
//!
//! An agent that writes in batches may write a batch before the one that it continues. The lines show
//! it: one of them names as its parent a line that stands later in the file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::Serialize;
use threadfold_convert::parity::LinePlace;

use crate::record::{Record, RecordKind};
use crate::source::{SourceRole, SourceSpec};

/// How many lines of a stretch that is out of order may precede their parent. Of a batch that was
/// written too early these are the first one, and the results of parallel calls.
const MOST_EARLY: usize = 4;

/// A file with lines that precede the line which they name as their parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlyLines {
    /// The file's name within the session.
    pub file: String,
    /// How many lines precede their parent.
    pub lines: usize,
}

/// Returns the records with the lines of each file in the order that they state, and the files in
/// which that is not the order in which they stand; nothing if there is none.
pub(super) fn in_stated_order(records: &[Record]) -> Option<(Vec<Record>, Vec<EarlyLines>)> {
    let mut files: BTreeMap<u32, (SourceSpec, Vec<usize>)> = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        match record.kind {
            RecordKind::Source => {
                let spec = serde_json::from_slice::<SourceSpec>(&record.bytes).ok();
                let is_file =
                    |it: &SourceSpec| matches!(it.kind, SourceRole::Main | SourceRole::Subagent);
                if let Some(spec) = spec.filter(is_file) {
                    files.insert(record.source, (spec, Vec::new()));
                }
            }
            RecordKind::Line => {
                if let Some((_, lines)) = files.get_mut(&record.source) {
                    lines.push(number);
                }
            }
            _ => {}
        }
    }
    let (mut ordered, mut found) = (None, Vec::new());
    for (spec, lines) in files.into_values() {
        let Some(agent) = spec.known_agent() else { continue };
        let place = |line: &usize| agent.line_place(records[*line].bytes.trim_ascii());
        let places: Vec<LinePlace> = lines.iter().filter_map(place).collect();
        let Some((order, early)) = stated_order(&places) else { continue };
        found.push(EarlyLines { file: spec.name, lines: early });
        let all = ordered.get_or_insert_with(|| records.to_vec());
        for (at, from) in lines.iter().zip(order) {
            all[*at].bytes = records[lines[from]].bytes.clone();
        }
    }
    Some((ordered?, found))
}

/// Lines that follow each other, of which some stand before their parents.
struct Stretch {
    start: usize,
    end: usize,
    /// The earliest and the latest time of a line.
    times: [usize; 2],
}

/// The lines of a file, as far as their order depends on it.
struct Lines {
    /// The line that each one continues.
    parents: Vec<Option<usize>>,
    /// The time of each line, as its number among the times; that of the line before if it has none.
    times: Vec<usize>,
    /// The first line from each one on that has a time of its own.
    timed: Vec<Option<usize>>,
}

/// Returns the lines in the order that they state, and how many of them precede their parent; nothing
/// if none does, or if more of a stretch do than of a batch that was written too early.
fn stated_order(places: &[LinePlace]) -> Option<(Vec<usize>, usize)> {
    let lines = Lines::new(places);
    let is_early = |line: &usize| lines.parents[*line].is_some_and(|parent| parent > *line);
    let early: Vec<usize> = (0..places.len()).filter(is_early).collect();
    if early.is_empty() {
        return None;
    }
    let mut order: Vec<usize> = (0..places.len()).collect();
    for Stretch { start, end, .. } in lines.stretches(&early) {
        let inside = |line: &usize| early.partition_point(|it| it < line);
        if inside(&(end + 1)) - inside(&start) > MOST_EARLY {
            return None;
        }
        order.splice(start..=end, lines.arrange(start, end));
    }
    Some((order, early.len()))
}

impl Lines {
    fn new(places: &[LinePlace]) -> Self {
        let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
        for (line, place) in places.iter().enumerate() {
            if let Some(id) = &place.id {
                ids.entry(id).or_insert(line);
            }
        }
        let parent = |(line, place): (usize, &LinePlace)| {
            let first = place.id.as_deref().and_then(|id| ids.get(id));
            // A line that was written again says nothing new: it stays behind the line before it.
            if first.is_some_and(|first| *first < line) {
                return Some(line - 1);
            }
            let parent = place.parent.as_deref().and_then(|id| ids.get(id)).copied();
            parent.filter(|parent| *parent != line)
        };
        let mut known: Vec<&str> = places.iter().filter_map(|it| it.time.as_deref()).collect();
        known.sort_unstable();
        known.dedup();
        let mut last = 0;
        let time = |place: &LinePlace| {
            if let Some(time) = place.time.as_deref() {
                last = 1 + known.partition_point(|it| *it < time);
            }
            last
        };
        let mut next = None;
        let mut timed: Vec<Option<usize>> = vec![None; places.len()];
        for (line, place) in places.iter().enumerate().rev() {
            next = place.time.as_ref().map(|_| line).or(next);
            timed[line] = next;
        }
        Self {
            timed,
            parents: places.iter().enumerate().map(parent).collect(),
            times: places.iter().map(time).collect(),
        }
    }

    /// Returns the stretches that are out of order. Each reaches from a line to its parent, and as far
    /// as the times of the lines around show that they were made in between.
    fn stretches(&self, early: &[usize]) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
        for line in early {
            let fresh = Stretch { start: *line, end: *line, times: [self.times[*line]; 2] };
            let mut own = found.pop_if(|last| last.end >= *line).unwrap_or(fresh);
            self.extend(&mut own, self.parents[*line].unwrap_or(*line));
            loop {
                let before = own.start.checked_sub(1);
                if let Some(before) = before.filter(|it| self.times[*it] > own.times[0]) {
                    // What precedes it may be a stretch as a whole.
                    let times = [self.times[before]; 2];
                    let fresh = Stretch { start: before, end: before, times };
                    let last = found.pop_if(|last| last.end == before).unwrap_or(fresh);
                    own.start = last.start;
                    own.times[0] = own.times[0].min(last.times[0]);
                    own.times[1] = own.times[1].max(last.times[1]);
                } else if let Some(next) = self.timed.get(own.end + 1).copied().flatten()
                    && self.times[next] < own.times[1]
                {
                    // A line without a time behind the last one may belong to what follows.
                    self.extend(&mut own, next);
                } else {
                    break;
                }
            }
            found.push(own);
        }
        found
    }

    /// Lets a stretch reach up to a line.
    fn extend(&self, stretch: &mut Stretch, end: usize) {
        while stretch.end < end {
            stretch.end += 1;
            let time = self.times[stretch.end];
            stretch.times = [stretch.times[0].min(time), stretch.times[1].max(time)];
        }
    }

    /// Returns the lines of a stretch, each after the line that it continues and otherwise by their
    /// times.
    fn arrange(&self, start: usize, end: usize) -> Vec<usize> {
        let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut ready = BinaryHeap::new();
        for line in start..=end {
            match self.parents[line].filter(|parent| (start..=end).contains(parent)) {
                Some(parent) => children.entry(parent).or_default().push(line),
                None => ready.push(Reverse((self.times[line], line))),
            }
        }
        let mut order = Vec::with_capacity(end + 1 - start);
        while let Some(Reverse((_, line))) = ready.pop() {
            order.push(line);
            let below = children.remove(&line).unwrap_or_default();
            ready.extend(below.into_iter().map(|line| Reverse((self.times[line], line))));
        }
        // Lines that name each other in a circle state no order.
        let mut rest: Vec<usize> = children.into_values().flatten().collect();
        rest.sort_unstable();
        order.extend(rest);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of lines that are written as `name<parent@time`.
    fn order_of(lines: &str) -> Option<String> {
        let names: Vec<&str> = lines.split(' ').collect();
        let place = |line: &&str| {
            let (rest, time) = line.split_once('@').unwrap_or((line, ""));
            let (id, parent) = rest.split_once('<').unwrap_or((rest, ""));
            let named = |it: &str| (!it.is_empty()).then(|| it.to_owned());
            LinePlace { id: named(id), parent: named(parent), time: named(time) }
        };
        let places: Vec<LinePlace> = names.iter().map(place).collect();
        let (order, _) = stated_order(&places)?;
        let names = order.iter().map(|line| names[*line].split(['<', '@']).next().unwrap_or(""));
        Some(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_batch_before_the_one_that_it_continues_follows_it() {
        let order = |lines: &str| order_of(lines).unwrap_or_default();
        assert_eq!(order("a@1 d<c@4 e<d@5 b<a@2 c<b@3 f<e@6"), "a b c d e f");
        // The results of parallel calls have other parents than the line before them.
        assert_eq!(order("a@1 e<d@5 f<e@6 b<a@2 c<a@3 d<b@4 g<f@7"), "a b c d e f g");
        assert_eq!(order("a@1 e<d@5 b<a@2 d<b@3 c<a@4 f<e@6"), "a b d c e f");
        // Two batches that are out of order, and lines without a name.
        assert_eq!(order("c<b@3 @4 a@1 b<a@2 g<f@7 d<c@5 f<d@6"), "a b c  d f g");
        // Only a time says where the first line belongs.
        assert_eq!(order("x@4 d<c@5 b@2 c<b@3"), "b c x d");
        assert_eq!(order("d<c b c<b"), "b c d");
        // What has no time stands behind the line before it, or behind all of them.
        assert_eq!(order("a@1 d<c@4 e<d@5 b<a@2 c<b@3 x y"), "a b c d e x y");
        assert_eq!(order("a@1 d<c@4 e<d@5 b<a@2 c<b@3 x f<a@3 y"), "a b c x f d e y");
    }

    #[test]
    fn a_file_in_the_order_of_its_parents_states_no_other() {
        assert_eq!(order_of("a@5 b<a@3 c<b@4 d<a@1 e@2"), None);
        // The parent is in another file.
        assert_eq!(order_of("b<z@2 a@1"), None);
        // The line was written again.
        assert_eq!(order_of("a@1 b<a@2 c<b@3 b<c@2"), None);
        assert_eq!(order_of("a<a@2 b@1"), None);
    }

    #[test]
    fn what_is_elsewhere_stays_in_its_order() {
        // Lines of a turn that are out of order change nothing in another one, whatever their times.
        let lines = "a@10 b<a@30 x<a@20 c<b@40 f<e@90 e<c@80 g<f@91 i<g@93 h<g@92";
        assert_eq!(order_of(lines).as_deref(), Some("a b x c e f g i h"));
    }

    #[test]
    fn lines_that_name_each_other_are_all_kept() {
        assert_eq!(order_of("a<b@1 b<a@2 c@3").as_deref(), Some("a b c"));
        assert_eq!(order_of("a<c@1 b<a@2 c<b@3 d<c@4").as_deref(), Some("a b c d"));
    }

    #[test]
    fn a_stretch_of_which_most_lines_precede_their_parents_states_no_order() {
        assert_eq!(order_of("f<e@6 e<d@5 d<c@4 c<b@3 b<a@2 a@1"), None);
    }

    #[test]
    fn the_work_grows_with_the_lines() {
        // Every second line names the next one.
        let place = |line: usize| LinePlace {
            id: Some((line ^ 1).to_string()),
            parent: (line ^ 1).checked_sub(1).map(|it| it.to_string()),
            time: None,
        };
        let places: Vec<LinePlace> = (0..200_000).map(place).collect();
        let (order, early) = stated_order(&places).expect("the lines are out of order");
        assert_eq!((order[0], order[199_999], early), (1, 199_998, 100_000));
        // Each line names the next one, so every line is in the wrong place.
        let place = |line: usize| LinePlace {
            id: Some(line.to_string()),
            parent: Some((line + 1).to_string()),
            time: None,
        };
        assert_eq!(stated_order(&(0..200_000).map(place).collect::<Vec<_>>()), None);
    }
}
