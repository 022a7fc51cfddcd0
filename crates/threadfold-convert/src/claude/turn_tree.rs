//! The turns of a conversation, as a file records them.
//!
//! A turn is a prompt with everything that follows it; turns form a tree, because a person can
//! rewind or edit. Most subagents have one turn, and there may be hundreds of thousands of them, so
//! that one takes no memory of its own.

use serde::{Deserialize, Serialize};

use crate::hash_map::Map;

/// The turns of a conversation.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "TurnFacts", into = "TurnFacts")]
pub(super) struct Turns {
    form: Form,
}

const _: () = assert!(size_of::<Turns>() == 16);

#[derive(Debug, Clone)]
enum Form {
    /// Everything so far came before the first prompt.
    None {
        is_answered: bool,
    },
    /// One turn, which continues turn 0; of its prompt the parent line, as [`short_key`].
    One {
        is_answered: bool,
        parent: u64,
    },
    Many(Box<ManyTurns>),
}

impl Default for Form {
    fn default() -> Self {
        Self::None { is_answered: false }
    }
}

/// Turns in the form that a snapshot has.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnFacts {
    /// The turn that each turn continues; turn 0 is everything before the first prompt.
    from: Vec<u32>,
    /// The parent line of each prompt, as [`short_key`]: two prompts with one parent are an edit,
    /// not a rewind.
    parents: Vec<u64>,
    /// The model has answered since the latest prompt.
    answered: bool,
}

/// More than one turn.
#[derive(Debug, Default, Clone)]
struct ManyTurns {
    facts: TurnFacts,
    /// What makes looking up fast; computed from the facts.
    lookup: Option<TurnLookup>,
}

/// How many turns are walked through as fast as they are looked up.
const FEW_TURNS: usize = 8;

/// Answers questions about turns without walking through all of them.
#[derive(Debug, Default, Clone)]
struct TurnLookup {
    /// For each turn, from turn 0: how many turns it continues, and an earlier one of those. The
    /// distances are chosen so that any of them is found in a logarithmic number of jumps.
    jumps: Vec<(u32, u32)>,
    /// The parents of all prompts.
    parents: Map<u64, ()>,
}

impl TurnLookup {
    fn push(&mut self, from: u32, parent: u64) {
        if self.jumps.is_empty() {
            self.jumps.push((0, 0));
        }
        let (depth, near) = self.jumps[from as usize];
        let (near_depth, far) = self.jumps[near as usize];
        let is_even = depth - near_depth == near_depth - self.jumps[far as usize].0;
        self.jumps.push((depth + 1, if is_even { far } else { from }));
        self.parents.insert(parent, ());
    }
}

impl Turns {
    /// Returns the turn of the latest prompt.
    pub(super) fn current(&self) -> u32 {
        match &self.form {
            Form::None { .. } => 0,
            Form::One { .. } => 1,
            Form::Many(many) => many.facts.from.len() as u32,
        }
    }

    /// Returns whether the model has answered since the latest prompt.
    pub(super) fn is_answered(&self) -> bool {
        match &self.form {
            Form::None { is_answered } | Form::One { is_answered, .. } => *is_answered,
            Form::Many(many) => many.facts.answered,
        }
    }

    /// Notes that the model has answered.
    pub(super) fn answer(&mut self) {
        match &mut self.form {
            Form::None { is_answered } | Form::One { is_answered, .. } => *is_answered = true,
            Form::Many(many) => many.facts.answered = true,
        }
    }

    /// Adds the turn of a prompt that continues `from`, and returns its number.
    pub(super) fn begin(&mut self, from: u32, parent: Option<u128>) -> u32 {
        let parent = short_key(parent);
        if let (Form::None { .. }, 0) = (&self.form, from) {
            self.form = Form::One { is_answered: false, parent };
            return 1;
        }
        let many = self.many();
        many.push(from, parent);
        self.current()
    }

    /// Lets `turn` continue the one before it, whatever it continued.
    pub(super) fn rejoin(&mut self, turn: u32) {
        // The first turn continues turn 0 already.
        if let Form::Many(many) = &mut self.form {
            many.rejoin(turn);
        }
    }

    /// Returns whether there is one prompt, and no line above it.
    pub(super) fn is_first_alone(&self) -> bool {
        match &self.form {
            Form::None { .. } => false,
            Form::One { parent, .. } => *parent == 0,
            Form::Many(many) => many.facts.parents == [0],
        }
    }

    /// Returns whether a prompt hangs below this line.
    pub(super) fn has_prompt_below(&self, line: Option<u128>) -> bool {
        let line = short_key(line);
        match &self.form {
            Form::None { .. } => false,
            Form::One { parent, .. } => *parent == line,
            Form::Many(many) => many.has_prompt_below(line),
        }
    }

