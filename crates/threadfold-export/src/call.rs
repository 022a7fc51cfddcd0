//! Describes a tool call on one line, by its most informative argument.

use threadfold_core::{Fields, Json};

use crate::printable::one_line;

use crate::content::{object, objects, plain, strings};
use crate::excerpt::{beginning, first_line};
use crate::numbers::count;
use crate::path::{cut_path, joined_paths, relative};
use crate::script::scripted_calls;
use crate::width::cut;

/// The arguments that best describe a call, the best first; in lower case, without underscores.
const TELLING: [&str; 19] = [
    "command",
    "cmd",
    "filepath",
    "notebookpath",
    "pattern",
    "path",
    "file",
    "todos",
    "questions",
    "query",
    "url",
    "skill",
    "subject",
    "description",
    "prompt",
    "plan",
    "name",
    "taskid",
    "id",
];

/// The arguments that may be a script, in lower case, without underscores.
const SCRIPTS: [&str; 3] = ["code", "script", "source"];

/// How many of a script's calls are described: more do not fit on a line.
const MOST_CALLS: usize = 8;

/// A call's description on one line.
pub enum Summary {
    /// Words that need no link.
    Words(String),
    /// A path, as the call has it and as it is shown.
    Path {
        /// The path as the agent gave it.
        given: String,
        /// The path as it is shown.
        shown: String,
    },
}

impl Summary {
    /// Describes a call by its arguments; paths within the session's folder are relative to it.
    pub fn of(input: &Json, folder: Option<&str>) -> Self {
        let Some(fields) = object(input) else {
            let text = plain(input);
            return Self::Words(match patched_files(std::iter::once(text.clone())) {
                Some(files) => joined_paths(&files, folder, usize::MAX),
                None => script_calls(&text, folder)
                    .unwrap_or_else(|| one_line(beginning(text.trim_start()))),
            });
        };
        if let Some(files) = patched_files(fields.iter().flat_map(|(_, value)| texts(value))) {
            return Self::Words(joined_paths(&files, folder, usize::MAX));
        }
        let mut scripts = fields.iter().filter(|(name, _)| SCRIPTS.contains(&&*normalized(name)));
        if let Some(calls) = scripts.find_map(|(_, it)| script_calls(&it.to_text()?, folder)) {
            return Self::Words(calls);
        }
        let telling =
            TELLING.iter().find_map(|name| fields.iter().find(|(key, _)| normalized(key) == *name));
        let Some((name, value)) = telling else {
            return Self::Words(all_arguments(&fields));
        };
        let text = || one_line(beginning(&plain(value)));
        match normalized(name).as_str() {
            "filepath" | "notebookpath" | "path" | "file" => {
                let given = plain(value);
                Self::Path { shown: one_line(relative(&given, folder)), given }
            }
            "pattern" => {
                let place = fields.get("path").map(plain).unwrap_or_default();
                let place = one_line(relative(&place, folder));
                let is_elsewhere = !place.is_empty() && Some(place.as_str()) != folder;
                let place = if is_elsewhere { format!(" in {place}") } else { String::new() };
                Self::Words(format!("{}{place}", text()))
            }
            "todos" | "plan" => Self::Words(todos(value).unwrap_or_else(text)),
            "command" | "cmd" => Self::Words(command_line(value).unwrap_or_else(text)),
            "questions" => {
                let asked = objects(value);
                let first = asked.first().and_then(|it| it.get("question")).map(plain);
                Self::Words(first.map_or_else(text, |first| one_line(beginning(&first))))
            }
            _ => Self::Words(text()),
        }
    }

    /// Returns as much as fits: the end of a path, or the beginning of a text.
    pub fn cut(&self, width: usize) -> String {
        match self {
            Self::Words(words) => cut(words, width),
            Self::Path { shown, .. } => cut_path(shown, width),
        }
    }

