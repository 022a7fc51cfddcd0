//! Assembles the events of a response.
//!
//! Each item is taken from its *done* event: earlier forms lack the encrypted reasoning, without
//! which the item could not be returned.

use threadfold_core::{CallId, Fields, Json};

use crate::provider::assembly::Assembly;
use crate::provider::failure::Failure;
use crate::provider::json::{get, list, number, read, text, word};
use crate::provider::{Answer, Delta};

use super::items::message_of;

/// A response that is being assembled.
#[derive(Default)]
pub(crate) struct Responses {
    /// The completed items, by index.
    items: Vec<(usize, Json)>,
    /// The started calls, by index.
    calls: Vec<(usize, CallId, String)>,
    /// The final response.
    response: Option<Fields>,
}

impl Assembly for Responses {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let event: Fields = serde_json::from_str(data)?;
        let part = number(&event, "output_index").unwrap_or_default();
        match &*word(&event, "type") {
            "response.created" => {
                let id = word(&response(&event)?, "id");
                deltas.push(Delta::Begun { message: (!id.is_empty()).then(|| id.into()) });
            }
            "response.output_item.added" => self.begin(part, &event, deltas)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                deltas.push(Delta::Text { part, text: text(&event, "delta")? });
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.push(Delta::Thinking { part, text: text(&event, "delta")? });
            }
            "response.function_call_arguments.delta" => {
                let arguments = text(&event, "delta")?;
                let call = self.calls.iter().find(|(known, _, _)| *known == part);
                deltas.extend(call.map(|(_, call, name)| Delta::Call {
                    call: call.clone(),
                    name: name.as_str().into(),
                    arguments,
                }));
            }
            "response.output_item.done" => {
                let item = get(&event, "item")
                    .ok_or_else(|| Failure::malformed("an item end without an item"))?;
                self.items.retain(|(known, _)| *known != part);
                self.items.push((part, item.clone()));
            }
            "response.completed" | "response.incomplete" => {
                self.response = Some(response(&event)?);
            }
            "response.failed" => return Err(failed(&response(&event)?)),
            "response.cancelled" => return Err(Failure::malformed("the response was cancelled")),
            "error" => {
                return Err(Failure::reported(get(&event, "error").unwrap_or(&Json::of(&event))));
            }
            // A progress event, or one that this version does not know.
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.response.is_some()
    }

    fn is_whole(&self) -> bool {
        self.response.is_some()
    }

    fn finish(mut self) -> Result<Answer, Failure> {
        let mut response =
            self.response.ok_or_else(|| Failure::malformed("the response never ended"))?;
        self.items.sort_by_key(|(place, _)| *place);
        let done: Vec<_> = self.items.into_iter().map(|(_, item)| item).collect();
        let output = list(&response, "output")?;
        // Some servers send no *done* event for an item, so the final list may have more.
        if output.len() > done.len() {
            return answer(response, &output);
        }
        if output.is_empty() {
            response.insert("output", Json::of(&done));
        }
        answer(response, &done)
    }

    fn read(body: &str) -> Result<Answer, Failure> {
        let response: Fields = serde_json::from_str(body)?;
        if let Some(error) = get(&response, "error") {
            return Err(Failure::reported(error));
        }
        if get(&response, "output").is_none() {
            return Err(Failure::malformed("not a response"));
        }
        if !matches!(&*word(&response, "status"), "completed" | "incomplete" | "") {
            return Err(Failure::malformed(format!(
                "the status is `{}`",
                word(&response, "status")
            )));
        }
        let output = list(&response, "output")?;
        Ok(Answer { payload: Json::parse(body)?, ..answer(response, &output)? })
    }
}

impl Responses {
    fn begin(
        &mut self,
        part: usize,
        event: &Fields,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let item: Fields = get(event, "item").map_or(Ok(Fields::default()), read)?;
        if word(&item, "type") == "function_call" {
            let (call, name) = (CallId::from(word(&item, "call_id")), word(&item, "name"));
            let arguments = String::new();
            deltas.push(Delta::Call { call: call.clone(), name: name.as_str().into(), arguments });
            self.calls.push((part, call, name));
        }
        Ok(())
    }
}

fn response(event: &Fields) -> Result<Fields, Failure> {
    Ok(get(event, "response").map_or(Ok(Fields::default()), read)?)
}

fn failed(response: &Fields) -> Failure {
    match get(response, "error") {
        Some(error) => Failure::reported(error),
        None => Failure::malformed("the response failed without an error message"),
    }
}

fn answer(response: Fields, items: &[Json]) -> Result<Answer, Failure> {
    let mut message = message_of(items)?;
    let id = word(&response, "id");
    message.message_id = (!id.is_empty()).then(|| id.into());
    let details: Fields =
        get(&response, "incomplete_details").map_or(Ok(Fields::default()), read)?;
    let reasons = [word(&details, "reason"), word(&response, "status")];
    Ok(Answer {
        message,
        usage: get(&response, "usage").cloned(),
        stop_reason: reasons.into_iter().find(|it| !it.is_empty()).map(Into::into),
        payload: Json::of(&response),
    })
}
