//! One block of Anthropic's content, from its start through its deltas to what it is as a whole.

use threadfold_core::{Fields, Json};

use crate::provider::failure::Failure;
use crate::provider::json::{get, list, read, text, word};

/// A block whose end has not come.
pub(super) struct Block {
    pub(super) index: usize,
    pub(super) kind: String,
    /// Its part of the message, if it has one.
    pub(super) part: usize,
    start: Json,
    fields: Fields,
    /// The fields that grow, with what they are so far.
    texts: Vec<(String, String)>,
    /// The input as it is streamed.
    input: String,
    citations: Vec<Json>,
}

/// A block as a whole.
pub(super) struct Whole {
    pub(super) item: Json,
    pub(super) fields: Fields,
    /// What the model wrote as the input of a tool.
    pub(super) arguments: String,
}

/// What a delta added, as far as it is shown.
pub(super) enum Added {
    Text(String),
    Thinking(String),
    Input(String),
    Nothing,
}

impl Block {
    pub(super) fn new(index: usize, start: Json, part: usize) -> Result<Self, Failure> {
        let fields: Fields = read(&start)?;
        let kind = word(&fields, "type");
        let (texts, citations) = (Vec::new(), Vec::new());
        Ok(Self { index, kind, part, start, fields, texts, input: String::new(), citations })
    }

    pub(super) fn word(&self, name: &str) -> String {
        word(&self.fields, name)
    }

    /// Takes in a delta. One of an unknown kind adds its texts to the fields of their names, as
    /// all known ones do.
    pub(super) fn add(&mut self, delta: &Json) -> Result<Added, Failure> {
        let delta: Fields = read(delta)?;
        match &*word(&delta, "type") {
            "text_delta" => self.grow(&delta, "text").map(Added::Text),
            "thinking_delta" => self.grow(&delta, "thinking").map(Added::Thinking),
            "signature_delta" => {
                let signature = text(&delta, "signature")?;
                self.set("signature", signature);
                Ok(Added::Nothing)
            }
            "input_json_delta" => {
                let more = text(&delta, "partial_json")?;
                self.input.push_str(&more);
                Ok(Added::Input(more))
            }
            "citations_delta" => {
                self.citations.extend(get(&delta, "citation").cloned());
                Ok(Added::Nothing)
            }
            _ => {
                for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
                    if value.to_text().is_some() {
                        self.grow(&delta, name)?;
                    }
                }
                Ok(Added::Nothing)
            }
        }
    }

    fn grow(&mut self, delta: &Fields, name: &str) -> Result<String, Failure> {
        let more = text(delta, name)?;
        match self.texts.iter_mut().find(|(known, _)| known == name) {
            Some((_, text)) => text.push_str(&more),
            None => {
                let text = text(&self.fields, name)? + &more;
                self.texts.push((name.to_owned(), text));
            }
        }
        Ok(more)
    }

    fn set(&mut self, name: &str, text: String) {
        self.texts.retain(|(known, _)| known != name);
        self.texts.push((name.to_owned(), text));
    }

    /// Returns what it is as a whole. What no delta touched stays as it was spelt.
    pub(super) fn finish(mut self) -> Result<Whole, Failure> {
        if self.texts.is_empty() && self.input.is_empty() && self.citations.is_empty() {
            return Whole::new(self.start);
        }
        for (name, text) in &self.texts {
            self.fields.insert(name, Json::string(text));
        }
        if !self.citations.is_empty() {
            let mut citations = list(&self.fields, "citations")?;
            citations.append(&mut self.citations);
            self.fields.insert("citations", Json::of(&citations));
        }
        let is_blank = self.input.trim().is_empty();
        if !is_blank {
            // An answer that was cut short may end within an input.
            let input = Json::parse(&self.input).unwrap_or_else(|_| Json::string(&self.input));
            self.fields.insert("input", input);
        }
        let mut whole = Whole::new(Json::of(&self.fields))?;
        if !is_blank {
            whole.arguments = self.input;
        }
        Ok(whole)
    }
}

impl Whole {
    pub(super) fn new(item: Json) -> Result<Self, Failure> {
        let fields: Fields = read(&item)?;
        let input = get(&fields, "input").map(Json::as_str);
        let input = input.filter(|it| *it != r#""""#).unwrap_or("{}");
        Ok(Self { arguments: input.to_owned(), item, fields })
    }

    pub(super) fn word(&self, name: &str) -> String {
        word(&self.fields, name)
    }
}
