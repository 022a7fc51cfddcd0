//! The calls that a script of a model makes: agents let models call tools from JavaScript.
//!
//! Only what is written out is read: literals, and names that stand for a text. Nothing is run.

use std::collections::BTreeMap;

use threadfold_core::{Fields, Json};

/// The object whose methods are the tools.
const TOOLS: &str = "tools";

/// How deep objects and lists are read; what is deeper is shown as it is written.
const MOST_DEPTH: usize = 8;

/// A call that a script makes.
#[derive(Debug, PartialEq)]
pub(crate) struct ScriptedCall {
    /// The name of the tool.
    pub(crate) name: String,
    /// Its first argument; nothing if it has none.
    pub(crate) input: Option<Json>,
}

/// Returns the calls that a script makes, in the order in which it names them, at most this many.
pub(crate) fn scripted_calls(script: &str, most: usize) -> Vec<ScriptedCall> {
    if !script.contains(TOOLS) {
        return Vec::new();
    }
    let mut reader = Reader::new(script);
    let mut calls = Vec::new();
    let mut at = 0;
    while at < reader.tokens.len() && calls.len() < most {
        reader.bind(at);
        match reader.call_at(at) {
            Some((name, arguments)) => {
                let input = reader.value(arguments, 0).map(|(input, _)| input);
                calls.push(ScriptedCall { name, input });
                at = arguments;
            }
            None => at += 1,
        }
    }
    calls
}

/// A part of a script.
#[derive(Debug, PartialEq)]
enum Kind<'a> {
    /// A name, a word of the language or a number.
    Word(&'a str),
    /// A text, without its quotes.
    Text(String),
    Mark(char),
}

#[derive(Debug)]
struct Token<'a> {
    kind: Kind<'a>,
    start: usize,
    end: usize,
}

struct Reader<'a> {
    script: &'a str,
    tokens: Vec<Token<'a>>,
    /// Names that stand for a text.
    names: BTreeMap<&'a str, String>,
}

impl<'a> Reader<'a> {
    fn new(script: &'a str) -> Self {
        Self { script, tokens: tokens(script), names: BTreeMap::new() }
    }

