//! OpenAI's Responses API, without stored responses.
//!
//! Each item is taken from its *done* event: earlier forms lack the encrypted reasoning, without
//! which the item could not be returned.

mod items;

use threadfold_core::{CallId, Fields, Json};

use super::access::AccessError;
use super::assembly::Assembly;
use super::failure::Failure;
use super::http::Endpoint;
use super::json::{get, list, number, read, string, text};
use super::key::Key;
use super::openai;
use super::{Answer, Delta};

use items::message_of;

pub(super) const NAME: &str = "openai-responses";
pub(super) const PARAMETERS: &str = r#"{"store":false,"include":["reasoning.encrypted_content"]}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let path = |base: &str| format!("{}/responses", openai::version(base));
    openai::endpoint(NAME, address, key, path)
}

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
        match &*string(&event, "type") {
            "response.created" => {
                let id = string(&response(&event)?, "id");
                deltas.push(Delta::Started { message: (!id.is_empty()).then(|| id.into()) });
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

    fn is_complete(&self) -> bool {
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
        if !matches!(&*string(&response, "status"), "completed" | "incomplete" | "") {
            return Err(Failure::malformed(format!(
                "the status is `{}`",
                string(&response, "status")
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
        if string(&item, "type") == "function_call" {
            let (call, name) = (CallId::from(string(&item, "call_id")), string(&item, "name"));
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
    let id = string(&response, "id");
    message.message_id = (!id.is_empty()).then(|| id.into());
    let details: Fields =
        get(&response, "incomplete_details").map_or(Ok(Fields::default()), read)?;
    let reasons = [string(&details, "reason"), string(&response, "status")];
    Ok(Answer {
        message,
        usage: get(&response, "usage").cloned(),
        stop_reason: reasons.into_iter().find(|it| !it.is_empty()).map(Into::into),
        payload: Json::of(&response),
    })
}