    /// Returns the words for a successful result: its first line, or how many lines of a file it
    /// has.
    pub fn success(&self, output: &str) -> String {
        let text = output.trim();
        if text.starts_with('(') && text.ends_with("no output)") {
            return "no output".to_owned();
        }
        let Self::Path { given, .. } = self else { return first_line(text) };
        match (file_lines(text), text.lines().count()) {
            (0, 1) if given.is_empty() || !text.contains(given.as_str()) => first_line(text),
            (0, _) => String::new(),
            (lines, _) => count(lines, "line", "lines"),
        }
    }
}

/// Returns how many lines of a file an output has: agents number them.
fn file_lines(output: &str) -> usize {
    let is_numbered = |line: &&str| {
        let rest = line.trim_start().trim_start_matches(|it: char| it.is_ascii_digit());
        rest.len() < line.trim_start().len() && rest.starts_with(['→', ':', '|', '\t'])
    };
    output.lines().filter(is_numbered).count()
}

/// Returns a one-line description of a call.
pub fn call_summary(input: &Json) -> String {
    match Summary::of(input, None) {
        Summary::Words(text) | Summary::Path { shown: text, .. } => text,
    }
}

/// Returns an argument's name in lower case, without underscores: agents spell them differently.
fn normalized(name: &str) -> String {
    name.chars().filter(|it| *it != '_').map(|it| it.to_ascii_lowercase()).collect()
}

/// Returns a text, or the texts of a list.
fn texts(value: &Json) -> Vec<String> {
    value.to_text().map_or_else(|| strings(value), |text| vec![text])
}