    fn kind(&self, at: usize) -> Option<&Kind<'a>> {
        self.tokens.get(at).map(|it| &it.kind)
    }

    fn is_mark(&self, at: usize, mark: char) -> bool {
        self.kind(at) == Some(&Kind::Mark(mark))
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        match self.kind(at)? {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Notes `name = "text"`.
    fn bind(&mut self, at: usize) {
        let Some(name) = self.word(at).filter(|_| self.is_mark(at + 1, '=')) else { return };
        if let Some(text) = self.text(at + 2) {
            self.names.insert(name, text);
        }
    }

    /// Returns a text, which may be written `String.raw`.
    fn text(&self, at: usize) -> Option<String> {
        let is_raw = self.word(at) == Some("String") && self.is_mark(at + 1, '.');
        match self.kind(if is_raw { at + 3 } else { at })? {
            Kind::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns the tool that is called here, and where its arguments begin.
    fn call_at(&self, at: usize) -> Option<(String, usize)> {
        if self.word(at)? != TOOLS {
            return None;
        }
        let (name, end) = match self.kind(at + 1)? {
            Kind::Mark('.') => (self.word(at + 2)?.to_owned(), at + 3),
            Kind::Mark('[') if self.is_mark(at + 3, ']') => (self.text(at + 2)?, at + 4),
            _ => return None,
        };
        self.is_mark(end, '(').then_some((name, end + 1))
    }

    /// Returns the value that is written here, and where it ends.
    fn value(&self, at: usize, depth: usize) -> Option<(Json, usize)> {
        let first = self.kind(at)?;
        let end = self.end_of(at);
        if end == at {
            return None;
        }
        let is_alone = end == at + 1;
        let value = match first {
            Kind::Mark('{') if depth < MOST_DEPTH => self.object(at + 1, end, depth),
            Kind::Mark('[') if depth < MOST_DEPTH && self.is_mark(end - 1, ']') => {
                self.list(at + 1, end, depth)
            }
            Kind::Word(word) if is_alone && self.names.contains_key(word) => {
                Json::string(&self.names[word])
            }
            Kind::Word(word) if is_alone => {
                Json::parse(word).unwrap_or_else(|_| Json::string(word))
            }
            _ => match self.text(at) {
                Some(text) => Json::string(&text),
                None => Json::string(self.written(at, end)),
            },
        };
        Some((value, end))
    }

    fn object(&self, mut at: usize, end: usize, depth: usize) -> Json {
        let mut fields = Fields::default();
        while at < end {
            let key = match self.kind(at) {
                Some(Kind::Word(word)) => Some((*word).to_owned()),
                Some(Kind::Text(text)) => Some(text.clone()),
                _ => None,
            };
            // A name alone is a field of that name.
            let start = if self.is_mark(at + 1, ':') { at + 2 } else { at };
            match (key, self.value(start, depth + 1)) {
                (Some(key), Some((value, next))) => {
                    fields.insert(&key, value);
                    at = next.max(at) + 1;
                }
                _ => at = self.end_of(at).max(at) + 1,
            }
        }
        Json::of(&fields)
    }

    fn list(&self, mut at: usize, end: usize, depth: usize) -> Json {
        let mut values = Vec::new();
        while at < end {
            let Some((value, next)) = self.value(at, depth + 1) else { break };
            values.push(value);
            at = next.max(at) + 1;
        }
        Json::of(&values)
    }

    /// Returns the end of an expression: the comma or the bracket behind it.
    fn end_of(&self, start: usize) -> usize {
        let mut open = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(start) {
            match token.kind {
                Kind::Mark('(' | '[' | '{') => open += 1,
                Kind::Mark(')' | ']' | '}') if open > 0 => open -= 1,
                Kind::Mark(')' | ']' | '}' | ',' | ';') if open == 0 => return at,
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn written(&self, start: usize, end: usize) -> &'a str {
        &self.script[self.tokens[start].start..self.tokens[end - 1].end]
    }
}

/// Returns the parts of a script, without spaces and comments.
fn tokens(script: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(letter) = script[at..].chars().next() {
        let rest = &script[at..];
        let length = match letter {
            _ if letter.is_whitespace() => {
                at += letter.len_utf8();
                continue;
            }
            '/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '/' if rest.starts_with("/*") => {
                at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                continue;
            }
            '/' if begins_pattern(tokens.last()) => pattern_length(rest),
            '"' | '\'' | '`' => {
                let (text, length) = literal(rest, letter);
                tokens.push(Token { kind: Kind::Text(text), start: at, end: at + length });
                at += length;
                continue;
            }
            _ if is_of_word(letter) => rest.find(|it| !is_of_word(it)).unwrap_or(rest.len()),
            _ => letter.len_utf8(),
        };
        let kind = match is_of_word(letter) {
            true => Kind::Word(&rest[..length]),
            false => Kind::Mark(letter),
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
    tokens
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// Returns whether a slash behind this begins a pattern, and does not divide.
fn begins_pattern(before: Option<&Token<'_>>) -> bool {
    match before.map(|it| &it.kind) {
        Some(Kind::Mark(mark)) => !matches!(mark, ')' | ']' | '}'),
        Some(Kind::Word(word)) => *word == "return",
        Some(Kind::Text(_)) => false,
        None => true,
    }
}

/// Returns the length of a pattern with its slashes; one, if it does not end on its line.
fn pattern_length(rest: &str) -> usize {
    let (mut is_escaped, mut is_in_class) = (false, false);
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            '\n' => break,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '/' if !is_in_class => return at + 1,
            _ => {}
        }
    }
    1
}

/// Returns the text of a literal, and its length with the quotes.
fn literal(rest: &str, quote: char) -> (String, usize) {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r' | '\n') => {}
                Some(escaped) => text.push(escaped),
                None => {}
            },
            _ if letter == quote => return (text, at + 1),
            _ => text.push(letter),
        }
    }
    (text, rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(script: &str) -> String {
        let calls = scripted_calls(script, 8);
        let shown = calls.iter().map(|it| {
            let input = it.input.as_ref().map_or("", |it| it.as_str());
            format!("{} {input}", it.name)
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_arguments_of_a_call_are_read_in_every_spelling() {
        for (script, expected) in [
            ("await tools.exec_command({cmd:'ls -l'})", r#"exec_command {"cmd":"ls -l"}"#),
            (
                "tools.exec_command({\n  \"cmd\": \"a \\\"b\\\"\", n: 10, })",
                r#"exec_command {"cmd":"a \"b\"","n":10}"#,
            ),
            ("tools['view'](`a b`)", r#"view "a b""#),
            ("tools.stop()", "stop "),
            ("const p = \"x\\ny\";\ntext(await tools.apply(p))", r#"apply "x\ny""#),
            ("const cmd = 'ls'; tools.run({cmd, n})", r#"run {"cmd":"ls","n":"n"}"#),
            ("tools.run(String.raw`a`)", r#"run "a""#),
            (
                "tools.run({cmd: ['a', 'b'], deep: {x: true}})",
                r#"run {"cmd":["a","b"],"deep":{"x":true}}"#,
            ),
            (
                "tools.run({cmd: list.map(it => it.a).join(', ')})",
                r#"run {"cmd":"list.map(it => it.a).join(', ')"}"#,
            ),
            ("tools.run({...rest, cmd: 'ls'})", r#"run {"cmd":"ls"}"#),
            ("tools.run(['a'].join())", r#"run "['a'].join()""#),
            ("await Promise.all([tools.a({x: 1}), tools.b({x: 2})])", "a {\"x\":1}\nb {\"x\":2}"),
        ] {
            assert_eq!(calls(script), expected, "{script}");
        }
    }

    #[test]
    fn what_only_looks_like_a_call_is_none() {
        for script in [
            "text('tools.run({cmd: 1})')",
            "// tools.run({cmd: 1})\n/* tools.run() */ 1",
            "x.match(/'tools.run()'/)",
            "const tools = 1; tools + 1",
            "text(tools.run)",
            "the words of somebody's tools",
            "",
        ] {
            assert_eq!(calls(script), "", "{script}");
        }
        assert_eq!(calls("a.test(/[/']/) && 6 / 2 / 1; tools.run('x')"), "run \"x\"");
    }

    #[test]
    fn a_script_that_ends_anywhere_is_read_to_its_end() {
        let script = "const p = `é`; tools.run({cmd: ['a', \"b\\n\"], \"k\": {d: /x[/]/}, e: f(1, 2)}); tools['a'](p)";
        for (end, _) in script.char_indices() {
            scripted_calls(&script[..end], 8);
        }
        let deep = format!("tools.run({}", "{a:[".repeat(10_000));
        assert_eq!(scripted_calls(&deep, 8).len(), 1);
    }
}
