//! One block of Anthropic's content, from its start through its deltas to the complete block.

use threadfold_core::{Fields, Json};

use crate::provider::failure::Failure;
use crate::provider::json::{get, list, read, string, text};

/// A block that is still open.
pub(super) struct Block {
    pub(super) index: usize,
    pub(super) kind: String,
    /// The index of its message part, if it has one.
    pub(super) part: usize,
    start: Json,
    fields: Fields,
    /// The text fields that grow, with their current values.
    texts: Vec<(String, String)>,
    /// The streamed input.
    input: String,
    citations: Vec<Json>,
}

/// A complete block.
pub(super) struct CompleteBlock {
    pub(super) item: Json,
    pub(super) fields: Fields,
    /// The tool input, as the model wrote it.
    pub(super) arguments: String,
}

/// What a delta added that is shown.
pub(super) enum BlockDelta {
    Text(String),
    Thinking(String),
    Input(String),
    Nothing,
}

impl Block {
    pub(super) fn new(index: usize, start: Json, part: usize) -> Result<Self, Failure> {
        let fields: Fields = read(&start)?;
        let kind = string(&fields, "type");
        let (texts, citations) = (Vec::new(), Vec::new());
        Ok(Self { index, kind, part, start, fields, texts, input: String::new(), citations })
    }

    pub(super) fn string(&self, name: &str) -> String {
        string(&self.fields, name)
    }

    /// Applies a delta. One of an unknown type appends its text fields to the fields of the same
    /// names, as all known types do.
    pub(super) fn add(&mut self, delta: &Json) -> Result<BlockDelta, Failure> {
        let delta: Fields = read(delta)?;
        match &*string(&delta, "type") {
            "text_delta" => self.grow(&delta, "text").map(BlockDelta::Text),
            "thinking_delta" => self.grow(&delta, "thinking").map(BlockDelta::Thinking),
            "signature_delta" => {
                let signature = text(&delta, "signature")?;
                self.set("signature", signature);
                Ok(BlockDelta::Nothing)
            }
            "input_json_delta" => {
                let more = text(&delta, "partial_json")?;
                self.input.push_str(&more);
                Ok(BlockDelta::Input(more))
            }
            "citations_delta" => {
                self.citations.extend(get(&delta, "citation").cloned());
                Ok(BlockDelta::Nothing)
            }
            _ => {
                for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
                    if value.to_text().is_some() {
                        self.grow(&delta, name)?;
                    }
                }
                Ok(BlockDelta::Nothing)
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

    /// Returns the complete block. Fields without deltas stay verbatim.
    pub(super) fn finish(mut self) -> Result<CompleteBlock, Failure> {
        if self.texts.is_empty() && self.input.is_empty() && self.citations.is_empty() {
            return CompleteBlock::new(self.start);
        }
        // A text may be as large as memory allows: none of its forms is held longer than needed.
        for (name, text) in std::mem::take(&mut self.texts) {
            self.fields.insert(&name, Json::string(&text));
        }
        if !self.citations.is_empty() {
            let mut citations = list(&self.fields, "citations")?;
            citations.append(&mut self.citations);
            self.fields.insert("citations", Json::of(&citations));
        }
        let is_blank = self.input.trim().is_empty();
        if !is_blank {
            // A truncated answer may end in the middle of an input.
            let input = Json::parse(&self.input).unwrap_or_else(|_| Json::string(&self.input));
            self.fields.insert("input", input);
        }
        let mut whole = CompleteBlock::with_fields(Json::of(&self.fields), self.fields);
        if !is_blank {
            whole.arguments = self.input;
        }
        Ok(whole)
    }
}

impl CompleteBlock {
    pub(super) fn new(item: Json) -> Result<Self, Failure> {
        let fields: Fields = read(&item)?;
        Ok(Self::with_fields(item, fields))
    }

    fn with_fields(item: Json, fields: Fields) -> Self {
        let input = get(&fields, "input").map(Json::as_str);
        let input = input.filter(|it| *it != r#""""#).unwrap_or("{}");
        Self { arguments: input.to_owned(), item, fields }
    }

    pub(super) fn string(&self, name: &str) -> String {
        string(&self.fields, name)
    }
}
