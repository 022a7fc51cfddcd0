//! Providers that are reached over the network.

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
            /// Returns the provider at an address, authorized by `key`.
            pub fn new(base_url: &str, key: Key) -> Result<Self, AccessError> {
                let parameters =
                    Json::parse($module::PARAMETERS).expect("our own parameters are JSON");
                Ok(Self { endpoint: $module::endpoint(base_url, key)?, parameters })
            }

            /// Replaces the default request parameters: a JSON object.
            #[must_use]
            pub fn with_parameters(self, parameters: Json) -> Self {
                Self { parameters, ..self }
            }

            /// Sets the timeouts.
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
    /// Anthropic's Messages API, at Anthropic or a compatible server.
    ///
    /// The address has the same form as for Anthropic's own clients: `https://api.anthropic.com`,
    /// to which `/v1/messages` is appended.
    Anthropic, anthropic, Messages, Anthropic
}

remote! {
    /// OpenAI's Chat Completions API, at OpenAI or a compatible server.
    ///
    /// The address has the same form as for OpenAI's own clients: `https://api.openai.com/v1`, to
    /// which `/chat/completions` is appended. `/v1` is added if the address has no path.
    ///
    /// Reasoning is shown if a server reports it, but never sent back, because the API has no field
    /// for it.
    OpenAiChat, chat, Completions, Chat
}

remote! {
    /// OpenAI's Responses API. Responses are not stored there, so reasoning is returned encrypted.
    ///
    /// The address has the same form as for OpenAI's own clients: `https://api.openai.com/v1`, to
    /// which `/responses` is appended. `/v1` is added if the address has no path.
    OpenAiResponses, responses, Responses, Responses
}
