//! Fault injection in the scripted model.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use threadfold_testkit::{Attempts, Fault, Place, Script, ScriptedModel, Step};

use crate::client::{Response, post, read, send};

fn model(step: Step) -> ScriptedModel {
    let script = Script::new("x").step(step);
    ScriptedModel::builder().script(script).start().unwrap()
}

fn request() -> Value {
    json!({ "stream": true, "messages": [{ "role": "user", "content": "[[play:x]]" }] })
}

fn ask(model: &ScriptedModel) -> Response {
    post(model, "/v1/messages", &request())
}

fn two_blocks() -> Step {
    Step::new().text("one").text("two").chunk_chars(1)
}

/// Returns how a response ends: its last event, and whether the connection was lost after it.
fn ending(response: &Response) -> String {
    let events = response.events();
    let last = events.last().unwrap();
    let index = last["index"].as_u64().map(|it| format!(" {it}"));
    let text = last["delta"]["text"].as_str().map(|it| format!(" {it}"));
    let [index, text] = [index, text].map(Option::unwrap_or_default);
    let lost = if response.complete { "" } else { ", lost" };
    format!("{}{index}{text}{lost}", last["type"].as_str().unwrap())
}

#[test]
fn a_connection_is_cut_at_the_scripted_position() {
    let cut_at = |place| {
        let step = two_blocks().fault(Attempts::Every, Fault::cut(place));
        ending(&ask(&model(step)))
    };
    let within = |block, deltas| Place::Within { block, deltas };

    assert_eq!(cut_at(Place::Start), "message_start, lost");
    assert_eq!(cut_at(within(0, 0)), "content_block_start 0, lost");
    assert_eq!(cut_at(within(1, 2)), "content_block_delta 1 w, lost");
    assert_eq!(cut_at(Place::After { block: 1 }), "content_block_stop 1, lost");
    assert_eq!(cut_at(within(7, 1)), "message_stop");
}

#[test]
fn an_error_event_ends_the_stream_in_good_order() {
    let place = Place::After { block: 0 };
    let response = ask(&model(two_blocks().fault(Attempts::Every, Fault::overloaded(place))));

    assert_eq!(ending(&response), "error");
    assert_eq!(response.events().last().unwrap()["error"]["type"], "overloaded_error");
}

#[test]
fn a_refusal_has_a_status_and_a_retry_delay() {
    let step = two_blocks()
        .fault(Attempts::Only(1), Fault::rate_limit(17))
        .fault(Attempts::First(3), Fault::status(529))
        .fault(Attempts::Only(4), Fault::status(500));
    let model = model(step);

    let seen: Vec<_> = (0..5)
        .map(|_| ask(&model))
        .map(|it| {
            let kind = (it.status != 200).then(|| it.json()["error"]["type"].clone());
            (it.status, it.header("retry-after").map(str::to_owned), kind)
        })
        .collect();

    assert_eq!(
        seen,
        [
            (429, Some("17".to_owned()), Some(json!("rate_limit_error"))),
            (529, None, Some(json!("overloaded_error"))),
            (529, None, Some(json!("overloaded_error"))),
            (500, None, Some(json!("api_error"))),
            (200, None, None),
        ]
    );
}

#[test]
fn a_request_without_streaming_fails_completely() {
    let whole = json!({ "messages": [{ "role": "user", "content": "[[play:x]]" }] });
    let step = two_blocks()
        .fault(Attempts::Only(1), Fault::overloaded(Place::Start))
        .fault(Attempts::Only(2), Fault::cut(Place::Start));
    let model = model(step);

    let statuses: Vec<_> = (0..3).map(|_| post(&model, "/v1/messages", &whole).status).collect();

    // Zero is a connection that ended without an answer.
    assert_eq!(statuses, [529, 0, 200]);
}

#[test]
fn an_answer_is_held_until_it_is_released() {
    let step = two_blocks().hold(Place::After { block: 0 }, "middle");
    let model = model(step);

    let mut stream = send(&model, "/v1/messages", &request());
    let mut seen = String::new();
    while !seen.contains(r#""index":0,"type":"content_block_stop""#) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        seen.push(char::from(byte[0]));
    }

    model.release("middle");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(r#""index":1"#) && rest.ends_with("0\r\n\r\n"));
}

#[test]
fn deltas_come_slowly_where_that_is_asked_for() {
    let delay = Duration::from_millis(5);
    let model = model(two_blocks().delay(delay));

    let start = Instant::now();
    assert_eq!(ending(&ask(&model)), "message_stop");
    assert!(start.elapsed() >= delay * 6);
}

#[test]
fn a_model_stops_in_the_middle_of_an_answer_when_it_is_dropped() {
    let step = two_blocks().delay(Duration::from_secs(3600)).hold(Place::Start, "never");
    let held = model(step.clone());
    let slow = model(step);
    slow.release("never");

    for model in [held, slow] {
        let stream = send(&model, "/v1/messages", &request());
        model.wait_for(Duration::from_secs(20), |it| it.len() == 1).unwrap();
        drop(model);
        assert!(!read(stream).complete);
    }
}

#[test]
fn waiting_for_a_request_times_out() {
    let model = model(two_blocks());
    let wait = model.wait_for(Duration::from_millis(1), |it| !it.is_empty());
    assert_eq!(
        wait.unwrap_err().to_string(),
        "the request that a test waits for did not happen within 1ms"
    );
}
