//! Sends a request and assembles the answer, in the same way for every provider.

use bytes::Bytes;
use threadfold_core::without_lone_surrogates;

use super::error::ProviderError;
use super::failure::Failure;
use super::http::Endpoint;
use super::sse::Events;
use super::{Answer, Delta, Deltas};

/// An answer that is being assembled from a provider's events.
pub(super) trait Assembly: Default + Send {
    /// Applies the data of an event, and appends deltas for the caller.
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), Failure>;

    /// Returns true if nothing relevant can follow.
    fn is_over(&self) -> bool;

    /// Returns true if the stream may end here.
    fn is_complete(&self) -> bool;

    /// Returns the assembled answer.
    fn finish(self) -> Result<Answer, Failure>;

    /// Reads an answer that was not streamed.
    fn read(body: &str) -> Result<Answer, Failure>;
}

/// Sends a request and assembles the answer.
pub(super) async fn ask<A: Assembly>(
    endpoint: &Endpoint,
    request: Bytes,
    deltas: &Deltas,
) -> Result<Answer, ProviderError> {
    let failed = |failure| endpoint.failed(failure);
    let mut body = endpoint.post(request).await?;
    if body.is_json().await? {
        let text = body.text().await?;
        return A::read(&without_lone_surrogates(&text)).map_err(failed);
    }
    let mut events = Events::new(body);
    let mut assembly = A::default();
    let (mut pieces, mut content) = (Vec::new(), 0);
    while !assembly.is_over() {
        match events.next().await {
            Some(Ok(data)) => {
                // A lone surrogate would appear again on every retry, so it is replaced instead of
                // failing.
                let data = without_lone_surrogates(&data);
                assembly.event(&data, &mut pieces).map_err(failed)?;
                // A stream repeats its envelope with every piece, which is not content.
                content += match pieces.is_empty() {
                    true => data.len(),
                    false => pieces.iter().map(Delta::size).sum(),
                };
                endpoint.check_size(content)?;
            }
            Some(Err(error)) if !assembly.is_complete() => return Err(error),
            Some(Err(_)) | None => break,
        }
        for piece in pieces.drain(..) {
            deltas.send(piece).await;
        }
    }
    if !assembly.is_complete() {
        return Err(endpoint.broken("the stream ended before the answer was complete"));
    }
    events.finish().await;
    assembly.finish().map_err(failed)
}
