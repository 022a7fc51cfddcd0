//! A store with injected append failures.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use threadfold_store::{Store, StoreError};
use threadfold_testkit::{DelegatingStore, StoreCall, StoreHooks};
use tokio::sync::Notify;

/// How an append fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// It does not.
    None,
    /// It hangs, and never reaches the store.
    HangsBefore,
    /// It is written, and then hangs.
    HangsAfter,
    /// It is not written, and can be retried.
    Unreachable,
    /// It is written, and the answer is an error.
    AcknowledgementLost,
    /// It is not written, because there is no space.
    Unwritable,
}

pub(crate) type Unreliable = DelegatingStore<Faults>;

/// The faults of the next appends.
#[derive(Default)]
pub(crate) struct Faults {
    next: Mutex<VecDeque<Fault>>,
    /// Notified when an append hangs.
    pub(crate) hangs: Notify,
}

/// Returns a store whose appends succeed until a test adds faults.
pub(crate) fn unreliable(inner: Arc<dyn Store>) -> Arc<Unreliable> {
    Arc::new(DelegatingStore::new(inner, Faults::default()))
}

impl Faults {
    /// Adds faults, one for each of the next appends.
    pub(crate) fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.next.lock().unwrap().extend(faults);
    }

    async fn hang(&self) -> ! {
        self.hangs.notify_one();
        pending().await
    }
}

#[async_trait]
impl StoreHooks for Faults {
    type Ticket = Option<Fault>;

    async fn before(&self, call: StoreCall) -> Result<Self::Ticket, StoreError> {
        if call != StoreCall::Append {
            return Ok(None);
        }
        let fault = self.next.lock().unwrap().pop_front();
        let place = "the store".to_owned();
        match fault {
            Some(Fault::HangsBefore) => self.hang().await,
            Some(Fault::Unreachable) => {
                Err(StoreError::Unreachable { place, source: "it is busy".into() })
            }
            Some(Fault::Unwritable) => {
                Err(StoreError::Unwritable { place, source: "it is full".into() })
            }
            Some(Fault::None | Fault::HangsAfter | Fault::AcknowledgementLost) | None => Ok(fault),
        }
    }

    async fn after(&self, _: StoreCall, fault: Self::Ticket) -> Result<(), StoreError> {
        match fault {
            Some(Fault::HangsAfter) => self.hang().await,
            Some(Fault::AcknowledgementLost) => Err(StoreError::Unreachable {
                place: "the store".to_owned(),
                source: "it went away".into(),
            }),
            _ => Ok(()),
        }
    }
}
