//! The strict provider behind HTTP, on a free port of 127.0.0.1.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::{
    TestkitError,
    model::{
        anthropic::Anthropic,
        http::{self, ConnectionFate, HttpRequest},
        openai::OpenAi,
        protocol::Protocol,
        server::serve_with,
        stage::Stage,
    },
};

use super::{Endpoint, Refusal, StrictProvider, answer::WireAnswer};

/// A running strict provider; dropping it stops it.
///
/// It answers a request that violates a rule with 400 in the provider's format, and names the rule;
/// any other with a short answer, as a stream if requested.
pub struct StrictServer {
    provider: Arc<StrictProvider>,
    counts: Arc<Counts>,
    stage: Arc<Stage>,
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl StrictServer {
    /// Starts a provider without earlier answers.
    pub fn start() -> Result<Self, TestkitError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(TestkitError::io("listen on 127.0.0.1"))?;
        let address =
            listener.local_addr().map_err(TestkitError::io("learn the port of the provider"))?;
        let provider = Arc::new(StrictProvider::default());
        let counts = Arc::new(Counts::default());
        let stage = Arc::new(Stage::new(HashMap::new(), false));
        let shared = (Arc::clone(&provider), Arc::clone(&counts), Arc::clone(&stage));
        let server = thread::Builder::new()
            .name("strict-provider".to_owned())
            .spawn(move || {
                let (provider, counts, stage) = shared;
                serve_with(&listener, &stage, |stream| converse(&provider, &counts, stream));
            })
            .map_err(TestkitError::io("start the thread of the provider"))?;
        Ok(Self { provider, counts, stage, address, server: Some(server) })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the validation behind the address.
    pub fn provider(&self) -> &StrictProvider {
        &self.provider
    }

    /// Returns how many requests were accepted so far.
    pub fn taken(&self) -> u64 {
        self.counts.taken.load(Ordering::Relaxed)
    }

    /// Returns how many requests were refused so far.
    pub fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }
}

impl Drop for StrictServer {
    fn drop(&mut self) {
        self.stage.stop();
        // The server notices the stop at its next connection; it may also have ended by itself.
        TcpStream::connect(self.address).ok();
        if let Some(server) = self.server.take() {
            server.join().ok();
        }
    }
}

fn converse(provider: &StrictProvider, counts: &Counts, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    while let Some(request) = http::read_request(stream)? {
        let then = request.then;
        reply(provider, counts, stream, &request)?;
        if then == ConnectionFate::Close {
            break;
        }
    }
    Ok(())
}

fn reply(
    provider: &StrictProvider,
    counts: &Counts,
    stream: &TcpStream,
    request: &HttpRequest,
) -> io::Result<()> {
    let then = request.then;
    let write = |status, body: &[u8]| http::write_json(stream, status, &[], body, then);
    let found = Endpoint::ALL.into_iter().find(|it| it.path() == request.path);
    let Some(endpoint) = found.filter(|_| request.method == "POST") else {
        let body = Anthropic.refusal(404, "no such path");
        return write(404, body.to_string().as_bytes());
    };
    let refusals = provider.judge(endpoint, &request.body);
    if !refusals.is_empty() {
        counts.refused.fetch_add(1, Ordering::Relaxed);
        return write(400, refusal(endpoint, &refusals).to_string().as_bytes());
    }
    let number = counts.taken.fetch_add(1, Ordering::Relaxed) + 1;
    match provider.tell(endpoint, &request.body, number) {
        WireAnswer::Whole(body) => write(200, &body),
        WireAnswer::Events(events) => {
            http::start_stream(stream, then)?;
            for event in events {
                http::write_chunk(stream, &event)?;
            }
            http::end_stream(stream)
        }
    }
}

/// Returns the body of a refusal, in the provider's format.
fn refusal(endpoint: Endpoint, refusals: &[Refusal]) -> Value {
    let message = refusals.iter().map(Refusal::to_string).collect::<Vec<_>>().join("; ");
    match endpoint {
        Endpoint::Messages => Anthropic.refusal(400, &message),
        Endpoint::ChatCompletions => OpenAi.refusal(400, &message),
        Endpoint::Responses => json!({ "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": "input",
            "code": null,
        } }),
    }
}
