//! The providers that are asked over the network.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::{Dialect, Json};

use super::access::AccessError;
use super::assembly::ask;
use super::error::ProviderError;
use super::http::{Endpoint, Timeouts};
use super::key::Key;
use super::{Answer, Deltas, Provider, anthropic, chat, responses};

macro_rules! remote {
    ($(#[$doc:meta])* $name:ident, $module:ident, $assembly:ident, $dialect:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            endpoint: Endpoint,
            parameters: Json,
        }

        impl $name {
            /// Returns the provider at an address, to be asked with `key`.
            pub fn new(base_url: &str, key: Key) -> Result<Self, AccessError> {
                let parameters =
                    Json::parse($module::PARAMETERS).expect("our own parameters are JSON");
                Ok(Self { endpoint: $module::endpoint(base_url, key)?, parameters })
            }

            /// Says what a request has beside the conversation: a JSON object, in place of the
            /// one that it has otherwise.
            #[must_use]
            pub fn with_parameters(self, parameters: Json) -> Self {
                Self { parameters, ..self }
            }

            /// Says how long it may take.
            pub fn with_timeouts(self, timeouts: Timeouts) -> Result<Self, AccessError> {
                Ok(Self { endpoint: self.endpoint.with_timeouts(timeouts)?, ..self })
            }
        }

        #[async_trait]
        impl Provider for $name {
            fn name(&self) -> &str {
                $module::NAME
            }

            fn dialect(&self) -> Dialect {
                Dialect::$dialect
            }

            fn parameters(&self) -> Json {
                self.parameters.clone()
            }

            async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError> {
                ask::<$module::$assembly>(&self.endpoint, request, deltas).await
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("endpoint", &self.endpoint)
                    .field("parameters", &self.parameters)
                    .finish()
            }
        }
    };
}

remote! {
    /// Anthropic's Messages, at Anthropic or at a server that speaks the same.
    ///
    /// The address is as for Anthropic's own clients: `https://api.anthropic.com`, and
    /// `/v1/messages` is put behind it.
    Anthropic, anthropic, Messages, Anthropic
}

remote! {
    /// OpenAI's Chat Completions, at OpenAI or at a server that speaks the same.
    ///
    /// The address is as for OpenAI's own clients: `https://api.openai.com/v1`, and
    /// `/chat/completions` is put behind it. One without a path gets the `/v1`, too.
    ///
    /// What the model thought is shown where a server tells it, and never goes back: there is no
    /// place for it.
    OpenAiChat, chat, Completions, Chat
}

remote! {
    /// OpenAI's Responses. Nothing is kept there: reasoning goes back encrypted.
    ///
    /// The address is as for OpenAI's own clients: `https://api.openai.com/v1`, and
    /// `/responses` is put behind it. One without a path gets the `/v1`, too.
    OpenAiResponses, responses, Responses, Responses
}
