//! Selects the script and the step for a request.
//!
//! Everything is derived from the request, so that parallel and nested subagents, resumed
//! sessions and repeated requests need no state here.

/// The fields of a message that the selection needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A user's message, or the agent's message in the user role; without tool results.
    User(String),
    /// The model's.
    Assistant,
    /// Any other: tool results, system prompts.
    Other,
}

/// The selected step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) script: String,
    pub(crate) step: usize,
}

/// Returns the selection of the last message with a directive, if there is one.
///
/// The step is the number of answers after that message.
pub(crate) fn choose(turns: &[Turn]) -> Option<Choice> {
    let mut step = 0;
    for turn in turns.iter().rev() {
        match turn {
            Turn::Assistant => step += 1,
            Turn::User(text) => {
                if let Some(script) = last_directive(text) {
                    let script = script.to_owned();
                    return Some(Choice { script, step });
                }
            }
            Turn::Other => {}
        }
    }
    None
}

fn last_directive(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once("[[play:")?;
    let (name, _) = rest.split_once("]]")?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Turn {
        Turn::User(text.to_owned())
    }

    fn chosen(turns: &[Turn]) -> String {
        match choose(turns) {
            Some(Choice { script, step }) => format!("{script} {step}"),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn the_step_is_the_number_of_answers_after_the_directive() {
        let turns = [
            user("[[play:tools]] go"),
            Turn::Assistant,
            Turn::Other,
            Turn::Assistant,
            user("a reminder without a directive"),
        ];
        assert_eq!(chosen(&turns[..1]), "tools 0");
        assert_eq!(chosen(&turns[..3]), "tools 1");
        assert_eq!(chosen(&turns), "tools 2");
    }

    #[test]
    fn the_last_directive_decides_and_starts_from_its_first_step() {
        let turns = [
            user("[[play:first]]"),
            Turn::Assistant,
            Turn::Assistant,
            user("[[play:quoted]] is old, [[play:second]] is new"),
            Turn::Assistant,
        ];
        assert_eq!(chosen(&turns), "second 1");
    }

    #[test]
    fn a_request_with_an_incomplete_directive_selects_no_script() {
        assert_eq!(chosen(&[]), "nothing");
        assert_eq!(chosen(&[user("hello"), Turn::Assistant]), "nothing");
        assert_eq!(chosen(&[user("[[play:open")]), "nothing");
    }
}