/// Returns a command that is a list of words: what its shell runs, or the words.
fn command_line(value: &Json) -> Option<String> {
    let words = strings(value);
    let line = match words.as_slice() {
        [] => return None,
        [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => script.clone(),
        words => words.join(" "),
    };
    Some(one_line(beginning(&line)))
}

/// Returns the files that a patch changes, if one of the texts is a patch.
fn patched_files(texts: impl IntoIterator<Item = String>) -> Option<Vec<String>> {
    let mut patches =
        texts.into_iter().filter(|text| text.trim_start().starts_with("*** Begin Patch"));
    let patch = patches.next()?;
    let file = |line: &str| {
        let line = line.strip_prefix("*** ")?;
        let kinds = ["Add File: ", "Update File: ", "Delete File: "];
        kinds.iter().find_map(|kind| line.strip_prefix(kind)).map(|it| it.trim().to_owned())
    };
    let files: Vec<String> = patch.lines().filter_map(file).collect();
    (!files.is_empty()).then_some(files)
}

/// Returns the calls that a script makes, each with its most informative argument; nothing if there
/// are none. A tool that is called again is not named again.
fn script_calls(script: &str, folder: Option<&str>) -> Option<String> {
    let mut shown: Vec<String> = Vec::new();
    let mut last = String::new();
    for call in scripted_calls(script, MOST_CALLS) {
        let input = call.input.map(|it| match Summary::of(&it, folder) {
            Summary::Words(text) | Summary::Path { shown: text, .. } => text,
        });
        let input = input.filter(|it| !it.is_empty());
        shown.push(match input {
            Some(input) if call.name == last => input,
            Some(input) => format!("{}: {input}", call.name),
            None => call.name.clone(),
        });
        last = call.name;
    }
    (!shown.is_empty()).then(|| one_line(beginning(&shown.join(" · "))))
}

/// Returns how many items of a list of tasks are done, and the current one.
fn todos(value: &Json) -> Option<String> {
    let items = objects(value);
    let text = |item: &Fields, name| item.get(name).and_then(Json::to_text);
    let is = |item: &Fields, status: &str| text(item, "status").as_deref() == Some(status);
    let done = items.iter().filter(|item| is(item, "completed")).count();
    let current = items.iter().find(|item| is(item, "in_progress"));
    let next = current.or_else(|| items.iter().find(|item| is(item, "pending")));
    let words = next.and_then(|item| text(item, "content").or_else(|| text(item, "step")));
    let words = words.map(|it| format!(": {}", one_line(&it)));
    (!items.is_empty())
        .then(|| format!("{done} of {} done{}", items.len(), words.unwrap_or_default()))
}

/// Returns all arguments; without its name, if there is only one.
fn all_arguments(fields: &Fields) -> String {
    let pairs: Vec<String> = match fields.iter().collect::<Vec<_>>().as_slice() {
        [(_, only)] => vec![beginning(&plain(only)).to_owned()],
        all => {
            let pair =
                |(name, value): &(&str, &Json)| format!("{name}: {}", beginning(&plain(value)));
            all.iter().map(pair).collect()
        }
    };
    one_line(beginning(&pairs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(json: &str) -> String {
        let summary = Summary::of(&Json::parse(json).unwrap(), Some("/home/somebody/project"));
        summary.cut(40)
    }

    #[test]
    fn a_call_is_described_by_its_best_argument() {
        let cases = [
            (r#"{"filePath":"/home/somebody/project/src/a.rs","offset":3}"#, "src/a.rs"),
            (
                r#"{"file_path":"/somewhere/else/with/a/rather/long/name/b.rs"}"#,
                "…/else/with/a/rather/long/name/b.rs",
            ),
            (r#"{"pattern":"fn main","path":"/home/somebody/project/src"}"#, "fn main in src"),
            (r#"{"pattern":"*.rs","path":"/home/somebody/project"}"#, "*.rs"),
            (
                r#"{"patchText":"*** Begin Patch\n*** Update File: src/a.rs\n@@\n+x\n*** Add File: b.md\n+y\n*** End Patch"}"#,
                "src/a.rs, b.md",
            ),
            (
                r#"{"todos":[{"content":"A","status":"completed"},{"content":"B","status":"in_progress"}]}"#,
                "1 of 2 done: B",
            ),
            (r#"{"questions":[{"question":"Which one?","options":[]}]}"#, "Which one?"),
            (r#"{"plan":"A plan"}"#, "A plan"),
            (
                r#"{"plan":[{"step":"Read","status":"pending"},{"step":"Write","status":"pending"}]}"#,
                "0 of 2 done: Read",
            ),
            (r#"{"command":["bash","-lc","ls -l"]}"#, "ls -l"),
            (r#"{"command":["git","status"]}"#, "git status"),
            (
                r#"{"command":["apply_patch","*** Begin Patch\n*** Delete File: a.rs\n*** End Patch"]}"#,
                "a.rs",
            ),
            (r#""*** Begin Patch\n*** Update File: src/a.rs\n*** End Patch""#, "src/a.rs"),
            (r#""text(await tools.exec_command({cmd: \"ls\"}))""#, "exec_command: ls"),
            (
                r#""await Promise.all([tools.run({cmd: 'a b'}), tools.run({cmd: 'c'}), tools.stop()])""#,
                "run: a b · c · stop",
            ),
            (
                r#""// A note.\nconst patch = '*** Begin Patch\\n*** Update File: /home/somebody/project/src/a.rs\\n*** End Patch';\ntext(await tools.apply_patch(patch));""#,
                "apply_patch: src/a.rs",
            ),
            (r#"{"code":"await tools.read({path: '/home/somebody/project/a.rs'})"}"#, "read: a.rs"),
            (r#""throw new Error('no call')""#, "throw new Error('no call')"),
            (r#"{"odd":"one"}"#, "one"),
            (r#"{"odd":1,"even":2}"#, "odd: 1, even: 2"),
        ];
        for (json, expected) in cases {
            assert_eq!(summary(json), expected, "{json}");
        }
    }

    #[test]
    fn a_file_result_shows_its_length() {
        let path = Summary::of(&Json::parse(r#"{"file_path":"/a/b.rs"}"#).unwrap(), None);
        assert_eq!(
            [
                "     1→a\n     2→\n\n<system-reminder>\nNote\n</system-reminder>",
                "<path>/a/b.rs</path>\n<content>\n1: a\n\n(End of file - total 1 lines)\n</content>",
                "The file /a/b.rs has been updated.",
                "The file /a/b.rs has been updated.\nHere is more.",
                "File not changed",
                "",
            ]
            .map(|it| path.success(it)),
            ["2 lines", "1 line", "", "", "File not changed", ""]
        );
    }
}
