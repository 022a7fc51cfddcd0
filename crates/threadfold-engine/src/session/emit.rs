//! Words to a session's slices. Each is a record like all that came from outside.

use threadfold_core::{Json, SessionEvent};
use threadfold_fold::{Item, Query, Record, RecordKind, SliceCommand, Snapshot, Step};

use super::Session;
use crate::error::EngineError;

impl Session {
    /// Hands an item to every slice that listens to its type.
    pub async fn dispatch<T: Item>(&mut self, item: &T) -> Result<(), EngineError> {
        self.say(SliceCommand::dispatch(T::TYPE, Json::of(item))).await
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
        let record = |event| own_record(RecordKind::Event, &Json::of(event));
        self.accept(events.iter().map(record).collect()).await
    }

    /// Puts these items in place of all that the slice of their type holds.
    pub async fn seed<T: Item>(&mut self, items: &[T]) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.say(SliceCommand::seed(&slice, items.iter().map(Json::of).collect())).await
    }

    /// Takes out all items of the slice of this type.
    pub async fn clear<T: Item>(&mut self) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.say(SliceCommand::clear(&slice)).await
    }

    /// Takes the session back to a snapshot: every slice of policy
    /// [`State`](threadfold_fold::RestorePolicy::State) is as it was then, all or none.
    ///
    /// The log goes on: nothing that is in it is undone.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.fold.rolled_back(snapshot)?;
        self.say(SliceCommand::restore(Json::of(snapshot))).await
    }

    /// Asks for the items of a type.
    pub fn query<T: Item>(&self) -> Result<Query<'_, T>, EngineError> {
        Ok(Query::of(self.fold.items()?))
    }

    async fn say(&mut self, word: SliceCommand) -> Result<(), EngineError> {
        self.accept(vec![own_record(RecordKind::Slice, &Json::of(&word))]).await?;
        Ok(())
    }
}

/// Returns a record of the session's own, which came from no source.
fn own_record(kind: RecordKind, json: &Json) -> Record {
    Record::new(kind, 0, 0, json.as_str().to_owned())
}
