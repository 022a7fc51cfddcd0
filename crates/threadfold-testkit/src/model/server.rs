//! Accepts connections, one thread each, and plays answers on them.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use serde_json::Value;

use super::{
    anthropic::{self, Anthropic},
    fault::Fault,
    http::{self, ConnectionFate, HttpRequest},
    openai::OpenAi,
    play::{Action, perform},
    protocol::{Answer, Protocol},
    responses::Responses,
    script::{Block, Step},
    select::choose,
    stage::{ModelRequest, PlayedStep, Stage},
};

/// Serves scripts until the stage is stopped, and returns when every connection has ended.
pub(crate) fn serve(listener: &TcpListener, stage: &Arc<Stage>) {
    serve_with(listener, stage, |stream| converse(stage, stream));
}

/// Runs `converse` on every connection until the stage is stopped.
pub(crate) fn serve_with(
    listener: &TcpListener,
    stage: &Stage,
    converse: impl Fn(&TcpStream) -> io::Result<()> + Sync,
) {
    let converse = &converse;
    thread::scope(|scope| {
        for stream in listener.incoming() {
            if stage.is_stopped() {
                break;
            }
            let Ok(stream) = stream else { continue };
            let Some(number) = stage.open(&stream) else {
                continue;
            };
            scope.spawn(move || {
                // A client that disconnects ends the answer by itself.
                converse(&stream).ok();
                stage.close(number);
                stream.shutdown(Shutdown::Both).ok();
            });
        }
    });
}

/// The response.
enum Reply {
    Whole { status: u16, retry_after: Option<u64>, body: Value },
    Stream(Vec<Action>),
    Nothing,
}

impl Reply {
    fn status(status: u16, body: Value) -> Self {
        Self::Whole { status, retry_after: None, body }
    }
}

fn converse(stage: &Stage, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = http::read_request(stream)? else {
        return Ok(());
    };
    match reply(stage, &request) {
        Reply::Whole { status, retry_after, body } => {
            let headers: Vec<_> = retry_after
                .map(|seconds| ("retry-after", seconds.to_string()))
                .into_iter()
                .collect();
            http::write_json(
                stream,
                status,
                &headers,
                body.to_string().as_bytes(),
                ConnectionFate::Close,
            )
        }
        Reply::Stream(actions) => play(stage, stream, actions),
        Reply::Nothing => Ok(()),
    }
}

fn play(stage: &Stage, stream: &TcpStream, actions: Vec<Action>) -> io::Result<()> {
    http::start_stream(stream, ConnectionFate::Close)?;
    for action in actions {
        let goes_on = match action {
            Action::Send(bytes) => {
                http::write_chunk(stream, &bytes)?;
                true
            }
            Action::Wait(length) => stage.pause(length),
            Action::Hold(gate) => stage.hold(&gate),
            Action::Cut => false,
        };
        if !goes_on {
            return Ok(());
        }
    }
    http::end_stream(stream)
}

fn reply(stage: &Stage, request: &HttpRequest) -> Reply {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/messages") => answer(stage, request, &Anthropic),
        ("POST", "/v1/chat/completions") => answer(stage, request, &OpenAi),
        ("POST", "/v1/responses") => answer(stage, request, &Responses),
        ("POST", "/v1/messages/count_tokens") => {
            record(stage, request, None);
            Reply::status(200, anthropic::count_tokens(&request.body))
        }
        _ => {
            record(stage, request, None);
            Reply::status(404, Anthropic.refusal(404, "no such path"))
        }
    }
}

fn answer(stage: &Stage, request: &HttpRequest, protocol: &impl Protocol) -> Reply {
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        record(stage, request, None);
        return Reply::status(400, protocol.refusal(400, "the body is not JSON"));
    };

    let choice =
        choose(&protocol.turns(&body)).filter(|_| !stage.tools_required || offers_tools(&body));
    let Some(choice) = choice else {
        record(stage, request, None);
        return tell(stage, protocol, &body, &Step::new().text("Noted."), None);
    };

    let attempt = stage.attempt(&choice.script, choice.step);
    let played = PlayedStep { script: choice.script.clone(), step: choice.step, attempt };
    record(stage, request, Some(played));

    let Some(script) = stage.scripts.get(&choice.script) else {
        let message = format!("there is no script `{}`", choice.script);
        return Reply::status(400, protocol.refusal(400, &message));
    };
    match script.steps().get(choice.step) {
        Some(step) => tell(stage, protocol, &body, step, step.fault_of(attempt)),
        None => {
            let text = format!("The script `{}` is over.", script.name());
            tell(stage, protocol, &body, &Step::new().text(text), None)
        }
    }
}

/// Returns the response of `step`, unless `fault` prevents it.
fn tell(
    stage: &Stage,
    protocol: &impl Protocol,
    request: &Value,
    step: &Step,
    fault: Option<&Fault>,
) -> Reply {
    let refuse = |status, retry_after| Reply::Whole {
        status,
        retry_after,
        body: protocol.refusal(status, "the script says so"),
    };
    if let Some(Fault::Status { status, retry_after }) = fault {
        return refuse(*status, *retry_after);
    }

    let streams = request["stream"] == true;
    match fault {
        Some(Fault::ErrorEvent { status, .. }) if !streams => return refuse(*status, None),
        Some(Fault::Cut { .. }) if !streams => return Reply::Nothing,
        _ => {}
    }

    let tool_id = |block: &Block| match block.is_call() {
        true => stage.tool_id(protocol.tool_prefix()),
        false => String::new(),
    };
    let answer = Answer {
        step,
        message_id: stage.message_id(protocol.message_prefix()),
        model: request["model"].as_str().unwrap_or("scripted"),
        tool_ids: step.blocks().iter().map(tool_id).collect(),
        request,
    };
    if streams {
        let pieces = protocol.pieces(&answer);
        let error = |status| protocol.error_event(status);
        Reply::Stream(perform(pieces, step, fault, error))
    } else {
        Reply::status(200, protocol.body(&answer))
    }
}

fn offers_tools(request: &Value) -> bool {
    request["tools"].as_array().is_some_and(|it| !it.is_empty())
}

fn record(stage: &Stage, request: &HttpRequest, played: Option<PlayedStep>) {
    stage.record(ModelRequest { path: request.path.clone(), body: request.body.clone(), played });
}
