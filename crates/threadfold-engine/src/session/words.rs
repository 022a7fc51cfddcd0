//! Words to a session's slices. Each is a record like all that came from outside.

use bytes::Bytes;
use threadfold_core::{Json, SessionEvent};
use threadfold_store::RecordKind;

use super::{Incoming, Session};
use crate::error::EngineError;
use crate::fold::SliceWord;
use crate::fold::Step;
use crate::query::Query;
use crate::slice::Item;
use crate::snapshot::Snapshot;

impl Session {
    /// Hands an item to every slice that listens to its type.
    pub async fn dispatch<T: Item>(&mut self, item: &T) -> Result<(), EngineError> {
        self.say(SliceWord::dispatch(T::TYPE, Json::of(item))).await
    }

    /// Says something in the session's own form of events.
    pub async fn emit(
        &mut self,
        event: &SessionEvent,
    ) -> Result<Vec<std::sync::Arc<Step>>, EngineError> {
        self.emit_all(std::slice::from_ref(event)).await
    }

    /// Says several things at once: all of them are kept, or none.
    pub async fn emit_all(
        &mut self,
        events: &[SessionEvent],
    ) -> Result<Vec<std::sync::Arc<Step>>, EngineError> {
        let incoming = events.iter().map(|event| Incoming {
            kind: RecordKind::Event,
            source: 0,
            position: 0,
            bytes: Bytes::from(Json::of(event).as_str().to_owned()),
        });
        self.accept(incoming.collect()).await
    }

    /// Puts these items in place of all that the slice of their type holds.
    pub async fn seed<T: Item>(&mut self, items: &[T]) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.say(SliceWord::seed(&slice, items.iter().map(Json::of).collect())).await
    }

    /// Takes out all items of the slice of this type.
    pub async fn clear<T: Item>(&mut self) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.say(SliceWord::clear(&slice)).await
    }

    /// Takes the session back to a snapshot: every slice of policy
    /// [`State`](crate::Policy::State) is as it was then, all or none.
    ///
    /// The log goes on: nothing that is in it is undone.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.fold.rolled_back(snapshot)?;
        self.say(SliceWord::restore(Json::of(snapshot))).await
    }

    /// Asks for the items of a type.
    pub fn query<T: Item>(&self) -> Result<Query<'_, T>, EngineError> {
        Ok(Query::of(self.fold.items()?))
    }

    async fn say(&mut self, word: SliceWord) -> Result<(), EngineError> {
        let bytes = Bytes::from(Json::of(&word).as_str().to_owned());
        let incoming = Incoming { kind: RecordKind::Slice, source: 0, position: 0, bytes };
        self.accept(vec![incoming]).await?;
        Ok(())
    }
}