    /// Returns whether `turn` is on the path from the first turn to the latest prompt.
    pub(super) fn is_active(&self, turn: u32) -> bool {
        match &self.form {
            Form::Many(many) => many.is_active(turn),
            // One turn continues turn 0.
            _ => turn <= self.current(),
        }
    }

    /// Returns the turns as many.
    fn many(&mut self) -> &mut ManyTurns {
        if !matches!(self.form, Form::Many(_)) {
            let facts = TurnFacts::from(std::mem::take(self));
            self.form = Form::Many(Box::new(ManyTurns { facts, lookup: None }));
        }
        match &mut self.form {
            Form::Many(many) => many,
            _ => unreachable!("it was just set"),
        }
    }
}

impl ManyTurns {
    fn push(&mut self, from: u32, parent: u64) {
        let facts = &mut self.facts;
        facts.from.push(from);
        facts.parents.push(parent);
        facts.answered = false;
        if facts.from.len() > FEW_TURNS {
            // The first time, and after a restore, all turns are new to the lookup.
            let lookup = self.lookup.get_or_insert_default();
            let known = lookup.jumps.len().saturating_sub(1);
            for (from, parent) in facts.from[known..].iter().zip(&facts.parents[known..]) {
                lookup.push(*from, *parent);
            }
        }
    }

    fn rejoin(&mut self, turn: u32) {
        let Some(before) = turn.checked_sub(1) else { return };
        if let Some(from) = self.facts.from.get_mut(before as usize) {
            *from = before;
        }
        // The rest is looked up again when the next turn begins.
        if let Some(lookup) = &mut self.lookup {
            lookup.jumps.truncate(turn as usize);
        }
    }

    fn has_prompt_below(&self, line: u64) -> bool {
        match self.complete_lookup() {
            Some(lookup) => lookup.parents.contains_key(&line),
            None => self.facts.parents.contains(&line),
        }
    }

    fn is_active(&self, turn: u32) -> bool {
        let lookup = self.complete_lookup();
        let mut at = self.facts.from.len() as u32;
        // A turn continues an earlier one, so the numbers fall and the loop ends.
        while at > turn {
            let jump = lookup.map_or(0, |it| it.jumps[at as usize].1);
            at = if jump >= turn && jump > 0 { jump } else { self.facts.from[at as usize - 1] };
        }
        at == turn
    }

    fn complete_lookup(&self) -> Option<&TurnLookup> {
        self.lookup.as_ref().filter(|it| it.jumps.len() == self.facts.from.len() + 1)
    }
}

impl From<TurnFacts> for Turns {
    fn from(facts: TurnFacts) -> Self {
        let is_answered = facts.answered;
        let form = match (&*facts.from, &*facts.parents) {
            ([], []) => Form::None { is_answered },
            ([0], [parent]) => Form::One { is_answered, parent: *parent },
            _ => Form::Many(Box::new(ManyTurns { facts, lookup: None })),
        };
        Self { form }
    }
}

impl From<Turns> for TurnFacts {
    fn from(turns: Turns) -> Self {
        match turns.form {
            Form::None { is_answered } => Self { answered: is_answered, ..Self::default() },
            Form::One { is_answered, parent } => {
                Self { from: vec![0], parents: vec![parent], answered: is_answered }
            }
            Form::Many(many) => many.facts,
        }
    }
}

/// Returns part of a line's key; 0 if there is no line. A session may have very many prompts of a
/// few bytes, so little is held of each.
fn short_key(line: Option<u128>) -> u64 {
    line.map_or(0, |key| (key as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_restored_as_they_were_whatever_their_number() {
        let mut turns = Turns::default();
        for number in 0..20_u32 {
            let text = serde_json::to_string(&turns).unwrap();
            let again: Turns = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), text);
            for known in [&turns, &again] {
                assert_eq!(known.current(), number);
                assert_eq!(known.is_answered(), number % 3 == 1);
                let active: Vec<u32> = (0..=number).filter(|&it| known.is_active(it)).collect();
                // Every fifth prompt goes back to the second turn.
                let expected = (0..=number).filter(|&it| it < 2 || it >= number / 5 * 5);
                assert_eq!(active, expected.collect::<Vec<u32>>(), "{text}");
                assert_eq!(known.is_first_alone(), number == 1);
                assert!(!known.has_prompt_below(Some(99)));
                assert!((1..number).all(|it| known.has_prompt_below(Some(u128::from(it)))));
            }
            turns = again;
            let from = if (number + 1) % 5 == 0 { number.min(1) } else { number };
            let parent = (number > 0).then_some(u128::from(number));
            assert_eq!(turns.begin(from, parent), number + 1);
            if (number + 1) % 3 == 1 {
                turns.answer();
            }
        }
        let older = r#"{"from":[0],"parents":[0],"answered":true}"#;
        let turns: Turns = serde_json::from_str(older).unwrap();
        assert!(turns.is_answered() && turns.is_first_alone() && turns.is_active(1));
    }
}
