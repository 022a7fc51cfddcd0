//! The sources of a session, indexed by identity and by number.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use crate::source::{Source, SourceItem, SourceKey, SourceSpec};

/// The sources of a session, in the order of their declaration. A clone shares them.
///
/// The indexes matter: some sessions have thousands of files, and every record looks up its source.
/// What they hold is behind pointers: a node of a list or map has room for dozens, and most sessions
/// have one source.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    all: Vector<Arc<Source>>,
    /// The latest part of each source.
    latest: OrdMap<Arc<SourceKey>, usize>,
    /// The latest declaration of each number.
    by_number: OrdMap<u32, usize>,
    /// The sources that may be one file, or copies of it, in the order of their declaration.
    by_file: OrdMap<Arc<SourceKey>, Arc<Vector<usize>>>,
    /// How many sources have each base name.
    names: OrdMap<String, u32>,
}

impl Sources {
    pub(crate) fn declare(&mut self, number: u32, spec: SourceSpec) {
        let name = self.feed_name(&spec);
        self.add(Source::new(number, spec, name));
    }

    /// Adds a source of a snapshot.
    pub(crate) fn restore(&mut self, item: SourceItem) {
        let name = self.feed_name(item.spec());
        self.add(item.into_source(name));
    }

    fn add(&mut self, source: Source) {
        let index = self.all.len();
        self.latest.insert(Arc::new(source.spec.key()), index);
        self.by_number.insert(source.number, index);
        let same = self.by_file.entry(Arc::new(source.spec.file_key())).or_default();
        Arc::make_mut(same).push_back(index);
        self.all.push_back(Arc::new(source));
    }

    /// Returns the name of a source's feed.
    ///
    /// It follows from the order of declarations alone, so every reader of a log gets the same names.
    fn feed_name(&mut self, spec: &SourceSpec) -> String {
        if let Some(part) = self.latest(spec) {
            return part.feed_name.clone();
        }
        let base = spec.base_name();
        let count = self.names.get(&base).copied().unwrap_or_default() + 1;
        self.names.insert(base.clone(), count);
        if count == 1 { base } else { format!("{base}~{count}") }
    }

    /// Returns the latest part of a source.
    pub(crate) fn latest(&self, spec: &SourceSpec) -> Option<&Source> {
        self.latest.get(&spec.key()).and_then(|index| self.at(*index))
    }

    /// Returns the sources that may be the same file as this one, or copies of it.
    pub(crate) fn same_files(&self, spec: &SourceSpec) -> impl DoubleEndedIterator<Item = &Source> {
        let places = self.by_file.get(&spec.file_key()).into_iter().flat_map(|it| it.iter());
        places.filter_map(|index| self.at(*index))
    }

    /// Returns the greatest number of a source.
    pub(crate) fn greatest_number(&self) -> Option<u32> {
        self.by_number.get_max().map(|(number, _)| *number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Source> {
        let index = *self.by_number.get(&number)?;
        self.all.get_mut(index).map(Arc::make_mut)
    }

    fn at(&self, index: usize) -> Option<&Source> {
        self.all.get(index).map(Arc::as_ref)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Source> {
        self.all.iter().map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use threadfold_convert::{claude, opencode};

    use super::*;
    use crate::source::SourceRole;

    #[test]
    fn copies_of_a_file_are_found_and_other_files_are_not() {
        let mut sources = Sources::default();
        let attached = |name: &str| SourceSpec::new(claude::AGENT, SourceRole::Attached, name);
        let main = |name: &str| SourceSpec::new(claude::AGENT, SourceRole::Main, name);
        let of_many = |name: &str| SourceSpec::new(opencode::AGENT, SourceRole::Main, name);
        let copy = attached("a.txt").at("/elsewhere/a.txt").as_copy(1);
        let rewritten = SourceSpec { part: 2, ..attached("a.txt") };
        let all = [
            attached("a.txt"),
            attached("b.txt"),
            copy,
            rewritten,
            main("s1.jsonl"),
            main("renamed.jsonl"),
            of_many("message/m1.json"),
            of_many("message/m2.json"),
        ];
        for (number, spec) in (1..).zip(all) {
            sources.declare(number, spec);
        }
        let same = |spec: &SourceSpec| -> Vec<u32> {
            sources.same_files(spec).map(|it| it.number).collect()
        };
        assert_eq!(same(&attached("a.txt")), [1, 3, 4]);
        assert_eq!(same(&attached("c.txt")), [0; 0]);
        // A session has one main file, whatever its name is, unless its agent writes many.
        assert_eq!(same(&main("another.jsonl")), [5, 6]);
        assert_eq!(same(&of_many("message/m2.json")), [8]);
        assert_eq!(sources.greatest_number(), Some(8));
    }
}
